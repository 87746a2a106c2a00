//! Explains in the verbs log (VERBS_LOG_LEVEL=2 and VERBS_LOG_FILE) why memory could not be registered.
//! rdma-core has no such messages; they are off by default.

use ibverbs_abi::Errno;
use libc::ENOMEM;
use std::fs;
use std::io::{BufRead, BufReader};

/// Logs why `verb` could not register `length` bytes, if errno is ENOMEM. Does not change errno.
#[cold]
pub fn registration_failed(verb: &str, length: usize) {
    let error = Errno::last();
    if error == Errno(ENOMEM) && ::log::log_enabled!(::log::Level::Warn) {
        let mut limit = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        // SAFETY: getrlimit writes one rlimit to `limit`, a local.
        unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &mut limit) };
        let status = fs::read("/proc/self/status").unwrap_or_default();
        ::log::warn!("{}", explain(verb, length, &limit, pinned(&status)));
    }
    error.set();
}

/// Logs that the kernel could not split a mapping to apply MADV_DONTFORK to `length` bytes of it.
#[cold]
pub fn too_many_mappings(length: usize) {
    if ::log::log_enabled!(::log::Level::Warn) {
        let limit = fs::read_to_string("/proc/sys/vm/max_map_count").unwrap_or_default();
        let maps = fs::File::open("/proc/self/maps");
        let maps = maps.map_or(0, |file| BufReader::new(file).split(b'\n').count());
        ::log::warn!(
            "{length} bytes cannot be kept out of children of fork: each registered region apart \
             from the others needs two mappings of its own, this process has {maps}, and \
             vm.max_map_count is {}; raise it (sysctl -w vm.max_map_count=NUMBER), or register \
             memory in fewer, larger pieces",
            limit.trim()
        );
    }
}

/// The message. `pinned` is the number of bytes that devices have pinned in this process, if it is known.
fn explain(verb: &str, length: usize, limit: &libc::rlimit, pinned: Option<u64>) -> String {
    let mut text = format!("{verb} of {length} bytes: out of memory; ");
    let fits = pinned.unwrap_or(0).saturating_add(length as u64) <= limit.rlim_cur;
    if limit.rlim_cur == libc::RLIM_INFINITY {
        text += "RLIMIT_MEMLOCK is unlimited, so the device or the machine has no more";
        return text;
    }
    text += &format!("RLIMIT_MEMLOCK is {} bytes", limit.rlim_cur);
    if let Some(pinned) = pinned {
        text += &format!(", of which {pinned} are in use");
    }
    if fits {
        text += ", so it is the device or the machine that has no more";
        return text;
    }
    text += match limit.rlim_max == limit.rlim_cur {
        true => ", and cannot be raised by the process itself",
        false => "; `ulimit -l unlimited` raises it",
    };
    text += ": see memlock in limits.conf(5), LimitMEMLOCK= in systemd.exec(5), --ulimit memlock=-1 \
             of a container; CAP_IPC_LOCK lifts it";
    text
}

/// The VmPin line of /proc/self/status, in bytes.
pub fn pinned(status: &[u8]) -> Option<u64> {
    let rest = status
        .split(|&c| c == b'\n')
        .find_map(|line| line.strip_prefix(b"VmPin:"))?;
    let number = std::str::from_utf8(rest).ok()?.trim().strip_suffix(" kB")?;
    number.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(rlim_cur: u64, rlim_max: u64) -> libc::rlimit {
        libc::rlimit { rlim_cur, rlim_max }
    }

    #[test]
    fn the_message_blames_the_limit_only_if_it_is_exceeded() {
        let text = explain("ibv_reg_mr", 4096, &limit(8192, 8192), Some(8000));
        assert!(text.starts_with(
            "ibv_reg_mr of 4096 bytes: out of memory; RLIMIT_MEMLOCK is 8192 bytes, of which 8000 \
             are in use, and cannot be raised by the process itself: see memlock in limits.conf(5)"
        ));
        let text = explain("ibv_rereg_mr", 8193, &limit(8192, 9000), None);
        assert!(text.contains("8193 bytes"));
        assert!(text.contains("; `ulimit -l unlimited` raises it: see"));
        let text = explain("ibv_reg_mr", 4096, &limit(8192, 8192), Some(4096));
        assert!(text.ends_with("so it is the device or the machine that has no more"));
        let infinite = limit(libc::RLIM_INFINITY, libc::RLIM_INFINITY);
        assert!(explain("ibv_reg_mr", usize::MAX, &infinite, None).contains("unlimited, so"));
        assert!(!text.contains('\n'));
    }

    #[test]
    fn pinned_memory_is_read_from_status() {
        let status = b"Name:\tVmPin: 3 kB\nVmLck:\t       0 kB\nVmPin:\t      12 kB\nVmHWM: 1 kB\n";
        assert_eq!(pinned(status), Some(12 << 10));
        for text in [
            "",
            "VmPin:",
            "VmPin: x kB",
            "VmPin: 1",
            "VmPin: 18446744073709551615 kB",
        ] {
            assert_eq!(pinned(text.as_bytes()), None, "{text}");
        }
    }
}
