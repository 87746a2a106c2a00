//! The extension headers (specification 9.3; annex A19).

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
pub enum NakCode {
    PsnSequence,
    InvalidRequest,
    RemoteAccess,
    RemoteOperational,
    InvalidRdRequest,
}
