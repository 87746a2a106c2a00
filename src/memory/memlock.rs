//! The warnings about RLIMIT_MEMLOCK when the library initialises.

use crate::log;

/// A limit of this many bytes or fewer causes a warning.
const TOO_LITTLE: libc::rlim_t = 32768;

/// Warns on stderr if this user may lock 32 KiB or less. Root is not limited and gets no warning. Called
/// once per process, with the first device list.
pub fn check_limit() {
    // SAFETY: geteuid has no arguments and cannot fail.
    if unsafe { libc::geteuid() } == 0 {
        return;
    }
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: getrlimit writes one rlimit to `limit`, a local.
    let limit = match unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &mut limit) } {
        0 => Some(limit.rlim_cur),
        _ => None,
    };
    if let Some(text) = warning(limit) {
        log::print(&[text.as_bytes()]);
    }
}

/// The warning for a limit in bytes, if any; `None` is a limit that could not be read.
fn warning(limit: Option<libc::rlim_t>) -> Option<String> {
    match limit {
        // No newline, as in rdma-core.
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
    fn only_a_tiny_limit_causes_a_warning() {
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
