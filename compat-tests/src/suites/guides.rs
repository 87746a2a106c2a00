//! The guides in docs/guides: each of their commands runs on uroce, in the order of the page, and prints what
//! the page says.
//!
//! A fenced block of the kind `sh` has commands. All of a page run in one shell, which stops at the first
//! failure. A block of the kind `text` behind it has lines, each of which must be part of a line of the
//! commands' output; in them `...` stands for any text, and any white space for any other.

use std::path::PathBuf;
use std::time::Duration;

use regex_lite::Regex;

use super::dist;
use crate::artifacts::WRAPPER;
use crate::case::{Case, Place, Tier};
use crate::context::{Context, Library, succeeded};
use crate::process::{Program, Running, read};
use crate::verdict::{Failure, Verdict, ensure};

/// Where the release's files are served in the case's namespace.
const PORT: u16 = 20_090;

pub fn cases() -> Vec<Case> {
    let guide = |name: &'static str, run: fn(&Context, &str) -> Verdict| {
        Case::new(format!("guides/{name}"), move |cx| run(cx, name))
            .place(Place::Namespace)
            .cpu(200)
            .limit(300)
    };
    let of_release = |case: Case| case.tier(Tier::All).limit(dist::LIMIT);
    vec![
        guide("debugging", on_staged_library).tier(Tier::Test),
        guide("mpi-and-ucx", mpi).tier(Tier::Test),
        guide("failover", on_staged_library).tier(Tier::Test),
        guide("many-nics", on_staged_library).tier(Tier::Test),
        guide("profiles", on_staged_library).tier(Tier::Test),
        guide("real-nic", on_staged_library).tier(Tier::Test),
        of_release(guide("ci", on_release)).before(dist::make_dist),
        of_release(guide("ai", with_wheels)).before(|| {
            dist::make_dist()?;
            dist::wheel::users().map(drop)
        }),
    ]
}

/// A fenced block.
#[derive(Debug, PartialEq)]
struct Block<'a> {
    kind: &'a str,
    lines: Vec<&'a str>,
}

fn blocks(page: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if let Some(kind) = line.strip_prefix("```") {
            let lines = lines.by_ref().take_while(|line| *line != "```").collect();
            blocks.push(Block { kind, lines });
        }
    }
    blocks
}

/// Precedes the output of each block.
const MARK: &str = "@@ block";

/// Runs the commands. A page starts servers in the background, and sleeps until they listen: so does this
/// `sleep`, however busy the machine is.
const START: &str = r#"
sleep() {
    local tries
    for tries in {1..300}; do
        if grep -q ' 0A ' /proc/net/tcp /proc/net/tcp6; then return; fi
        command sleep 0.1
    done
    echo "no server listens" >&2
    return 1
}
"#;

fn script(blocks: &[Block]) -> String {
    let mut script = START.to_string();
    for (number, block) in blocks.iter().enumerate() {
        if block.kind == "sh" {
            script += &format!("echo '{MARK} {number}'\n{}\n", block.lines.join("\n"));
        }
    }
    script
}

/// Whether a line of the output contains this line of the page.
fn has(output: &str, line: &str) -> Result<bool, Failure> {
    let words = line.split_whitespace().map(|word| match word {
        "..." => ".*".into(),
        word => escaped(word).replace(r"\.\.\.", ".*"),
    });
    let pattern = words.collect::<Vec<_>>().join(r"\s*");
    let regex = Regex::new(&pattern).map_err(|e| e.to_string())?;
    Ok(output.lines().any(|line| regex.is_match(line)))
}

fn escaped(word: &str) -> String {
    word.chars()
        .map(|c| match c {
            c if c.is_ascii_alphanumeric() => c.to_string(),
            c => format!("\\x{{{:x}}}", u32::from(c)).replace("\\x{2e}", r"\."),
        })
        .collect()
}

/// Runs the page's commands with this shell, and looks for what they must print.
fn follow(cx: &Context, name: &str, prepare: impl FnOnce(Program) -> Program) -> Verdict {
    let page = read(&cx.source(&format!("../docs/guides/{name}.md")));
    let blocks = blocks(&page);
    let shell = cx.program(["bash", "-eo", "pipefail", "-c", &script(&blocks)]);
    let shell = shell.merged().limit(Duration::from_secs(280));
    let ended = prepare(shell.env("HOME", cx.dir()))
        .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
        .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
        .run()?;
    succeeded("the page's commands", &ended)?;
    for (number, block) in blocks.iter().enumerate() {
        if block.kind != "text" {
            continue;
        }
        let mark = format!("{MARK} {}\n", number - 1);
        let output = ended.out.split(&mark).nth(1).unwrap_or_default();
        let output = output.split(MARK).next().unwrap_or_default();
        for line in &block.lines {
            ensure(has(output, line)?, format!("no line {line:?}"))
                .map_err(|failure| failure.with(output))?;
        }
    }
    Ok(())
}

/// With the library under test and with-ibverbs-rs in PATH.
fn on_staged_library(cx: &Context, name: &str) -> Verdict {
    let wrapper = PathBuf::from(cx.built(WRAPPER)?);
    let path = path_with(&wrapper)?;
    follow(cx, name, |shell| {
        shell
            .env("PATH", path)
            .env("IBVERBS_RS_DIR", cx.library_dir(Library::Ours))
    })
}

fn path_with(wrapper: &std::path::Path) -> Result<String, Failure> {
    let dir = wrapper.parent().ok_or("with-ibverbs-rs has no directory")?;
    let path = std::env::var("PATH").unwrap_or_default();
    Ok(format!("{}:{path}", dir.display()))
}

fn mpi(cx: &Context, name: &str) -> Verdict {
    for program in ["mpicc.openmpi", "mpicc.mpich"] {
        if cx.program([program, "--version"]).run().is_err() {
            return Err(Failure::skip(format!(
                "{program} is not installed: run scripts/install-deps mpi"
            )));
        }
    }
    on_staged_library(cx, name)
}

/// The server of the release's files, and their URL.
fn release(cx: &Context) -> Result<(Running, String), Failure> {
    let (server, url) = dist::ci::forge(cx, PORT)?;
    Ok((server, format!("{url}/v{}", env!("CARGO_PKG_VERSION"))))
}

/// With the release's files at a URL, and nothing installed.
fn on_release(cx: &Context, name: &str) -> Verdict {
    let (_server, url) = release(cx)?;
    follow(cx, name, |shell| shell.env("UROCE_FROM", url))
}

/// The same with nixl, Mooncake and numpy, which pip then does not fetch again.
fn with_wheels(cx: &Context, name: &str) -> Verdict {
    let (_server, url) = release(cx)?;
    let users = dist::wheel::users()?;
    let examples = cx.source("../examples/python");
    follow(cx, name, |shell| {
        shell
            .env("UROCE_FROM", url)
            .env("PYTHONPATH", users)
            .env("EXAMPLES", examples)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_have_commands_and_their_output_only() {
        for case in cases() {
            let name = case.name.strip_prefix("guides/").unwrap();
            let page = crate::paths::repo().join(format!("docs/guides/{name}.md"));
            let page = read(&page);
            let kinds: Vec<&str> = blocks(&page).iter().map(|block| block.kind).collect();
            let commands = kinds.iter().filter(|kind| **kind == "sh").count();
            assert!(commands >= 3, "{name}: {kinds:?}");
            for pair in kinds.windows(2) {
                assert!(pair[1] != "text" || pair[0] == "sh", "{name}: {kinds:?}");
            }
            // An indented block would be commands that do not run.
            assert!(!page.contains("\n\n    "), "{name} has an indented block");
        }
    }

    #[test]
    fn every_guide_has_a_case() {
        let pages = std::fs::read_dir(crate::paths::repo().join("docs/guides")).unwrap();
        assert_eq!(pages.count(), cases().len());
    }

    #[test]
    fn blocks_of_a_page() {
        let page = "text\n```sh\na\nb\n```\n```text\nc\n```\n";
        let block = |kind, lines: &[&'static str]| Block {
            kind,
            lines: lines.to_vec(),
        };
        let expected = [block("sh", &["a", "b"]), block("text", &["c"])];
        assert_eq!(blocks(page), expected);
    }

    #[test]
    fn lines_of_a_page_in_the_output() {
        let output = "  state:\t\tPORT_ACTIVE (4)\nGID[  1]: x\n100 iters in 0.1 seconds = 7\n";
        for line in [
            "state: PORT_ACTIVE (4)",
            "GID[ 1]: x",
            "100 iters in ... seconds",
        ] {
            assert!(has(output, line).unwrap(), "{line}");
        }
        assert!(!has(output, "state: PORT.ACTIVE").unwrap());
    }
}
