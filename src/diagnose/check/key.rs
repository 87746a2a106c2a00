//! Memory keys: why an access with one is refused.

use ibverbs_abi::*;

use crate::diagnose::finding::Finding;
use crate::diagnose::mr::Mr;
use crate::diagnose::rules::Rule;

/// The side whose memory is accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The key is an lkey.
    Local,
    /// The key is an rkey.
    Remote,
}

/// An access to memory.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    pub side: Side,
    pub key: u32,
    pub addr: u64,
    pub length: u64,
    /// The queue pair's PD.
    pub pd: usize,
    /// The IBV_ACCESS_* that the region must have; 0 for reading local memory.
    pub right: u32,
}

impl Access {
    fn key_of(&self, mr: &Mr) -> u32 {
        match self.side {
            Side::Local => mr.lkey,
            Side::Remote => mr.rkey,
        }
    }

    fn other_key_of(&self, mr: &Mr) -> u32 {
        match self.side {
            Side::Local => mr.rkey,
            Side::Remote => mr.lkey,
        }
    }
}

/// The reason for refusing an access, as a rule with its values; None if the access is right, as far as the
/// regions say. `live` are the regions of the device, `dead` those that were deregistered, latest last.
/// `same` says whether two PDs are one.
pub fn refused<'a>(
    access: &Access,
    live: impl Iterator<Item = &'a Mr> + Clone,
    mut dead: impl DoubleEndedIterator<Item = &'a Mr>,
    same: impl Fn(usize, usize) -> bool,
    finding: impl Fn(Rule) -> Finding,
) -> Option<Finding> {
    let (side, member, place) = match access.side {
        Side::Local => ("local", "lkey", "device"),
        Side::Remote => ("remote", "rkey", "peer"),
    };
    let start = |rule| {
        finding(rule)
            .with("side", side)
            .with("member", member)
            .with("place", place)
            .with("key", hex(access.key))
            .with("addr", format!("{:#x}", access.addr))
            .with("length", access.length)
    };
    let about = |rule, mr: &Mr| start(rule).with("region", region(mr));
    let Some(mr) = live.clone().find(|mr| access.key_of(mr) == access.key) else {
        if let Some(mr) = dead.rfind(|mr| access.key_of(mr) == access.key) {
            return Some(about(Rule::KeyDeregistered, mr));
        }
        return Some(unknown(access, live, start));
    };
    if !same(mr.pd, access.pd) {
        return Some(
            about(Rule::KeyPd, mr)
                .with("mr_pd", format!("{:#x}", mr.pd))
                .with("qp_pd", format!("{:#x}", access.pd)),
        );
    }
    let (end, mr_end) = (
        u128::from(access.addr) + u128::from(access.length),
        u128::from(mr.start) + u128::from(mr.length),
    );
    if access.length != 0 && (access.addr < mr.start || end > mr_end) {
        let (excess, at) = match access.addr < mr.start {
            true => (u128::from(mr.start - access.addr), "before its start"),
            false => (end - mr_end, "behind its end"),
        };
        let mut found = about(Rule::KeyRange, mr)
            .with("excess", excess)
            .with("end", at);
        found.notes.extend(range_note(access, mr));
        return Some(found);
    }
    let lacking = access.right & !mr.access;
    (lacking != 0).then(|| about(Rule::KeyAccess, mr).with("right", rights(lacking)))
}

/// A key that no region has, and what it may be in truth. `start` begins a finding.
fn unknown<'a>(
    access: &Access,
    mut live: impl Iterator<Item = &'a Mr> + Clone,
    start: impl Fn(Rule) -> Finding,
) -> Finding {
    let (member, other) = match access.side {
        Side::Local => ("lkey", "rkey"),
        Side::Remote => ("rkey", "lkey"),
    };
    let swapped = live
        .clone()
        .find(|mr| access.other_key_of(mr) == access.key);
    if let Some(mr) = swapped {
        let found = start(Rule::KeySwapped).with("region", region(mr));
        return found.with("other", other);
    }
    let mut found = start(Rule::KeyUnknown).with("origin", NEVER);
    if access.key == 0 && access.side == Side::Remote {
        let note = "the key is 0: the peer's rkey was not received, or not put into the request";
        found.notes.push(note.into());
    }
    let reversed = live.find(|mr| access.key_of(mr) == access.key.swap_bytes());
    let note = |mr| reversed_note(access.key, member, mr);
    found.notes.extend(reversed.map(note));
    found
}

/// A note on the likely mistake behind a range that leaves its region: byte order, a truncated
/// address, an offset.
fn range_note(access: &Access, mr: &Mr) -> Option<String> {
    const POINTER: u64 = size_of::<usize>() as u64;
    let is_inside = |addr: u64| (mr.start..mr.start.saturating_add(mr.length)).contains(&addr);
    let high = mr.start & !u64::from(u32::MAX);
    let addr = access.addr;
    // The access begins where it should, and is too long.
    if is_inside(addr) {
        return (mr.length == POINTER && addr == mr.start).then(|| {
            "the region is as long as a pointer: sizeof of a pointer was passed as its length, perhaps"
                .into()
        });
    }
    if is_inside(addr.swap_bytes()) {
        return Some(format!(
            "with its bytes in reverse order the address is {:#x}, in the region: htobe64 or be64toh is \
             missing, or is there once too often",
            addr.swap_bytes()
        ));
    }
    let has_lost_half = addr <= u32::MAX.into() || addr >> 32 == u64::from(u32::MAX);
    if has_lost_half && is_inside(high | addr & u64::from(u32::MAX)) {
        return Some(
            "the address has only the lower 32 bits of one in the region: it went through an int or \
             uint32_t, where uint64_t is needed"
                .into(),
        );
    }
    if addr < mr.length && mr.start != 0 {
        return Some(
            "the address looks like an offset into the region: add the address of the region"
                .into(),
        );
    }
    // Only a zero-based region begins at 0.
    if mr.start == 0 && addr >= mr.length {
        return Some(
            "the region begins at 0 (IBV_ACCESS_ZERO_BASED, or iova 0 of ibv_reg_mr_iova): its addresses \
             are offsets into the memory, and no pointers"
                .into(),
        );
    }
    let distance = match addr < mr.start {
        true => mr.start - addr,
        false => addr.saturating_sub(mr.start.saturating_add(mr.length)),
    };
    if access.side == Side::Remote && distance < FAR && distance >= mr.length.max(NEAR) {
        return Some(
            "no byte of the access is in the region, nor near it: address and key may be of two regions \
             of the peer"
                .into(),
        );
    }
    (access.side == Side::Remote && distance >= FAR).then(|| {
        "the address is far from the region: it may be that of a pointer (&buffer) in place of what it \
         points to, or of other memory than that of the key"
            .into()
    })
}

/// Why a key is unknown, if nothing else is known of it.
const NEVER: &str = "it was never one, or it was damaged on its way to this program";

/// An address that is so near to a region may be the next element of an array.
const NEAR: u64 = 4096;

/// An address that is so far from a region is no wrong index or length.
const FAR: u64 = 16 << 20;

/// A note on a key that, with its bytes in reverse order, is that of a region.
pub fn reversed_note(key: u32, member: &str, mr: &Mr) -> String {
    format!(
        "with its bytes in reverse order it is {}, the {member} of {}: htonl or ntohl is missing, or is \
         there once too often",
        hex(key.swap_bytes()),
        region(mr)
    )
}

/// A key as messages show it.
pub fn hex(key: u32) -> String {
    format!("{key:#x}")
}

/// A region as messages show it.
pub fn region(mr: &Mr) -> String {
    format!("{:#x}..{:#x}", mr.start, mr.start.wrapping_add(mr.length))
}

/// The names of access flags.
pub fn rights(access: u32) -> String {
    const NAMES: [(u32, &str); 11] = [
        (IBV_ACCESS_LOCAL_WRITE, "IBV_ACCESS_LOCAL_WRITE"),
        (IBV_ACCESS_REMOTE_WRITE, "IBV_ACCESS_REMOTE_WRITE"),
        (IBV_ACCESS_REMOTE_READ, "IBV_ACCESS_REMOTE_READ"),
        (IBV_ACCESS_REMOTE_ATOMIC, "IBV_ACCESS_REMOTE_ATOMIC"),
        (IBV_ACCESS_MW_BIND, "IBV_ACCESS_MW_BIND"),
        (IBV_ACCESS_ZERO_BASED, "IBV_ACCESS_ZERO_BASED"),
        (IBV_ACCESS_ON_DEMAND, "IBV_ACCESS_ON_DEMAND"),
        (IBV_ACCESS_HUGETLB, "IBV_ACCESS_HUGETLB"),
        (IBV_ACCESS_FLUSH_GLOBAL, "IBV_ACCESS_FLUSH_GLOBAL"),
        (IBV_ACCESS_FLUSH_PERSISTENT, "IBV_ACCESS_FLUSH_PERSISTENT"),
        (IBV_ACCESS_RELAXED_ORDERING, "IBV_ACCESS_RELAXED_ORDERING"),
    ];
    if access == 0 {
        return "0".into();
    }
    let mut names: Vec<String> = NAMES
        .iter()
        .filter(|(bit, _)| access & bit != 0)
        .map(|(_, name)| name.to_string())
        .collect();
    let known = NAMES.iter().fold(0, |all, (bit, _)| all | bit);
    if access & !known != 0 {
        names.push(format!("{:#x}", access & !known));
    }
    names.join(" | ")
}

/// The access flags that a FLUSH with these IBV_FLUSH_* needs at the peer.
pub fn rights_of_flush(placement: u32) -> u32 {
    let pairs = [
        (IBV_FLUSH_GLOBAL, IBV_ACCESS_FLUSH_GLOBAL),
        (IBV_FLUSH_PERSISTENT, IBV_ACCESS_FLUSH_PERSISTENT),
    ];
    let needed = pairs.iter().filter(|(of, _)| placement & of != 0);
    needed.fold(0, |all, (_, right)| all | right)
}

/// The access flag that another operation needs at the peer, and the one it needs for the local memory.
pub fn rights_of(opcode: u32) -> (u32, u32) {
    match opcode {
        IBV_WR_RDMA_WRITE | IBV_WR_RDMA_WRITE_WITH_IMM | IBV_WR_ATOMIC_WRITE => {
            (IBV_ACCESS_REMOTE_WRITE, 0)
        }
        IBV_WR_RDMA_READ => (IBV_ACCESS_REMOTE_READ, IBV_ACCESS_LOCAL_WRITE),
        IBV_WR_ATOMIC_CMP_AND_SWP | IBV_WR_ATOMIC_FETCH_AND_ADD => {
            (IBV_ACCESS_REMOTE_ATOMIC, IBV_ACCESS_LOCAL_WRITE)
        }
        _ => (0, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnose::finding::{Object, Outcome, is_complete};

    const MR: Mr = Mr {
        context: 1,
        pd: 10,
        start: 0x1000,
        length: 0x1000,
        lkey: 7,
        rkey: 8,
        access: IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ,
        stack_of: 0,
        is_memory: true,
    };

    fn judge(access: Access, live: &[Mr], dead: &[Mr]) -> Option<Rule> {
        let finding = |rule| {
            let outcome = Outcome::Completion(IBV_WC_LOC_PROT_ERR);
            Finding::new(rule, Object::qp(1, 2), "ibv_poll_cq", outcome)
        };
        let same = |a: usize, b: usize| a == b;
        let found = refused(&access, live.iter(), dead.iter(), same, finding)?;
        assert!(is_complete(&found), "{}", found.line());
        Some(found.rule)
    }

    fn local(key: u32, addr: u64, length: u64) -> Access {
        Access {
            side: Side::Local,
            key,
            addr,
            length,
            pd: 10,
            right: IBV_ACCESS_LOCAL_WRITE,
        }
    }

    #[test]
    fn accesses_within_the_region() {
        for (addr, length) in [(0x1000, 0x1000), (0x1fff, 1), (0x1000, 0), (0x9000, 0)] {
            assert_eq!(judge(local(7, addr, length), &[MR], &[MR]), None);
        }
    }

    #[test]
    fn each_reason() {
        assert_eq!(
            judge(local(9, 0x1000, 1), &[MR], &[]),
            Some(Rule::KeyUnknown)
        );
        assert_eq!(
            judge(local(8, 0x1000, 1), &[MR], &[]),
            Some(Rule::KeySwapped)
        );
        assert_eq!(
            judge(local(7, 0x1000, 1), &[], &[MR]),
            Some(Rule::KeyDeregistered)
        );
        assert_eq!(
            judge(local(7, 0x1000, 0x1001), &[MR], &[]),
            Some(Rule::KeyRange)
        );
        assert_eq!(judge(local(7, 0xfff, 2), &[MR], &[]), Some(Rule::KeyRange));
        assert_eq!(
            judge(local(7, u64::MAX, 2), &[MR], &[]),
            Some(Rule::KeyRange)
        );
        let other = Access {
            pd: 11,
            ..local(7, 0x1000, 1)
        };
        assert_eq!(judge(other, &[MR], &[]), Some(Rule::KeyPd));
        let remote = Access {
            side: Side::Remote,
            right: IBV_ACCESS_REMOTE_WRITE,
            ..local(8, 0x1000, 1)
        };
        assert_eq!(judge(remote, &[MR], &[]), Some(Rule::KeyAccess));
        assert_eq!(
            judge(Access { key: 7, ..remote }, &[MR], &[]),
            Some(Rule::KeySwapped)
        );
    }

    #[test]
    fn looks_of_addresses_and_keys() {
        const HIGH: Mr = Mr {
            start: 0x7f00_1234_5000,
            ..MR
        };
        let notes = |key: u32, addr: u64| {
            let finding = |rule| {
                let outcome = Outcome::Completion(IBV_WC_LOC_PROT_ERR);
                Finding::new(rule, Object::qp(1, 2), "ibv_poll_cq", outcome)
            };
            let (live, same) = ([HIGH], |a: usize, b: usize| a == b);
            let access = local(key, addr, 64);
            let found = refused(&access, live.iter(), [].iter(), same, finding);
            found.unwrap().notes.concat()
        };
        assert!(notes(7, HIGH.start.swap_bytes()).contains("htobe64"));
        assert!(notes(7, 0x1234_5000).contains("uint64_t"));
        assert!(notes(7, 0xffff_ffff_1234_5000).contains("uint64_t"));
        assert!(notes(7, 0x40).contains("offset"));
        assert_eq!(notes(7, HIGH.start - 1), "");
        let remote = |addr: u64, length: u64| {
            let access = Access {
                side: Side::Remote,
                ..local(8, addr, length)
            };
            let finding = |rule| {
                let outcome = Outcome::Completion(IBV_WC_REM_ACCESS_ERR);
                Finding::new(rule, Object::qp(1, 2), "ibv_poll_cq", outcome)
            };
            let (live, same) = ([HIGH], |a: usize, b: usize| a == b);
            let found = refused(&access, live.iter(), [].iter(), same, finding);
            found.unwrap().notes.concat()
        };
        let end = HIGH.start + HIGH.length;
        for (addr, length) in [(end - 6, 64), (end - 96, 200), (end - 6, 8), (end, 8)] {
            assert_eq!(remote(addr, length), "");
        }
        assert!(remote(end + FAR, 8).contains("far from the region"));
        assert!(remote(HIGH.start - FAR, 8).contains("far from the region"));
        assert!(notes(7_u32.swap_bytes(), HIGH.start).contains("htonl"));
        assert_eq!(notes(99, HIGH.start), "");
    }

    #[test]
    fn names_of_rights() {
        assert_eq!(rights(0), "0");
        let both = rights(IBV_ACCESS_REMOTE_WRITE | 1 << 31);
        assert_eq!(both, "IBV_ACCESS_REMOTE_WRITE | 0x80000000");
    }
}
