"""Where the programs of a test run: an address, a network namespace, a device, a library."""
import contextlib
import functools
import ipaddress
import os
import re
import subprocess
import time


class Host:
    """One end of a connection. `namespace` is the process id of somebody in its network namespace, or None for ours;
    `config` is what IBV_UROCE says, or None for a device of the kernel; `libdir` is where libibverbs is taken from,
    or None for the system's."""

    def __init__(self, device, address, config=None, libdir=None, namespace=None):
        self.device, self.address, self.config, self.libdir, self.namespace = device, address, config, libdir, namespace

    def command(self, argv):
        """The command as it is run on this host."""
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
        """What a short command writes."""
        return subprocess.run(
            self.command(argv), env=self.environment(**more), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL, text=True, timeout=30,
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
        """Does a TCP server of this host listen on the port?"""
        entry = re.compile(rf":{port:04X} [0-9A-F]+:0000 0A ")
        for version in ("", "6"):
            with open(f"/proc/{self.namespace or 'self'}/net/tcp{version}") as table:
                if entry.search(table.read()):
                    return True
        return False

    @functools.cached_property
    def gids(self):
        """The GID table, by index, as ibv_devinfo shows it."""
        shown = self.run("ibv_devinfo", "-d", self.device, "-v")
        return {int(i): ipaddress.ip_address(gid) for i, gid in re.findall(r"GID\[\s*(\d+)\]:\s*([0-9a-f:.]+)", shown)}

    def gid_index(self, which):
        """The index of a GID: 1 is that of the IPv4 address, 2 an IPv6 one, 0 the table's first. In the tests of
        kernel rxe, from which the commands are taken, these numbers are the indices."""
        for index, gid in self.gids.items():
            mapped = gid.ipv4_mapped
            if which == 0 or (which == 1 and mapped) or (which == 2 and not mapped and not gid.is_link_local):
                return index
        raise LookupError(f"{self.device} has no GID of kind {which}: {self.gids}")


class Namespace:
    """A network namespace that lives as long as a process in it, with its loopback interface up."""

    def __init__(self):
        self.keeper = subprocess.Popen(
            ["unshare", "-n", "--", "sh", "-c", "ip link set lo up && echo up && exec sleep infinity"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, env=TOOLS,
        )  # fmt: skip
        if self.keeper.stdout.readline() != "up\n":
            raise RuntimeError("cannot make a network namespace here")

    @property
    def pid(self):
        return self.keeper.pid

    def run(self, script):
        subprocess.run(["nsenter", "-t", str(self.pid), "-n", "--", "sh", "-ec", script], check=True, env=TOOLS)

    def end(self):
        self.keeper.kill()
        self.keeper.wait()


TOOLS = dict(os.environ, PATH=os.environ["PATH"] + ":/usr/sbin:/sbin")

# Jumbo frames: the port's MTU becomes 4096. An address still in duplicate detection is not usable yet.
END_OF_CABLE = """
echo 0 >/proc/sys/net/ipv6/conf/{dev}/accept_dad
ip addr add 10.9.7.{n}/24 dev {dev}
ip -6 addr add fd07::{n}/64 dev {dev} nodad
ip link set {dev} mtu 9000 up
"""


# RoCE packets only: the programs' TCP connections have nothing to do with it.
NETEM = """
tc qdisc add dev {dev} root handle 1: prio bands 4
tc qdisc add dev {dev} parent 1:4 handle 40: netem limit 100000 {netem}
tc filter add dev {dev} parent 1: protocol ip u32 match ip protocol 17 0xff match ip dport 4791 0xffff flowid 1:4
"""

KINDS = ("loopback", "container", "veth", "rxe-uroce", "uroce-rxe", "uroce-uroce", "rxe-rxe", "rxe-self")


def sh(script):
    subprocess.run(["sh", "-ec", script], check=True, env=TOOLS)


def rxe(name, dev, address):
    """Puts kernel rxe on an interface (of the first network namespace: it is in no other)."""
    sh(f"rdma link add {name} type rxe netdev {dev}")
    host = Host(name, address)
    deadline = time.monotonic() + 10
    # the GID table is filled a little later
    while time.monotonic() < deadline and ipaddress.ip_address(address) not in [g.ipv4_mapped for g in host.gids.values()]:
        del host.gids
        time.sleep(0.2)
    return host


@contextlib.contextmanager
def make(kind, libdir, netem=None):
    """Two hosts of a kind, (server, client)."""
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
            run(END_OF_CABLE.format(dev=dev, n=n))
            if netem:
                run(NETEM.format(dev=dev, netem=netem))
            if space:
                result.append(Host("uroce0", address, f"uroce0={dev}", libdir, space.pid))
            else:
                result.append(rxe(f"rxv{n}", dev, address))
                ending.callback(sh, f"rdma link delete rxv{n}")
            result[-1].dev = dev
        for run in runs:
            run("i=0; until ip -o link show type veth | grep -q 'state UP' || [ $i = 100 ]; do i=$((i + 1)); sleep 0.1; done")
        if spaces == [None, None]:
            sh(ONE_MACHINE)
        yield result


# Two interfaces of one machine, with a cable between them that the packets to its own addresses really go through, as kernel
# rxe asks for a route that leaves through its interface.
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
    """What netem did, as tc tells it."""
    shown = {}
    for host in hosts:
        for line in re.findall(r"qdisc netem.*\n (Sent.*)", host.run("tc", "-s", "qdisc", "show", "dev", host.dev)):
            shown[host.namespace, host.dev] = f"netem at {host.device}: {line}"
    return "\n".join(shown.values())
