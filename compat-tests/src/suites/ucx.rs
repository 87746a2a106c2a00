//! UCX's data, byte by byte, which ucx_perftest does not check: by each interface of UCP, on uroce, between
//! two network namespaces and between two processes of one host (c/ucx/transfers.c).

use std::time::Duration;

use crate::case::{Case, Tier};
use crate::context::Context;
use crate::process::{Exit, Program, last_lines, succeeded, wait_until};
use crate::sandbox::Sandbox;
use crate::testbed::{Host, Hosts, Testbed};
use crate::verdict::{Details, Failure, Verdict, ensure};

/// UCX's transports: only those of RDMA, so that nothing else can carry a message.
pub(super) const TRANSPORTS: [(&str, &str); 3] = [
    ("rc", "rc_v,self"),
    ("ud", "ud_v,self"),
    ("both", "rc_v,ud_v,self"),
];
/// The testbeds, each with the tier of its short cases.
const TESTBEDS: [(&str, Testbed, Tier); 4] = [
    ("veth", Testbed::Veth, Tier::Test),
    ("loopback", Testbed::Loopback, Tier::Test),
    ("udp", Testbed::Udp, Tier::All),
    ("packets", Testbed::Packets, Tier::All),
];
/// Bytes: around the borders between UCX's protocols, and the largest.
pub(super) const SHORT: [usize; 9] = [8, 31, 256, 4096, 8193, 65_536, 300_001, 1 << 20, 16 << 20];
const PORT: &str = "20000";
/// The time limit on a busy host.
const LIMIT: Duration = Duration::from_secs(150);

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (place, testbed, of_short) in TESTBEDS {
        for (transport, variable) in TRANSPORTS {
            for (which, sizes, tier) in [
                ("", SHORT.to_vec(), of_short),
                ("-all-sizes", all_sizes(), Tier::All),
            ] {
                let name = format!("uroce/ucx-data/{place}-{transport}{which}");
                let run = move |cx: &Context| transfers(cx, testbed, variable, &sizes);
                let case = Case::new(name, run).sandbox(Sandbox::Namespace).tier(tier);
                cases.push(case.limit(LIMIT.as_secs() + 60).cpu(200).memory(500));
            }
        }
    }
    cases
}

/// Each power of 2 from 8 bytes to 16 MiB, with its neighbours.
fn all_sizes() -> Vec<usize> {
    let powers = (3..25).map(|power| 1_usize << power);
    powers.flat_map(|size| [size - 1, size, size + 1]).collect()
}

fn transfers(cx: &Context, testbed: Testbed, transports: &str, sizes: &[usize]) -> Verdict {
    let program = compile(cx)?;
    transfers_between(cx, &program, &testbed.make(cx)?, transports, sizes)
}

/// Runs the compiled program on both hosts.
pub(super) fn transfers_between(
    cx: &Context,
    program: &str,
    hosts: &Hosts,
    transports: &str,
    sizes: &[usize],
) -> Verdict {
    let start = |host: &Host, address: &str| -> Program {
        let words = [program, address, PORT].map(String::from);
        let words = words.into_iter().chain(sizes.iter().map(usize::to_string));
        host.on_host(cx.program(words).env("UCX_TLS", transports).merged())
    };
    let mut server = start(&hosts.server, "-").spawn()?;
    let ready = wait_until(LIMIT, || {
        hosts.server.listens(20_000) || !server.is_running()
    });
    ensure(ready, "the server does not listen")?;
    let client = start(&hosts.client, &hosts.server.address)
        .limit(LIMIT)
        .run()?;
    if !client.ok() {
        server.terminate();
    }
    let exit = server.wait(LIMIT)?;
    let output = server.output();
    let both = format!(
        "{}\n{}",
        last_lines(&client.out, 10),
        last_lines(&output, 10)
    );
    succeeded("the client", &client).with(&output)?;
    ensure(exit == Exit::Code(0), format!("the server: {exit}\n{both}"))?;
    // Ten of each size, and the atomics of both widths.
    let expected = format!("{} transfers, 0 bad\n", 10 * sizes.len() + 2 * 106 + 1);
    for out in [&client.out, &output] {
        ensure(
            out.ends_with(&expected),
            format!("not {expected:?}, but:\n{both}"),
        )?;
    }
    Ok(())
}

/// Compiles the program in the directory of the case. Returns its path.
pub(super) fn compile(cx: &Context) -> Result<String, Failure> {
    if !std::path::Path::new("/usr/include/ucp/api/ucp.h").exists() {
        return Err(Failure::skip(
            "libucx-dev is not installed: run scripts/install-deps uroce",
        ));
    }
    let source = cx.source("c/ucx/transfers.c").display().to_string();
    let program = cx.dir().join("transfers").display().to_string();
    let words = ["gcc", "-O1", "-Wall", "-Wextra", "-o", &program, &source];
    cx.program(words.into_iter().chain(["-lucp", "-lucs"]))
        .succeed()?;
    Ok(program)
}
