//! Registrations that failed, and objects larger than the device allows.

use ibverbs_abi::*;

use super::key::rights;
use crate::diagnose::finding::{Finding, Object, Outcome};
use crate::diagnose::rules::Rule;

/// A line of /proc/self/maps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    pub start: u64,
    pub end: u64,
    pub writable: bool,
    /// The rights as the file shows them, such as `r--p`.
    pub rights: String,
    /// Path, or a name in brackets, or nothing.
    pub file: String,
}

/// The lines of /proc/self/maps. Lines that are not understood are left out.
pub fn mappings(text: &str) -> Vec<Mapping> {
    text.lines().filter_map(mapping).collect()
}

fn mapping(line: &str) -> Option<Mapping> {
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let rights = fields.next()?;
    let file = fields.nth(3).unwrap_or("").trim();
    Some(Mapping {
        start: u64::from_str_radix(start, 16).ok()?,
        end: u64::from_str_radix(end, 16).ok()?,
        writable: rights.as_bytes().get(1) == Some(&b'w'),
        rights: rights.into(),
        file: file.into(),
    })
}

/// The facts about a registration that failed: its arguments, the limits and the mappings.
#[derive(Clone, Debug)]
pub struct Registration {
    pub addr: u64,
    pub length: u64,
    pub access: u32,
    /// RLIMIT_MEMLOCK in bytes; None if it is unlimited or does not apply (CAP_IPC_LOCK).
    pub limit: Option<u64>,
    /// Bytes that count against the limit already.
    pub pinned: u64,
    pub maps: Vec<Mapping>,
    /// How many regions of the device are registered.
    pub regions: usize,
}

const REMOTE_WRITES: u32 = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
/// Flags for which the memory must be writable.
const WRITES: u32 = IBV_ACCESS_LOCAL_WRITE | REMOTE_WRITES | IBV_ACCESS_MW_BIND;

/// Why `call` could not register memory.
pub fn registration(
    facts: &Registration,
    object: &Object,
    call: &'static str,
    outcome: &Outcome,
) -> Option<Finding> {
    let Outcome::Failed(errno) = outcome else {
        return None;
    };
    let finding = |rule| {
        Finding::new(rule, object.clone(), call, outcome.clone())
            .with("length", facts.length)
            .with("addr", format!("{:#x}", facts.addr))
            .with("access", rights(facts.access))
    };
    let end = facts.addr.checked_add(facts.length);
    match errno.0 {
        libc::EINVAL if facts.access & REMOTE_WRITES != 0 && !has_local_write(facts) => {
            Some(finding(Rule::RegAccess))
        }
        libc::EINVAL | libc::EFAULT | libc::ENOMEM if end.is_none() => {
            Some(finding(Rule::RegLength))
        }
        libc::EINVAL if facts.length == 0 => Some(finding(Rule::RegLength)),
        libc::EFAULT | libc::EOPNOTSUPP => mapped(facts, errno.0, finding),
        libc::ENOMEM => Some(no_memory(facts, finding)),
        _ => None,
    }
}

fn has_local_write(facts: &Registration) -> bool {
    facts.access & IBV_ACCESS_LOCAL_WRITE != 0
}

fn no_memory(facts: &Registration, finding: impl Fn(Rule) -> Finding) -> Finding {
    let needed = facts.pinned.saturating_add(facts.length);
    match facts.limit {
        Some(limit) if needed > limit => finding(Rule::Memlock)
            .with("limit", limit)
            .with("pinned", facts.pinned),
        limit => finding(Rule::RegNoMemory)
            .with(
                "limit",
                limit.map_or("unlimited".into(), |limit| format!("{limit} bytes")),
            )
            .with("regions", facts.regions),
    }
}

/// The first place of the range that cannot be registered.
fn mapped(facts: &Registration, errno: i32, finding: impl Fn(Rule) -> Finding) -> Option<Finding> {
    let end = facts.addr.checked_add(facts.length)?;
    let mut at = facts.addr;
    let mut special = None;
    while at < end {
        let Some(mapping) = facts
            .maps
            .iter()
            .find(|mapping| (mapping.start..mapping.end).contains(&at))
        else {
            return Some(finding(Rule::RegUnmapped).with("hole", format!("{at:#x}")));
        };
        let about = |rule| {
            let file = match mapping.file.as_str() {
                "" => "anonymous memory",
                file => file,
            };
            finding(rule)
                .with("hole", format!("{at:#x}"))
                .with("file", file)
                .with("rights", &mapping.rights)
        };
        if facts.access & WRITES != 0 && !mapping.writable || mapping.rights.starts_with("---") {
            return Some(about(Rule::RegReadOnly));
        }
        if special.is_none() && mapping.file.starts_with('/') {
            special = Some(about(Rule::RegFile));
        }
        at = mapping.end;
    }
    // Everything is mapped as it must be: what remains is what the mapping is of.
    special.filter(|_| matches!(errno, libc::EFAULT | libc::EOPNOTSUPP))
}

/// A size that a program asks for, with the device's limit.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    pub member: &'static str,
    pub asked: u64,
    pub limit: u64,
}

/// The first of the sizes that is over its limit, after `call` failed. A limit of 0 is not known.
pub fn over_limit(
    sizes: &[Size],
    object: &Object,
    call: &'static str,
    outcome: &Outcome,
) -> Option<Finding> {
    if !(outcome.is(libc::EINVAL) || outcome.is(libc::ENOMEM)) {
        return None;
    }
    let size = sizes
        .iter()
        .find(|size| size.limit != 0 && size.asked > size.limit)?;
    let finding = Finding::new(Rule::CreateLimit, object.clone(), call, outcome.clone());
    Some(
        finding
            .with("member", size.member)
            .with("asked", size.asked)
            .with("limit", size.limit),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnose::finding::{Kind, is_complete};

    const MAPS: &str = "00001000-00003000 rw-p 00000000 00:00 0 \n\
                        00003000-00004000 r--p 00000000 08:01 77    /usr/lib/a b.so\n\
                        00005000-00006000 rw-s 00000000 00:05 9     /dev/nvidia0\n\
                        bad line\n";

    fn facts(addr: u64, length: u64, access: u32) -> Registration {
        Registration {
            addr,
            length,
            access,
            limit: Some(65536),
            pinned: 60000,
            maps: mappings(MAPS),
            regions: 3,
        }
    }

    fn judge(facts: &Registration, errno: i32) -> Option<Rule> {
        let object = Object::at(Kind::Pd, 1);
        let found = registration(facts, &object, "ibv_reg_mr", &Outcome::of(errno))?;
        assert!(is_complete(&found), "{}", found.line());
        Some(found.rule)
    }

    #[test]
    fn maps_are_parsed() {
        let maps = mappings(MAPS);
        assert_eq!(maps.len(), 3);
        assert_eq!(maps[1].file, "/usr/lib/a b.so");
        assert!(!maps[1].writable && maps[2].writable);
        assert_eq!((maps[0].start, maps[0].end), (0x1000, 0x3000));
    }

    #[test]
    fn places_that_cannot_be_registered() {
        const WRITE: u32 = IBV_ACCESS_LOCAL_WRITE;
        let fault = |addr, length, access| judge(&facts(addr, length, access), libc::EFAULT);
        assert_eq!(fault(0x1000, 0x2000, WRITE), None);
        assert_eq!(fault(0x2000, 0x1001, WRITE), Some(Rule::RegReadOnly));
        assert_eq!(fault(0x3000, 0x1001, 0), Some(Rule::RegUnmapped));
        assert_eq!(fault(0x4000, 1, 0), Some(Rule::RegUnmapped));
        assert_eq!(fault(0x5000, 1, WRITE), Some(Rule::RegFile));
        assert_eq!(fault(u64::MAX, 2, WRITE), Some(Rule::RegLength));
    }

    #[test]
    fn flags_and_lengths() {
        let invalid = |addr, length, access| judge(&facts(addr, length, access), libc::EINVAL);
        assert_eq!(
            invalid(0x1000, 1, IBV_ACCESS_REMOTE_WRITE),
            Some(Rule::RegAccess)
        );
        assert_eq!(
            invalid(0x1000, 1, IBV_ACCESS_REMOTE_ATOMIC),
            Some(Rule::RegAccess)
        );
        assert_eq!(invalid(0x1000, 0, 0), Some(Rule::RegLength));
        let both = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
        assert_eq!(invalid(0x1000, 1, both), None);
        assert_eq!(judge(&facts(0x1000, 1, 0), libc::EPERM), None);
        assert_eq!(judge(&facts(0x1000, 0, 0), 0), None);
    }

    #[test]
    fn the_limit_is_named_only_if_it_is_the_reason() {
        assert_eq!(
            judge(&facts(0x1000, 8192, 0), libc::ENOMEM),
            Some(Rule::Memlock)
        );
        assert_eq!(
            judge(&facts(0x1000, 4096, 0), libc::ENOMEM),
            Some(Rule::RegNoMemory)
        );
        let mut unlimited = facts(0x1000, 8192, 0);
        unlimited.limit = None;
        assert_eq!(judge(&unlimited, libc::ENOMEM), Some(Rule::RegNoMemory));
    }

    #[test]
    fn sizes_over_the_limit() {
        let size = |asked, limit| Size {
            member: "cap.max_send_wr",
            asked,
            limit,
        };
        let object = Object::at(Kind::Pd, 1);
        let over = |sizes: &[Size], errno| {
            over_limit(sizes, &object, "ibv_create_qp", &Outcome::of(errno)).is_some()
        };
        assert!(over(&[size(1, 2), size(3, 2)], libc::EINVAL));
        assert!(!over(&[size(3, 2)], libc::EPERM));
        assert!(!over(&[size(3, 0), size(2, 2)], libc::ENOMEM));
        assert!(!over(&[size(3, 2)], 0));
    }
}
