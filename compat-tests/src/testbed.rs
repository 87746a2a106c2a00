//! The testbeds of uroce: two hosts, each with an address, a network namespace, a device and a library.
//!
//! Each case makes its own, in the namespaces that are its own (`place`). Kernel devices exist only in the
//! virtual machine.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::net::Ipv6Addr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use regex_lite::Regex;

use crate::context::{Context, Library};
use crate::process::{Program, die_with_parent, path_with_sbin, read, signal, wait_until};
use crate::sandbox::{as_ordinary_user, sh};
use crate::verdict::{Failure, Verdict, ensure};

/// How two hosts are connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Testbed {
    /// The hosts are both at 127.0.0.1, with the device on `lo`: through shared memory, with access
    /// to each other's.
    Loopback,
    /// The same by UDP.
    Udp,
    /// The same as Loopback without access to each other's memory.
    Packets,
    /// The same as Loopback with all devices that uroce finds: as in a container that has no network.
    Container,
    /// Two network namespaces, connected by a veth pair.
    Veth,
}

/// One end of a connection.
#[derive(Debug, Clone)]
pub struct Host {
    pub device: String,
    pub address: String,
    pub address6: String,
    /// The value of IBV_UROCE; none for a kernel device.
    pub config: Option<String>,
    /// The value of IBV_UROCE_LOCAL, if it is set.
    pub local: Option<&'static str>,
    /// The directory of libibverbs; none for the distribution's.
    pub libdir: Option<PathBuf>,
    /// A process in its network namespace; none for that of the case.
    pub namespace: Option<u32>,
    /// The host's network interface.
    pub interface: String,
    /// The root directory in which programs run; none for that of the machine.
    pub root: Option<PathBuf>,
    gids: BTreeMap<u32, Ipv6Addr>,
}

impl Host {
    pub fn on_uroce(cx: &Context, address: &str, config: &str, interface: &str) -> Self {
        Self {
            device: "uroce0".into(),
            address: address.into(),
            address6: "::1".into(),
            config: Some(config.into()),
            local: None,
            libdir: Some(cx.library_dir(Library::Ours)),
            namespace: None,
            interface: interface.into(),
            root: None,
            gids: BTreeMap::new(),
        }
    }

    /// A kernel device, with the distribution's library.
    pub fn on_kernel(device: &str, address: &str, interface: &str) -> Self {
        Self {
            device: device.into(),
            address: address.into(),
            address6: "::1".into(),
            config: None,
            local: None,
            libdir: None,
            namespace: None,
            interface: interface.into(),
            root: None,
            gids: BTreeMap::new(),
        }
    }

    /// Has a program run on this host: as an ordinary user, unless it needs locked memory for a kernel
    /// device.
    pub fn on_host(&self, mut program: Program) -> Program {
        if let Some(config) = &self.config {
            program = program.under(as_ordinary_user()).env("IBV_UROCE", config);
        }
        // Only root may change the root directory, so this comes in front of the command for the user.
        if let Some(root) = &self.root {
            program = program.under(["chroot", &root.to_string_lossy()]);
        }
        if let Some(value) = self.local {
            program = program.env("IBV_UROCE_LOCAL", value);
        }
        if let Some(libdir) = &self.libdir {
            program = program.library(libdir);
        }
        match self.namespace {
            Some(id) => program.under(["nsenter", "-t", &id.to_string(), "-n", "--"]),
            None => program,
        }
    }

    /// Whether a TCP server on this host listens on the port.
    pub fn listens(&self, port: u16) -> bool {
        let process = self.namespace.map_or("self".into(), |id| id.to_string());
        let listening = |line: &str| {
            let mut fields = line.split_whitespace().skip(1);
            let local = fields
                .next()
                .is_some_and(|local| local.ends_with(&format!(":{port:04X}")));
            local && fields.nth(1) == Some("0A")
        };
        ["tcp", "tcp6"].iter().any(|table| {
            read(format!("/proc/{process}/net/{table}").as_ref())
                .lines()
                .any(listening)
        })
    }

    /// Whether a process on this host listens on the port of the connection manager, the kernel's or uroce's.
    pub fn listens_cm(&self, port: u16) -> bool {
        if self.config.is_none() {
            return kernel_listens_cm(port);
        }
        let process = self.namespace.map_or("self".into(), |id| id.to_string());
        let name = |line: &str| {
            let name = line.split_whitespace().last().unwrap_or_default();
            let listens = line.contains(" 00010000 ");
            listens && name.starts_with("@uroce-cm.port.") && name.contains(&format!(".{port}."))
        };
        read(format!("/proc/{process}/net/unix").as_ref())
            .lines()
            .any(name)
    }

    /// Gives the interface another MTU.
    pub fn set_mtu(&self, mtu: u32) -> Verdict {
        self.sh(&format!("ip link set {} mtu {mtu}", self.interface))
    }

    /// Runs a shell script as root in the host's network namespace.
    pub fn sh(&self, script: &str) -> Verdict {
        match self.namespace {
            Some(id) => sh(&format!("nsenter -t {id} -n -- sh -ec '{script}'")),
            None => sh(script),
        }
    }

    /// Reads the GID table of the device, as ibv_devinfo prints it.
    pub fn read_gids(&mut self, cx: &Context) -> Verdict {
        let shown = self
            .on_host(cx.program(["ibv_devinfo", "-d", &self.device, "-v"]))
            .run()?
            .out;
        let entry = Regex::new(r"GID\[\s*(\d+)\]:\s*([0-9a-f:.]+)").map_err(|e| e.to_string())?;
        let parse = |index: &str, gid: &str| Some((index.parse().ok()?, gid.parse().ok()?));
        self.gids = entry
            .captures_iter(&shown)
            .filter_map(|found| parse(&found[1], &found[2]))
            .collect();
        ensure(
            !self.gids.is_empty(),
            format!("{} has no GIDs:\n{shown}", self.device),
        )
    }

    /// Whether the table that was read has this GID.
    pub fn has_gid(&self, gid: Ipv6Addr) -> bool {
        self.gids.values().any(|own| *own == gid)
    }

    /// The index of a GID: `which` is 1 for the IPv4 address, 2 for an IPv6 one, 0 for the first entry. On
    /// the kernel device of the virtual machine, for which the rows were written, these are the indices.
    pub fn gid_index(&self, which: u32) -> Result<u32, Failure> {
        let fits = |gid: &Ipv6Addr| match which {
            0 => true,
            1 => gid.to_ipv4_mapped().is_some(),
            _ => gid.to_ipv4_mapped().is_none() && !gid.is_unicast_link_local(),
        };
        let found = self.gids.iter().find(|(_, gid)| fits(gid));
        found.map(|(index, _)| *index).ok_or_else(|| {
            Failure::new(format!(
                "{} has no GID of kind {which}: {:?}",
                self.device, self.gids
            ))
        })
    }
}

/// Whether a process listens on the port of the kernel's connection manager.
pub fn kernel_listens_cm(port: u16) -> bool {
    let mut command = Command::new("rdma");
    let shown = command
        .args(["resource", "show", "cm_id"])
        .env("PATH", path_with_sbin())
        .output();
    let listens = |line: &str| {
        let mut words = line.split_whitespace();
        line.contains("state LISTEN") && words.any(|word| word.ends_with(&format!(":{port}")))
    };
    shown.is_ok_and(|shown| String::from_utf8_lossy(&shown.stdout).lines().any(listens))
}

/// Two hosts, until this value is dropped.
#[derive(Debug)]
pub struct Hosts {
    pub server: Host,
    pub client: Host,
    pub namespaces: Vec<Namespace>,
}

impl Testbed {
    /// Sets up the hosts of this testbed, in the namespaces of the case.
    pub fn make(self, cx: &Context) -> Result<Hosts, Failure> {
        let (mut server, mut client, namespaces) = match self {
            Testbed::Loopback => same(Host::on_uroce(cx, "127.0.0.1", "uroce0=lo", "lo")),
            Testbed::Udp => same(Host {
                local: Some("0"),
                ..Host::on_uroce(cx, "127.0.0.1", "uroce0=lo", "lo")
            }),
            Testbed::Packets => same(Host {
                local: Some("packets"),
                ..Host::on_uroce(cx, "127.0.0.1", "uroce0=lo", "lo")
            }),
            Testbed::Container => same(Host::on_uroce(cx, "127.0.0.1", "1", "lo")),
            Testbed::Veth => veth(cx)?,
        };
        server.read_gids(cx)?;
        client.read_gids(cx)?;
        Ok(Hosts {
            server,
            client,
            namespaces,
        })
    }
}

fn same(host: Host) -> (Host, Host, Vec<Namespace>) {
    (host.clone(), host, Vec::new())
}

/// The server is in the network namespace of the case, the client in another. With jumbo frames, the port's
/// MTU is 4096. An address in duplicate address detection is not yet usable.
fn veth(cx: &Context) -> Result<(Host, Host, Vec<Namespace>), Failure> {
    let other = Namespace::new()?;
    sh(&format!(
        "ip link add ve1 type veth peer name ve2 netns {}",
        other.id()
    ))?;
    let host = |n: u32, namespace| Host {
        namespace,
        address6: format!("fd07::{n}"),
        ..Host::on_uroce(
            cx,
            &format!("10.9.7.{n}"),
            &format!("uroce0=ve{n}"),
            &format!("ve{n}"),
        )
    };
    let (server, client) = (host(1, None), host(2, Some(other.id())));
    for (n, end) in [(1, &server), (2, &client)] {
        end.sh(&format!(
            "echo 0 >/proc/sys/net/ipv6/conf/ve{n}/accept_dad
             ip addr add 10.9.7.{n}/24 dev ve{n}
             ip -6 addr add fd07::{n}/64 dev ve{n} nodad
             ip link set ve{n} mtu 9000 up"
        ))?;
    }
    for end in [&server, &client] {
        let up = || {
            end.sh("ip -o link show type veth | grep -q \"state UP\"")
                .is_ok()
        };
        ensure(
            wait_until(Duration::from_secs(10), up),
            "the veth pair does not come up",
        )?;
    }
    Ok((server, client, vec![other]))
}

/// A network namespace with `lo` up. It exists as long as a process runs in it.
#[derive(Debug)]
pub struct Namespace(Child);

impl Namespace {
    pub fn new() -> Result<Self, Failure> {
        let script = "ip link set lo up && echo up && exec sleep infinity";
        let mut command = Command::new("unshare");
        command
            .args(["-n", "--", "sh", "-c", script])
            .env("PATH", path_with_sbin());
        die_with_parent(command.stdin(Stdio::null()).stdout(Stdio::piped()));
        let mut keeper = command.spawn()?;
        let mut line = String::new();
        if let Some(out) = keeper.stdout.take() {
            BufReader::new(out).read_line(&mut line)?;
        }
        let namespace = Self(keeper);
        ensure(line == "up\n", "cannot create a network namespace")?;
        Ok(namespace)
    }

    pub fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        signal(self.0.id() as i32, libc::SIGKILL);
        let _ = self.0.wait();
    }
}
