//! Checks that a program gets through the wrapper what it would get without: arguments, input,
//! variables, signals.

use super::{libraries, only_ours, ours, plain, wrapped, wrapper};
use crate::checks::Check;
use crate::compare;
use crate::context::{Context, Library};
use crate::process::Exit;
use crate::verdict::{Details, Failure, Verdict, ensure};

pub fn checks() -> Vec<Check> {
    vec![
        Check::new("arguments, input, exit status", arguments),
        Check::new("LD_LIBRARY_PATH and LD_PRELOAD that were set", variables),
        Check::new("ignored signals", signals),
        Check::new("a closed standard input", |cx| {
            let script = "exec \"$0\" sh -c '! [ -e /proc/self/fd/0 ]' <&-";
            let program = plain(cx, ["sh", "-c", script, &wrapper(cx)?]);
            program.succeed().map(drop)
        }),
        Check::new(
            "a relative IBVERBS_RS_DIR, to a child in another directory",
            relative_directory,
        ),
    ]
}

fn arguments(cx: &Context) -> Verdict {
    let script = r#"echo input | exec "$0" sh -c 'printf "%s|" "$@"; cat; exit 7' sh 'a b' '' '*'"#;
    let ended = plain(cx, ["sh", "-c", script, &wrapper(cx)?]).run()?;
    let exit = ended.exit;
    ensure(exit == Exit::Code(7), format!("exit code {exit}"))?;
    compare::same(("expected", "a b||*|input\n"), ("got", &ended.out))
}

/// The library comes first, what was set last. Links for copies in wheels may stand between.
fn variables(cx: &Context) -> Verdict {
    let show = ["sh", "-c", r#"echo "$LD_LIBRARY_PATH"; echo "$LD_PRELOAD""#];
    let program = wrapped(cx, show)?
        .env("LD_LIBRARY_PATH", "/a/b")
        .env("LD_PRELOAD", "libm.so.6");
    let ended = program.succeed()?;
    let lines: Vec<&str> = ended.out.lines().collect();
    let dir = cx.library_dir(Library::Ours).display().to_string();
    let right = lines.len() == 2
        && lines[0].starts_with(&format!("{dir}:"))
        && lines[0].ends_with(":/a/b")
        && lines[1].starts_with(&format!("{}:", ours(cx)))
        && lines[1].ends_with(":libm.so.6");
    ensure(right, "other values").with(&ended.out)
}

/// The wrapper neither ignores nor restores signals.
fn signals(cx: &Context) -> Verdict {
    let of = |words: &[&str]| -> Result<String, Failure> {
        let script = r#"trap "" PIPE; exec "$@" grep ^SigIgn /proc/self/status"#;
        let start = ["sh", "-c", script, "sh"]
            .into_iter()
            .chain(words.iter().copied());
        let ended = plain(cx, start).succeed()?;
        Ok(ended.out)
    };
    let without = of(&["env"])?;
    compare::same(
        ("without the wrapper", &without),
        ("with it", &of(&[&wrapper(cx)?])?),
    )
}

fn relative_directory(cx: &Context) -> Verdict {
    let dir = cx.library_dir(Library::Ours);
    let (above, name) = (dir.parent(), dir.file_name());
    let (Some(above), Some(name)) = (above, name) else {
        return Err(Failure::new("the library has no directory"));
    };
    let command = format!("cd / && '{}'", cx.built("where-linked")?);
    let program = wrapped(cx, ["sh", "-c", &command])?
        .env("IBVERBS_RS_DIR", name)
        .dir(above);
    let ended = program.run()?;
    ensure(!libraries(&ended.out).is_empty(), "no library")?;
    only_ours(cx, &ended)
}
