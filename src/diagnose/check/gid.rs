//! Address vectors of RoCE: whether source and destination fit together and can reach each other.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ibverbs_abi::*;

use crate::diagnose::finding::{Finding, Kind, Object, Outcome};
use crate::diagnose::rules::Rule;

/// An entry of a port's GID table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GidEntry {
    pub index: u32,
    pub gid: [u8; 16],
    /// IBV_GID_TYPE_*.
    pub kind: u32,
    pub interface: u32,
}

/// The kinds of addresses. Packets do not pass between addresses of different kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressKind {
    Zero,
    Ipv4,
    LinkLocal,
    Ipv6,
    Multicast,
}

impl AddressKind {
    pub fn of(gid: &[u8; 16]) -> AddressKind {
        match gid {
            [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0] => AddressKind::Zero,
            [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 224..240, ..] => AddressKind::Multicast,
            [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, ..] => AddressKind::Ipv4,
            [0xff, ..] => AddressKind::Multicast,
            [0xfe, second, ..] if second & 0xc0 == 0x80 => AddressKind::LinkLocal,
            _ => AddressKind::Ipv6,
        }
    }

    fn name(self) -> &'static str {
        match self {
            AddressKind::Zero => "empty",
            AddressKind::Ipv4 => "IPv4",
            AddressKind::LinkLocal => "link-local",
            AddressKind::Ipv6 => "IPv6",
            AddressKind::Multicast => "multicast",
        }
    }
}

/// A GID as an IP address.
pub fn address(gid: &[u8; 16]) -> IpAddr {
    match gid {
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, ..] => {
            IpAddr::V4(Ipv4Addr::new(gid[12], gid[13], gid[14], gid[15]))
        }
        _ => IpAddr::V6(Ipv6Addr::from(*gid)),
    }
}

/// The facts about an address vector, of its port and of the GID table.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The port's link layer is Ethernet. On InfiniBand nothing is checked.
    pub ethernet: bool,
    pub port: u8,
    /// The port has a LID, so it may be reached by it: uroce's with IBV_UROCE_LIDS.
    pub has_lid: bool,
    pub is_global: bool,
    pub index: u32,
    pub dgid: [u8; 16],
    /// The port's GID table, without empty entries.
    pub table: Vec<GidEntry>,
    /// Why the routing table has no way to the destination; None if it has one or was not asked.
    pub unreachable: Option<String>,
    /// Name of the interface of the source GID.
    pub interface: String,
}

impl Facts {
    /// The source GID's entry.
    pub fn source(&self) -> Option<&GidEntry> {
        self.table.iter().find(|entry| entry.index == self.index)
    }

    /// The index that fits the destination best: an address of the same kind, RoCE v2 before v1, on the same
    /// interface as the given index.
    pub fn right_index(&self) -> Option<&GidEntry> {
        let wanted = match AddressKind::of(&self.dgid) {
            AddressKind::Zero | AddressKind::Multicast => None,
            kind => Some(kind),
        };
        let interface = self.source().map(|source| source.interface);
        self.table
            .iter()
            .filter(|entry| wanted.is_none_or(|kind| AddressKind::of(&entry.gid) == kind))
            .max_by_key(|entry| {
                (
                    entry.kind == IBV_GID_TYPE_ROCE_V2,
                    Some(entry.interface) == interface,
                    AddressKind::of(&entry.gid) == AddressKind::Ipv4,
                    core::cmp::Reverse(entry.index),
                )
            })
    }

    /// The same with RoCE v2, if the source GID is of RoCE v1.
    pub fn same_with_v2(&self) -> Option<u32> {
        let source = self.source()?;
        if source.kind != IBV_GID_TYPE_ROCE_V1 {
            return None;
        }
        let same = |entry: &&GidEntry| {
            entry.gid == source.gid
                && entry.kind == IBV_GID_TYPE_ROCE_V2
                && entry.interface == source.interface
        };
        self.table.iter().find(same).map(|entry| entry.index)
    }

    fn right_text(&self) -> String {
        match self.right_index() {
            Some(entry) => format!("{} ({})", entry.index, address(&entry.gid)),
            None => "of another port: none of this one fits".into(),
        }
    }
}

/// Judges an address vector that `call` was given; `outcome` is the result of the call.
pub fn vector(
    facts: &Facts,
    object: &Object,
    call: &'static str,
    outcome: &Outcome,
) -> Option<Finding> {
    if !facts.ethernet {
        return None;
    }
    let finding = |rule| {
        Finding::new(rule, object.clone(), call, outcome.clone())
            .with("port", facts.port)
            .with("index", facts.index)
            .with("dgid", address(&facts.dgid))
            .with("right", facts.right_text())
    };
    let destination = AddressKind::of(&facts.dgid);
    if !facts.is_global && facts.has_lid && !outcome.failed() {
        return None;
    }
    if !facts.is_global {
        return Some(finding(Rule::GidNoGrh));
    }
    if destination == AddressKind::Zero {
        return Some(finding(Rule::GidZero));
    }
    let Some(source) = facts.source() else {
        return Some(finding(Rule::GidEmpty));
    };
    let kind = AddressKind::of(&source.gid);
    if destination == AddressKind::Multicast {
        return None;
    }
    let finding = |rule| finding(rule).with("sgid", address(&source.gid));
    if kind != destination {
        return Some(
            finding(Rule::GidFamily)
                .with("sgid_kind", kind.name())
                .with("dgid_kind", destination.name()),
        );
    }
    if let Some(error) = &facts.unreachable {
        return Some(
            finding(Rule::GidUnreachable)
                .with("interface", &facts.interface)
                .with("error", error),
        );
    }
    if outcome.is(libc::ETIMEDOUT) {
        return Some(finding(Rule::RtrTimeout));
    }
    None
}

/// The 40 bytes that ibv_init_ah_from_wc was given have no sender.
pub fn no_sender(grh: &[u8; 40], context: usize, errno: Errno) -> Finding {
    let object = Object::at(Kind::Context, context);
    let call = "ibv_init_ah_from_wc (ibv_create_ah_from_wc)";
    let shown: Vec<String> = grh
        .chunks(8)
        .map(|part| part.iter().map(|byte| format!("{byte:02x}")).collect())
        .collect();
    Finding::new(Rule::Argument, object, call, Outcome::Failed(errno))
        .with_texts(
            format!("the 40 bytes at grh are {}", shown.join(" ")),
            "they are neither the header of an IPv6 nor of an IPv4 datagram to an address of the port",
            "pass the beginning of the buffer of the receive: the data of the datagram begin 40 bytes later",
        )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnose::finding::is_complete;

    fn gid(text: &str) -> [u8; 16] {
        match text.parse().unwrap() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
            IpAddr::V6(ip) => ip.octets(),
        }
    }

    fn entry(index: u32, text: &str, kind: u32) -> GidEntry {
        GidEntry {
            index,
            gid: gid(text),
            kind,
            interface: 2,
        }
    }

    fn facts(index: u32, dgid: &str) -> Facts {
        Facts {
            ethernet: true,
            port: 1,
            has_lid: false,
            is_global: true,
            index,
            dgid: gid(dgid),
            table: vec![
                entry(0, "fe80::1", IBV_GID_TYPE_ROCE_V1),
                entry(1, "fe80::1", IBV_GID_TYPE_ROCE_V2),
                entry(2, "10.0.0.1", IBV_GID_TYPE_ROCE_V1),
                entry(3, "10.0.0.1", IBV_GID_TYPE_ROCE_V2),
                entry(5, "fd00::1", IBV_GID_TYPE_ROCE_V2),
            ],
            unreachable: None,
            interface: "eth0".into(),
        }
    }

    fn judge(facts: &Facts, returned: i32) -> Option<Rule> {
        let outcome = Outcome::of(returned);
        let finding = vector(facts, &Object::qp(1, 2), "ibv_modify_qp", &outcome)?;
        assert!(is_complete(&finding), "{}", finding.line());
        Some(finding.rule)
    }

    #[test]
    fn right_vectors_are_silent() {
        for (index, dgid) in [
            (0, "fe80::2"),
            (1, "fe80::2"),
            (2, "10.0.0.2"),
            (3, "10.0.0.2"),
            (5, "fd00::7"),
            (3, "ff0e::ffff:e000:1"),
            (3, "239.9.9.9"),
        ] {
            assert_eq!(judge(&facts(index, dgid), 0), None, "{index} {dgid}");
            assert_eq!(judge(&facts(index, dgid), libc::EINVAL), None);
        }
        let mut infiniband = facts(0, "::");
        infiniband.ethernet = false;
        assert_eq!(judge(&infiniband, libc::EINVAL), None);
        // By LID, on a port that has one.
        let mut by_lid = facts(3, "::");
        by_lid.is_global = false;
        by_lid.has_lid = true;
        assert_eq!(judge(&by_lid, 0), None);
        assert_eq!(judge(&by_lid, libc::EINVAL), Some(Rule::GidNoGrh));
    }

    #[test]
    fn wrong_vectors() {
        assert_eq!(judge(&facts(0, "10.0.0.2"), 0), Some(Rule::GidFamily));
        assert_eq!(judge(&facts(3, "fd00::7"), 0), Some(Rule::GidFamily));
        assert_eq!(judge(&facts(5, "fe80::7"), 0), Some(Rule::GidFamily));
        assert_eq!(judge(&facts(4, "10.0.0.2"), 0), Some(Rule::GidEmpty));
        assert_eq!(judge(&facts(3, "::"), 0), Some(Rule::GidZero));
        let mut vector = facts(3, "10.0.0.2");
        vector.unreachable = Some("Network is unreachable".into());
        assert_eq!(judge(&vector, 0), Some(Rule::GidUnreachable));
        vector.is_global = false;
        assert_eq!(judge(&vector, 0), Some(Rule::GidNoGrh));
        let timeout = judge(&facts(3, "10.0.0.2"), libc::ETIMEDOUT);
        assert_eq!(timeout, Some(Rule::RtrTimeout));
    }

    #[test]
    fn the_right_index() {
        let right = |index, dgid| facts(index, dgid).right_index().map(|entry| entry.index);
        assert_eq!(right(0, "10.0.0.2"), Some(3));
        assert_eq!(right(3, "fe80::9"), Some(1));
        assert_eq!(right(3, "fd00::9"), Some(5));
        assert_eq!(right(9, "::"), Some(3));
        let mut empty = facts(0, "fd00::1");
        empty.table.clear();
        assert_eq!(empty.right_index(), None);
        assert_eq!(facts(2, "10.0.0.2").same_with_v2(), Some(3));
        assert_eq!(facts(3, "10.0.0.2").same_with_v2(), None);
    }
}
