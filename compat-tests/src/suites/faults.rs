//! Faults on uroce, and their effects, which uroce/faults/expected has line by line: peers that die or
//! flood, wrong keys, full queues, forged packets, an interface that goes down. A scene has a network and
//! directories for itself, and must leave nothing behind in them.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use regex_lite::Regex;

use crate::case::Case;
use crate::compare;
use crate::context::{Context, Library};
use crate::paths;
use crate::process::{Program, Running, read, succeeded, wait_until};
use crate::sandbox::{Sandbox, as_ordinary_user, can_change_user, sh};
use crate::verdict::{Details, Failure, Verdict, ensure};

/// A scene that runs the distribution's ibv_asyncwatch, not the program `faults`.
const ASYNCWATCH: &str = "asyncwatch";
/// Scenes that have the same effects through shared memory. The others count packets, sockets or descriptors.
const LOCAL: [&str; 16] = [
    "rnr", "timeout-retries", "killed", "access", "failing-request", "deregistered", "too-long",
    "served", "overrun", "fork", "child-opens", "idle", "exit-without-close", "link", "stopped",
    LOCAL_ONLY,
];
/// The scene whose effects are others by UDP.
const LOCAL_ONLY: &str = "stopped-briefly";
/// Scenes that must cause no invalid memory access either.
const UNDER_VALGRIND: [&str; 2] = ["overrun", "too-long"];

pub fn cases() -> Vec<Case> {
    let case = |name: String, run: fn(&Context, &str) -> Verdict, scene: String| {
        Case::new(format!("uroce/faults/{name}"), move |cx| run(cx, &scene))
            .sandbox(Sandbox::Namespace)
            .programs(&["faults"])
            .limit(200)
            .estimate(4)
    };
    let local = |suite: &'static str, value: &'static str| {
        LOCAL.map(|scene| {
            Case::new(format!("uroce/{suite}/{scene}"), move |cx| {
                plays(cx, scene, value)
            })
            .sandbox(Sandbox::Namespace)
            .programs(&["faults"])
            .limit(200)
            .estimate(4)
        })
    };
    let mut cases: Vec<Case> = scenes(&expected(&paths::repo().join("compat-tests")))
        .into_iter()
        .filter(|scene| scene != LOCAL_ONLY)
        .map(|scene| case(scene.clone(), |cx, scene| plays(cx, scene, "0"), scene))
        .collect();
    cases.extend(local("faults-local", "1"));
    cases.extend(local("faults-packets", "packets"));
    cases.extend(UNDER_VALGRIND.map(|scene| {
        let name = format!("{scene}-valgrind");
        case(name, under_valgrind, scene.into())
            .limit(320)
            .estimate(20)
    }));
    cases.push(case(
        "all-scenes".into(),
        |cx, _| all_scenes(cx),
        String::new(),
    ));
    cases
}

fn expected(tests: &Path) -> String {
    read(&tests.join("uroce/faults/expected"))
}

/// The scenes of `expected`, in its order: `== NAME`.
fn scenes(expected: &str) -> Vec<String> {
    let names = expected.lines().filter_map(|line| line.strip_prefix("== "));
    names.map(String::from).collect()
}

/// Returns the lines of `expected` that belong to a scene. A line that starts with `#` is a remark.
fn part(expected: &str, scene: &str) -> String {
    let heading = format!("== {scene}");
    let lines = expected.lines().skip_while(|line| *line != heading).skip(1);
    lines
        .take_while(|line| !line.starts_with("== "))
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| format!("{line}\n"))
        .collect()
}

/// The scene has the expected effects, and leaves nothing behind; `local` is the value of
/// IBV_UROCE_LOCAL.
fn plays(cx: &Context, scene: &str, local: &str) -> Verdict {
    set_up()?;
    let before = traces()?;
    let got = if scene == ASYNCWATCH {
        asyncwatch(cx)?
    } else {
        let argv = vec![cx.built("faults")?, "uroce0".into(), scene.into()];
        let program = on_uroce(cx, argv).limit(Duration::from_secs(180));
        let program = program.env("IBV_UROCE_LOCAL", local);
        let ended = program.run()?;
        print!("{}", ended.err);
        succeeded(scene, &ended)?;
        ended.out
    };
    as_expected(cx, scene, &got)?;
    // A killed process ends a little later.
    wait_until(Duration::from_secs(5), || {
        traces().is_ok_and(|now| now == before)
    });
    compare::same(("before", &before), ("left behind", &traces()?))
}

fn as_expected(cx: &Context, scene: &str, got: &str) -> Verdict {
    let wanted = part(&expected(&cx.source("")), scene);
    ensure(
        !wanted.is_empty(),
        format!("{scene} is not listed in 'expected'"),
    )?;
    compare::same(("expected", &wanted), ("got", got))
}

fn under_valgrind(cx: &Context, scene: &str) -> Verdict {
    set_up()?;
    let argv = vec![
        "valgrind".into(),
        "-q".into(),
        "--error-exitcode=9".into(),
        cx.built("faults")?,
        "uroce0".into(),
        scene.into(),
    ];
    let ended = on_uroce(cx, argv)
        .limit(Duration::from_secs(300))
        .succeed()?;
    as_expected(cx, scene, &ended.out)
}

/// The program has no scene that is not in `expected`.
fn all_scenes(cx: &Context) -> Verdict {
    let listed = on_uroce(cx, vec![cx.built("faults")?, "uroce0".into()]).succeed()?;
    let sorted = |mut names: Vec<String>| {
        names.sort();
        names.join("\n")
    };
    let mut program: Vec<String> = listed.out.lines().map(String::from).collect();
    program.push(ASYNCWATCH.into());
    compare::same(
        ("expected", &sorted(scenes(&expected(&cx.source(""))))),
        ("the program", &sorted(program)),
    )
}

/// An interface that, unlike the loopback interface, can lose its address. Its link-local address must
/// not appear during the scene, as an event. So it is there at once: duplicate address detection takes
/// seconds, and is off until then.
fn set_up() -> Verdict {
    const DETECTION: &str = "/proc/sys/net/ipv6/conf/ve1/accept_dad";
    sh(&format!(
        "ip link add ve1 mtu 9000 type veth peer name ve2
        echo 0 >{DETECTION}
        ip addr add 10.9.7.1/24 dev ve1
        ip link set ve2 up
        ip link set ve1 up"
    ))?;
    let usable = wait_until(Duration::from_secs(10), has_link_local_address);
    ensure(usable, "ve1 has no link-local address")?;
    Ok(fs::write(DETECTION, "1")?)
}

/// Whether ve1 has one that is not tentative. The fields: address, index, prefix length, scope, flags, name.
fn has_link_local_address() -> bool {
    const TENTATIVE: u32 = 0x40;
    let usable = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [address, _, _, _, flags, "ve1"] = fields.as_slice() else {
            return false;
        };
        let flags = u32::from_str_radix(flags, 16).unwrap_or(TENTATIVE);
        address.starts_with("fe80") && flags & TENTATIVE == 0
    };
    read("/proc/net/if_inet6".as_ref()).lines().any(usable)
}

/// Runs as an ordinary user who may change the interfaces of this network namespace, as root of a
/// container may.
fn on_uroce(cx: &Context, argv: Vec<String>) -> Program {
    let mut user = as_ordinary_user();
    if can_change_user() {
        user.extend(
            [
                "--inh-caps=+net_admin,+net_raw",
                "--ambient-caps=+net_admin,+net_raw",
            ]
            .map(String::from),
        );
    } else {
        // Already root of a user namespace of an ordinary user.
        user.clear();
    }
    cx.program(argv)
        .under(user)
        .library(&cx.library_dir(Library::Ours))
        .env("IBV_UROCE", "uroce0=ve1")
        .env("LINK", "ve1")
        .env("TMPDIR", cx.dir())
}

/// Lists what a program could leave behind: sockets, files, shared memory, System V objects.
fn traces() -> Result<String, Failure> {
    let mut found = String::new();
    for table in ["udp", "udp6", "unix", "packet"] {
        let text = read(format!("/proc/net/{table}").as_ref());
        for line in text.lines().skip(1) {
            found += &format!("{table}: {line}\n");
        }
    }
    for kind in ["shm", "sem", "msg"] {
        let text = read(format!("/proc/sysvipc/{kind}").as_ref());
        for line in text.lines().skip(1) {
            found += &format!("System V {kind}: {line}\n");
        }
    }
    for dir in ["/dev/shm", "/tmp", "/run", "/var/tmp"] {
        files(dir.as_ref(), &mut found)?;
    }
    Ok(found)
}

/// The files below a directory, without those that the runner puts into the sandbox.
fn files(dir: &Path, found: &mut String) -> io::Result<()> {
    let mut paths: Vec<_> = fs::read_dir(dir)?
        .map(|entry| Ok(entry?.path()))
        .collect::<io::Result<_>>()?;
    paths.sort();
    for path in paths {
        if ["/tmp/case", "/tmp/staged", "/tmp/repo"].contains(&path.to_string_lossy().as_ref()) {
            continue;
        }
        *found += &format!("{}\n", path.display());
        if path.is_dir() && !path.is_symlink() {
            files(&path, found)?;
        }
    }
    Ok(())
}

/// The distribution's ibv_asyncwatch, in a terminal, so that it does not buffer its output, while the
/// interface goes down and up and gets an address. Returns what it printed, without the addresses that come
/// and go with the interface.
fn asyncwatch(cx: &Context) -> Result<String, Failure> {
    let command = [
        "script",
        "-qefc",
        "exec ibv_asyncwatch -d uroce0",
        "/dev/null",
    ];
    let argv = command.map(String::from).to_vec();
    let mut watcher = on_uroce(cx, argv).merged().spawn()?;
    await_text(&watcher, "event FD")?;
    sh("ip link set ve1 down")?;
    await_text(&watcher, "PORT_ERR")?;
    sh("ip link set ve1 up")?;
    await_text(&watcher, "PORT_ACTIVE")?;
    sh("ip addr add 10.9.7.99/24 dev ve1")?;
    await_text(&watcher, "GID_CHANGE")?;
    sh("ip addr del 10.9.7.99/24 dev ve1")?;
    let shown = watcher.output();
    watcher.terminate();
    watcher.wait(Duration::from_secs(10))?;
    let descriptor = Regex::new(r"FD \d+$").map_err(|e| e.to_string())?;
    let mut lines = String::new();
    let mut change = String::new();
    for line in shown.lines().map(|line| line.trim_end_matches('\r')) {
        if line.contains("IBV_EVENT_GID_CHANGE") {
            change = format!("{line}\n");
        } else if line.starts_with("uroce0") || line.starts_with(' ') {
            lines += &format!("{}\n", descriptor.replace(line, "FD #"));
        }
    }
    Ok(lines + &change)
}

fn await_text(watcher: &Running, text: &str) -> Verdict {
    let printed = wait_until(Duration::from_secs(20), || watcher.output().contains(text));
    ensure(printed, format!("ibv_asyncwatch does not print {text}")).with(watcher.output())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_has_no_remarks() {
        let text = "# a remark\n== a\nx: 1\n\n# another\ny\n\n== ab\nz\n";
        assert_eq!(scenes(text), ["a", "ab"]);
        assert_eq!(part(text, "a"), "x: 1\ny\n");
        assert_eq!(part(text, "b"), "");
    }
}
