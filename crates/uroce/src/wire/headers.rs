//! The extension headers (specification 9.3; annex A19).

use super::Malformed;

/// RDMA extended transport header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reth {
    pub va: u64,
    pub rkey: u32,
    pub len: u32,
}

/// Atomic extended transport header. `swap_add` is the swap value, or what is to be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtomicEth {
    pub va: u64,
    pub rkey: u32,
    pub swap_add: u64,
    pub compare: u64,
}

/// Datagram extended transport header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deth {
    pub qkey: u32,
    pub src_qpn: u32,
}

/// Flush extended transport header: `placement` is IBV_FLUSH_GLOBAL | IBV_FLUSH_PERSISTENT,
/// `selectivity` IBV_FLUSH_RANGE or IBV_FLUSH_MR. A RETH follows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Feth {
    pub placement: u8,
    pub selectivity: u8,
}

/// ACK extended transport header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aeth {
    pub kind: AethKind,
    /// Message sequence number, 24 bits.
    pub msn: u32,
}

/// What the syndrome of an [`Aeth`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AethKind {
    /// Acknowledged, with the encoded credit count (31: no credits are counted).
    Ack {
        credits: u8,
    },
    /// Receiver not ready; the encoded timer of 5 bits (`ibv_qp_attr.min_rnr_timer`).
    RnrNak {
        timer: u8,
    },
    Nak(NakCode),
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum NakCode {
    PsnSequence = 0,
    InvalidRequest,
    RemoteAccess,
    RemoteOperational,
    InvalidRdRequest,
}

impl Reth {
    pub const LEN: usize = 16;

    pub(super) fn parse(bytes: &[u8; Reth::LEN]) -> Reth {
        let [va, rkey_len] = halves(bytes);
        Reth {
            va,
            rkey: (rkey_len >> 32) as u32,
            len: rkey_len as u32,
        }
    }

    pub(super) fn bytes(&self) -> [u8; Reth::LEN] {
        whole([self.va, u64::from(self.rkey) << 32 | u64::from(self.len)])
    }
}

impl AtomicEth {
    pub const LEN: usize = 28;

    pub(super) fn parse(bytes: &[u8; AtomicEth::LEN]) -> AtomicEth {
        let &[
            a0,
            a1,
            a2,
            a3,
            a4,
            a5,
            a6,
            a7,
            k0,
            k1,
            k2,
            k3,
            ref operands @ ..,
        ] = bytes;
        let [swap_add, compare] = halves(operands);
        AtomicEth {
            va: u64::from_be_bytes([a0, a1, a2, a3, a4, a5, a6, a7]),
            rkey: u32::from_be_bytes([k0, k1, k2, k3]),
            swap_add,
            compare,
        }
    }

    pub(super) fn bytes(&self) -> [u8; AtomicEth::LEN] {
        let mut bytes = [0; AtomicEth::LEN];
        bytes[..8].copy_from_slice(&self.va.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.rkey.to_be_bytes());
        bytes[12..].copy_from_slice(&whole([self.swap_add, self.compare]));
        bytes
    }
}

impl Deth {
    pub const LEN: usize = 8;

    pub(super) fn parse(bytes: &[u8; Deth::LEN]) -> Deth {
        let &[k0, k1, k2, k3, _, q0, q1, q2] = bytes;
        Deth {
            qkey: u32::from_be_bytes([k0, k1, k2, k3]),
            src_qpn: u32::from_be_bytes([0, q0, q1, q2]),
        }
    }

    pub(super) fn bytes(&self) -> [u8; Deth::LEN] {
        (u64::from(self.qkey) << 32 | u64::from(self.src_qpn & 0xff_ffff)).to_be_bytes()
    }
}

impl Feth {
    pub const LEN: usize = 4;

    /// The bits that mean something: four of placement, two of selectivity.
    pub(super) fn parse(bytes: &[u8; Feth::LEN]) -> Feth {
        Feth {
            placement: bytes[3] & 0x0f,
            selectivity: bytes[3] >> 4 & 3,
        }
    }

    pub(super) fn bytes(&self) -> [u8; Feth::LEN] {
        [0, 0, 0, (self.selectivity & 3) << 4 | self.placement & 0x0f]
    }
}

const ACK: u8 = 0;
const RNR_NAK: u8 = 1;
const NAK: u8 = 3;

impl Aeth {
    pub const LEN: usize = 4;

    /// Refuses reserved syndromes.
    pub(super) fn parse(bytes: &[u8; Aeth::LEN]) -> Result<Aeth, Malformed> {
        let &[syndrome, m0, m1, m2] = bytes;
        let value = syndrome & 0x1f;
        let kind = match syndrome >> 5 {
            ACK => AethKind::Ack { credits: value },
            RNR_NAK => AethKind::RnrNak { timer: value },
            NAK => AethKind::Nak(NakCode::of(value).ok_or(Malformed)?),
            _ => return Err(Malformed),
        };
        Ok(Aeth {
            kind,
            msn: u32::from_be_bytes([0, m0, m1, m2]),
        })
    }

    pub(super) fn bytes(&self) -> [u8; Aeth::LEN] {
        let (kind, value) = match self.kind {
            AethKind::Ack { credits } => (ACK, credits),
            AethKind::RnrNak { timer } => (RNR_NAK, timer),
            AethKind::Nak(code) => (NAK, code as u8),
        };
        let [_, m0, m1, m2] = self.msn.to_be_bytes();
        [kind << 5 | value & 0x1f, m0, m1, m2]
    }
}

impl NakCode {
    fn of(code: u8) -> Option<NakCode> {
        [
            NakCode::PsnSequence,
            NakCode::InvalidRequest,
            NakCode::RemoteAccess,
            NakCode::RemoteOperational,
            NakCode::InvalidRdRequest,
        ]
        .into_iter()
        .find(|&known| known as u8 == code)
    }
}

/// Two numbers in network byte order.
fn halves(bytes: &[u8; 16]) -> [u64; 2] {
    let both = u128::from_be_bytes(*bytes);
    [(both >> 64) as u64, both as u64]
}

fn whole([first, second]: [u64; 2]) -> [u8; 16] {
    (u128::from(first) << 64 | u128::from(second)).to_be_bytes()
}
