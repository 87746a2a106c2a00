//! Messages: the verbs log (VERBS_LOG_LEVEL, VERBS_LOG_FILE) and the warnings on stderr.
//!
//! The log is off until [`init`] finds both variables. It is written through libc's `FILE`, like the C
//! library's, so that the same text reaches the file at the same time. The library's own diagnostics
//! go through the `log` crate into the same file.

use core::{
    ptr,
    sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering},
};

use ibverbs_abi::Errno;
use ibverbs_abi::{
    VERBS_LOG_DEBUG, VERBS_LOG_ERR, VERBS_LOG_INFO, VERBS_LOG_LEVEL_NONE, VERBS_LOG_WARN,
};
use libc::FILE;

use crate::env;

static LEVEL: AtomicU32 = AtomicU32::new(VERBS_LOG_LEVEL_NONE);
static FILE_: AtomicPtr<FILE> = AtomicPtr::new(ptr::null_mut());

unsafe extern "C" {
    /// Used instead of descriptor 2 because the program may have assigned another `FILE` to it.
    static stderr: *mut FILE;
}

/// Reads VERBS_LOG_LEVEL and opens VERBS_LOG_FILE, when the library is first used. Later calls do nothing, as
/// in a child of fork whose parent was in the middle of the first one.
///
/// The log stays off if no file is named or the file cannot be opened.
pub fn init() {
    static STARTED: AtomicBool = AtomicBool::new(false);
    if STARTED.swap(true, Ordering::Relaxed) {
        return;
    }
    let Some(level) = env::get(c"VERBS_LOG_LEVEL") else {
        return;
    };
    // SAFETY: `level` is NUL-terminated, and a NULL end pointer is allowed.
    let level = unsafe { libc::strtol(level.as_ptr(), ptr::null_mut(), 0) } as u32;
    if level == VERBS_LOG_LEVEL_NONE {
        return;
    }
    // A privileged program must not open a file of its caller's choice with its own rights.
    let Some(path) = env::get(c"VERBS_LOG_FILE").filter(|_| env::trusted()) else {
        return;
    };
    // SAFETY: both strings are NUL-terminated.
    let file = unsafe { libc::fopen(path.as_ptr(), c"aw+".as_ptr()) };
    if file.is_null() {
        return;
    }
    FILE_.store(file, Ordering::Release);
    LEVEL.store(level, Ordering::Release);
    if log::set_logger(&VerbsLog).is_ok() {
        log::set_max_level(match level {
            VERBS_LOG_ERR => log::LevelFilter::Error,
            VERBS_LOG_WARN => log::LevelFilter::Warn,
            VERBS_LOG_INFO => log::LevelFilter::Info,
            VERBS_LOG_DEBUG => log::LevelFilter::Debug,
            _ => log::LevelFilter::Trace,
        });
    }
}

/// Whether a message of `level` (one of VERBS_LOG_*) would be written.
#[inline]
pub fn enabled(level: u32) -> bool {
    level <= LEVEL.load(Ordering::Acquire) && !FILE_.load(Ordering::Acquire).is_null()
}

/// Writes `bytes` to the log if `level` is enabled. Preserves errno. Any thread may call it.
pub fn write(level: u32, bytes: &[u8]) {
    if enabled(level) {
        let errno = Errno::last();
        // SAFETY: `init` opened the file and nothing closes it; `fwrite` locks it.
        unsafe {
            libc::fwrite(
                bytes.as_ptr().cast(),
                1,
                bytes.len(),
                FILE_.load(Ordering::Relaxed),
            );
        }
        errno.set();
    }
}

/// Prints "libibverbs: " and the parts to stderr in one write. The caller passes the newline.
pub fn print(parts: &[&[u8]]) {
    let mut text = b"libibverbs: ".to_vec();
    for part in parts {
        text.extend_from_slice(part);
    }
    // SAFETY: libc initialises `stderr` before any constructor runs; `fwrite` locks it.
    unsafe { libc::fwrite(text.as_ptr().cast(), 1, text.len(), stderr) };
}

/// Writes the `log` crate's records to the verbs log.
struct VerbsLog;

impl log::Log for VerbsLog {
    fn enabled(&self, metadata: &log::Metadata) -> bool {
        enabled(verbs_level(metadata.level()))
    }

    fn log(&self, record: &log::Record) {
        let level = verbs_level(record.level());
        if enabled(level) {
            write(level, format!("libibverbs: {}\n", record.args()).as_bytes());
        }
    }

    fn flush(&self) {}
}

fn verbs_level(level: log::Level) -> u32 {
    match level {
        log::Level::Error => VERBS_LOG_ERR,
        log::Level::Warn => VERBS_LOG_WARN,
        log::Level::Info => VERBS_LOG_INFO,
        log::Level::Debug => VERBS_LOG_DEBUG,
        log::Level::Trace => VERBS_LOG_DEBUG + 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_enabled_without_a_file() {
        assert!(!enabled(VERBS_LOG_LEVEL_NONE));
        assert!(!enabled(VERBS_LOG_ERR));
        write(VERBS_LOG_ERR, b"nowhere");
    }
}
