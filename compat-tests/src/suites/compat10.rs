//! A program linked to symbol version IBVERBS_1.0, on both libraries over the fake kernel: its output and the
//! bytes passed to the kernel must be equal, and it must find no wrong result.

use crate::case::{Case, Tier};
use crate::checks::{self, Check};
use crate::context::{Context, Library};
use crate::fake::SHIM;
use crate::fake::record::Record;
use crate::fake::scene::{Scene, SceneOutcome};
use crate::fake::sysfs::Tree;
use crate::process::Exit;
use crate::sandbox::Sandbox;
use crate::verdict::{Details, Failure, Verdict, ensure};

pub fn cases() -> Vec<Case> {
    let mut list = vec![Check::new("linked-to-IBVERBS_1.0", linked)];
    for io in ["ENOTTY", "ok", "nowrite"] {
        list.push(scene(io).record(Record::Everything).check());
        list.push(Check::with_parts(
            format!("results-ioctl-{io}"),
            vec!["c", "ours"],
            move |cx| results(cx, io),
        ));
    }
    let case = checks::case("compat10/fake", list)
        .sandbox(Sandbox::Namespace)
        .tier(Tier::Check)
        .programs(&[SHIM, "compat10"])
        .limit(300);
    vec![case]
}

fn scene(io: &'static str) -> Scene {
    with(io, &["compat10", "rxe0"])
}

fn with(io: &'static str, argv: &[&str]) -> Scene {
    Scene::new(format!("rxe0-ioctl-{io}"), argv.iter().copied())
        .tree(Tree::new(["rxe0", "mlx5_0"]))
        .env("FAKE_IOCTL", io)
}

/// The program checks its results itself; with -x also those that the C library gets wrong.
fn results(cx: &Context, io: &'static str) -> Result<Vec<Verdict>, Failure> {
    Tree::new(["rxe0", "mlx5_0"]).write(crate::fake::scene::SYS.as_ref())?;
    let c = scene(io).run(cx, Library::C)?;
    let ours = with(io, &["compat10", "-x", "rxe0"]).run(cx, Library::Ours)?;
    Ok([c, ours].iter().map(no_wrong_result).collect())
}

fn no_wrong_result(outcome: &SceneOutcome) -> Verdict {
    let wrong = outcome.text.lines().any(|line| line.ends_with("NO"));
    let why = format!("exit code {}, or a wrong result", outcome.exit);
    ensure(outcome.exit == Exit::Code(0) && !wrong, why).with(&outcome.text)
}

/// The program is linked to version 1.0 of the 33 functions that 1.0 had, and of the two for channels, which
/// have no other version. ibv_event_type_str is newer.
fn linked(cx: &Context) -> Verdict {
    let symbols = cx.output(["objdump", "-T", &cx.built("compat10")?])?;
    let of_verbs = symbols.lines().filter_map(|line| {
        let (rest, name) = line.rsplit_once(char::is_whitespace)?;
        let version = rest.split_whitespace().next_back()?;
        name.starts_with("ibv_")
            .then(|| format!("{version} {name}"))
    });
    let (old, newer): (Vec<_>, Vec<_>) =
        of_verbs.partition(|symbol| symbol.starts_with("(IBVERBS_1.0) "));
    let right = old.len() == 35 && newer == ["(IBVERBS_1.1) ibv_event_type_str"];
    ensure(
        right,
        format!("{} symbols of 1.0, and {newer:?}", old.len()),
    )
}
