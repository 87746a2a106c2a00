//! Cases of rdma_cm whose network changes: a host that is down, another MAC address, an interface that is
//! removed; and a peer that is killed.

use std::time::Duration;

use crate::case::Case;
use crate::context::Context;
use crate::process::{Program, wait_until};
use crate::sandbox::Sandbox;
use crate::suites::lab;
use crate::testbed::{Host, Hosts, Testbed};
use crate::verdict::{Failure, Verdict, contains, ensure};

/// The time in which all events come. A connection request would be retransmitted for longer.
const LIMIT: Duration = Duration::from_secs(20);
const PORT: u16 = 7174;

pub fn cases() -> Vec<Case> {
    let case = |name: &str, test: fn(&Context) -> Verdict| {
        let name = format!("uroce/rdmacm-events/{name}");
        Case::new(name, test).sandbox(Sandbox::Namespace).limit(60)
    };
    vec![
        case("host-is-down", host_is_down),
        case("other-mac-address", other_mac_address),
        case("interface-removed", interface_removed),
        case("peer-is-killed", peer_is_killed).programs(&["killed"]),
    ]
}

/// ADDR_ERROR, as from the kernel, when nobody replies to ARP or neighbour discovery for the two seconds that
/// the program waits. The link-local address names no interface.
fn host_is_down(cx: &Context) -> Verdict {
    let hosts = Testbed::Veth.make(cx)?;
    for server in ["10.9.7.99", "fd07::99", "fe80::99"] {
        let command = format!("ucmatose -s {server} -p 7174");
        let program = program(cx, &hosts.client, &command);
        let ended = program.limit(LIMIT).merged().run()?;
        contains(&ended.out, &["RDMA_CM_EVENT_ADDR_ERROR, error: -110"])?;
    }
    Ok(())
}

/// ADDR_CHANGE, as after the fail-over of a bond whose MAC address follows.
fn other_mac_address(cx: &Context) -> Verdict {
    server_sees(
        cx,
        "ip link set ve1 address 02:00:00:00:07:99",
        "RDMA_CM_EVENT_ADDR_CHANGE",
    )
}

/// DEVICE_REMOVAL, at which rping ends.
fn interface_removed(cx: &Context) -> Verdict {
    server_sees(cx, "ip link delete ve1", "cma detected device removal")
}

/// DISCONNECTED or REJECTED, as from the kernel, which disconnects and rejects for a process that ends.
fn peer_is_killed(cx: &Context) -> Verdict {
    let program = lab::program(cx, [cx.built("killed")?, "127.0.0.1".into()], "u=127.0.0.1");
    cx.report_lines(&program.env("IBV_CONTROL", "1").run()?, 4)
}

/// Whether a server that listens at the address of its device prints `message` after a change of the network.
fn server_sees(cx: &Context, change: &str, message: &str) -> Verdict {
    let hosts: Hosts = Testbed::Veth.make(cx)?;
    let server = program(cx, &hosts.server, "rping -s -a 10.9.7.1 -p 7174 -v");
    let mut running = server.merged().spawn()?;
    ensure(
        wait_until(LIMIT, || hosts.server.listens_cm(PORT)),
        "rping does not listen",
    )?;
    hosts.server.sh(change)?;
    let seen = wait_until(LIMIT, || running.output().contains(message));
    let output = running.output();
    running.terminate();
    running.wait(LIMIT)?;
    if seen {
        return Ok(());
    }
    Err(Failure::new(format!("the server has not printed {message:?}")).with(output))
}

fn program(cx: &Context, host: &Host, command: &str) -> Program {
    host.on_host(cx.program(command.split(' ')))
}
