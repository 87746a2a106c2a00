//! Debian 13's UCX (1.18) on uroce, in a root directory of that release: UCX finds the device, and all data
//! goes by RDMA, as the transports allow nothing else.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::case::{Case, Tier};
use crate::context::{Context, Library};
use crate::process::{Program, last_lines, succeeded};
use crate::roots::TRIXIE_UCX;
use crate::sandbox::{Sandbox, sh};
use crate::suites::ucx::{self, TRANSPORTS};
use crate::testbed::Testbed;
use crate::verdict::{Details, Failure, Verdict, contains, ensure};

/// Tests of ucx_perftest, the sizes of messages in bytes, and how many are sent.
const TESTS: [(&str, &[(&str, &str)]); 7] = [
    (
        "tag_lat",
        &[("8", "500"), ("65536", "50"), ("16777216", "3")],
    ),
    ("tag_bw", &[("8", "500"), ("1048576", "10")]),
    ("stream_lat", &[("8", "500"), ("65536", "50")]),
    ("ucp_am_lat", &[("8", "500"), ("65536", "50")]),
    ("ucp_put_lat", &[("8", "500"), ("65536", "50")]),
    ("ucp_get", &[("8", "500"), ("65536", "50")]),
    ("ucp_fadd", &[("8", "200")]),
];
/// The time limit on a busy host.
const LIMIT: Duration = Duration::from_secs(120);

pub fn cases() -> Vec<Case> {
    vec![
        Case::new("uroce/ucx-trixie", all)
            .before(|| TRIXIE_UCX.make())
            .sandbox(Sandbox::Root)
            .tier(Tier::All)
            .cpu(200)
            .memory(1500)
            .limit(3600)
            .estimate(200),
    ]
}

fn all(cx: &Context) -> Verdict {
    let root = enter(cx)?;
    let devices = in_root(cx, &root, &["ucx_info", "-d"]).run()?;
    cx.report("info", contains(&devices.out, &["Device: uroce0:1"]))?;
    for (transport, variable) in TRANSPORTS {
        for (test, sizes) in TESTS {
            for (size, count) in sizes {
                let name = format!("{transport}/{test}-{size}");
                if cx.selects(&format!("{}/{name}", cx.name)) {
                    cx.report(&name, perftest(cx, &root, variable, test, size, count))?;
                }
            }
        }
    }
    for (transport, variable) in TRANSPORTS {
        let name = format!("data-veth-{transport}");
        if cx.selects(&format!("{}/{name}", cx.name)) {
            cx.report(&name, data(cx, &root, variable))?;
        }
    }
    Ok(())
}

/// Two network namespaces exchange data by each interface of UCP (`ucx`), and check it.
fn data(cx: &Context, root: &Path, transports: &str) -> Verdict {
    let program = ucx::compile(cx)?;
    fs::copy(&program, root.join("tmp/transfers"))?;
    let mut hosts = Testbed::Veth.make(cx)?;
    for host in [&mut hosts.server, &mut hosts.client] {
        host.root = Some(root.into());
        host.libdir = Some("/ours".into());
    }
    ucx::transfers_between(cx, "/tmp/transfers", &hosts, transports, &ucx::SHORT)
}

/// The root directory with our library in `/ours`. Changes stay in the case's directory.
fn enter(cx: &Context) -> Result<PathBuf, Failure> {
    let root = cx.dir().join("root");
    let ours = cx.library_dir(Library::Ours);
    sh(&format!(
        "mkdir -p {root} /run/changes
         mount -t tmpfs changes /run/changes
         mkdir /run/changes/upper /run/changes/work
         cd /run/changes
         mount -t overlay -o lowerdir={lower},upperdir=upper,workdir=work overlay {root}
         mkdir {root}/ours && cp -L {ours}/libibverbs.so.1 {root}/ours/
         mount -t proc proc {root}/proc
         mount --rbind /sys {root}/sys
         mount --rbind /dev {root}/dev",
        root = root.display(),
        lower = TRIXIE_UCX.dir()?.display(),
        ours = ours.display(),
    ))?;
    fs::metadata(root.join("usr/bin/ucx_perftest"))?;
    Ok(root)
}

fn in_root(cx: &Context, root: &Path, words: &[&str]) -> Program {
    let path = root.to_string_lossy();
    let mut all = vec![
        "chroot", &path, "env", "-i", "PATH=/usr/bin:/bin", "HOME=/tmp",
    ];
    all.extend(["LD_LIBRARY_PATH=/ours", "IBV_UROCE=uroce0=lo"]);
    all.extend(words);
    cx.program(all).limit(LIMIT).merged()
}

fn perftest(
    cx: &Context,
    root: &Path,
    transports: &str,
    test: &str,
    size: &str,
    count: &str,
) -> Verdict {
    let variable = format!("UCX_TLS={transports}");
    let words = [
        &variable, "mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2", "ucx_perftest",
        "-t", test, "-s", size, "-n", count,
    ];
    let ended = in_root(cx, root, &words).run()?;
    let result = ended.out.lines().any(|line| line.starts_with("Final:"));
    succeeded("mpirun", &ended)?;
    ensure(result, "no result").with(last_lines(&ended.out, 20))
}
