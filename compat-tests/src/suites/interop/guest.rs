//! What runs in the virtual machine: the members of a case, one after the other.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use super::{Ends, GIDS, GIDS_GROUP, Impairment, InteropMember, TEST, rxe};
use crate::child::Arguments;
use crate::context::{Context, Library};
use crate::lines;
use crate::pairs;
use crate::paths::{self, Paths};
use crate::place::sh;
use crate::verdict::{Failure, Verdict};

/// Where ordinary users of the machine can read the library.
const STAGED: &str = "/run/uroce";
/// The first port. Each row gets others, because the kernel keeps closed connections for a while.
const PORT: u16 = 20_000;

/// Runs the selected members of the case, and appends their verdicts to the file that
/// the host reads.
pub fn run(args: Arguments, members: &[InteropMember]) -> Verdict {
    sh(&format!(
        "mkdir -p {STAGED} && cp -r {}/lib {STAGED}/",
        args.staged.display()
    ))?;
    let paths = Paths {
        repo: paths::repo(),
        staged: STAGED.into(),
        case: args.dir,
    };
    let cx = Context::new(&args.name, paths, args.patterns);
    let mut chosen = members.to_vec();
    chosen.retain(|member| cx.selects(&member.name));
    let mut rest = chosen.as_slice();
    let mut port = PORT;
    while let Some(first) = rest.first() {
        let same = |member: &InteropMember| {
            member.ends == first.ends && member.impairment == first.impairment
        };
        let count = rest.iter().take_while(|member| same(member)).count();
        let (group, others) = rest.split_at(count);
        between(&cx, first.ends, first.impairment, group, &mut port)?;
        rest = others;
    }
    gids(&cx)
}

/// Runs these members between the same two hosts.
fn between(
    cx: &Context,
    ends: Ends,
    impairment: Impairment,
    group: &[InteropMember],
    port: &mut u16,
) -> Verdict {
    let hosts = rxe::make(cx, ends, impairment.netem)?;
    for member in group {
        let mut row = member.row.clone();
        if row.port.is_none() {
            row.port = Some(*port);
            *port += row.times;
        }
        let own = context_of(cx, member)?;
        cx.report_as(&member.name, pairs::run(&own, &row, hosts.hosts()))?;
    }
    hosts.print_losses(cx)
}

/// A context with a directory of its own, for the output of the programs.
fn context_of(cx: &Context, member: &InteropMember) -> Result<Context, Failure> {
    let dir: PathBuf = cx.dir().join(member.name.replace('/', "-"));
    fs::create_dir_all(&dir)?;
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o777))?;
    let paths = Paths {
        case: dir,
        ..cx.paths.clone()
    };
    Ok(Context::new(&member.name, paths, Default::default()))
}

/// The script checks GID tables, ports and events, and prints a line for each check.
fn gids(cx: &Context) -> Verdict {
    let name = |check: &str| format!("{GIDS_GROUP}/{check}");
    let selected = GIDS.iter().any(|check| cx.selects(&name(check)));
    if cx.name != TEST || !selected {
        return Ok(());
    }
    let script = cx.source("uroce/devices/gids-guest").display().to_string();
    let ended = cx
        .program(["bash".into(), script])
        .env("OUR_LIBDIR", cx.library_dir(Library::Ours))
        .limit(std::time::Duration::from_secs(400))
        .merged()
        .run()?;
    for (check, verdict) in lines::parse(&ended.out) {
        cx.report_as(&name(&check), verdict)?;
    }
    Ok(())
}
