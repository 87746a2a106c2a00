//! sigaction(2) and signal(3). The handlers that make uroce survive memory which the program has unmapped
//! (`crate::nofault`) stay above what the program installs, and the program is shown what it has installed.

use core::ffi::c_int;

use crate::nofault::handler;
use crate::view::real;

/// sigaction(2).
///
/// # Safety
/// As for sigaction(2).
pub unsafe extern "C" fn sigaction(
    signal: c_int,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> c_int {
    let call = || {
        // SAFETY: the program passes what sigaction(2) accepts.
        let result = unsafe { real::sigaction(signal, new, old) };
        if result == 0 && !old.is_null() && handler::concerns(signal) {
            // SAFETY: the call has written to it.
            let old = unsafe { &mut *old };
            if let Some((handler, flags)) = handler::shown(signal, old.sa_sigaction) {
                (old.sa_sigaction, old.sa_flags) = (handler, flags);
            }
        }
        result
    };
    if new.is_null() || !handler::concerns(signal) {
        return call();
    }
    handler::change(call)
}

macro_rules! simple {
    ($(#[$doc:meta] $name:ident)*) => {
        $(
            #[$doc]
            ///
            /// # Safety
            /// As for signal(3).
            pub unsafe extern "C" fn $name(
                signal: c_int,
                new: libc::sighandler_t,
            ) -> libc::sighandler_t {
                let call = || {
                    // SAFETY: the program passes what signal(3) accepts.
                    let old = unsafe { real::$name(signal, new) };
                    handler::shown(signal, old).map_or(old, |(handler, _)| handler)
                };
                if !handler::concerns(signal) {
                    return call();
                }
                handler::change(call)
            }
        )*
    };
}

simple! {
    /// signal(3), as BSD has it.
    signal
    /// signal(3), as System V has it.
    sysv_signal
}
