//! Entries of the export table, and the checks of a request against them: those of the target's
//! responder (specification 9.7.4.1, 10.6). Pure.

use roce::engine::Gid;

/// The words of an entry in the table. The last one is [`VALID`] in an entry that is in use.
pub const WORDS: usize = 6;
const VALID: u64 = 1 << 63;

/// Whether an entry is in use.
pub fn is_used(words: &[u64; WORDS]) -> bool {
    words[WORDS - 1] == VALID
}

/// Whether an entry is that of the object with a number: the key of a region, the number of a queue pair.
pub fn is_of(words: &[u64; WORDS], number: u32) -> bool {
    is_used(words) && words[0] as u32 == number
}

/// A queue pair whose peer may access memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExportedQp {
    /// The queue pair's number.
    pub qpn: u32,
    /// The number of its peer.
    pub peer_qpn: u32,
    /// The GID of its peer, as packets of the peer have it.
    pub peer: Gid,
    /// The queue pair's protection domain.
    pub pd: u32,
    /// The accesses that its peer may make, `IBV_ACCESS_REMOTE_*`.
    pub access: u32,
    /// The first PSN that it expected from its peer. A peer of an earlier connection began with another.
    pub first_psn: u32,
}

/// A memory region whose key gives peers access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExportedRegion {
    /// The region's R_Key.
    pub rkey: u32,
    /// The region's protection domain.
    pub pd: u32,
    /// `IBV_ACCESS_*`.
    pub access: u32,
    /// The address of its first byte in the owner's process.
    pub start: u64,
    /// The address that peers use for the first byte.
    pub iova: u64,
    /// Bytes.
    pub len: u64,
}

/// An access that an initiator wants to make.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// The number of the initiator's queue pair.
    pub qpn: u32,
    /// The GID of the initiator, as its packets have it.
    pub gid: Gid,
    /// The number of the target's queue pair.
    pub target_qpn: u32,
    /// The first PSN of the initiator's queue pair.
    pub first_psn: u32,
    /// The R_Key.
    pub rkey: u32,
    /// The address, as in the RETH.
    pub va: u64,
    /// Bytes; not 0.
    pub len: u64,
    /// `IBV_ACCESS_REMOTE_WRITE` or `IBV_ACCESS_REMOTE_READ`.
    pub flag: u32,
}

fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

impl ExportedQp {
    /// Encodes the queue pair as an entry of the table.
    pub fn words(&self) -> [u64; WORDS] {
        let gid = u128::from_ne_bytes(self.peer);
        [
            pair(self.qpn, self.peer_qpn),
            pair(self.pd, self.access),
            gid as u64,
            (gid >> 64) as u64,
            self.first_psn.into(),
            VALID,
        ]
    }

    /// The queue pair in an entry; None if there is none.
    pub fn parse(words: &[u64; WORDS]) -> Option<ExportedQp> {
        let qp = ExportedQp {
            qpn: words[0] as u32,
            peer_qpn: (words[0] >> 32) as u32,
            pd: words[1] as u32,
            access: (words[1] >> 32) as u32,
            first_psn: words[4] as u32,
            peer: (u128::from(words[2]) | u128::from(words[3]) << 64).to_ne_bytes(),
        };
        is_used(words).then_some(qp)
    }
}

impl ExportedRegion {
    /// Encodes the region as an entry of the table.
    pub fn words(&self) -> [u64; WORDS] {
        [
            pair(self.rkey, self.pd),
            self.start,
            self.iova,
            self.len,
            self.access.into(),
            VALID,
        ]
    }

    /// The region in an entry; None if there is none.
    pub fn parse(words: &[u64; WORDS]) -> Option<ExportedRegion> {
        let region = ExportedRegion {
            rkey: words[0] as u32,
            pd: (words[0] >> 32) as u32,
            start: words[1],
            iova: words[2],
            len: words[3],
            access: words[4] as u32,
        };
        is_used(words).then_some(region)
    }
}

/// Returns where the bytes are in the target's process. None if its responder would not grant the request.
pub fn locate(qp: &ExportedQp, region: &ExportedRegion, request: &Request) -> Option<u64> {
    let offset = request.va.checked_sub(region.iova)?;
    let granted = qp.qpn == request.target_qpn
        && qp.peer_qpn == request.qpn
        && qp.peer == request.gid
        && qp.first_psn == request.first_psn
        && region.rkey == request.rkey
        && region.pd == qp.pd
        && qp.access & region.access & request.flag != 0
        && request.len <= region.len
        && offset <= region.len - request.len;
    if granted {
        region.start.checked_add(offset)
    } else {
        None
    }
}
