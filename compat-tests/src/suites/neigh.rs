//! How GIDs are resolved to MAC addresses, by both libraries: the calls of neigh/calls, with the routes
//! and neighbours of a network namespace that a veth pair connects to another. In the virtual machine,
//! whose kernel has VLANs and dummy interfaces. There is no RDMA device: the rxe provider is opened on a
//! made-up sysfs tree and neigh/shim.c.

use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use crate::checks::slug;
use crate::compare;
use crate::context::{Context, Library};
use crate::machine::{Judged, Member};
use crate::paths;
use crate::process::{Running, read, succeeded};
use crate::sandbox::sh;
use crate::testbed::Namespace;
use crate::verdict::{Details, Failure, Verdict, ensure};

/// The GIDs of the device: addresses of the interfaces in `LINK` and `REST`.
const GIDS: &[&str] = &[
    "fe80:0000:0000:0000:0000:00ff:fe00:0001",
    "0000:0000:0000:0000:0000:ffff:0a4d:0001", // 10.77.0.1
    "fd77:0000:0000:0000:0000:0000:0000:0001",
    "0000:0000:0000:0000:0000:ffff:7f00:0001", // 127.0.0.1
    "0000:0000:0000:0000:0000:ffff:0a63:0001", // 10.99.0.1, on no interface
    "0000:0000:0000:0000:0000:0000:0000:0000",
    "0000:0000:0000:0000:0000:ffff:0a4e:0001", // 10.78.0.1, VLAN 100
    "0000:0000:0000:0000:0000:ffff:0a4f:0001", // 10.79.0.1, a dummy interface
    "fd79:0000:0000:0000:0000:0000:0000:0001", // the same interface
    "0000:0000:0000:0000:0000:ffff:0a50:0001", // 10.80.0.1, a link without addresses
    "0000:0000:0000:0000:0000:0000:0000:0001", // ::1
];

/// The link to the other namespace, and the other end.
const LINK: &str = "
    ip link set veth0 up
    ip addr add 10.77.0.1/24 dev veth0; ip addr add fd77::1/64 dev veth0 nodad
    ip link add link veth0 name veth0.100 type vlan id 100
    ip link set veth0.100 up; ip addr add 10.78.0.1/24 dev veth0.100";
const OTHER_END: &str = "
    ip link set veth1 up
    ip addr add 10.77.0.2/24 dev veth1; ip addr add fd77::2/64 dev veth1 nodad
    ip addr add fd77::3/64 dev veth1 nodad
    ip link add link veth1 name veth1.100 type vlan id 100
    ip link set veth1.100 up; ip addr add 10.78.0.2/24 dev veth1.100";
/// Interfaces that never respond, routes, and neighbours.
const REST: &str = "
    ip link add dum0 address 02:00:00:00:09:01 type dummy
    ip link set dum0 up; ip addr add 10.79.0.1/24 dev dum0; ip addr add fd79::1/64 dev dum0 nodad
    ip tuntap add mode tun name tun0
    ip link set tun0 up; ip addr add 10.80.0.1/24 dev tun0
    ip route add 192.0.2.0/24 via 10.77.0.2
    ip -6 route add 2001:db8::/64 via fd77::2
    ip -6 route add 2001:db8:1::/64 via fe80::ff:fe00:2 dev veth0
    ip route add blackhole 198.51.100.0/24; ip route add unreachable 203.0.113.0/24
    ip -6 route add blackhole 2001:db8:2::/64; ip -6 route add prohibit 2001:db8:3::/64
    ip neigh add 10.77.0.9 dev veth0 lladdr 02:00:00:00:00:09 nud permanent
    ip neigh add 10.77.0.10 dev veth0 lladdr 02:00:00:00:00:10 nud stale
    ip neigh add 10.77.0.11 dev veth0 nud failed";

/// The calls wait up to three seconds each.
const LIMIT: Duration = Duration::from_secs(500);

pub fn members() -> Vec<Member> {
    let file = paths::repo().join("compat-tests/neigh/calls");
    let names = names(&read(&file));
    let count = names.len();
    let all = Member::several(names, move |cx| resolve_all(cx, count));
    vec![all.limit(600).programs(&["neigh-resolve", "neigh-shim"])]
}

/// `neigh/GROUP/NUMBER-SGID-DGID` for each line "SGID DGID" of the calls; other lines name a group.
fn names(calls: &str) -> Vec<String> {
    let mut group = String::new();
    let mut names = Vec::new();
    for line in calls.lines() {
        match line.split_once(' ') {
            Some((index, gid)) if index.parse::<u32>().is_ok() => {
                let number = names.len() + 1;
                names.push(format!("neigh/{group}/{number:02}-{index}-{gid}"));
            }
            _ => group = slug(line),
        }
    }
    names
}

/// Both libraries side by side, each with namespaces of its own.
fn resolve_all(cx: &Context, count: usize) -> Result<Vec<Judged>, Failure> {
    write_sysfs(&cx.dir().join("sys"))?;
    let mut c = Resolving::start(cx, Library::C)?;
    let mut ours = Resolving::start(cx, Library::Ours)?;
    let (c, ours) = (c.end(count)?, ours.end(count)?);
    let compared = c.iter().zip(&ours).map(|(c, ours)| {
        let verdict = compare::same(("C library", c), ("ours", ours));
        Judged::from(verdict)
    });
    Ok(compared.collect())
}

/// The device's tree.
fn write_sysfs(sys: &Path) -> Verdict {
    let class = sys.join("class");
    let uverbs = class.join("infiniband_verbs/uverbs0");
    let device = class.join("infiniband/rxe0");
    let gids = device.join("ports/1/gids");
    fs::create_dir_all(&uverbs)?;
    fs::create_dir_all(&gids)?;
    fs::write(class.join("infiniband_verbs/abi_version"), "6\n")?;
    for (name, value) in [("ibdev", "rxe0"), ("dev", "1:3"), ("abi_version", "2")] {
        fs::write(uverbs.join(name), format!("{value}\n"))?;
    }
    fs::write(device.join("node_type"), "1: CA\n")?;
    fs::write(device.join("node_guid"), "0000:00ff:fe00:0001\n")?;
    for (index, gid) in GIDS.iter().enumerate() {
        fs::write(gids.join(index.to_string()), format!("{gid}\n"))?;
    }
    Ok(())
}

/// The program with one library. It ends with its namespaces.
struct Resolving {
    running: Running,
    _namespaces: [Namespace; 2],
}

impl Resolving {
    fn start(cx: &Context, library: Library) -> Result<Self, Failure> {
        let (here, there) = (Namespace::new()?, Namespace::new()?);
        set_up(&here, &there)?;
        let (own, calls) = (cx.built("neigh-resolve")?, cx.source("neigh/calls"));
        let script = format!("exec {own} <{}", calls.display());
        let id = here.id().to_string();
        let program = cx
            .program(["sh".to_string(), "-c".into(), script])
            .library(&cx.library_dir(library))
            .env("SYSFS_PATH", cx.dir().join("sys"))
            .env("LD_PRELOAD", cx.built("neigh-shim")?)
            .under(["nsenter", "-t", &id, "-n", "--"]);
        Ok(Self {
            running: program.spawn()?,
            _namespaces: [here, there],
        })
    }

    /// Waits for the program's end; returns what it printed for each call.
    fn end(&mut self, count: usize) -> Result<Vec<String>, Failure> {
        let exit = self.running.wait(LIMIT)?;
        let ended = self.running.ended(exit)?;
        succeeded("neigh-resolve", &ended)?;
        let calls = calls(&ended.out);
        let why = format!("{} calls, not {count}", calls.len());
        ensure(calls.len() == count, why).with(&ended.out)?;
        Ok(calls)
    }
}

/// Each call starts with a line "SGID DGID = RESULT"; a remark may follow.
fn calls(output: &str) -> Vec<String> {
    let mut calls: Vec<String> = Vec::new();
    for line in output.lines() {
        match calls.last_mut() {
            Some(call) if !line.starts_with(|c: char| c.is_ascii_digit()) => {
                *call += &format!("{line}\n");
            }
            _ => calls.push(format!("{line}\n")),
        }
    }
    calls
}

/// Connects the namespaces.
fn set_up(here: &Namespace, there: &Namespace) -> Verdict {
    let within = |namespace: &Namespace, script: &str| {
        let id = namespace.id();
        sh(&format!("nsenter -t {id} -n -- sh -ec '{script}'"))
    };
    let veth = "ip link add veth0 address 02:00:00:00:00:01 type veth";
    let peer = "peer name veth1 address 02:00:00:00:00:02";
    within(here, &format!("{veth} {peer} netns {}", there.id()))?;
    within(there, OTHER_END)?;
    within(here, LINK)?;
    within(here, REST)?;
    // Until the kernel's link-local addresses are ready.
    sleep(Duration::from_secs(2));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_is_a_case_of_its_group() {
        let names = names("two words\n1 ::1\n1 ::1\nmore\n0 fe80::1\n");
        assert_eq!(
            names,
            [
                "neigh/two-words/01-1-::1", "neigh/two-words/02-1-::1", "neigh/more/03-0-fe80::1"
            ]
        );
    }

    #[test]
    fn a_remark_belongs_to_its_call() {
        let calls = calls("1 a = 0\ndiffers\n2 b = -1\n");
        assert_eq!(calls, ["1 a = 0\ndiffers\n", "2 b = -1\n"]);
    }
}
