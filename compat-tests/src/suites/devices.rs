//! Cases of the device list: with and without IBV_UROCE, with and without devices of a fake kernel
//! (fake-uverbs); the queries of a software device; a program linked to IBVERBS_1.0 on it; programs
//! with privileges, which ignore their caller's variables.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::case::{Case, Tier};
use crate::checks::{self, Check};
use crate::compare;
use crate::context::{Context, Library, succeeded};
use crate::fake::{self, sysfs::Tree};
use crate::process::{Ended, Program};
use crate::sandbox::{CAP_NET_RAW, Sandbox, as_ordinary_user, give_capability};
use crate::verdict::{Failure, Verdict, ensure};

/// sysfs of a kernel with two devices, and of one without RDMA.
const SYS: &str = "/tmp/sys";
const NONE: &str = "/tmp/none";
/// Where programs with privileges are, and a directory in which everybody may write.
const PRIVILEGED: &str = "/tmp/privileged";
const OPEN: &str = "/tmp/open";

const HINT: &str =
    "set IBV_UROCE to 1 for one device, or to NAME=INTERFACE or NAME=ADDRESS, such as uroce0=";
const IGNORED: &str = "libibverbs: Warning: ignoring";

pub fn cases() -> Vec<Case> {
    let mut all = lists();
    all.extend(memlock());
    all.extend(queries());
    all.extend(lids());
    all.push(Check::new("a program linked to IBVERBS_1.0", compat10));
    vec![
        checks::case("uroce/devices", all)
            .sandbox(Sandbox::Namespace)
            .tier(Tier::Check)
            .programs(&["devices", "compat10", fake::SHIM]),
        checks::case("uroce/devices/privileged", privileged())
            .sandbox(Sandbox::Root)
            .tier(Tier::Check)
            .programs(&["devices"]),
    ]
}

/// A run of the program `devices`.
struct ListRun {
    /// The devices of both kernels are listed, or none.
    fake: bool,
    config: Option<&'static str>,
    arguments: &'static [&'static str],
}

impl ListRun {
    fn list(fake: bool, config: Option<&'static str>) -> Self {
        Self {
            fake,
            config,
            arguments: &["list"],
        }
    }

    fn program(&self, cx: &Context) -> Result<Program, Failure> {
        fs::create_dir_all(NONE)?;
        Tree::new(["rxe0", "mlx5_0"]).write(SYS.as_ref())?;
        let argv = std::iter::once(cx.built("devices")?)
            .chain(self.arguments.iter().map(|word| word.to_string()));
        let mut program = on_ours(cx, argv.collect());
        program = if self.fake {
            program
                .env("SYSFS_PATH", SYS)
                .env("LD_PRELOAD", cx.built(fake::SHIM)?)
        } else {
            program.env("SYSFS_PATH", NONE)
        };
        Ok(match self.config {
            Some(config) => program.env("IBV_UROCE", config),
            None => program,
        })
    }
}

fn on_ours(cx: &Context, argv: Vec<String>) -> Program {
    cx.program(argv)
        .merged()
        .library(&cx.library_dir(Library::Ours))
}

/// Passes if the program prints this text, whatever its exit code.
fn prints(program: &Program, expected: &str) -> Verdict {
    let ended = program.run()?;
    compare::same(
        ("expected", expected.trim_end()),
        ("got", ended.out.trim_end()),
    )
}

fn expect(name: &str, run: ListRun, text: String) -> Check {
    Check::new(name, move |cx| prints(&run.program(cx)?, &text))
}

fn lists() -> Vec<Check> {
    let list = |name: &str, fake, config, text: &str| {
        expect(name, ListRun::list(fake, config), text.into())
    };
    let missing = format!(
        "{IGNORED} IBV_UROCE device 'x': there is no interface 'nosuch0'\n\
         {IGNORED} IBV_UROCE device 'y': no interface has the address 192.0.2.77\n0:"
    );
    let invalid = format!(
        "{IGNORED} bad IBV_UROCE entry 'x': {HINT}x\n\
         {IGNORED} bad IBV_UROCE entry '': {HINT}eth0\n\
         {IGNORED} bad IBV_UROCE entry 'good=lo': there is a device of that name already\n1: good"
    );
    let mut all = vec![
        list("no kernel, no variable", false, None, "none: ENOSYS, 0"),
        list("no kernel, uroce", false, Some("u=lo"), "1: u"),
        list("no kernel, IBV_UROCE=", false, Some(""), "none: ENOSYS, 0"),
        list(
            "no kernel, IBV_UROCE=0",
            false,
            Some("0"),
            "none: ENOSYS, 0",
        ),
        list("no kernel, 1", false, Some("1"), "1: uroce0"),
        list(
            "two devices, in the order of the variable",
            false,
            Some("b=lo,a=127.0.0.9"),
            "2: b a",
        ),
        list(
            "only entries without an interface",
            false,
            Some("x=nosuch0,y=192.0.2.77"),
            &missing,
        ),
        list(
            "invalid entries and a valid one",
            false,
            Some("x,good=lo,,good=lo"),
            &invalid,
        ),
        with_kernel("a kernel with devices", None, "2:"),
        with_kernel(
            "a kernel with devices, uroce listed first",
            Some("u=lo"),
            "3: u",
        ),
    ];
    // Values that people write for 1. The message says what to write; no "Function not implemented" follows.
    for (word, device) in [
        ("yes", "eth0"),
        ("true", "eth0"),
        ("on", "eth0"),
        ("2", "eth0"),
        ("eth7", "eth7"),
    ] {
        let text = format!("{IGNORED} bad IBV_UROCE entry '{word}': {HINT}{device}\n0:");
        all.push(list(
            &format!("no kernel, IBV_UROCE={word}"),
            false,
            Some(word),
            &text,
        ));
    }
    all
}

/// The kernel's devices have the order of the C library, that of the directory.
fn with_kernel(name: &str, config: Option<&'static str>, start: &'static str) -> Check {
    Check::new(name, move |cx| {
        let original = ListRun::list(true, None).program(cx)?;
        let listed = original.library(&cx.library_dir(Library::C)).run()?.out;
        let both = listed.contains(" rxe0") && listed.contains(" mlx5_0");
        ensure(both, format!("the C library lists {listed}"))?;
        let names = listed.strip_prefix("2:").unwrap_or_default();
        prints(
            &ListRun::list(true, config).program(cx)?,
            &format!("{start}{names}"),
        )
    })
}

/// Software devices pin no memory: a low RLIMIT_MEMLOCK matters only if there are devices of the kernel.
fn memlock() -> Vec<Check> {
    let limited = |name: &str, config, text: &'static str| {
        let run = ListRun::list(false, config);
        Check::new(name, move |cx| {
            let program = run.program(cx)?.under(as_ordinary_user());
            prints(&program.under(["prlimit", "--memlock=4096:4096"]), text)
        })
    };
    vec![
        limited("a low RLIMIT_MEMLOCK, uroce", Some("u=lo"), "1: u"),
        limited(
            "a low RLIMIT_MEMLOCK, neither",
            None,
            "libibverbs: Warning: RLIMIT_MEMLOCK is 4096 bytes.
    This will severely limit memory registrations.\nnone: ENOSYS, 0",
        ),
    ]
}

/// All functions that query a device, a port or a GID. The program prints what is wrong.
fn queries() -> Vec<Check> {
    let query = |fake| ListRun {
        fake,
        config: Some("u=lo"),
        arguments: &["check", "u", "lo"],
    };
    vec![
        expect("queries", query(false), String::new()),
        expect(
            "queries, with kernel devices present",
            query(true),
            String::new(),
        ),
        Check::new("queries, under valgrind", move |cx| {
            let argv = ["valgrind", "-q", "--error-exitcode=9"].map(String::from);
            let program = [
                cx.built("devices")?,
                "check".into(),
                "u".into(),
                "lo".into(),
            ];
            let argv = argv.into_iter().chain(program).collect();
            prints(&on_ours(cx, argv).env("IBV_UROCE", "u=lo"), "")
        }),
    ]
}

/// Each line `... must be ...: yes` is a comparison that the program made, `NO` one that failed.
fn compat10(cx: &Context) -> Verdict {
    let argv = [&cx.built("compat10")?, "-x", "u", "1"].map(String::from);
    let ended: Ended = on_ours(cx, argv.to_vec()).env("IBV_UROCE", "u=lo").run()?;
    succeeded("compat10", &ended)?;
    let failed: Vec<&str> = ended
        .out
        .lines()
        .filter(|line| line.ends_with("NO"))
        .collect();
    ensure(failed.is_empty(), failed.join("; "))?;
    let made = ended
        .out
        .lines()
        .filter(|line| line.contains("must be") && line.ends_with(": yes"));
    let count = made.count();
    ensure(count > 20, format!("only {count} comparisons"))
}

/// The ways in which a program has more privileges than its caller.
#[derive(Debug, Clone, Copy)]
enum Privilege {
    Setuid,
    Setgid,
    FileCapability,
}

impl Privilege {
    const ALL: [Privilege; 3] = [
        Privilege::Setuid,
        Privilege::Setgid,
        Privilege::FileCapability,
    ];

    fn name(self) -> &'static str {
        match self {
            Privilege::Setuid => "setuid",
            Privilege::Setgid => "setgid",
            Privilege::FileCapability => "file-capability",
        }
    }

    /// Makes such a program of `devices`, which finds the library by its RUNPATH, and returns how to run it.
    fn program(self, cx: &Context) -> Result<Program, Failure> {
        fs::create_dir_all(PRIVILEGED)?;
        let path = format!("{PRIVILEGED}/{}", self.name());
        fs::copy(cx.built("devices")?, &path)?;
        let program = cx.program([&path, "list"].map(String::from)).merged();
        let mode = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode));
        mode(0o755)?;
        let nobody = Some(65534);
        std::os::unix::fs::chown(&path, nobody, nobody)?;
        match self {
            Privilege::Setuid => mode(0o4755)?,
            Privilege::Setgid => mode(0o2755)?,
            Privilege::FileCapability => {
                give_capability(path.as_ref(), CAP_NET_RAW)?;
                return Ok(program.under(as_ordinary_user()));
            }
        }
        Ok(program)
    }
}

/// `IBV_UROCE_LIDS` is read when the program first lists devices; the program sets it to another value after
/// that. The LID follows from 127.0.0.1.
fn lids() -> Vec<Check> {
    let lid = |value: &'static str, arguments, expected: &'static str| {
        let run = ListRun {
            fake: false,
            config: Some("u=lo"),
            arguments,
        };
        Check::new(format!("IBV_UROCE_LIDS={value}"), move |cx| {
            prints(&run.program(cx)?.env("IBV_UROCE_LIDS", value), expected)
        })
    };
    vec![
        lid("1", &["lid", "u", "0"], "LID 0x0001"),
        lid("0", &["lid", "u", "1"], "LID 0x0000"),
    ]
}

/// A program with privileges lists the same with and without its caller's variables, and opens no file
/// that they name. The fake kernel cannot be preloaded there: what this machine has is listed, if
/// anything.
fn privileged() -> Vec<Check> {
    const VARIABLES: [(&str, &[(&str, &str)]); 4] = [
        ("IBV_UROCE", &[("IBV_UROCE", "u=lo")]),
        ("SYSFS_PATH", &[("SYSFS_PATH", SYS)]),
        (
            "drivers",
            &[
                ("RDMAV_DRIVERS", "nosuch"),
                ("IBV_DRIVERS", "nosuch"),
                ("IBV_SHOW_WARNINGS", "1"),
            ],
        ),
        (
            "the log",
            &[
                ("VERBS_LOG_LEVEL", "4"),
                ("VERBS_LOG_FILE", "/tmp/open/log"),
            ],
        ),
    ];
    let mut all = vec![Check::new(
        "IBV_UROCE of a program whose effective user ID differs",
        effective_user_differs,
    )];
    for kind in Privilege::ALL {
        for (what, variables) in VARIABLES {
            let name = format!("{what} of a {} program", kind.name());
            all.push(Check::new(name, move |cx| ignores(cx, kind, variables)));
        }
    }
    all
}

/// The kernel does not report such a program by AT_SECURE: it changes its user before it lists devices.
fn effective_user_differs(cx: &Context) -> Verdict {
    let program = |command: &str| -> Result<Program, Failure> {
        let argv = vec![cx.built("devices")?, command.into()];
        Ok(on_ours(cx, argv).env("IBV_UROCE", "u=lo"))
    };
    let listed = program("list")?.run()?.out;
    ensure(listed.contains(" u"), "root does not list u")?;
    let without = program("list-as-nobody")?.env("IBV_UROCE", "0").run()?.out;
    ensure(!without.contains(" u"), "u is listed without the variable")?;
    prints(&program("list-as-nobody")?, &without)
}

fn ignores(cx: &Context, kind: Privilege, variables: &[(&str, &str)]) -> Verdict {
    Tree::new(["rxe0", "mlx5_0"]).write(SYS.as_ref())?;
    fs::create_dir_all(OPEN)?;
    fs::set_permissions(OPEN, fs::Permissions::from_mode(0o777))?;
    let program = kind.program(cx)?;
    let without = program.run()?.out;
    if !without.lines().any(|line| line.starts_with("privileged ")) {
        return Err(Failure::skip("no privileges on /tmp (nosuid?)").with(without));
    }
    let with = variables
        .iter()
        .fold(kind.program(cx)?, |program, (name, value)| {
            program.env(*name, value)
        });
    prints(&with, &without)?;
    let opened = Path::new(OPEN).join("log").exists();
    ensure(!opened, "the log is opened")
}
