//! A system with two driver directories: which provider serves a device. The case's own files take the
//! place of /usr/lib's provider directories and of /etc/libibverbs.d, with nothing in the environment.

use std::fs;

use super::{Bench, LAYOUTS, all_ok, device};
use crate::artifacts;
use crate::context::Context;
use crate::process::{Ended, read};
use crate::verdict::{Failure, Verdict, ensure};

/// The vendor's directory, which the library searches after the distribution's.
const VENDOR: &str = "/usr/lib/libibverbs";

pub fn directories(cx: &Context) -> Verdict {
    let bench = Bench::new(cx)?;
    let probe = bench.program("probe")?;
    let distribution = artifacts::library_dir()?.join("libibverbs");
    let under = |dir: &str| {
        let inside = dir.trim_start_matches("/usr/lib/");
        cx.dir().join("usr-lib").join(inside)
    };
    let (first, second) = (under(&distribution.display().to_string()), under(VENDOR));
    let elsewhere = cx.dir().join("opt");
    for dir in [&first, &second, &elsewhere, &cx.dir().join("conf")] {
        fs::create_dir_all(dir)?;
    }
    let (old, new) = (LAYOUTS[0], LAYOUTS[4]);
    let file =
        |dir: &std::path::Path, name: &str, abi: u32| dir.join(format!("lib{name}-rdmav{abi}.so"));
    // One provider in each directory, and one of two generations in both.
    bench.provider(&file(&first, "own34", old.abi), old.release, old.abi)?;
    bench.provider(&file(&second, "own64", new.abi), new.release, new.abi)?;
    bench.provider(&file(&first, "both", old.abi), old.release, old.abi)?;
    bench.provider(&file(&second, "both", new.abi), new.release, new.abi)?;
    bench.provider(&file(&elsewhere, "vendor", old.abi), old.release, old.abi)?;
    mount(cx)?;

    let run = |lines: &[&str], release: u32| -> Result<(Ended, String), Failure> {
        fs::write(cx.dir().join("conf/all.driver"), lines.join("\n"))?;
        let log = cx.dir().join("verbs.log");
        let ended = bench
            .configured([&probe, "slots", &device(release), &release.to_string()])
            .env("VERBS_LOG_LEVEL", "3")
            .env("VERBS_LOG_FILE", &log)
            .run()?;
        let text = read(&log);
        fs::remove_file(&log).ok();
        Ok((ended, text))
    };
    for release in [old.release, new.release] {
        let (ended, _) = run(&["driver own34", "driver own64"], release)?;
        cx.report(&format!("one-in-each/{release}"), all_ok(&ended, 90))?;
    }
    let (ended, _) = run(&["driver both"], old.release)?;
    cx.report("first-directory", all_ok(&ended, 90))?;

    // The same device in the distribution's and in a vendor's provider: the last line comes first.
    let vendor = format!("driver {}", elsewhere.join("libvendor").display());
    for (name, lines, winner) in [
        (
            "vendor-first",
            ["driver own34", &vendor],
            "libvendor-rdmav34.so",
        ),
        (
            "distribution-first",
            [&vendor, "driver own34"],
            "libown34-rdmav34.so",
        ),
    ] {
        let (ended, log) = run(&lines, old.release)?;
        all_ok(&ended, 90)?;
        let says = format!("device {}: driver pabi34 of ", device(old.release));
        let chosen = log.lines().find(|line| line.contains(&says));
        let right = chosen
            .and_then(|line| line.split_once(&says))
            .is_some_and(|(_, rest)| {
                rest.split_whitespace()
                    .next()
                    .is_some_and(|file| file.contains(winner))
            });
        cx.report(
            name,
            ensure(right, format!("{winner} was not chosen; the log is: {log}")),
        )?;
    }
    Ok(())
}

/// Mounts the case's configuration, and lays its provider directories over /usr/lib.
fn mount(cx: &Context) -> Verdict {
    let script = "mount --bind \"$1/conf\" /etc/libibverbs.d
         mount -t overlay -o \"lowerdir=$1/usr-lib:/usr/lib\" overlay /usr/lib";
    let dir = cx.dir().to_string_lossy().into_owned();
    cx.output(["sh", "-ec", script, "sh", &dir]).map(drop)
}
