//! libibverbs.a for arm64, linked with the provider archives of Debian 13.

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::{BUILD_LIMIT, built, in_build_root};
use crate::context::Context;
use crate::process::succeeded;
use crate::verdict::Verdict;

/// The programs: the name, the archive's directory for the linker, and the providers.
const PROGRAMS: &[(&str, &str, &str)] = &[
    ("none", OURS, ""),
    ("rxe", OURS, "-DPROVIDERS=rxe"),
    ("all", OURS, "-DPROVIDERS=all"),
    ("c-none", "", ""),
    ("c-rxe", "", "-DPROVIDERS=rxe"),
    ("c-all", "", "-DPROVIDERS=all"),
];
const OURS: &str = "-L/target/static-lib";
/// `$1` is the program, `$2` and `$3` are options, of which each may be empty. libibverbs and the providers
/// refer to each other.
const LINK: &str = r#"
archives=$(scripts/static-providers /usr/lib/aarch64-linux-gnu | sed s/^/-l/)
exec aarch64-linux-gnu-gcc -std=gnu17 -Wall -Wextra -Werror -O1 -static $3 -o "$1" \
    compat-tests/static/loopback.c $2 -Wl,--start-group -libverbs $archives -Wl,--end-group \
    -lnl-route-3 -lnl-3 -lpthread
"#;

/// Builds the archive, and links the programs into the directory `static` of `files`.
pub fn stage(cx: &Context, files: &Path) -> Verdict {
    let made = in_build_root(cx, ["make", "static"], BUILD_LIMIT)?;
    succeeded("make static, for arm64", &made)?;
    let to = files.join("static");
    fs::create_dir_all(&to)?;
    for (name, library, providers) in PROGRAMS {
        let output = format!("/target/static-{name}");
        let words = ["sh", "-ec", LINK, "link", &output, library, providers];
        let linked = in_build_root(cx, words, Duration::from_secs(300))?;
        succeeded(&format!("linking {name}"), &linked)?;
        fs::rename(built().join(format!("static-{name}")), to.join(name))?;
    }
    Ok(())
}
