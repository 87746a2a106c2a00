//! A lab in one process: device profiles, and where devices are plugged in.
//!
//! `limits-*` asks a device of each profile what it has, and for more than that (c/lab/limits.c).
//! `infiniband/*` and `efa/*` run programs that know such devices. `topology/*` has a node with four NICs on
//! two NUMA nodes, below PCI switches, which hwloc, UCX, ibstat and Mooncake look at.

use crate::case::{Case, Tier};
use crate::context::{Context, Library};
use crate::process::{Ended, Program};
use crate::sandbox::Sandbox;
use crate::suites::dist;
use crate::verdict::{Details, Failure, Verdict, contains, ensure};

const PROFILES: [&str; 7] = [
    "uroce", "rxe", "connectx-roce", "connectx-ib", "irdma", "efa", "small",
];

/// Server and client run in one shell. `sleep` waits until the server listens.
const SHELL: &str = r#"
sleep() { for _ in {1..300}; do grep -q ' 0A ' /proc/net/tcp && return; command sleep 0.1; done; }
set -m
pair() { "$@" >server 2>&1 & sleep; "$@" 127.0.0.1; code=$?; kill %1 2>/dev/null; cat server; return $code; }
"#;

/// The node of the cases `topology/*`. Two NICs are below one switch.
const NODE: &str = r#"# A node with four NICs.
[[device]]
name = "mlx5_0"
address = "127.0.0.1"
profile = "connectx-ib"
numa = 0
pci = "0000:10:01.0/0000:11:00.0/0000:12:00.0/0000:13:00.0"

[[device]]
name = "mlx5_1"
address = "127.0.0.2"
profile = "connectx-ib"
numa = 0
pci = "0000:10:01.0/0000:11:00.0/0000:12:01.0/0000:14:00.0"

[[device]]
name = "mlx5_2"
address = "127.0.0.3"
profile = "connectx-roce"
speed = "400G"
numa = 1
pci = "0000:81:00.0"

[[device]]
name = "mlx5_3"
address = "127.0.0.4"
profile = "connectx-roce"
ports = 2
numa = 1
pci = "0000:82:00.0"
"#;

pub fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = PROFILES
        .into_iter()
        .map(|profile| {
            let run = move |cx: &Context| limits(cx, profile, "");
            case(&format!("limits-{profile}"), run).programs(&["limits"])
        })
        .collect();
    let small_mtu = |cx: &Context| limits(cx, "connectx-roce", ",mtu=1024");
    cases.push(case("limits-small-mtu", small_mtu).programs(&["limits"]));
    for profile in ["uroce", "connectx-roce", "rxe"] {
        let run = move |cx: &Context| {
            let config = format!("u=127.0.0.1,profile={profile}");
            let at_least = if profile == "rxe" { 1 } else { 12 };
            let program = program(cx, [cx.built("moderation")?], &config);
            cx.report_lines(&program.run()?, at_least)
        };
        cases.push(case(&format!("moderation-{profile}"), run).programs(&["moderation"]));
    }
    cases.push(case("bad-values", bad_values));
    cases.extend(pairs());
    cases.extend([
        case("topology/hwloc", hwloc),
        case("topology/ibstat", ibstat),
        case("topology/ucx", ucx).tier(Tier::Test),
        case("topology/files", files),
        case("topology/mooncake", mooncake)
            .tier(Tier::All)
            .before(|| dist::wheel::users().map(drop)),
    ]);
    cases
}

fn case(name: &str, run: impl Fn(&Context) -> Verdict + Send + Sync + 'static) -> Case {
    Case::new(format!("uroce/lab/{name}"), run)
        .sandbox(Sandbox::Namespace)
        .tier(Tier::Check)
        .limit(60)
}

/// A program that gets the library by LD_PRELOAD.
pub(super) fn program<S: Into<String>>(
    cx: &Context,
    argv: impl IntoIterator<Item = S>,
    config: &str,
) -> Program {
    let program = cx.program(argv).env("IBV_UROCE", config);
    program.env("LD_PRELOAD", cx.library(Library::Ours))
}

fn limits(cx: &Context, profile: &str, values: &str) -> Verdict {
    let config = format!("u=127.0.0.1,profile={profile}{values}");
    let argv = [cx.built("limits")?, profile.into()];
    cx.report_lines(&program(cx, argv, &config).run()?, 36)
}

/// Checks that wrong values are reported, and the others are used.
fn bad_values(cx: &Context) -> Verdict {
    let config =
        "u=127.0.0.1,profile=mlx9,max_sge=3,mtu=1500,speed=3G,pci=81:00.0,max_qp=2000000,numa=x";
    let ended = program(cx, ["ibv_devinfo", "-v"], config).succeed()?;
    let warnings = [
        "'profile=mlx9': there are these profiles: uroce, rxe, connectx-roce, connectx-ib, irdma",
        "'mtu=1500': an MTU is 256, 512, 1024, 2048 or 4096",
        "'speed=3G': there are these speeds: 2.5G, 10G",
        "'pci=81:00.0': that is no PCI address such as 0000:81:00.0",
        "'max_qp=2000000': max_qp is from 0 to 1048560",
        "'numa=x': that is no number",
    ];
    for warning in warnings {
        let line = format!("libibverbs: Warning: ignoring bad IBV_UROCE entry {warning}");
        contains(&ended.err, &[&line])?;
    }
    contains(&ended.out, &["max_sge:\t\t\t3\n"])?;
    let missing = program(cx, ["ibv_devinfo"], "@/nonexistent").run()?;
    let line = "ignoring bad IBV_UROCE entry '@/nonexistent': No such file or directory";
    contains(&missing.err, &[line])
}

/// Servers and clients: the name of the case, the profile, the command of both, and what its output has.
const PAIRS: [(&str, &str, &str, &str); 9] = [
    (
        "infiniband/rc-lid", "connectx-ib", "ibv_rc_pingpong -n 100", "GID ::\n",
    ),
    (
        "infiniband/rc-gid", "connectx-ib", "ibv_rc_pingpong -n 100 -g 0",
        "GID fe80::5efe:7f00:1\n",
    ),
    (
        "infiniband/ud", "connectx-ib", "ibv_ud_pingpong -n 100", "LID 0x0001",
    ),
    (
        "infiniband/send_lat", "connectx-ib", "ib_send_lat -n 100 -d u", "Link type       : IB\n",
    ),
    (
        "infiniband/send_bw-ud", "connectx-ib", "ib_send_bw -n 100 -d u -c UD",
        "Link type       : IB\n",
    ),
    (
        "roce-v1/send_lat", "connectx-roce", "ib_send_lat -n 100 -x 0 -d u",
        "GID index       : 0\n",
    ),
    (
        "irdma/write_lat",
        "irdma",
        "ib_write_lat -n 100 -I 100 -d u",
        "Max inline data : 100[B]",
    ),
    (
        "efa/ud",
        "efa",
        "ib_send_lat -n 100 -d u -c UD -x 0 -I 0",
        "Connection type : UD",
    ),
    (
        "small/rc",
        "small",
        "ibv_rc_pingpong -g 1 -r 40 -n 100",
        "100 iters",
    ),
];

/// Programs that a device of the profile refuses something: their exit code is not 0, and they say this.
const REFUSED: [(&str, &str, &str, &str); 4] = [
    (
        "irdma/inline", "irdma", "ib_write_lat -n 100 -d u", "Failed to create QP",
    ),
    (
        "irdma/uc", "irdma", "ibv_uc_pingpong -g 1 -n 100", "Couldn't create QP",
    ),
    (
        "efa/rc", "efa", "ibv_rc_pingpong -g 0 -n 100", "Couldn't create QP",
    ),
    (
        "small/srq",
        "small",
        "ibv_srq_pingpong -g 1 -r 20 -n 100",
        "Couldn't create SRQ",
    ),
];

fn pairs() -> impl Iterator<Item = Case> {
    let works = PAIRS.into_iter().map(|pair| (pair, true));
    let refused = REFUSED.into_iter().map(|pair| (pair, false));
    works
        .chain(refused)
        .map(|((name, profile, command, wanted), works)| {
            let run = move |cx: &Context| {
                // What is refused is refused to the server, too: that of rdma-core's examples ends before it
                // listens.
                let listens = works || command.starts_with("ib_");
                let script = match listens {
                    true => format!("{SHELL}pair {command} || echo refused"),
                    false => format!("{command} || echo refused"),
                };
                let config = format!("u=127.0.0.1,profile={profile}");
                let ended = program(cx, ["bash", "-c", script.as_str()], &config).run()?;
                if works {
                    ensure(!ended.out.contains("refused"), command).with(&ended.out)?;
                } else {
                    contains(&ended.out, &["refused"])?;
                }
                let all = format!("{}{}", ended.out, ended.err);
                contains(&all, &[wanted])
            };
            case(name, run).cpu(200)
        })
}

fn on_node<S: Into<String>>(
    cx: &Context,
    argv: impl IntoIterator<Item = S>,
) -> Result<Ended, Failure> {
    let file = cx.write("node.toml", NODE)?;
    let program = program(cx, argv, &format!("@{}", file.display()));
    let ended = program.succeed()?;
    Ok(ended)
}

fn needs(cx: &Context, program: &str, argument: &str) -> Verdict {
    match cx.program([program, argument]).run() {
        Ok(_) => Ok(()),
        Err(_) => Err(Failure::skip(format!(
            "{program} is not installed: run make deps"
        ))),
    }
}

/// hwloc finds bridges and functions by their configuration space, and devices by the links of sysfs.
fn hwloc(cx: &Context) -> Verdict {
    needs(cx, "hwloc-ls", "--version")?;
    let ended = on_node(cx, ["hwloc-ls", "--whole-io", "--no-caches", "-v"])?;
    // Each device is behind its function, and deeper in the tree by two columns.
    let lines: Vec<&str> = ended.out.lines().collect();
    let depth = |line: &str| line.len() - line.trim_start().len();
    for (device, function, buses) in [
        (
            "mlx5_0",
            "13:00.0 id=15b3:101b class=0207(InfiniBand)",
            "buses=0000:[13-13]",
        ),
        (
            "mlx5_1",
            "14:00.0 id=15b3:101b class=0207(InfiniBand)",
            "buses=0000:[14-14]",
        ),
        (
            "mlx5_2",
            "81:00.0 id=15b3:1017 class=0200(Ethernet) link=63.02GB/s",
            "buses=0000:[81-81]",
        ),
        (
            "mlx5_3",
            "82:00.0 id=15b3:1017 class=0200(Ethernet) link=31.51GB/s",
            "buses=0000:[82-82]",
        ),
    ] {
        let quoted = format!("\"{device}\"");
        let at = lines.iter().position(|line| line.contains(&quoted));
        let above = at.filter(|at| *at > 1).map(|at| &lines[at - 2..=at]);
        let fits = above.is_some_and(|of| {
            of[0].contains(buses) && of[1].contains(function) && depth(of[1]) + 2 == depth(of[2])
        });
        ensure(fits, format!("{device} is not where it should be")).with(&ended.out)?;
    }
    // The switch: one bridge above both of its ports.
    contains(&ended.out, &["busid=0000:11:00.0", "buses=0000:[12-14]"])
}

fn ibstat(cx: &Context) -> Verdict {
    needs(cx, "ibstat", "-V")?;
    let ended = on_node(cx, ["ibstat"])?;
    contains(
        &ended.out,
        &[
            "CA type: MT4123",
            "Firmware version: 20.29.1016",
            "Rate: 200",
            "Base lid: 2",
            "SM lid: 1",
            "Link layer: InfiniBand",
            "CA 'mlx5_2'\n\tCA type: MT4119",
            "Rate: 400",
            "Number of ports: 2",
            "State: Down",
            "Port GUID: 0x00005efe7f000002",
        ],
    )
}

/// Mooncake prefers the NICs of the memory's NUMA node, by the discovery code of its transfer engine.
fn mooncake(cx: &Context) -> Verdict {
    const MODULE: &str = "mooncake.transfer_engine_topology_dump";
    let packages = dist::wheel::users()?;
    let file = cx.write("node.toml", NODE)?;
    let config = format!("@{}", file.display());
    let program = program(cx, ["python3", "-m", MODULE], &config).env("PYTHONPATH", packages);
    let ended = program.succeed()?;
    let words: Vec<&str> = ended.out.split_whitespace().collect();
    let preferred = r#""cpu:0" : [ [ "mlx5_0", "mlx5_1" ], [ "mlx5_2", "mlx5_3" ] ]"#;
    ensure(words.join(" ").contains(preferred), "another order").with(&ended.out)
}

/// UCX estimates bandwidths from the port's speed, and knows which function a device is.
fn ucx(cx: &Context) -> Verdict {
    needs(cx, "ucx_info", "-v")?;
    let ended = on_node(cx, ["ucx_info", "-d"])?;
    let devices =
        ["mlx5_0:1", "mlx5_1:1", "mlx5_2:1", "mlx5_3:1"].map(|name| format!("Device: {name}"));
    contains(&ended.out, &devices.each_ref().map(String::as_str))?;
    contains(&ended.out, &["System device: mlx5_2 (2)"])?;
    let bandwidth = |device: &str| {
        let mut lines = ended.out.lines();
        lines.find(|line| line.ends_with(&format!("Device: {device}")))?;
        let line = lines.find(|line| line.contains("bandwidth:"))?;
        let number = line.split("bandwidth:").nth(1)?.split('/').next()?.trim();
        number.parse::<f64>().ok()
    };
    let [hdr, ndr, edr] =
        ["mlx5_0:1", "mlx5_2:1", "mlx5_3:1"].map(|name| bandwidth(name).unwrap_or(0.0));
    let in_order = edr > 11_000.0 && hdr > 1.8 * edr && ndr > 1.8 * hdr;
    ensure(
        in_order,
        format!("bandwidths of {edr}, {hdr} and {ndr} MB/s"),
    )
    .with(&ended.out)
}

/// Checks the files that NCCL and Mooncake read: the path of the function, NUMA node, speeds,
/// class.
fn files(cx: &Context) -> Verdict {
    let script = "cd /sys/class/infiniband/mlx5_1 && realpath device && cd device &&\n\
        cat numa_node class vendor device max_link_speed max_link_width local_cpulist &&\n\
        cat ../class ../max_link_speed && ls infiniband && cat ../../../numa_node &&\n\
        cat /sys/class/infiniband/mlx5_3/ports/2/state /sys/class/infiniband/mlx5_1/ports/1/pkeys/127 &&\n\
        cat /sys/class/infiniband/mlx5_3/device/numa_node && head -c 4 config | od -An -tx1 &&\n\
        ls /sys/bus/pci/devices | grep -c '^0000:[18]'";
    let ended = on_node(cx, ["bash", "-c", script])?;
    let path = "/sys/devices/pci0000:10/0000:10:01.0/0000:11:00.0/0000:12:01.0/0000:14:00.0";
    let first = format!("{path}\n0\n0x020700\n0x15b3\n0x101b\n16.0 GT/s PCIe\n16\n");
    contains(&ended.out, &[first.as_str()])?;
    let last = "0x060400\n16.0 GT/s PCIe\nmlx5_1\n0\n1: DOWN\n0x0000\n1\n b3 15 1b 10\n10\n";
    contains(&ended.out, &[last])
}
