//! The first commands of README.md, in root directories of Debian 12 and 13 that have what it says one needs
//! and nothing else: as root, and as an ordinary user who may use sudo. They install packages from the
//! network, build, and run.
//!
//! What is shared with the machine: Rust's toolchain, for Debian 12, whose own is too old; and the crates
//! that cargo has downloaded.

use std::fs;
use std::time::Duration;

use crate::case::{Case, Tier};
use crate::checks::slug;
use crate::context::Context;
use crate::paths::{self, text};
use crate::process::{Ended, read, succeeded};
use crate::roots::{BOOKWORM_FIRST, Root, TRIXIE_FIRST};
use crate::verdict::{Failure, Verdict, ensure};

/// A command that README.md shows, and what its output must have.
type Shown = (&'static str, &'static [&'static str]);

/// The first two, which install what is missing. The second is for Debian 12 only, as README.md says.
const FIRST: [Shown; 2] = [
    ("make demo", &["PORT_ACTIVE", "iters in", "65536"]),
    ("make check", &["0 failed", "total              ok"]),
];
/// The commands of the user with sudo, in this order.
const USING: &[Shown] = &[
    ("make", &["Finished"]),
    (
        "IBV_UROCE=1 bin/with-ibverbs-rs ibv_devinfo -v",
        &["hca_id:\turoce0"],
    ),
    (
        "make all static && sudo make install",
        &["installing what user"],
    ),
    (
        "pkg-config --cflags --libs libibverbs",
        &["-L/usr/local/lib -libverbs"],
    ),
    (
        "ldd /usr/bin/ibv_devinfo",
        &["libibverbs.so.1 => /usr/local/lib/libibverbs.so.1"],
    ),
    ("sudo make uninstall", &["rm -f"]),
    (
        "make deb && sudo apt-get install ./target/deb/libibverbs1-rs_*.deb",
        &["Setting up libibverbs1-rs"],
    ),
    ("sudo apt-mark hold libibverbs1-rs", &["set on hold"]),
    (
        "sudo apt-mark unhold libibverbs1-rs && sudo apt-get install libibverbs1",
        &["Setting up libibverbs1:"],
    ),
];
const LIMIT: Duration = Duration::from_secs(2700);

pub fn cases() -> Vec<Case> {
    let case = |root: &'static Root, user: &'static str, before: fn() -> Verdict| {
        let name = format!("first-run/{}-{user}", root.release());
        Case::new(name, move |cx| run(cx, root, user))
            .before(before)
            .batch()
            .tier(Tier::All)
            .cpu(200)
            .memory(3000)
            .limit((FIRST.len() + 1) as u64 * LIMIT.as_secs())
            .estimate(900)
    };
    let (bookworm, trixie) = (&BOOKWORM_FIRST, &TRIXIE_FIRST);
    vec![
        case(bookworm, "root", || BOOKWORM_FIRST.make()),
        case(bookworm, "user", || BOOKWORM_FIRST.make()),
        case(trixie, "root", || TRIXIE_FIRST.make()),
        case(trixie, "user", || TRIXIE_FIRST.make()),
    ]
}

/// The tree has what is not committed yet, too. No file of the root directory itself changes.
const PREPARE: &str = r#"
base=$1 work=$2 user=$3 crates=$4
mkdir -p "$work/upper" "$work/overlay" "$work/root"
mount -t overlay overlay -o "lowerdir=$base,upperdir=$work/upper,workdir=$work/overlay" "$work/root"
root=$work/root
cp -L /etc/resolv.conf "$root/etc/resolv.conf"
home=/root
if [ "$user" != root ]; then
    home=/home/$user
    echo 'APT::Get::Assume-Yes "true";' >"$root/etc/apt/apt.conf.d/90yes"
    chroot "$root" useradd --create-home --shell /bin/bash "$user"
    echo "$user ALL=(ALL) NOPASSWD: ALL" >"$root/etc/sudoers.d/$user"
fi
git clone -q --no-local . "$root$home/libibverbs-rs"
git ls-files -z | xargs -0 cp -a --parents -t "$root$home/libibverbs-rs"
mkdir -p "$root$home/.cargo"
[ ! -d "$crates" ] || cp -a "$crates" "$root$home/.cargo/"
chroot "$root" chown -R "$user:" "$home"
umount "$root"
"#;

/// Enters the root directory as a system of its own (in a chroot there are no user namespaces), and runs a
/// command there as the user.
const ENTER: &str = r#"
base=$1 work=$2 user=$3 rust=$4 command=$5
root=$work/root
mount -t overlay overlay -o "lowerdir=$base,upperdir=$work/upper,workdir=$work/overlay" "$root"
echo "127.0.0.1 localhost $(hostname)" >"$root/etc/hosts"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
path=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
if [ -n "$rust" ]; then
    mkdir -p "$root/opt/rust"
    mount --bind "$rust" "$root/opt/rust"
    path=/opt/rust/bin:$path
fi
mkdir -p "$root/old"
cd "$root"
pivot_root . old
umount -l /old
exec env -i LC_ALL=C.UTF-8 TERM=dumb su "$user" -c \
    "export PATH=$path CARGO_HOME=\$HOME/.cargo; cd ~/libibverbs-rs && $command"
"#;

fn run(cx: &Context, root: &Root, user: &str) -> Verdict {
    let readme = read(&cx.source("../README.md"));
    let work = cx.dir().join("work");
    fs::create_dir_all(&work)?;
    let (base, work) = (text(&root.dir()?), text(&work));
    let home = std::env::var("HOME").unwrap_or_default();
    let cargo = std::env::var("CARGO_HOME").unwrap_or_else(|_| format!("{home}/.cargo"));
    let crates = format!("{cargo}/registry");
    let words = [
        "unshare", "--mount", "bash", "-euc", PREPARE, "prepare", &base, &work, user,
    ];
    let words = words.into_iter().chain([crates.as_str()]);
    let prepared = cx.program(words).dir(&paths::repo()).merged();
    prepared.limit(LIMIT).succeed()?;
    let verdict = commands(cx, root, user, (&readme, &base, &work));
    fs::remove_dir_all(&work)?;
    verdict
}

fn commands(
    cx: &Context,
    root: &Root,
    user: &str,
    (readme, base, work): (&str, &str, &str),
) -> Verdict {
    let rust = match root.release() {
        "bookworm" => cx.output(["rustc", "--print", "sysroot"])?,
        _ => String::new(),
    };
    let using: &[Shown] = if user == "root" { &[] } else { USING };
    let first = match root.release() {
        "bookworm" => &FIRST[..],
        _ => &FIRST[..1],
    };
    for (command, wanted) in first.iter().chain(using) {
        let shown = command.split(" && ").last().unwrap_or_default();
        ensure(
            [" ", "\n", "`"]
                .iter()
                .any(|end| readme.contains(&format!("{shown}{end}"))),
            format!("README.md does not show {shown}"),
        )?;
        let namespaces = ["unshare", "--mount", "--pid", "--fork", "--kill-child"];
        let rust = rust.trim();
        let enter = [
            "bash", "-euc", ENTER, "enter", base, work, user, rust, command,
        ];
        let ended = cx.program(namespaces.into_iter().chain(enter));
        let ended = ended.merged().limit(LIMIT).run()?;
        let verdict = works(command, &ended, wanted);
        let failed = verdict.is_err();
        cx.report(&slug(command), verdict)?;
        if failed {
            break;
        }
    }
    Ok(())
}

fn works(command: &str, ended: &Ended, wanted: &[&str]) -> Verdict {
    succeeded(command, ended)?;
    for words in wanted {
        let found = ended.out.contains(words);
        ensure(found, format!("{command} did not print {words:?}"))
            .map_err(|failure: Failure| failure.with(&ended.out))?;
    }
    Ok(())
}
