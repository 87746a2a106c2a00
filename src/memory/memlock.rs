//! RLIMIT_MEMLOCK: the warnings a program gets when the library initialises.

use crate::log;

/// At most this many bytes of lockable memory are worth a warning.
const TOO_LITTLE: libc::rlim_t = 32768;

/// Warns on stderr when this user may lock hardly any memory. Root is not limited and gets no
/// warning. Called once per process, when the device list is first asked for.
pub fn check_limit() {
    // SAFETY: geteuid has no arguments and cannot fail.
    if unsafe { libc::geteuid() } == 0 {
        return;
    }
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: getrlimit writes one rlimit through the pointer, which is ours for the call.
    let limit = match unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &mut limit) } {
        0 => Some(limit.rlim_cur),
        _ => None,
    };
    if let Some(text) = warning(limit) {
        log::print(&[text.as_bytes()]);
    }
}

/// What to say about a limit in bytes; `None` is one that could not be read.
fn warning(limit: Option<libc::rlim_t>) -> Option<String> {
    match limit {
        // No newline: that is the message.
        None => Some("Warning: getrlimit(RLIMIT_MEMLOCK) failed.".into()),
        Some(bytes) if bytes <= TOO_LITTLE => Some(format!(
            "Warning: RLIMIT_MEMLOCK is {bytes} bytes.\n    \
             This will severely limit memory registrations.\n"
        )),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_tiny_limit_is_worth_a_word() {
        assert_eq!(
            warning(Some(32768)).as_deref(),
            Some(
                "Warning: RLIMIT_MEMLOCK is 32768 bytes.\n    This will severely limit \
                 memory registrations.\n"
            )
        );
        assert_eq!(
            warning(Some(0)).as_deref(),
            Some(
                "Warning: RLIMIT_MEMLOCK is 0 bytes.\n    This will severely limit \
                 memory registrations.\n"
            )
        );
        assert_eq!(warning(Some(32769)), None);
        assert_eq!(warning(Some(libc::RLIM_INFINITY)), None);
        assert_eq!(
            warning(None).as_deref(),
            Some("Warning: getrlimit(RLIMIT_MEMLOCK) failed.")
        );
    }
}
