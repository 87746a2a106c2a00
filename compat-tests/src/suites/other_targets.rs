//! The library for musl and for riscv64, as `make musl` and `make riscv64` build it. The ping-pongs of
//! rdma-core and the programs of examples/ are compiled for the target, and run on uroce. Those for musl run
//! in a root directory that has nothing but musl and the library, those for riscv64 by qemu-user.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::case::{Case, Tier};
use crate::checks::{self, Check};
use crate::context::Context;
use crate::output_checks;
use crate::paths::text;
use crate::process::{Exit, Program, Running, wait_until};
use crate::sandbox::Sandbox;
use crate::suites::dist::old_glibc::{ROOT, enter};
use crate::testbed::Host;
use crate::verdict::{Details, Failure, Verdict, contains, ensure};
use crate::{downloads, make, paths};

/// A target that is not this machine's.
struct Target {
    /// The name of the case, and of the target in the Makefile.
    name: &'static str,
    triple: &'static str,
    compiler: &'static str,
    /// Further flags: where the kernel's headers are, for musl.
    flags: &'static [&'static str],
    /// Where in the root directory the library is.
    library: &'static str,
}

const MUSL: Target = Target {
    name: "musl",
    triple: "x86_64-unknown-linux-musl",
    compiler: "musl-gcc",
    flags: &[
        "-idirafter",
        "/usr/include",
        "-idirafter",
        "/usr/include/x86_64-linux-gnu",
    ],
    library: "usr/lib",
};
const RISCV64: Target = Target {
    name: "riscv64",
    triple: "riscv64gc-unknown-linux-gnu",
    compiler: "riscv64-linux-gnu-gcc",
    flags: &[],
    library: "lib",
};
const EMULATOR: &str = "qemu-riscv64-static";
/// The C library that the cross compiler's package has.
const RISCV64_LIBC: &str = "/usr/riscv64-linux-gnu";
/// Musl's dynamic linker, which is the C library itself.
const MUSL_LIBC: &str = "lib/ld-musl-x86_64.so.1";

/// Programs of rdma-core that are compiled.
const OF_RDMA_CORE: [&str; 6] = [
    "devinfo", "rc_pingpong", "uc_pingpong", "ud_pingpong", "srq_pingpong", "xsrq_pingpong",
];
const EXAMPLES: [&str; 5] = ["rc_send", "ud", "one_sided", "events", "xrc"];

/// Pairs: a name, the server's command, and IBV_UROCE_LOCAL.
const PAIRS: [(&str, &str, &str); 15] = [
    ("rc", "ibv_rc_pingpong -g 1 -c", ""),
    ("rc-e", "ibv_rc_pingpong -g 1 -e -n 300", ""),
    ("rc-1M", "ibv_rc_pingpong -g 1 -s 1048576 -n 20 -c", ""),
    ("uc", "ibv_uc_pingpong -g 1 -n 300", ""),
    ("ud", "ibv_ud_pingpong -g 1 -n 300", ""),
    ("srq", "ibv_srq_pingpong -g 1 -n 300", ""),
    ("xsrq", "ibv_xsrq_pingpong -g 1 -n 300", ""),
    ("rc-udp", "ibv_rc_pingpong -g 1 -c -n 300", "0"),
    ("rc-1M-udp", "ibv_rc_pingpong -g 1 -s 1048576 -n 4 -c", "0"),
    ("ud-udp", "ibv_ud_pingpong -g 1 -n 300", "0"),
    ("example-rc_send", "rc_send", ""),
    ("example-ud", "ud", ""),
    ("example-one_sided", "one_sided", ""),
    ("example-events", "events", ""),
    ("example-xrc", "xrc", ""),
];
/// The time limit of a pair: an emulated program is slow.
const PAIR: Duration = Duration::from_secs(90);
const PORT: u16 = 20_000;

pub fn cases() -> Vec<Case> {
    vec![
        case(&MUSL).before(|| prepare(&MUSL)),
        case(&RISCV64).before(|| prepare(&RISCV64)),
    ]
}

fn case(target: &'static Target) -> Case {
    let mut all = vec![
        Check::new("without a device", |cx| without_device(cx, target)),
        Check::new("ibv_devinfo", |cx| devinfo(cx, target)),
    ];
    let pairs = PAIRS.iter().map(|(name, command, local)| {
        Check::new(*name, move |cx| pair(cx, target, command, local))
    });
    all.extend(pairs);
    checks::case(&format!("targets/{}", target.name), all)
        .sandbox(Sandbox::Root)
        .tier(Tier::All)
        .token(make::TOKEN)
        .cpu(200)
        .memory(2000)
        .limit(3600)
        .estimate(300)
}

/// Builds the library and fetches rdma-core's source. Skips the case where a compiler is missing.
fn prepare(target: &Target) -> Verdict {
    let runs = |words: &[&str]| {
        let status = Command::new(words[0]).args(&words[1..]).output();
        status.is_ok_and(|output| output.status.success())
    };
    for program in [target.compiler, EMULATOR] {
        let needed = program == target.compiler || target.name == RISCV64.name;
        if needed && !runs(&[program, "--version"]) {
            let why = "is missing: run scripts/install-deps targets";
            return Err(Failure::skip(format!("{program} {why}")));
        }
    }
    let print = [
        "rustc", "--print", "target-libdir", "--target", target.triple,
    ];
    let output = Command::new(print[0]).args(&print[1..]).output()?;
    let libdir = String::from_utf8_lossy(&output.stdout).trim().to_string();
    if !Path::new(&libdir).is_dir() {
        let add = format!("rustup target add {}", target.triple);
        return Err(Failure::skip(format!("no standard library of Rust: {add}")));
    }
    make::on_host(target.name)?;
    downloads::sources()?;
    Ok(())
}

/// Compiles the programs and enters the root directory, unless an earlier check has.
fn root(cx: &Context, target: &Target) -> Result<PathBuf, Failure> {
    let (root, new) = (cx.dir().join("tree"), cx.dir().join("tree.new"));
    if root.exists() {
        return Ok(root);
    }
    for dir in ["bin", "lib", "usr/lib", "proc", "sys", "dev", "tmp"] {
        fs::create_dir_all(new.join(dir))?;
    }
    let built = paths::target()
        .join(target.triple)
        .join("release/libibverbs.so");
    let library = new.join(target.library).join("libibverbs.so.1");
    fs::copy(&built, &library)?;
    compile(cx, target, &new.join("bin"), &library)?;
    fs::rename(&new, &root)?;
    if target.name == MUSL.name {
        let libc = Path::new("/").join(MUSL_LIBC);
        fs::copy(libc, root.join(MUSL_LIBC))?;
        enter(&root)?;
    }
    Ok(root)
}

/// The results of checks by rdma-core's cmake.
const CONFIG: &str =
    "#define VERSION \"56.1\"\n#define HAVE_STATEMENT_EXPR 1\n#define HAVE_TYPEOF 1
#define HAVE_BUILTIN_TYPES_COMPATIBLE_P 1\n#define HAVE_ISBLANK 1\n";

fn compile(cx: &Context, target: &Target, bin: &Path, library: &Path) -> Verdict {
    let source = downloads::sources()?.join("rdma-core");
    let examples = source.join("libibverbs/examples");
    cx.write("config.h", CONFIG)?;
    let own = cx.source("../examples");
    let (ours, of_case) = (cx.source("../include"), cx.dir());
    let build = |name: &str, files: Vec<PathBuf>| {
        let mut words = vec![target.compiler.to_string(), "-O1".into(), "-o".into()];
        words.push(text(bin.join(name)));
        for include in [of_case, ours.as_path(), source.as_path()] {
            words.push(format!("-I{}", text(include)));
        }
        words.extend(target.flags.iter().map(|flag| flag.to_string()));
        words.extend(files.iter().map(text));
        words.push(text(library));
        cx.program(words).merged().succeed().map(drop)
    };
    for name in OF_RDMA_CORE {
        let mut files = vec![examples.join(format!("{name}.c"))];
        if name.ends_with("pingpong") {
            files.push(examples.join("pingpong.c"));
        }
        build(&format!("ibv_{name}"), files)?;
    }
    for name in EXAMPLES {
        let files = [name, "common", "connect"].map(|file| own.join(format!("{file}.c")));
        build(name, files.to_vec())?;
    }
    Ok(())
}

/// A program for the target, as an ordinary user, with these variables.
fn program(
    cx: &Context,
    target: &Target,
    (command, variables): (&str, &[&str]),
    files: &str,
) -> Result<Program, Failure> {
    let root = root(cx, target)?;
    let mut words: Vec<String> = command.split(' ').map(String::from).collect();
    // In the root directory for musl is no env(1).
    let mut runs = vec!["env"];
    runs.extend(variables);
    let library = format!("LD_LIBRARY_PATH={}", text(root.join(target.library)));
    if target.name == MUSL.name {
        words[0] = format!("/bin/{}", words[0]);
        runs.extend(["chroot", "--userspec=65534:65534", ROOT]);
    } else {
        words[0] = text(root.join("bin").join(&words[0]));
        runs.extend([
            "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
        ]);
        runs.extend([EMULATOR, "-E", &library, "-L", RISCV64_LIBC]);
    }
    let program = cx.program_at(words, cx.dir().join(files)).under(runs);
    Ok(program.limit(PAIR))
}

const ONE_DEVICE: &str = "IBV_UROCE=uroce0=lo";

/// Without IBV_UROCE there is none, and the program says so.
fn without_device(cx: &Context, target: &Target) -> Verdict {
    let ended = program(cx, target, ("ibv_devinfo", &[]), "none")?.run()?;
    let says = ended.err.contains("Failed to get IB devices list")
        || ended.err.contains("No IB devices found");
    ensure(
        !ended.ok() && says,
        "it does not say that there is no device",
    )
    .with(ended.transcript())
}

fn devinfo(cx: &Context, target: &Target) -> Verdict {
    let command = ("ibv_devinfo -v", [ONE_DEVICE].as_slice());
    let ended = program(cx, target, command, "devinfo")?.succeed()?;
    contains(&ended.out, &["uroce0", "PORT_ACTIVE", "RoCE v2"])
}

/// A server and its client both end with 0, and print what they must.
fn pair(cx: &Context, target: &Target, command: &str, local: &str) -> Verdict {
    let name = checks::slug(&format!("{command} {local}"));
    let path = format!("IBV_UROCE_LOCAL={local}");
    let variables: &[&str] = match local {
        "" => &[ONE_DEVICE],
        _ => &[ONE_DEVICE, &path],
    };
    let start = |side: &str, more: &str| -> Result<Running, Failure> {
        let command = format!("{command} -p {PORT}{more}");
        let command = (command.as_str(), variables);
        Ok(program(cx, target, command, &format!("{name}-{side}"))?.spawn()?)
    };
    let host = Host::on_uroce(cx, "127.0.0.1", "uroce0=lo", "lo");
    let mut server = start("server", "")?;
    wait_until(PAIR, || host.listens(PORT) || !server.is_running());
    let mut client = start("client", " 127.0.0.1")?;
    let client_exit = client.wait(PAIR)?;
    let server_exit = server.wait(if client_exit == Exit::Code(0) {
        PAIR
    } else {
        PAIR / 10
    })?;
    let mut wrong = Vec::new();
    let mut said = String::new();
    for (side, running, exit) in [
        ("client", &mut client, client_exit),
        ("server", &mut server, server_exit),
    ] {
        let ended = running.ended(exit)?;
        said.push_str(&format!("{side}:\n{}", ended.transcript()));
        if !ended.ok() {
            wrong.push(format!("the {side} ended with {}", ended.exit));
        } else if command.starts_with("ibv_") {
            wrong.extend(output_checks::program(
                running.argv(),
                &ended.out,
                side == "server",
            ));
        } else if !ended.out.lines().any(|line| line.starts_with("done")) {
            wrong.push(format!("the {side} did not print that it is done"));
        }
    }
    ensure(wrong.is_empty(), wrong.join("; ")).with(said)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    /// The names that the files of an architecture define for the rest of a crate.
    fn defined(dir: &Path, architecture: &str) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        let parts = ["", "/nofault", "/restart"].map(|part| format!("{architecture}{part}.rs"));
        for text in parts
            .iter()
            .filter_map(|file| fs::read_to_string(dir.join(file)).ok())
        {
            for line in text.lines().map(str::trim_start) {
                let rest = ["pub const ", "pub fn ", "pub unsafe fn ", "macro_rules! "]
                    .iter()
                    .find_map(|start| line.strip_prefix(start));
                let is_name = |c: &char| c.is_alphanumeric() || *c == '_';
                names.extend(rest.map(|rest| rest.chars().take_while(is_name).collect()));
            }
        }
        names
    }

    /// Only one architecture is compiled on a machine.
    #[test]
    fn architectures_define_the_same() {
        for dir in ["src/arch", "crates/uroce/src/arch"] {
            let dir = crate::paths::repo().join(dir);
            let names = defined(&dir, "x86_64");
            assert!(names.len() > 8, "{dir:?}: {names:?}");
            for other in ["aarch64", "riscv64"] {
                assert_eq!(names, defined(&dir, other), "{other} in {dir:?}");
            }
        }
    }
}
