//! Rules about the machine: limits, device files, providers. The fake kernel has the devices, so these cases
//! need no hardware.

use std::fs;

use crate::case::{Case, Place, Tier};
use crate::context::{Context, Library};
use crate::fake::sysfs::Tree;
use crate::fake::{SHIM, plain_program, provider_dir};
use crate::place::as_ordinary_user;
use crate::process::Exit;
use crate::verdict::{Verdict, ensure};

use super::{explained, file};

/// A program on the fake kernel, and the one rule that it causes.
struct Row {
    rule: &'static str,
    /// A part of the explanation.
    part: &'static str,
    program: &'static str,
    exit: i32,
    /// `COPY` in a value stands for a copy of the distribution's provider for rxe.
    env: &'static [(&'static str, &'static str)],
    /// A limit for prlimit(1).
    limit: &'static str,
    /// A library that is loaded, too.
    library: &'static str,
}

const ROW: Row = Row {
    rule: "",
    part: "",
    program: "ibv_devinfo",
    exit: 0,
    env: &[],
    limit: "",
    library: "",
};

const ROWS: [Row; 6] = [
    Row {
        rule: "memlock",
        part: "1048576 bytes cannot be locked: RLIMIT_MEMLOCK is 65536 bytes",
        program: "refused",
        env: &[("FAKE_FAIL", "REG_MR=ENOMEM")],
        limit: "--memlock=65536",
        ..ROW
    },
    Row {
        rule: "no-permission",
        part: "/dev/infiniband/uverbs0 cannot be opened: Permission denied",
        exit: 1,
        env: &[("FAKE_NODES", "open=EACCES")],
        ..ROW
    },
    Row {
        rule: "no-device-file",
        part: "the kernel has rxe0, and /dev/infiniband/uverbs0 does not exist",
        exit: 1,
        env: &[("FAKE_NODES", "open=ENOENT")],
        ..ROW
    },
    Row {
        rule: "no-rdma-ucm",
        part: "no /dev/infiniband/rdma_cm",
        library: "librdmacm.so.1",
        ..ROW
    },
    Row {
        rule: "driver-refused",
        part: "libnothere-rdmav34.so: cannot open shared object file",
        env: &[("IBV_DRIVERS", "nothere")],
        ..ROW
    },
    Row {
        rule: "driver-twice",
        part: "2 providers have the name rxe",
        env: &[("IBV_DRIVERS", "COPY")],
        ..ROW
    },
];

pub fn cases() -> Vec<Case> {
    let case = |row: &'static Row| {
        Case::new(format!("explain/{}", row.rule), move |cx| explains(cx, row))
            .place(Place::Namespace)
            .programs(&[SHIM, "refused"])
            .tier(Tier::Check)
    };
    ROWS.iter().map(case).collect()
}

fn explains(cx: &Context, row: &Row) -> Verdict {
    let tree = Tree::new(["rxe0", "mlx5_0"]);
    let sys = cx.dir().join("sys");
    tree.write(&sys)?;
    let copy = cx.dir().join("libcopy");
    let provider = provider_dir()?.join("librxe-rdmav34.so");
    fs::copy(provider, cx.dir().join("libcopy-rdmav34.so"))?;
    let preload = format!("{} {}", cx.built(SHIM)?, row.library);
    let mut program = plain_program(cx, Library::Ours, &[row.program.into()])
        .env("LD_PRELOAD", preload.trim_end())
        .env("SYSFS_PATH", sys)
        .env("FAKE_NL_DEVICES", tree.netlink())
        .env("IBV_EXPLAIN", format!("json:{}", file(cx).display()));
    for (name, value) in row.env {
        program = program.env(*name, value.replace("COPY", &copy.display().to_string()));
    }
    // The limit does not apply to root.
    program = program.under(as_ordinary_user());
    if !row.limit.is_empty() {
        program = program.under(["prlimit", row.limit, "--"]);
    }
    let ended = program.run()?;
    let why = format!("exit code {}, not {}", ended.exit, row.exit);
    ensure(ended.exit == Exit::Code(row.exit), why).map_err(|f| f.with(ended.transcript()))?;
    let found = explained(cx)?;
    let only = found.rules.len() == 1 && found.rules.contains(row.rule);
    ensure(only, format!("explained: {:?}", found.rules))
        .map_err(|f| f.with(found.texts.join("\n")))?;
    let first = found.texts.first().cloned().unwrap_or_default();
    ensure(
        first.contains(row.part),
        format!("«{}» is not in: {first}", row.part),
    )
}
