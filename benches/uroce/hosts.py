"""Hosts on which test programs run: each has an address, a network namespace, a device and a library."""
import contextlib
import functools
import ipaddress
import os
import re
import subprocess
import time


class Host:
    """One end of a connection. `namespace` is the ID of a process in its network namespace, or None for the
    current one; `config` is the value of IBV_UROCE, or None for a kernel device; `libdir` is the directory of
    libibverbs, or None for the system's."""

    def __init__(self, device, address, config=None, libdir=None, namespace=None):
        self.device, self.address = device, address
        self.config, self.libdir, self.namespace = config, libdir, namespace

    def command(self, argv):
        """The command line that runs argv on this host."""
        return ["nsenter", "-t", str(self.namespace), "-n", "--", *argv] if self.namespace else list(argv)

    def environment(self, **more):
        env = {k: v for k, v in os.environ.items() if not k.startswith(("IBV_", "RDMAV_", "LD_", "VERBS_"))}
        env["PATH"] += ":/usr/sbin:/sbin"
        env["LC_ALL"] = "C.UTF-8"
        if self.config:
            env["IBV_UROCE"] = self.config
        if self.libdir:
            env["LD_LIBRARY_PATH"] = self.libdir
        return env | more

    def run(self, *argv, **more):
        """Runs a short command; returns its output."""
        return subprocess.run(
            self.command(argv), env=self.environment(**more), stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True, timeout=30,
        ).stdout  # fmt: skip

    @contextlib.contextmanager
    def with_mtu(self, mtu):
        """Gives the interface another MTU for a while; None leaves it alone."""
        if mtu:
            self.run("ip", "link", "set", self.dev, "mtu", str(mtu))
        yield
        if mtu:
            self.run("ip", "link", "set", self.dev, "mtu", "9000")

    def listens(self, port):
        """Whether a TCP server on this host listens on the port."""
        entry = re.compile(rf":{port:04X} [0-9A-F]+:0000 0A ")
        for version in ("", "6"):
            with open(f"/proc/{self.namespace or 'self'}/net/tcp{version}") as table:
                if entry.search(table.read()):
                    return True
        return False

    @functools.cached_property
    def gids(self):
        """The GID table, by index, as ibv_devinfo prints it."""
        shown = self.run("ibv_devinfo", "-d", self.device, "-v")
        found = re.findall(r"GID\[\s*(\d+)\]:\s*([0-9a-f:.]+)", shown)
        return {int(index): ipaddress.ip_address(gid) for index, gid in found}

    def gid_index(self, which):
        """The index of a GID: `which` is 1 for the IPv4 address, 2 for an IPv6 one, 0 for the first entry. In
        the tests of kernel rxe, from which the commands come, these numbers are the indices themselves."""
        for index, gid in self.gids.items():
            mapped = gid.ipv4_mapped
            if which == 0 or (which == 1 and mapped) or (which == 2 and not mapped and not gid.is_link_local):
                return index
        raise LookupError(f"{self.device} has no GID of kind {which}: {self.gids}")


class Namespace:
    """A network namespace with its loopback interface up. It exists as long as a process runs in it."""

    def __init__(self):
        self.keeper = subprocess.Popen(
            ["unshare", "-n", "--", "sh", "-c", "ip link set lo up && echo up && exec sleep infinity"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, env=TOOLS,
        )  # fmt: skip
        if self.keeper.stdout.readline() != "up\n":
            raise RuntimeError("cannot create a network namespace")

    @property
    def pid(self):
        return self.keeper.pid

    def run(self, script):
        command = ["nsenter", "-t", str(self.pid), "-n", "--", "sh", "-ec", script]
        subprocess.run(command, check=True, env=TOOLS)

    def end(self):
        self.keeper.kill()
        self.keeper.wait()


TOOLS = dict(os.environ, PATH=os.environ["PATH"] + ":/usr/sbin:/sbin")

# Jumbo frames: the port's MTU becomes 4096. An address still in duplicate detection is not usable yet.
END_OF_VETH = """
echo 0 >/proc/sys/net/ipv6/conf/{dev}/accept_dad
ip addr add 10.9.7.{n}/24 dev {dev}
ip -6 addr add fd07::{n}/64 dev {dev} nodad
ip link set {dev} mtu 9000 up
"""


# For RoCE packets only: the programs' TCP connections are not impaired.
NETEM = """
tc qdisc add dev {dev} root handle 1: prio bands 4
tc qdisc add dev {dev} parent 1:4 handle 40: netem limit 100000 {netem}
tc filter add dev {dev} parent 1: protocol ip u32 \
    match ip protocol 17 0xff match ip dport 4791 0xffff flowid 1:4
"""

KINDS = ("loopback", "container", "veth", "rxe-uroce", "uroce-rxe", "uroce-uroce", "rxe-rxe", "rxe-self")


def sh(script):
    subprocess.run(["sh", "-ec", script], check=True, env=TOOLS)


def rxe(name, dev, address):
    """Adds kernel rxe to an interface of the first network namespace, the only one in which it works."""
    sh(f"rdma link add {name} type rxe netdev {dev}")
    host = Host(name, address)
    deadline = time.monotonic() + 10
    # rxe fills its GID table a little later
    wanted = ipaddress.ip_address(address)
    while time.monotonic() < deadline and wanted not in [g.ipv4_mapped for g in host.gids.values()]:
        del host.gids
        time.sleep(0.2)
    return host


@contextlib.contextmanager
def make(kind, libdir, netem=None):
    """Creates two hosts of a kind: (server, client)."""
    if kind == "loopback":
        yield [Host("uroce0", "127.0.0.1", "uroce0=lo", libdir)] * 2
        return
    if kind == "rxe-self":
        yield [Host("rxe0", "10.9.9.1")] * 2
        return
    with contextlib.ExitStack() as ending:

        def namespace():
            space = Namespace()
            ending.callback(space.end)
            return space

        if kind == "container":
            yield [Host("uroce0", "127.0.0.1", "1", libdir, namespace().pid)] * 2
            return
        ends = ("uroce", "uroce") if kind == "veth" else kind.split("-")
        spaces = [namespace() if end == "uroce" else None for end in ends]
        runs = [space.run if space else sh for space in spaces]
        links = [f"{f'netns {space.pid}' if space else ''}" for space in spaces]
        sh(f"ip link add ve1 {links[0]} type veth peer name ve2 {links[1]}")
        if None in spaces:
            ending.callback(sh, f"ip link delete ve{spaces.index(None) + 1}")
        result = []
        for n, (space, run) in enumerate(zip(spaces, runs), 1):
            dev, address = f"ve{n}", f"10.9.7.{n}"
            run(END_OF_VETH.format(dev=dev, n=n))
            if netem:
                run(NETEM.format(dev=dev, netem=netem))
            if space:
                result.append(Host("uroce0", address, f"uroce0={dev}", libdir, space.pid))
            else:
                result.append(rxe(f"rxv{n}", dev, address))
                ending.callback(sh, f"rdma link delete rxv{n}")
            result[-1].dev = dev
        for run in runs:
            run(
                "i=0; until ip -o link show type veth | grep -q 'state UP' || [ $i = 100 ]; do"
                " i=$((i + 1)); sleep 0.1; done"
            )
        if spaces == [None, None]:
            sh(ONE_MACHINE)
        yield result


# Two interfaces of one machine, connected by a veth pair. Packets to the machine's own addresses must pass
# through it, because kernel rxe requires a route through its interface.
ONE_MACHINE = """
for pref in 10 20; do while ip rule del pref $pref 2>/dev/null; do :; done; done
ip rule add pref 10 iif ve1 lookup local
ip rule add pref 10 iif ve2 lookup local
ip rule add pref 20 oif ve1 lookup 101
ip rule add pref 20 oif ve2 lookup 102
ip route add 10.9.7.2 dev ve1 src 10.9.7.1 table 101
ip route add 10.9.7.1 dev ve2 src 10.9.7.2 table 102
ip rule add pref 100 lookup local 2>/dev/null || true
ip rule del pref 0 lookup local 2>/dev/null || true
for dev in ve1 ve2; do
    echo 1 >/proc/sys/net/ipv4/conf/$dev/accept_local
    echo 0 >/proc/sys/net/ipv4/conf/$dev/rp_filter
done
echo 0 >/proc/sys/net/ipv4/conf/all/rp_filter
"""


def lost(*hosts):
    """The statistics of netem, as tc prints them."""
    shown = {}
    for host in hosts:
        statistics = host.run("tc", "-s", "qdisc", "show", "dev", host.dev)
        for line in re.findall(r"qdisc netem.*\n (Sent.*)", statistics):
            shown[host.namespace, host.dev] = f"netem at {host.device}: {line}"
    return "\n".join(shown.values())
