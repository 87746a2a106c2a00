//! Two hosts in the virtual machine, connected by a veth pair: one has the kernel's Soft-RoCE, one uroce.

use std::net::Ipv4Addr;
use std::time::Duration;

use crate::context::Context;
use crate::process::wait_until;
use crate::sandbox::sh;
use crate::testbed::{Host, Hosts, Namespace};
use crate::verdict::{Failure, Verdict, ensure};

/// The devices at both ends: server, client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ends {
    RxeUroce,
    UroceRxe,
}

impl Ends {
    pub fn name(self) -> &'static str {
        match self {
            Ends::RxeUroce => "rxe-uroce",
            Ends::UroceRxe => "uroce-rxe",
        }
    }

    /// The number of the end that has rxe.
    fn of_rxe(self) -> u32 {
        match self {
            Ends::RxeUroce => 1,
            Ends::UroceRxe => 2,
        }
    }
}

/// The hosts. rxe and its interface are removed when this value is dropped; the other interface with them.
pub struct RxeHosts {
    hosts: Hosts,
    rxe: u32,
}

impl RxeHosts {
    pub fn hosts(&self) -> &Hosts {
        &self.hosts
    }

    /// Prints how many packets were lost, reordered and duplicated.
    pub fn print_losses(&self, cx: &Context) -> Verdict {
        for host in [&self.hosts.server, &self.hosts.client] {
            let argv = ["tc", "-s", "qdisc", "show", "dev", &host.interface];
            let shown = host.on_host(cx.program(argv)).run()?.out;
            println!("{}: {shown}", host.device);
        }
        Ok(())
    }
}

impl Drop for RxeHosts {
    fn drop(&mut self) {
        let n = self.rxe;
        if let Err(failure) = sh(&format!("rdma link delete rxv{n}; ip link delete ve{n}")) {
            println!("{failure}");
        }
    }
}

/// Makes the hosts. `netem` has the arguments for the packets of RoCE; it may be empty. Before Linux
/// 6.18, rxe works only in the first network namespace, so uroce is in another.
pub fn make(cx: &Context, ends: Ends, netem: &str) -> Result<RxeHosts, Failure> {
    let rxe = ends.of_rxe();
    let uroce = 3 - rxe;
    let namespace = Namespace::new()?;
    let id = namespace.id();
    sh(&format!(
        "ip link add ve{rxe} type veth peer name ve{uroce} netns {id}"
    ))?;
    let mut kernel = Host::on_kernel(&format!("rxv{rxe}"), &address(rxe), &format!("ve{rxe}"));
    kernel.address6 = address6(rxe);
    let mut software = Host::on_uroce(
        cx,
        &address(uroce),
        &format!("uroce0=ve{uroce}"),
        &format!("ve{uroce}"),
    );
    software.namespace = Some(id);
    software.address6 = address6(uroce);
    let (server, client) = match ends {
        Ends::RxeUroce => (kernel, software),
        Ends::UroceRxe => (software, kernel),
    };
    // From here on, an error removes what was made.
    let mut machine = RxeHosts {
        hosts: Hosts {
            server,
            client,
            namespaces: vec![namespace],
        },
        rxe,
    };
    for (n, host) in [(1, &machine.hosts.server), (2, &machine.hosts.client)] {
        set_up(host, n, netem)?;
    }
    sh(&format!("rdma link add rxv{rxe} type rxe netdev ve{rxe}"))?;
    for (n, host) in [
        (1, &mut machine.hosts.server),
        (2, &mut machine.hosts.client),
    ] {
        await_gids(cx, host, n)?;
    }
    Ok(machine)
}

fn address(n: u32) -> String {
    format!("10.9.7.{n}")
}

fn address6(n: u32) -> String {
    format!("fd07::{n}")
}

/// Jumbo frames: the port's MTU becomes 4096. An address in duplicate address detection is not yet usable.
/// netem gets the packets of RoCE only, not the programs' TCP connections.
fn set_up(host: &Host, n: u32, netem: &str) -> Verdict {
    host.sh(&format!(
        "echo 0 >/proc/sys/net/ipv6/conf/ve{n}/accept_dad
         ip addr add 10.9.7.{n}/24 dev ve{n}
         ip -6 addr add {}/64 dev ve{n} nodad
         ip link set ve{n} mtu 9000 up",
        address6(n)
    ))?;
    if netem.is_empty() {
        return Ok(());
    }
    host.sh(&format!(
        "tc qdisc add dev ve{n} root handle 1: prio bands 4
         tc qdisc add dev ve{n} parent 1:4 handle 40: netem limit 100000 {netem}
         tc filter add dev ve{n} parent 1: protocol ip u32 match ip protocol 17 0xff \
             match ip dport 4791 0xffff flowid 1:4"
    ))
}

/// The interface gets its carrier, and rxe fills its table, a little later.
fn await_gids(cx: &Context, host: &mut Host, n: u32) -> Verdict {
    let wanted = Ipv4Addr::new(10, 9, 7, n as u8).to_ipv6_mapped();
    let has = || host.read_gids(cx).is_ok() && host.has_gid(wanted);
    ensure(
        wait_until(Duration::from_secs(20), has),
        format!("no GID of 10.9.7.{n}"),
    )
}
