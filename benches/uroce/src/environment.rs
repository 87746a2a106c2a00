//! Where both processes run: on one host, on two that a veth pair connects, or on kernel devices.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use compat_tests::process::{clear_variables, die_with_parent, path_with_sbin, wait_until};
use compat_tests::sandbox::sh;
use compat_tests::testbed::{Host, Namespace};

use crate::peer::{Device, Peer, Tool};

/// How two hosts are connected, and by which devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// uroce, both processes at 127.0.0.1
    Loopback,
    /// uroce, between two network namespaces
    Veth,
    /// Soft-RoCE with itself: the device rxe0 of the virtual machine
    RxeSelf,
    /// Soft-RoCE over a veth pair, in the virtual machine
    RxeRxe,
}

impl Kind {
    pub fn title(self) -> &'static str {
        match self {
            Kind::Loopback => "one host",
            Kind::Veth => "two network namespaces, connected by a veth pair",
            Kind::RxeSelf => "kernel rxe, with itself",
            Kind::RxeRxe => "kernel rxe, over a veth pair",
        }
    }
}

/// Two hosts of a kind, until this value is dropped.
pub struct Environment {
    kind: Kind,
    server: Host,
    client: Host,
    gid_index: u32,
    _other: Option<Namespace>,
}

impl Environment {
    /// Makes the hosts in this network namespace, which must be the caller's own. `libdir` has our library.
    pub fn make(kind: Kind, libdir: &std::path::Path) -> Result<Self, String> {
        let uroce = |address: &str, interface: &str, namespace| {
            let mut host = Host::on_kernel("uroce0", address, interface);
            host.config = Some(format!("uroce0={interface}"));
            host.libdir = Some(libdir.into());
            host.namespace = namespace;
            host
        };
        let (server, client, other) = match kind {
            Kind::Loopback => {
                script("ip link set lo up")?;
                let host = uroce("127.0.0.1", "lo", None);
                (host.clone(), host, None)
            }
            Kind::Veth => {
                let other = Namespace::new().map_err(|why| why.to_string())?;
                let id = other.id();
                script(&format!(
                    "ip link add ve1 type veth peer name ve2 netns {id}"
                ))?;
                let ends = (
                    uroce("10.9.7.1", "ve1", None),
                    uroce("10.9.7.2", "ve2", Some(id)),
                );
                (ends.0, ends.1, Some(other))
            }
            Kind::RxeSelf => {
                let host = Host::on_kernel("rxe0", "10.9.9.1", "rd0");
                (host.clone(), host, None)
            }
            Kind::RxeRxe => {
                script("ip link add ve1 type veth peer name ve2")?;
                let host = |n: u32| {
                    Host::on_kernel(
                        &format!("rxv{n}"),
                        &format!("10.9.7.{n}"),
                        &format!("ve{n}"),
                    )
                };
                (host(1), host(2), None)
            }
        };
        if matches!(kind, Kind::Veth | Kind::RxeRxe) {
            connect([(1, &server), (2, &client)])?;
        }
        if kind == Kind::RxeRxe {
            script(TWO_HOSTS_IN_ONE)?;
        }
        let mut environment = Self {
            kind,
            server,
            client,
            gid_index: 0,
            _other: other,
        };
        environment.gid_index = environment.find_gid()?;
        Ok(environment)
    }

    /// Whether both processes share memory.
    pub fn on_one_host(&self) -> bool {
        self.kind == Kind::Loopback
    }

    pub fn is_uroce(&self) -> bool {
        matches!(self.kind, Kind::Loopback | Kind::Veth)
    }

    pub fn server_address(&self) -> &str {
        &self.server.address
    }

    /// The command's process on the server (`true`) or on the client, ready to be started.
    pub fn command(&self, server: bool, peer: &Peer, words: &[String]) -> Command {
        let host = if server { &self.server } else { &self.client };
        let mut all = in_namespace(host);
        if matches!(peer.tool, Tool::Ucx { .. }) && self.kind == Kind::Veth {
            // UCX looks for the interface in /sys, which shows those of the namespace that mounted it.
            let script = "mount -t sysfs sysfs /sys && exec \"$@\"";
            all.extend(["unshare", "--mount", "sh", "-c", script, "sh"].map(String::from));
        }
        all.extend(words.iter().cloned());
        let mut command = Command::new(&all[0]);
        command.args(&all[1..]);
        clear_variables(&mut command);
        command
            .env("LC_ALL", "C.UTF-8")
            .env("PATH", path_with_sbin());
        die_with_parent(&mut command);
        if peer.device != Device::None {
            with_device(&mut command, host);
        }
        match peer.device {
            Device::Udp => drop(command.env("IBV_UROCE_LOCAL", "0")),
            Device::Packets => drop(command.env("IBV_UROCE_LOCAL", "packets")),
            Device::Default | Device::None => {}
        }
        if let Tool::Fabric(provider) = peer.tool {
            // Others would be loaded, and take seconds to end.
            command.env("FI_PROVIDER", provider);
        }
        if let Tool::Ucx { transports, .. } = peer.tool {
            let device = match peer.device {
                Device::None => host.interface.clone(),
                _ => format!("{}:1", host.device),
            };
            command
                .env("UCX_TLS", transports)
                .env("UCX_WARN_UNUSED_ENV_VARS", "n");
            if transports != "posix" && transports != "posix,cma" {
                command.env("UCX_NET_DEVICES", device);
            }
        }
        command
    }

    /// The device's name on the server (`true`) or on the client.
    pub fn device(&self, server: bool) -> &str {
        if server {
            &self.server.device
        } else {
            &self.client.device
        }
    }

    pub fn gid_index(&self) -> u32 {
        self.gid_index
    }

    /// Waits until a server listens on the TCP port.
    pub fn await_server(&self, port: u16, mut alive: impl FnMut() -> bool) -> bool {
        let ready = || self.server.listens(port) || !alive();
        wait_until(Duration::from_secs(20), ready) && self.server.listens(port)
    }

    /// The index of the GID of the IPv4 address, which is the same at both ends. Soft-RoCE fills its table a
    /// little later.
    fn find_gid(&self) -> Result<u32, String> {
        let mut found = None;
        let find = || {
            let mut command = Command::new("ibv_devinfo");
            command.args(["-d", &self.server.device, "-v"]);
            clear_variables(&mut command);
            with_device(&mut command, &self.server);
            let shown = command
                .output()
                .map(|output| output.stdout)
                .unwrap_or_default();
            found = ipv4_gid(&String::from_utf8_lossy(&shown));
            found.is_some()
        };
        wait_until(Duration::from_secs(10), find);
        found.ok_or_else(|| format!("{} has no GID of an IPv4 address", self.server.device))
    }
}

/// The words in front of a command that runs in the host's network namespace.
fn in_namespace(host: &Host) -> Vec<String> {
    let enter = |id| {
        format!("nsenter -t {id} -n --")
            .split(' ')
            .map(String::from)
            .collect()
    };
    host.namespace.map(enter).unwrap_or_default()
}

impl Drop for Environment {
    fn drop(&mut self) {
        // Devices of other environments end with their network namespace.
        if self.kind == Kind::RxeRxe {
            let _ = sh("rdma link delete rxv1; rdma link delete rxv2; ip link delete ve1");
        }
    }
}

fn with_device(command: &mut Command, host: &Host) {
    if let Some(config) = &host.config {
        command.env("IBV_UROCE", config);
    }
    if let Some(libdir) = &host.libdir {
        command.env("LD_LIBRARY_PATH", libdir);
    }
}

/// The index of the first GID of an IPv4 address in what `ibv_devinfo -v` prints.
fn ipv4_gid(shown: &str) -> Option<u32> {
    let line = shown
        .lines()
        .find(|line| line.contains("GID[") && line.contains("::ffff:"))?;
    let (_, rest) = line.split_once('[')?;
    rest.split_once(']')?.0.trim().parse().ok()
}

fn script(text: &str) -> Result<(), String> {
    sh(text).map_err(|why| why.to_string())
}

/// Gives both ends of the veth pair their addresses, and on a kernel device's host the device. With jumbo
/// frames, the port's MTU is 4096.
fn connect(ends: [(u32, &Host); 2]) -> Result<(), String> {
    let run = |host: &Host, text: &str| host.sh(text).map_err(|why| why.to_string());
    for (n, host) in ends {
        run(
            host,
            &format!(
                "echo 0 >/proc/sys/net/ipv6/conf/ve{n}/accept_dad
                 ip addr add 10.9.7.{n}/24 dev ve{n}
                 ip link set ve{n} mtu 9000 up"
            ),
        )?;
    }
    for (n, host) in ends {
        let up = || {
            let mut ip = in_namespace(host);
            ip.extend("ip -o link show up type veth".split(' ').map(String::from));
            let output = Command::new(&ip[0])
                .args(&ip[1..])
                .env("PATH", path_with_sbin())
                .output();
            output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("state UP"))
        };
        if !wait_until(Duration::from_secs(10), up) {
            return Err("the veth pair does not come up".into());
        }
        if host.config.is_none() {
            run(
                host,
                &format!("rdma link add {} type rxe netdev ve{n}", host.device),
            )?;
        }
    }
    Ok(())
}

/// Packets to the machine's own addresses pass through the veth pair, because Soft-RoCE requires a route
/// through its interface.
const TWO_HOSTS_IN_ONE: &str = "
ip rule add pref 10 iif ve1 lookup local
ip rule add pref 10 iif ve2 lookup local
ip rule add pref 20 oif ve1 lookup 101
ip rule add pref 20 oif ve2 lookup 102
ip route add 10.9.7.2 dev ve1 src 10.9.7.1 table 101
ip route add 10.9.7.1 dev ve2 src 10.9.7.2 table 102
ip rule add pref 100 lookup local
ip rule del pref 0 lookup local
for dev in ve1 ve2; do
    echo 1 >/proc/sys/net/ipv4/conf/$dev/accept_local
    echo 0 >/proc/sys/net/ipv4/conf/$dev/rp_filter
done
echo 0 >/proc/sys/net/ipv4/conf/all/rp_filter
";

/// The directory of our library: `OUR_LIBDIR`, or that of cargo's release build.
pub fn libdir() -> Result<PathBuf, String> {
    let given = std::env::var_os("OUR_LIBDIR").map(PathBuf::from);
    let dir = given.unwrap_or_else(|| compat_tests::paths::target().join("release"));
    if dir.join("libibverbs.so.1").exists() {
        return Ok(dir);
    }
    Err(format!(
        "{} has no libibverbs.so.1: run make build",
        dir.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gid_of_an_ipv4_address() {
        let shown =
            "\t\t\tGID[  0]:\t\tfe80::1, RoCE v2\n\t\t\tGID[ 12]:\t\t::ffff:10.9.7.1, RoCE v2\n";
        assert_eq!(ipv4_gid(shown), Some(12));
        assert_eq!(ipv4_gid("GID[0]: fe80::1"), None);
    }
}
