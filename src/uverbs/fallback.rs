//! The choice between ioctl and write: which of the two a command takes on this kernel.

pub mod linked;

use ibverbs_abi::*;
use libc::{ENOTTY, EOPNOTSUPP, EPROTONOSUPPORT};

use super::{
    ioctl::Command,
    state::{Op, state},
};

/// The reaction to a command that failed because the kernel does not know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fallback {
    /// The command is done: the ioctl succeeded.
    Done,
    /// The kernel lacks the ioctl: send the legacy command.
    Write,
    /// The kernel lacks the ioctl: send the extended legacy command.
    WriteEx,
}

/// The features of a command that a plain legacy command cannot carry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// The extended legacy command, if not the ioctl.
    pub ex: bool,
    /// The ioctl; no legacy command will do.
    pub ioctl: bool,
}

/// The legacy route for a kernel that lacks the ioctl. EOPNOTSUPP if no legacy command will do.
#[inline]
pub fn legacy(needs: Needs) -> Result<Fallback, Errno> {
    if needs.ioctl {
        return Errno(EOPNOTSUPP).fail();
    }
    Ok(if needs.ex {
        Fallback::WriteEx
    } else {
        Fallback::Write
    })
}

/// Sends `command` as an ioctl, unless this kernel is known to lack it.
///
/// # Safety
/// `context` is open, and what the attributes point to is live and writable as they say.
#[inline(always)]
pub unsafe fn execute<const N: usize>(
    context: *mut ibv_context,
    op: Op,
    needs: Needs,
    command: &mut Command<N>,
) -> Result<Fallback, Errno> {
    // SAFETY: `context` is open, and the attributes are valid.
    unsafe {
        if !state(context).may_ioctl(op) {
            return legacy(needs);
        }
        send(context, op, needs, command)
    }
}

/// As [`execute`] for a caller that has just seen that the kernel may have the ioctl.
///
/// # Safety
/// As for [`execute`].
#[inline(always)]
pub unsafe fn send<const N: usize>(
    context: *mut ibv_context,
    op: Op,
    needs: Needs,
    command: &mut Command<N>,
) -> Result<Fallback, Errno> {
    // SAFETY: `context` is open, and the attributes are valid.
    unsafe {
        match command.execute(context) {
            Ok(()) => Ok(Fallback::Done),
            Err(error) => after_failure(context, op, needs, error),
        }
    }
}

/// As [`execute`] for a command that carries a provider's attributes too.
///
/// # Safety
/// As for [`execute`]; `driver` is null or a command buffer that the provider has built.
pub unsafe fn execute_linked<const N: usize>(
    context: *mut ibv_context,
    op: Op,
    needs: Needs,
    command: &mut Command<N>,
    driver: *mut ibv_command_buffer,
) -> Result<Fallback, Errno> {
    // SAFETY: `context` is open, and the attributes, those of the provider's chain too, are valid.
    unsafe {
        // A legacy command cannot carry a provider's mandatory attributes.
        let needs = linked::needs(driver, needs);
        if !state(context).may_ioctl(op) {
            return legacy(needs);
        }
        match linked::execute(context, command, driver) {
            Ok(()) => Ok(Fallback::Done),
            Err(error) => after_failure(context, op, needs, error),
        }
    }
}

/// Remembers that the kernel lacks the ioctl, and returns the legacy route; returns every other error.
///
/// # Safety
/// `context` is open.
#[cold]
unsafe fn after_failure(
    context: *mut ibv_context,
    op: Op,
    needs: Needs,
    error: Errno,
) -> Result<Fallback, Errno> {
    // SAFETY: `context` is open, and the reference ends with this function.
    let state = unsafe { state(context) };
    match error.0 {
        ENOTTY => state.lacks_ioctl(),
        EPROTONOSUPPORT => state.lacks(op),
        _ => return Err(error),
    }
    legacy(needs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_strictest_need_decides() {
        assert_eq!(legacy(Needs::default()), Ok(Fallback::Write));
        assert_eq!(
            legacy(Needs {
                ex: true,
                ioctl: false
            }),
            Ok(Fallback::WriteEx)
        );
        assert_eq!(
            legacy(Needs {
                ex: true,
                ioctl: true
            }),
            Err(Errno(EOPNOTSUPP))
        );
        assert_eq!(Errno::last(), Errno(EOPNOTSUPP));
    }
}
