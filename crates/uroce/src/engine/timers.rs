//! Times that attributes and acknowledgments encode.

/// Nanoseconds of the unit of `ibv_qp_attr.timeout`.
const TIMEOUT_UNIT: u64 = 4096;
/// What shorter timeouts become: a peer that is a process has to be scheduled before it can answer.
/// (RNICs round up too; the specification allows up to four times what was asked for, 9.7.6.1.3.)
const SHORTEST_TIMEOUT: u64 = TIMEOUT_UNIT << 11;

/// Nanoseconds of `ibv_qp_attr.timeout` (9.7.6.1.3); None: forever.
pub const fn timeout(code: u8) -> Option<u64> {
    if code == 0 {
        return None;
    }
    let nanoseconds = TIMEOUT_UNIT << (code & 31);
    Some(if nanoseconds < SHORTEST_TIMEOUT {
        SHORTEST_TIMEOUT
    } else {
        nanoseconds
    })
}

/// In units of 10 microseconds, by code (9.7.5.2.8, table 45).
const RNR: [u32; 32] = [
    65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536,
    2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
];

/// Nanoseconds to wait after a "receiver not ready" with that timer code.
pub const fn rnr(code: u8) -> u64 {
    RNR[(code & 31) as usize] as u64 * 10_000
}

/// Messages that a peer has receives for, by the credit count of its acknowledgment (9.7.7.2, table
/// 46); None: it does not count them.
pub const fn credits(code: u8) -> Option<u32> {
    match code {
        0 => Some(0),
        1 => Some(1),
        2..=30 if code.is_multiple_of(2) => Some(1 << (code / 2)),
        3..=30 => Some(3 << ((code - 3) / 2)),
        _ => None,
    }
}
