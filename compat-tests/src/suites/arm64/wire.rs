//! uroce on arm64 against the kernel's Soft-RoCE on x86-64: two machines with a cable between them
//! (arm64/wire).

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use super::{LIMIT, build, image};
use crate::context::Context;
use crate::lines;
use crate::machine::boot::{Boot, Cable, End};
use crate::process::read;
use crate::roots;
use crate::verdict::{Failure, Verdict, ensure};

/// Checks of each side.
const CHECKS: usize = 22;
/// The time until the first machine's end of the cable is there.
const PLUGGED: Duration = Duration::from_secs(120);

pub fn make_machines() -> Verdict {
    image::make(image::Kernel::Pages4)?;
    roots::TRIXIE.make()
}

pub fn wire(cx: &Context) -> Verdict {
    let library = build(cx)?;
    let cable = cx.dir().join("cable");
    let end = |role: &str, mac| {
        let path = cable.display();
        let options = format!("server={role},addr.type=unix,addr.path={path}");
        Some(Cable { options, mac })
    };
    let kernel = Boot {
        root: roots::TRIXIE.dir()?,
        cable: end("on", "02:00:00:00:07:01"),
        ..Boot::limit(LIMIT)
    };
    let uroce = Boot {
        root: image::root()?,
        hardware: image::hardware(image::Kernel::Pages4)?,
        cable: end("off", "02:00:00:00:07:02"),
        ..kernel.clone()
    };
    let [at_kernel, at_uroce] = ["kernel", "uroce"].map(|side| machine(cx, side, &library));
    let (at_kernel, at_uroce) = (at_kernel?, at_uroce?);
    let ends = thread::scope(|scope| {
        let first = scope.spawn(move || run(&kernel, &at_kernel, "kernel"));
        let begin = Instant::now();
        while !cable.exists() && begin.elapsed() < PLUGGED {
            thread::sleep(Duration::from_millis(50));
        }
        let second = scope.spawn(move || run(&uroce, &at_uroce, "uroce"));
        [first, second].map(|side| side.join())
    });
    for (side, ended) in ["kernel", "uroce"].into_iter().zip(ends) {
        let end = ended.map_err(|_| "the thread of a machine panicked")??;
        let checks = lines::parse(&read(&cx.dir().join(side).join("checks")));
        let count = checks.len();
        for (name, verdict) in checks {
            cx.report(&format!("{side}/{name}"), verdict)?;
        }
        if let End::Stopped(why) = end {
            return Err(Failure::new(format!("the machine {side} stopped: {why}")));
        }
        ensure(
            count == CHECKS,
            format!("{side}: {count} checks, {CHECKS} were expected"),
        )?;
    }
    Ok(())
}

/// The directory of a machine, with what it needs.
fn machine(cx: &Context, side: &str, library: &Path) -> Result<Context, Failure> {
    let dir = cx.dir().join(side);
    fs::create_dir_all(dir.join("files/lib"))?;
    fs::copy(library, dir.join("files/lib/libibverbs.so.1"))?;
    fs::copy(cx.source("arm64/wire"), dir.join("files/wire"))?;
    Ok(cx.part(side, dir))
}

fn run(boot: &Boot, cx: &Context, side: &str) -> Result<End, Failure> {
    let script =
        format!("exec bash \"$OUT/files/wire\" {side} \"$OUT/files\" >\"$OUT/checks\" 2>&1\n");
    boot.run(cx, &script)
}
