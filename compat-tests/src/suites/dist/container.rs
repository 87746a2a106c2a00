//! The image of packaging/container/Containerfile, built by podman, on a base that debootstrap makes in place
//! of the one from a registry. Containers run as an ordinary user, without capabilities, on a read-only root
//! file system, with podman's default seccomp profile and with a stricter one.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::{LIMIT, made, make_dist, text};
use crate::case::{Case, Tier};
use crate::checks::{self, Check};
use crate::context::Context;
use crate::paths;
use crate::process::{Ended, Program, last_lines, read, succeeded};
use crate::roots::TRIXIE_SLIM;
use crate::sandbox::{Sandbox, sh};
use crate::verdict::{Details, Failure, Verdict, contains, ensure};

/// The name that the Containerfile gives to the image.
const IMAGE: &str = "libibverbs-rs";
/// A container of a cluster that permits nothing. podman itself would mount a /tmp.
const RESTRICTED: &[&str] = &[
    "--read-only",
    "--read-only-tmpfs=false",
    "--cap-drop=all",
    "--security-opt=no-new-privileges",
];

pub fn case() -> Case {
    let all = vec![
        Check::new("shows a ping-pong", |cx| {
            ping_pong(&run(cx, &["--network=none"], &[])?)
        }),
        Check::new("restricted", |cx| restricted(cx, &[], "the default")),
        Check::new("restricted, without process_vm and namespaces", stricter),
        Check::new("rdma_cm", rdma_cm),
        Check::new("two containers", two_containers),
        Check::new("the library for another image", files),
    ];
    let checks = checks::case("dist/container", all);
    let members = checks.members.clone();
    let run_and_clean_up = move |cx: &Context| {
        let verdict = checks.run(cx);
        // The images have a gigabyte.
        for dir in [cx.dir().join("store"), top()] {
            fs::remove_dir_all(dir)?;
        }
        verdict
    };
    Case::new("dist/container", run_and_clean_up)
        .members(members)
        .before(|| {
            make_dist()?;
            TRIXIE_SLIM.make()?;
            build()
        })
        .sandbox(Sandbox::Root)
        .tier(Tier::All)
        .limit(LIMIT)
        .estimate(120)
}

/// Where the images are built.
fn top() -> PathBuf {
    paths::target().join("container")
}

/// Builds the images as the Containerfile says, on the host, whose network apt needs.
const BUILD: &str = r#"
top=$1 base=$2 repo=$3 dist=$4
rm -rf "$top"
mkdir -p "$top/context/packaging" "$top/context/target"
cp -r "$repo/packaging/container" "$top/context/packaging/"
cp -r "$dist" "$top/context/target/dist"
cd "$top/context"
on_host() {
    podman --root "$top/store" --runroot "$top/run" --tmpdir "$top/tmp" --storage-driver vfs \
        --cgroup-manager cgroupfs "$@"
}
build() {
    on_host build --pull=never --isolation=chroot --layers=false --network=host \
        -f packaging/container/Containerfile "$@" .
}
tar -C "$base" --exclude=./version -cf - . | on_host import -q - debian:13-slim
build -t libibverbs-rs
build --target files -t libibverbs-rs:files
on_host save -q -m -o "$top/images.tar" libibverbs-rs:latest libibverbs-rs:files debian:13-slim
rm -rf "$top/store" "$top/run" "$top/tmp" "$top/context"
"#;

fn build() -> Verdict {
    if Command::new("podman").arg("--version").output().is_err() {
        return Err(Failure::skip(
            "podman is not installed: run scripts/install-deps containers",
        ));
    }
    let log = paths::target().join("container.log");
    let out = fs::File::create(&log)?;
    let status = Command::new("sh")
        .args(["-ec", BUILD, "build"])
        .args([top(), TRIXIE_SLIM.dir()?, paths::repo(), made()])
        .stdin(Stdio::null())
        .stdout(out.try_clone()?)
        .stderr(out)
        .status()?;
    ensure(status.success(), format!("podman build: {status}")).with(last_lines(&read(&log), 30))
}

/// podman with everything that it writes in the case's directory and in /run, which is the case's own.
fn podman(cx: &Context, words: &[&str]) -> Result<Program, Failure> {
    let store = cx.dir().join("store");
    let program = |words: &[&str]| {
        let own = ["--storage-driver", "vfs", "--cgroup-manager", "cgroupfs"];
        let own = own.into_iter().chain(["--runroot", "/run/containers"]);
        let root = text(&store);
        let all = ["podman", "--root", &root].into_iter().chain(own);
        cx.program(all.chain(words.iter().copied()))
            .limit(Duration::from_secs(120))
    };
    if !store.exists() {
        // crun refuses to run where both versions of cgroups are mounted.
        sh("! mountpoint -q /sys/fs/cgroup/unified || umount /sys/fs/cgroup/unified")?;
        let images = text(top().join("images.tar"));
        program(&["load", "-q", "-i", &images]).succeed()?;
    }
    Ok(program(words))
}

/// Runs a command in a container of an image.
fn container(
    cx: &Context,
    options: &[&str],
    image: &str,
    command: &[&str],
) -> Result<Program, Failure> {
    // Without these limits crun raises them, which root may not do everywhere.
    let limits = ["--ulimit=nofile=1024:1024", "--ulimit=nproc=4096:4096"];
    let words = ["run", "--rm", "--cgroups=disabled"]
        .into_iter()
        .chain(limits);
    let words = words.chain(options.iter().copied()).chain([image]);
    let words: Vec<_> = words.chain(command.iter().copied()).collect();
    podman(cx, &words)
}

fn run(cx: &Context, options: &[&str], command: &[&str]) -> Result<Ended, Failure> {
    Ok(container(cx, options, IMAGE, command)?.run()?)
}

/// The output of the image's own command.
fn ping_pong(ended: &Ended) -> Verdict {
    succeeded("the container", ended)?;
    contains(&ended.out, &["uroce0", "PORT_ACTIVE", "1000 iters in"])
}

/// Prints what the container may not do: user ID, capabilities, whether system calls are filtered, and the
/// errno values of process_vm_readv and of unshare with a new user namespace.
const LIMITS: &str = r#"
id -u
sed -nE 's/^(CapBnd|NoNewPrivs|Seccomp):\s*/\1 /p' /proc/self/status
(touch /tmp/file) 2>&1 | sed 's/.*: //'
ls /dev/infiniband 2>&1 | sed 's/.*: //'
perl -e 'print "process_vm_readv ", syscall(310, $$, 0, 0, 0, 0, 0) < 0 ? $!+0 : 0, "\n"'
perl -e 'print "unshare ", syscall(272, 0x10000000) < 0 ? $!+0 : 0, "\n"'
"#;

/// A ping-pong in a container that may do nothing but compute and use the network.
fn restricted(cx: &Context, profile: &[&str], what: &str) -> Verdict {
    let options: Vec<_> = RESTRICTED.iter().chain(profile).copied().collect();
    let options = [&options[..], &["--network=none"]].concat();
    let limits = run(cx, &options, &["sh", "-ec", LIMITS])?;
    succeeded("the limits", &limits)?;
    println!("{what} profile: {}", limits.out.replace('\n', ", "));
    let expected = "65534\nCapBnd 0000000000000000\nNoNewPrivs 1\nSeccomp 2\nRead-only file system\n\
        No such file or directory\n";
    ensure(limits.out.starts_with(expected), "other limits").with(&limits.out)?;
    let denied = limits.out.contains("process_vm_readv 1\nunshare 1\n");
    ensure(
        denied != profile.is_empty(),
        format!("{what} profile: {}", limits.out),
    )?;
    ping_pong(&run(cx, &options, &[])?)
}

/// Refuses what reaches into other processes, and namespaces, as many clusters do: podman's profile with
/// EPERM for these. glibc uses clone where clone3 fails with ENOSYS.
const STRICTER: &str = "
import json, sys
profile = json.load(open('/usr/share/containers/seccomp.json'))
refused = ['process_vm_readv', 'process_vm_writev', 'ptrace', 'kcmp', 'pidfd_getfd', 'unshare', 'setns']
for rule in profile['syscalls']:
    rule['names'] = [name for name in rule['names'] if name not in refused + ['clone3']]
profile['syscalls'] = [rule for rule in profile['syscalls'] if rule['names']]
profile['syscalls'].append({'names': refused, 'action': 'SCMP_ACT_ERRNO', 'errnoRet': 1})
json.dump(profile, sys.stdout)
";

fn stricter(cx: &Context) -> Verdict {
    let profile = cx.output(["python3", "-c", STRICTER])?;
    let file = text(cx.write("stricter.json", profile)?);
    let option = format!("--security-opt=seccomp={file}");
    restricted(cx, &[&option], "the stricter")
}

/// Starts $1 in the background, and $2 until it connects.
const PAIR: &str = r#"
$1 &
server=$!
tries=0
until $2; do
    tries=$((tries + 1))
    [ $tries -lt 100 ] && kill -0 $server || exit 1
    sleep 0.1
done
wait $server
"#;

fn rdma_cm(cx: &Context) -> Verdict {
    let client = "rping -c -a 127.0.0.1 -C 10 -v -V";
    let words = [
        "sh",
        "-ec",
        PAIR,
        "pair",
        "rping -s -a 127.0.0.1 -C 10 -V",
        client,
    ];
    let options = [RESTRICTED, &["--network=none"]].concat();
    let ended = run(cx, &options, &words)?;
    succeeded("rping", &ended)?;
    ensure(ended.out.contains("rdma-ping-9:"), "no ten messages").with(&ended.out)
}

/// Two containers share a network, as in a pod, but neither processes nor /dev/shm.
fn two_containers(cx: &Context) -> Verdict {
    let options = [RESTRICTED, &["--network=host"]].concat();
    let program = |more: &[&str]| {
        let words = [
            &["ib_write_bw", "-d", "uroce0", "-x", "1", "-n", "200"],
            more,
        ]
        .concat();
        container(cx, &options, IMAGE, &words)
    };
    let mut server = program(&[])?.spawn()?;
    let mut client = program(&["127.0.0.1"])?.run()?;
    // perftest's client ends if the server does not listen yet.
    for _ in 0..20 {
        if client.ok() || !server.is_running() {
            break;
        }
        client = program(&["127.0.0.1"])?.run()?;
    }
    succeeded("the client", &client)?;
    let exit = server.wait(Duration::from_secs(60))?;
    succeeded("the server", &server.ended(exit)?)?;
    ensure(client.out.contains(" 65536 "), "no result").with(client.out)
}

/// An image with the two lines that the Containerfile shows for other images.
fn files(cx: &Context) -> Verdict {
    let shown = read(&cx.source("../packaging/container/Containerfile"));
    let lines = shown.lines().filter_map(|line| line.strip_prefix("#   "));
    let lines: Vec<_> = lines
        .filter(|line| line.starts_with("COPY ") || line.starts_with("ENV "))
        .collect();
    ensure(
        lines.len() == 2,
        format!("lines for other images: {lines:?}"),
    )?;
    fs::create_dir_all(cx.dir().join("other"))?;
    let contents = format!("FROM debian:13-slim\n{}\n", lines.join("\n"));
    let file = text(cx.write("other/Containerfile", contents)?);
    let context = text(cx.dir().join("other"));
    let options = [
        "build", "--pull=never", "--isolation=chroot", "--layers=false",
    ];
    let words = [&options[..], &["-t", "other", "-f", &file, &context]].concat();
    podman(cx, &words)?.merged().succeed()?;
    let options = [RESTRICTED, &["--network=none"]].concat();
    let command = ["with-ibverbs-rs", "--version"];
    let ended = container(cx, &options, "other", &command)?.succeed()?;
    let library = "library: /usr/local/lib/libibverbs-rs/libibverbs.so.1";
    ensure(
        ended.out.lines().any(|line| line == library),
        format!("no line {library}"),
    )
    .with(ended.out)
}
