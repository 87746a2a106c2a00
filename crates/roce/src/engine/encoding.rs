//! Times and counts that attributes and AETH syndromes carry in encoded form.

use std::time::Duration;

/// The unit of `ibv_qp_attr.timeout`, in nanoseconds.
const ACK_TIMEOUT_UNIT: u64 = 4096;
/// The shortest ack timeout, 8.4 ms; shorter ones are rounded up to it. A peer that is a process has
/// to be scheduled before it can respond. (RNICs round up too; 9.7.6.1.3 allows up to four times the
/// configured value.)
const MIN_ACK_TIMEOUT: Duration = Duration::from_nanos(ACK_TIMEOUT_UNIT << 11);

/// The ack timeout that `ibv_qp_attr.timeout` stands for (9.7.6.1.3); None: no timeout.
pub fn ack_timeout(code: u8) -> Option<Duration> {
    let timeout = Duration::from_nanos(ACK_TIMEOUT_UNIT << (code & 31));
    (code != 0).then_some(timeout.max(MIN_ACK_TIMEOUT))
}

/// The RNR timer's values in units of 10 us, by code (9.7.5.2.8, table 45).
const RNR_TIMER: [u32; 32] = [
    65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536,
    2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
];

/// How long to wait after an RNR NAK with that timer code.
pub fn rnr_timer(code: u8) -> Duration {
    Duration::from_micros(10) * RNR_TIMER[usize::from(code & 31)]
}

/// How many messages the responder has receive WQEs for, by the credit count of an ACK (9.7.7.2, table
/// 46); None: the responder does not count credits.
pub const fn credit_count(code: u8) -> Option<u32> {
    match code {
        0 => Some(0),
        1 => Some(1),
        2..=30 if code % 2 == 0 => Some(1 << (code / 2)),
        3..=30 => Some(3 << ((code - 3) / 2)),
        _ => None,
    }
}
