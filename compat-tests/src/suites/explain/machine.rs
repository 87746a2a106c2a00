//! Rules about the machine: limits, device files, providers. The fake kernel has the devices, so these cases
//! need no hardware.

use std::fs;

use crate::case::{Case, Tier};
use crate::context::{Context, Library};
use crate::fake::sysfs::{Device, Tree};
use crate::fake::{SHIM, plain_program, provider_dir};
use crate::process::Exit;
use crate::sandbox::{Sandbox, as_ordinary_user};
use crate::verdict::{Details, Verdict, contains, ensure};

use super::{explained, file};

/// A program on the fake kernel, and the rules that it causes.
struct Row {
    /// The name of the case, which is that of the rule, or begins so.
    name: &'static str,
    rules: &'static [&'static str],
    /// A part of the first explanation.
    part: &'static str,
    /// The program and its arguments.
    program: &'static [&'static str],
    exit: i32,
    devices: fn() -> Tree,
    /// `COPY` in a value stands for a copy of the distribution's provider for rxe, `LOOP` for the provider of
    /// c/loop.
    env: &'static [(&'static str, &'static str)],
    /// A limit for prlimit(1).
    limit: &'static str,
    /// A library that is loaded, too.
    library: &'static str,
    /// No provider is installed.
    bare: bool,
}

const ROW: Row = Row {
    name: "",
    rules: &[],
    part: "",
    program: &["ibv_devinfo"],
    exit: 0,
    devices: || Tree::new(["rxe0", "mlx5_0"]),
    env: &[],
    limit: "",
    library: "",
    bare: false,
};

/// A scene of c/explain on a device of c/loop.
const SCENE: Row = Row {
    devices: || Tree::new(["loop0"]),
    env: &[("IBV_DRIVERS", "LOOP"), ("DEVICE", "loop0")],
    ..ROW
};

const ROWS: &[Row] = &[
    Row {
        name: "memlock",
        rules: &["memlock"],
        part: "1048576 bytes cannot be locked: RLIMIT_MEMLOCK is 65536 bytes",
        program: &["refused"],
        env: &[("FAKE_FAIL", "REG_MR=ENOMEM")],
        limit: "--memlock=65536",
        ..ROW
    },
    Row {
        name: "no-permission",
        rules: &["no-permission"],
        part: "/dev/infiniband/uverbs0 cannot be opened: Permission denied",
        exit: 1,
        // One only: which is found first is the file system's choice.
        devices: || Tree::new(["rxe0"]),
        env: &[("FAKE_NODES", "open=EACCES")],
        ..ROW
    },
    Row {
        name: "no-device-file",
        rules: &["no-device-file"],
        part: "the kernel has rxe0, and /dev/infiniband/uverbs0 does not exist",
        exit: 1,
        devices: || Tree::new(["rxe0"]),
        env: &[("FAKE_NODES", "open=ENOENT")],
        ..ROW
    },
    Row {
        name: "no-rdma-ucm",
        rules: &["no-rdma-ucm"],
        part: "no /dev/infiniband/rdma_cm",
        library: "librdmacm.so.1",
        ..ROW
    },
    Row {
        name: "driver-refused",
        rules: &["driver-refused"],
        part: "libnothere-rdmav34.so: cannot open shared object file",
        env: &[("IBV_DRIVERS", "nothere")],
        ..ROW
    },
    Row {
        name: "driver-twice",
        rules: &["driver-twice"],
        part: "2 providers have the name rxe",
        env: &[("IBV_DRIVERS", "COPY")],
        ..ROW
    },
    Row {
        name: "driver-missing",
        rules: &["driver-missing"],
        part: "the kernel has the device strange0 (driver unknown), and no provider supports it; \
               tried, in this order: ",
        devices: || Tree::new(["rxe0", "strange0"]),
        ..ROW
    },
    Row {
        name: "driver-missing-none",
        rules: &["driver-missing"],
        part: "no provider supports it; no provider is installed",
        exit: 255,
        devices: || Tree::new(["mlx5_0"]),
        bare: true,
        ..ROW
    },
    Row {
        name: "driver-missing-abi",
        rules: &["driver-missing"],
        part: "mlx5 (supports kernel ABI 1 to 1, and the device has 77)",
        exit: 255,
        devices: || Tree::new([Device::from("mlx5_0").abi(77)]),
        ..ROW
    },
    Row {
        name: "key-swapped",
        rules: &["key-swapped"],
        part: "was given as local key, and is the rkey of the memory region",
        program: &["explain", "key-swapped"],
        ..SCENE
    },
    Row {
        name: "rkey-swapped",
        rules: &["key-swapped"],
        part: "was given as remote key, and is the lkey of the memory region",
        program: &["explain", "rkey-swapped"],
        ..SCENE
    },
    Row {
        name: "gid-type",
        rules: &["gid-type", "retry-exceeded"],
        part: "GID index 0 is of type RoCE v1",
        program: &["explain", "gid-type"],
        ..SCENE
    },
    Row {
        name: "correct",
        program: &["explain", "correct"],
        ..SCENE
    },
];

/// The rules that these cases provoke.
pub fn rules() -> impl Iterator<Item = &'static str> {
    ROWS.iter().flat_map(|row| row.rules.iter().copied())
}

/// The scenes of c/explain that run here.
pub fn scenes() -> impl Iterator<Item = &'static str> {
    let scenes = ROWS.iter().filter(|row| row.program[0] == "explain");
    scenes.map(|row| row.program[1])
}

pub fn cases() -> Vec<Case> {
    let case = |row: &'static Row| {
        Case::new(format!("explain/{}", row.name), move |cx| explains(cx, row))
            .sandbox(Sandbox::Namespace)
            .programs(&[SHIM, "refused", "explain", "loop"])
            .tier(Tier::Check)
    };
    ROWS.iter().map(case).collect()
}

/// Copies the providers into the case's directory, under names that the configuration finds.
fn copy_providers(cx: &Context) -> Verdict {
    let rxe = provider_dir()?.join("librxe-rdmav34.so");
    fs::copy(rxe, cx.dir().join("libcopy-rdmav34.so"))?;
    fs::copy(cx.built("loop")?, cx.dir().join("libloop-rdmav34.so"))?;
    Ok(())
}

fn explains(cx: &Context, row: &Row) -> Verdict {
    let tree = (row.devices)();
    let sys = cx.dir().join("sys");
    tree.write(&sys)?;
    // The same address with RoCE v1 and v2. No other row has a peer that does not answer.
    for port in fs::read_dir(sys.join("class/infiniband"))? {
        let port = port?.path().join("ports/1");
        fs::write(port.join("gid_attrs/types/0"), "IB/RoCE v1\n")?;
        fs::copy(port.join("gids/0"), port.join("gids/1"))?;
    }
    copy_providers(cx)?;
    let at = |name: &str| cx.dir().join(name).display().to_string();
    let preload = format!("{} {}", cx.built(SHIM)?, row.library);
    let words: Vec<String> = row.program.iter().map(ToString::to_string).collect();
    let mut program = plain_program(cx, Library::Ours, &words)
        .env("LD_PRELOAD", preload.trim_end())
        .env("SYSFS_PATH", sys)
        .env("FAKE_NL_DEVICES", tree.netlink())
        .env("IBV_EXPLAIN", format!("json:{}", file(cx).display()));
    for (name, value) in row.env {
        let value = value.replace("COPY", &at("libcopy"));
        program = program.env(*name, value.replace("LOOP", &at("libloop")));
    }
    // The limit does not apply to root.
    program = program.under(as_ordinary_user());
    if !row.limit.is_empty() {
        program = program.under(["prlimit", row.limit, "--"]);
    }
    if row.bare {
        let script = "mount -t tmpfs none /etc/libibverbs.d && exec \"$@\"";
        program = program.under(["unshare", "-m", "sh", "-c", script, "launch"]);
    }
    let ended = program.run()?;
    let why = format!("exit code {}, not {}", ended.exit, row.exit);
    ensure(ended.exit == Exit::Code(row.exit), why).with(ended.transcript())?;
    let found = explained(cx)?;
    let only = found
        .rules
        .iter()
        .map(String::as_str)
        .eq(row.rules.iter().copied());
    ensure(only, format!("explained: {:?}", found.rules)).with(found.texts.join("\n"))?;
    let first = found.texts.first().cloned().unwrap_or_default();
    contains(&first, &[row.part])
}
