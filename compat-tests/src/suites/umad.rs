//! Management datagrams on uroce: `/dev/infiniband/umadN` by libibumad (c/umad/umad.c), and the programs of
//! infiniband-diags, which know nothing of libibverbs.

use crate::case::{Case, Tier};
use crate::context::Context;
use crate::process::Ended;
use crate::sandbox::Sandbox;
use crate::suites::lab::program;
use crate::verdict::{Details, Failure, Verdict, contains, ensure};

/// Two nodes of one subnet, with LIDs 1 and 2.
const FIRST: &str = "ib0=127.0.0.1,profile=connectx-ib";
const SECOND: &str = "ib1=127.0.0.2,profile=connectx-ib";

/// `wait_for PATTERN FILE`: until a line of the file has the pattern. `start` is for commands in the
/// background, whose process ID is then the program's.
const SHELL: &str = r#"
wait_for() { for _ in {1..300}; do grep -q "$1" "$2" && return; sleep 0.1; done; }
node() { IBV_UROCE="$1,profile=connectx-ib" "${@:2}"; }
start() { IBV_UROCE="$1,profile=connectx-ib" exec "${@:2}"; }
"#;

/// Checks of c/umad/umad.c: all, and those of a port without queue pair 0.
const CHECKS: (usize, usize) = (20, 19);

/// A name, the command of a program on the first node, and what it prints.
type Tool = (&'static str, &'static str, &'static [&'static str]);

const TOOLS: &[Tool] = &[
    (
        "ibstat",
        "ibstat",
        &["Base lid: 1", "State: Active", "Rate: 200"],
    ),
    ("ibstat-p", "ibstat -p", &["0x00005efe7f000001\n"]),
    (
        "ibstatus",
        "ibstatus",
        &["base lid:\t 0x1\n", "rate:\t\t 200 Gb/sec (4X HDR)"],
    ),
    (
        "ibaddr",
        "ibaddr",
        &["GID fe80::5efe:7f00:1 LID start 0x1 end 0x1"],
    ),
    (
        "nodeinfo",
        "smpquery nodeinfo 1",
        &["DevId:...........................0x101b"],
    ),
    (
        "nodeinfo-route",
        "smpquery -D nodeinfo 0",
        &["NumPorts:........................1"],
    ),
    ("nodedesc", "smpquery nodedesc 1", &["ib0\n"]),
    (
        "portinfo",
        "smpquery portinfo 1",
        &[
            "LinkState:.......................Active",
            "NeighborMTU:.....................4096",
        ],
    ),
    (
        "pkeys",
        "smpquery pkeys 1",
        &["   0: 0xffff 0x0000", "128 pkeys capacity"],
    ),
    ("sminfo", "sminfo", &["sm lid 1", "SMINFO_MASTER"]),
    (
        "perfquery",
        "perfquery",
        &["# Port counters: Lid 1 port 1", "PortXmitWait:"],
    ),
    ("perfquery-x", "perfquery -x 1 1", &["PortUnicastRcvPkts:"]),
    (
        "path",
        "saquery -p --dgid fe80::5efe:7f00:2",
        &["dlid....................2"],
    ),
    ("nodes", "saquery NR", &["NodeDescription.........ib0"]),
    ("ibtracert", "ibtracert 1 1", &["To ca", "lid 1-1 \"ib0\""]),
];

pub fn cases() -> Vec<Case> {
    let mut cases = vec![
        case("calls-infiniband", |cx| calls(cx, FIRST, CHECKS.0)).programs(&["umad"]),
        case("calls-ethernet", |cx| {
            calls(cx, "ib0=127.0.0.1,profile=connectx-roce", CHECKS.1)
        })
        .programs(&["umad"]),
        case("ibping", ibping),
        case("counters", counters),
        case("refused", refused),
        case("multicast", multicast),
    ];
    for tool in TOOLS {
        cases.push(case(&format!("tool/{}", tool.0), |cx| run_tool(cx, tool)));
    }
    cases
}

fn case(name: &str, run: impl Fn(&Context) -> Verdict + Send + Sync + 'static) -> Case {
    Case::new(format!("uroce/umad/{name}"), run)
        .sandbox(Sandbox::Namespace)
        .tier(Tier::Check)
        .limit(60)
}

fn needs_tools(cx: &Context) -> Verdict {
    match cx.program(["ibstat", "-V"]).run() {
        Ok(_) => Ok(()),
        Err(_) => Err(Failure::skip("ibstat is not installed: run make deps")),
    }
}

fn calls(cx: &Context, config: &str, checks: usize) -> Verdict {
    let argv = [cx.built("umad")?, "ib0".into()];
    cx.report_lines(&program(cx, argv, config).run()?, checks)
}

fn run_tool(cx: &Context, (_, command, wanted): &Tool) -> Verdict {
    needs_tools(cx)?;
    let ended = program(cx, command.split(' '), FIRST).succeed()?;
    contains(&ended.out, wanted)
}

fn run_script(cx: &Context, script: &str) -> Result<Ended, Failure> {
    let script = format!("{SHELL}{script}");
    let ended = program(cx, ["bash", "-c", &script], SECOND).succeed()?;
    Ok(ended)
}

/// A server on one node answers clients on both: by LID, by GUID, and a thousand times. Another server on its
/// node is refused, until it has ended.
fn ibping(cx: &Context) -> Verdict {
    needs_tools(cx)?;
    const SCRIPT: &str = r#"
        start ib0=127.0.0.1 ibping -S & server=$!
        wait_for uroce-mad.class.32 /proc/net/unix
        node ib0=127.0.0.1 ibping -c 1 -L 1
        node ib1=127.0.0.2 ibping -c 1 -G 0x00005efe7f000001
        node ib1=127.0.0.2 ibping -f -c 1000 -L 1
        node ib0=127.0.0.1 ibping -S 2>&1 && echo "two servers"
        kill -9 $server
        start ib0=127.0.0.1 ibping -S & server=$!
        wait_for uroce-mad.class.32 /proc/net/unix
        node ib1=127.0.0.2 ibping -c 1 -L 1
        kill $server; true"#;
    let ended = run_script(cx, SCRIPT)?;
    let answered = ended.out.matches("1 received, 0% packet loss").count();
    ensure(answered == 3, format!("{answered} of 3")).with(&ended.out)?;
    contains(
        &ended.out,
        &["1000 received, 0% packet loss", "can't serve class 50"],
    )?;
    ensure(
        !ended.out.contains("two servers"),
        "two servers of one class",
    )
}

/// perfquery on another node sees the packets of a program, and clears its counters.
fn counters(cx: &Context) -> Verdict {
    needs_tools(cx)?;
    const SCRIPT: &str = r#"
        export IBV_UROCE_LOCAL=0
        received() { node ib1=127.0.0.2 perfquery -x "$@" 1 1 | sed -n 's/^PortRcvPkts:\.*//p'; }
        start ib0=127.0.0.1 ib_write_bw -s 65536 -n 100000 -p 4000 >/dev/null & server=$!
        wait_for ' 00000000:0FA0 .* 0A ' /proc/net/tcp
        echo "before $(received)"
        start ib3=127.0.0.4 ib_write_bw -s 65536 -n 100000 -p 4000 127.0.0.1 >/dev/null & client=$!
        for _ in {1..100}; do count=$(received); [ "${count:-0}" -gt 1000 ] && break; sleep 0.05; done
        echo "during $count"
        kill -STOP $client
        sleep 0.2
        echo "stopped $(received)"
        received -R >/dev/null
        echo "cleared $(received)"
        kill -9 $client $server; true"#;
    let ended = run_script(cx, SCRIPT)?;
    let count = |when: &str| {
        let line = ended.out.lines().find_map(|line| line.strip_prefix(when));
        line.and_then(|count| count.trim().parse::<u64>().ok())
    };
    let counts = ["before", "during", "stopped", "cleared"].map(count);
    let right = matches!(counts, [Some(0), Some(during), Some(stopped), Some(0)]
        if during > 1000 && stopped >= during);
    ensure(right, "wrong counts").with(&ended.out)
}

/// perftest joins a group at the subnet administration and addresses it by its GID; mckey gets the group from
/// librdmacm. Both receive on another node.
fn multicast(cx: &Context) -> Verdict {
    needs_tools(cx)?;
    const SCRIPT: &str = r#"
        for local in 1 0; do
            export IBV_UROCE_LOCAL=$local
            start ib0=127.0.0.1 ib_send_bw -c UD -g -n 100 -p 4000 >receiver 2>&1 & receiver=$!
            wait_for ' 00000000:0FA0 .* 0A ' /proc/net/tcp
            node ib1=127.0.0.2 ib_send_bw -c UD -g -n 100 -p 4000 127.0.0.1
            wait $receiver && echo "received $local"
        done
        start ib0=127.0.0.1 mckey -m 239.9.9.9 -b 127.0.0.1 -C 4 >receiver 2>&1 & receiver=$!
        wait_for 090909EF /proc/net/igmp
        node ib1=127.0.0.2 mckey -m 239.9.9.9 -b 127.0.0.2 -s -C 200
        wait $receiver && echo "received by mckey""#;
    let ended = run_script(cx, SCRIPT)?;
    contains(
        &ended.out,
        &[
            "MGID: 255:01", "received 1\n", "received 0\n", "received by mckey",
        ],
    )
}

/// A request to LID 9, which no port has, times out. On Ethernet there is no queue pair 0.
fn refused(cx: &Context) -> Verdict {
    needs_tools(cx)?;
    let ended = program(cx, ["smpquery", "-t", "100", "nodeinfo", "9"], FIRST).run()?;
    ensure(!ended.ok(), "there is no such node")?;
    contains(&ended.err, &["dport (Lid 9)"])?;
    let ended = program(cx, ["perfquery"], "r=127.0.0.1,profile=connectx-roce").run()?;
    ensure(!ended.ok(), "QP 0 on Ethernet")?;
    contains(&ended.err, &["client_register for mgmt 1 failed"])
}
