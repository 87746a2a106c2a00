//! The extended transport headers (specification 9.3; annex A19). Reserved bits are ignored.

use super::Malformed;

/// RDMA extended transport header (RETH).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reth {
    /// The remote address.
    pub va: u64,
    /// The key of the memory there.
    pub rkey: u32,
    /// DMALen, in bytes.
    pub len: u32,
}

/// Atomic extended transport header (AtomicETH).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtomicEth {
    /// The remote address.
    pub va: u64,
    /// The key of the memory there.
    pub rkey: u32,
    /// SwapDt: the new value of CmpSwap, or the addend of FetchAdd.
    pub swap_add: u64,
    /// CmpDt.
    pub compare: u64,
}

/// Datagram extended transport header (DETH).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deth {
    /// The Q_Key that the receiver checks.
    pub qkey: u32,
    /// SrcQP, 24 bits.
    pub src_qpn: u32,
}

/// Flush extended transport header (FETH). A RETH follows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Feth {
    /// PLT: IBV_FLUSH_GLOBAL | IBV_FLUSH_PERSISTENT.
    pub placement: u8,
    /// SEL: IBV_FLUSH_RANGE or IBV_FLUSH_MR.
    pub selectivity: u8,
}

/// ACK extended transport header (AETH).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aeth {
    /// ACK, RNR NAK or NAK.
    pub kind: AethKind,
    /// Message sequence number, 24 bits.
    pub msn: u32,
}

/// The syndrome of an [`Aeth`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AethKind {
    /// ACK, with the credit count (31: no end-to-end credits).
    Ack {
        /// The code, 5 bits.
        credits: u8,
    },
    /// RNR NAK, with the timer, encoded as in `ibv_qp_attr.min_rnr_timer`.
    RnrNak {
        /// The code, 5 bits.
        timer: u8,
    },
    /// NAK, with its code.
    Nak(NakCode),
}

/// Why the responder rejects a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum NakCode {
    /// A request is missing before this PSN.
    PsnSequence = 0,
    /// The request is malformed or not supported.
    InvalidRequest,
    /// The R_Key, range or right is wrong.
    RemoteAccess,
    /// The responder cannot complete the request.
    RemoteOperational,
    /// Only for reliable datagrams.
    InvalidRdRequest,
}

impl Reth {
    /// The length of the header in bytes.
    pub const LEN: usize = 16;

    pub(super) fn parse(bytes: &[u8; Reth::LEN]) -> Reth {
        Reth {
            va: u64::from_be_bytes(field::<{ Reth::LEN }, 0, 8>(bytes)),
            rkey: u32::from_be_bytes(field::<{ Reth::LEN }, 8, 4>(bytes)),
            len: u32::from_be_bytes(field::<{ Reth::LEN }, 12, 4>(bytes)),
        }
    }

    pub(super) fn bytes(&self) -> [u8; Reth::LEN] {
        pair(self.va, u64::from(self.rkey) << 32 | u64::from(self.len))
    }
}

impl AtomicEth {
    /// The length of the header in bytes.
    pub const LEN: usize = 28;

    pub(super) fn parse(bytes: &[u8; AtomicEth::LEN]) -> AtomicEth {
        AtomicEth {
            va: u64::from_be_bytes(field::<{ AtomicEth::LEN }, 0, 8>(bytes)),
            rkey: u32::from_be_bytes(field::<{ AtomicEth::LEN }, 8, 4>(bytes)),
            swap_add: u64::from_be_bytes(field::<{ AtomicEth::LEN }, 12, 8>(bytes)),
            compare: u64::from_be_bytes(field::<{ AtomicEth::LEN }, 20, 8>(bytes)),
        }
    }

    pub(super) fn bytes(&self) -> [u8; AtomicEth::LEN] {
        let mut bytes = [0; AtomicEth::LEN];
        bytes[..8].copy_from_slice(&self.va.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.rkey.to_be_bytes());
        bytes[12..].copy_from_slice(&pair(self.swap_add, self.compare));
        bytes
    }
}

impl Deth {
    /// The length of the header in bytes.
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
    /// The length of the header in bytes.
    pub const LEN: usize = 4;

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
    /// The length of the header in bytes.
    pub const LEN: usize = 4;

    /// Parses the header. Fails for a reserved syndrome.
    pub(crate) fn parse(bytes: &[u8; Aeth::LEN]) -> Result<Aeth, Malformed> {
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

    /// Whether the header, which is valid, is that of a NAK or an RNR NAK.
    #[inline]
    pub(super) fn is_nak(bytes: &[u8; Aeth::LEN]) -> bool {
        bytes[0] >> 5 != ACK
    }

    /// The header as it is on the wire.
    #[inline]
    pub fn bytes(&self) -> [u8; Aeth::LEN] {
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

/// The `N` bytes at offset `AT` of a header; the compiler checks that it has them.
fn field<const LEN: usize, const AT: usize, const N: usize>(header: &[u8; LEN]) -> [u8; N] {
    const { assert!(AT + N <= LEN) };
    core::array::from_fn(|i| header[AT + i])
}

/// Two numbers in network byte order.
fn pair(first: u64, second: u64) -> [u8; 16] {
    (u128::from(first) << 64 | u128::from(second)).to_be_bytes()
}
