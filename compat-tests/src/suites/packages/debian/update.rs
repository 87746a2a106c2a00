//! An update of the distribution's rdma-core while our library is in place, beside the distribution's
//! libibverbs-dev, which depends on exactly its version of libibverbs1: apt would take that, and remove ours.
//! A hold keeps ours (docs/packaging.md).

use super::super::last_words;
use super::Debian;
use crate::process::Ended;
use crate::verdict::{Details, Failure, Verdict, ensure};

/// An archive with a newer version of each, made of the packages in apt's cache.
const ARCHIVE: &str = r#"
mkdir -p /repo/unpacked
cd /repo
for name in libibverbs1 libibverbs-dev; do
    deb=$(ls /var/cache/apt/archives/"$name"_*.deb)
    old=$(dpkg-deb -f "$deb" Version)
    dpkg-deb -R "$deb" "unpacked/$name"
    sed -i "s/^Version: $old/&+update/; s/libibverbs1 (= $old/&+update/" "unpacked/$name/DEBIAN/control"
    dpkg-deb --root-owner-group -b "unpacked/$name" "$name.deb" >&2
    dpkg-deb -f "$name.deb"
    echo "Filename: ./$name.deb"
    echo "Size: $(stat -c %s "$name.deb")"
    printf 'SHA256: %s\n\n' "$(sha256sum "$name.deb" | cut -d ' ' -f 1)"
done >Packages
echo 'deb [trusted=yes] file:/repo ./' >/etc/apt/sources.list.d/update.list
apt-get -q update -o Dir::Etc::sourcelist=sources.list.d/update.list -o Dir::Etc::sourceparts=- \
    -o APT::Get::List-Cleanup=0
"#;
const GONE: &str = "rm -rf /repo /etc/apt/sources.list.d/update.list /var/lib/apt/lists/_repo_*";
const LIBRARY: &str = "libibverbs1-rs";

pub fn run(debian: &Debian) -> Verdict {
    let made = debian.run(&["sh", "-ec", ARCHIVE])?;
    report(
        debian,
        "update/an-archive-with-a-newer-version",
        &made,
        made.ok(),
        "it was not made",
    )?;
    // apt 3.0 weighs what it would remove: with these two, which depend on it, ours would stay.
    let tools = ["with-ibverbs-rs", "uroce-ctl"];
    debian.try_apt("update/without-tools", &["remove", tools[0], tools[1]])?;
    let simulated = debian.apt(&["-s", "dist-upgrade"])?;
    // sid's apt keeps ours without a hold.
    let risk = simulated.ok() && (would(&simulated, "Remv") || !replaces(debian)?);
    let why = "ours would stay: the hold is not needed";
    report(
        debian,
        "update/without-a-hold-it-would-replace-ours",
        &simulated,
        risk,
        why,
    )?;
    let held = debian.run(&["apt-mark", "hold", LIBRARY])?;
    report(
        debian,
        "update/apt-mark-hold",
        &held,
        held.ok(),
        "it failed",
    )?;
    for command in ["upgrade", "dist-upgrade"] {
        let upgraded = debian.apt(&[command])?;
        report(
            debian,
            &format!("update/apt-get-{command}"),
            &upgraded,
            upgraded.ok(),
            "it failed",
        )?;
        debian.loads_ours(
            &format!("update/ours-is-there-after-{command}"),
            "/usr/bin/ibv_devinfo",
        )?;
    }
    debian.try_apt("update/apt-get-check", &["check"])?;
    let freed = debian.run(&["apt-mark", "unhold", LIBRARY])?;
    report(
        debian,
        "update/apt-mark-unhold",
        &freed,
        freed.ok(),
        "it failed",
    )?;
    let simulated = debian.apt(&["-s", "install", "libibverbs1", "libibverbs-dev"])?;
    let possible = simulated.ok() && would(&simulated, "Remv");
    report(
        debian, "update/the-way-back-is-open", &simulated, possible, "ours would stay",
    )?;
    let undone = debian.run(&["sh", "-ec", GONE])?;
    ensure(undone.ok(), "the archive was not removed")
}

/// Whether apt would do this with our library.
fn would(ended: &Ended, what: &str) -> bool {
    let start = format!("{what} {LIBRARY} ");
    ended.out.lines().any(|line| line.starts_with(&start))
}

/// Reports whether the command ended as it should.
fn report(debian: &Debian, name: &str, ended: &Ended, right: bool, why: &str) -> Verdict {
    let verdict = ensure(right, why).with(last_words(ended));
    debian.cx.report(name, verdict)
}

/// Whether this apt takes the distribution's in place of ours: those of Debian 12 (2.6) and 13 (3.0) do.
fn replaces(debian: &Debian) -> Result<bool, Failure> {
    let version = debian.run(&["apt-get", "--version"])?.out;
    Ok(version.starts_with("apt 2.") || version.starts_with("apt 3.0."))
}
