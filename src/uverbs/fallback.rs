//! Between ioctl and write: which of the two a command takes on this kernel.

use ibverbs_abi::*;
use libc::{ENOTTY, EOPNOTSUPP, EPROTONOSUPPORT};

use super::{
    ioctl::Command,
    linked,
    state::{Op, state},
};

/// What became of a command, or what is to be done with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// The ioctl succeeded.
    Done,
    /// The kernel does not know the ioctl: send the legacy command.
    Write,
    /// The kernel does not know the ioctl: send the extended legacy command.
    WriteEx,
}

/// What a command asks for that plain legacy commands cannot carry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// At least the extended legacy command.
    pub ex: bool,
    /// The ioctl and nothing else.
    pub ioctl: bool,
}

/// The legacy route for a kernel that lacks the ioctl; EOPNOTSUPP if none will do.
#[inline]
pub fn legacy(needs: Needs) -> Result<Route, Errno> {
    if needs.ioctl {
        Errno(EOPNOTSUPP).set();
        return Err(Errno(EOPNOTSUPP));
    }
    Ok(if needs.ex {
        Route::WriteEx
    } else {
        Route::Write
    })
}

/// Sends the command that `build` makes as an ioctl, unless this kernel is known not to take it.
/// On failure errno is set and returned.
///
/// # Safety
/// `context` is open, and what the built attributes point to is live and writable as they say.
#[inline(always)]
pub unsafe fn execute<const N: usize>(
    context: *mut ibv_context,
    op: Op,
    needs: Needs,
    command: &mut Command<N>,
) -> Result<Route, Errno> {
    // SAFETY: by the contract.
    unsafe {
        if !state(context).may_ioctl(op) {
            return legacy(needs);
        }
        match command.execute(context) {
            Ok(()) => Ok(Route::Done),
            Err(error) => after_failure(context, op, needs, error),
        }
    }
}

/// As [`execute`] for a command that goes together with a provider's attributes.
///
/// # Safety
/// As for [`execute`]; `driver` is null or a command buffer that the provider has built.
pub unsafe fn execute_linked<const N: usize>(
    context: *mut ibv_context,
    op: Op,
    needs: Needs,
    command: &mut Command<N>,
    driver: *mut ibv_command_buffer,
) -> Result<Route, Errno> {
    // SAFETY: by the contract.
    unsafe {
        // An attribute that the provider insists on has no place in a legacy command.
        let needs = linked::needs(driver, needs);
        if !state(context).may_ioctl(op) {
            return legacy(needs);
        }
        match linked::execute(context, command, driver) {
            Ok(()) => Ok(Route::Done),
            Err(error) => after_failure(context, op, needs, error),
        }
    }
}

/// Remembers what the kernel does not know, and tells the legacy route; other errors are final.
///
/// # Safety
/// `context` is open.
#[cold]
unsafe fn after_failure(
    context: *mut ibv_context,
    op: Op,
    needs: Needs,
    error: Errno,
) -> Result<Route, Errno> {
    // SAFETY: by the contract.
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
        assert_eq!(legacy(Needs::default()), Ok(Route::Write));
        assert_eq!(
            legacy(Needs {
                ex: true,
                ioctl: false
            }),
            Ok(Route::WriteEx)
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
