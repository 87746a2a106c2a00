//! MPI over UCX on uroce, with Open MPI and MPICH as Debian packages them: 2 and 4 ranks on RC and on UD.

use crate::case::{Case, Tier};
use crate::compare;
use crate::context::{Context, Library};
use crate::process::{read, succeeded};
use crate::sandbox::Sandbox;
use crate::verdict::{Failure, Verdict, ensure};

/// How an implementation is compiled with and started.
struct Implementation {
    name: &'static str,
    compiler: &'static str,
    launcher: &'static [&'static str],
}

const IMPLEMENTATIONS: [Implementation; 2] = [
    Implementation {
        name: "openmpi",
        compiler: "mpicc.openmpi",
        launcher: &[
            "mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--mca", "pml", "ucx",
            "--mca", "osc", "ucx",
        ],
    },
    Implementation {
        name: "mpich",
        compiler: "mpicc.mpich",
        launcher: &["mpirun.mpich"],
    },
];

/// UCX's transports: only those of RDMA, so that nothing else can carry a message between ranks.
const TRANSPORTS: [(&str, &str); 2] = [("rc", "rc_v,self"), ("ud", "ud_v,self")];

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for implementation in &IMPLEMENTATIONS {
        for (transport, variable) in TRANSPORTS {
            for ranks in ["2", "4"] {
                let name = format!("uroce/mpi/{}-{transport}-{ranks}", implementation.name);
                let tier = if ranks == "2" { Tier::Test } else { Tier::All };
                let run = move |cx: &Context| all_ranks(cx, implementation, variable, ranks, "0");
                let case = Case::new(name, run).sandbox(Sandbox::Namespace).tier(tier);
                cases.push(case.limit(180).cpu(200));
                let name = format!("explain/mpi/{}-{transport}-{ranks}", implementation.name);
                let run = move |cx: &Context| is_silent(cx, implementation, variable, ranks);
                let case = Case::new(name, run)
                    .sandbox(Sandbox::Namespace)
                    .tier(Tier::All);
                cases.push(case.limit(180).cpu(200));
            }
        }
    }
    cases
}

/// IBV_EXPLAIN does not comment on MPI.
fn is_silent(cx: &Context, of: &Implementation, transports: &str, ranks: &str) -> Verdict {
    let file = cx.dir().join("explained");
    let explain = format!("file:{}", file.display());
    all_ranks(cx, of, transports, ranks, &explain)?;
    compare::same(("expected", ""), ("explained", &read(&file)))
}

fn all_ranks(
    cx: &Context,
    of: &Implementation,
    transports: &str,
    ranks: &str,
    explain: &str,
) -> Verdict {
    let source = cx.source("c/mpi/mpi.c").display().to_string();
    let program = cx.dir().join("mpi").display().to_string();
    let compiler = cx.program([of.compiler, "-O1", "-o", &program, &source]);
    let Ok(compiled) = compiler.run() else {
        let reason = format!(
            "{} is not installed: run scripts/install-deps mpi",
            of.compiler
        );
        return Err(Failure::skip(reason));
    };
    succeeded(of.compiler, &compiled)?;
    let argv = of.launcher.iter().copied().chain(["-np", ranks, &program]);
    let launcher = cx.program(argv).env("UCX_TLS", transports);
    let launcher = launcher.env("IBV_UROCE", "uroce0=lo");
    let launcher = launcher.env("IBV_EXPLAIN", explain);
    let ended = launcher.library(&cx.library_dir(Library::Ours)).succeed()?;
    let good = ended
        .out
        .lines()
        .filter(|line| line.ends_with(": 0 bad"))
        .count();
    ensure(
        good.to_string() == ranks,
        format!("{good} of {ranks} ranks have good data"),
    )
}
