//! Functions of the C library that the standard library lacks, or has only with side effects.

use std::env;
use std::ffi::{CStr, CString, OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

fn c_string(text: &OsStr) -> io::Result<CString> {
    Ok(CString::new(text.as_bytes())?)
}

fn may(path: &Path, right: libc::c_int) -> bool {
    let Ok(path) = c_string(path.as_os_str()) else {
        return false;
    };
    // SAFETY: `path` is a NUL-terminated string that outlives the call.
    unsafe { libc::access(path.as_ptr(), right) == 0 }
}

/// Whether this process may execute the file. Root may if any user may.
pub fn executable(path: &Path) -> bool {
    may(path, libc::X_OK)
}

/// Whether this process may write to the file or directory.
pub fn writable(path: &Path) -> bool {
    may(path, libc::W_OK)
}

/// Whether the file has that extended attribute.
pub fn has_attribute(path: &Path, name: &CStr) -> bool {
    let Ok(path) = c_string(path.as_os_str()) else {
        return false;
    };
    // SAFETY: both strings are NUL-terminated and outlive the call. With size 0 nothing is written.
    unsafe { libc::getxattr(path.as_ptr(), name.as_ptr(), ptr::null_mut(), 0) >= 0 }
}

/// The real user and group IDs of this process.
pub fn real_ids() -> (u32, u32) {
    // SAFETY: these calls take nothing and cannot fail.
    unsafe { (libc::getuid(), libc::getgid()) }
}

/// The effective user ID, which owns the files that this process creates.
pub fn effective_user() -> u32 {
    // SAFETY: the call takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}

/// Whether programs that this process executes gain no privileges (`PR_SET_NO_NEW_PRIVS`).
pub fn no_new_privileges() -> bool {
    // SAFETY: PR_GET_NO_NEW_PRIVS takes no pointer. The kernel requires the unused arguments to be 0.
    unsafe { libc::prctl(libc::PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 }
}

/// Whether the file is on a file system that is mounted with `nosuid`.
pub fn mounted_nosuid(path: &Path) -> bool {
    let Ok(path) = c_string(path.as_os_str()) else {
        return false;
    };
    // SAFETY: statvfs has only integers, for which zero bytes are valid.
    let mut found: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: `path` is a NUL-terminated string and `found` is writable; both outlive the call.
    unsafe {
        libc::statvfs(path.as_ptr(), &raw mut found) == 0 && found.f_flag & libc::ST_NOSUID != 0
    }
}

/// Sets a variable in the environment that [`exec`] passes on.
pub fn set_var(name: &str, value: &OsStr) {
    // SAFETY: this program starts no threads, so nothing reads the environment at the same time.
    unsafe { env::set_var(name, value) }
}

/// Executes the program in this process, with its path as `argv[0]`. Returns only on failure.
///
/// Unlike the standard library's `exec` it does not change the signal mask and the disposition of SIGPIPE.
pub fn exec(program: &Path, args: &[OsString]) -> io::Error {
    let words = [program.as_os_str()]
        .into_iter()
        .chain(args.iter().map(OsString::as_os_str));
    let words: Vec<CString> = match words.map(c_string).collect() {
        Ok(words) => words,
        Err(error) => return error,
    };
    let argv: Vec<_> = words
        .iter()
        .map(|word| word.as_ptr())
        .chain([ptr::null()])
        .collect();
    // SAFETY: `argv` is a NULL-terminated array of NUL-terminated strings that `words` owns until after the
    // call.
    unsafe { libc::execv(argv[0], argv.as_ptr()) };
    io::Error::last_os_error()
}
