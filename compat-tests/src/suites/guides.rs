//! The guides in docs/guides: each of their commands runs on uroce, in the order of the page, and prints what
//! the page says.
//!
//! A fenced block of the kind `sh` has commands. All of a page run in one shell, which stops at the first
//! failure. A block of the kind `text` behind it has lines, each of which must be part of a line of the
//! commands' output; in them `...` stands for any text, and any white space for any other.
//!
//! They run on this machine (Debian 12 in CI), and with Debian 13's programs in its root directory.

use std::path::PathBuf;
use std::time::Duration;

use regex_lite::Regex;

use super::dist;
use crate::artifacts::WRAPPER;
use crate::case::{Case, Tier};
use crate::context::{Context, Library};
use crate::process::{Program, Running, read};
use crate::roots::TRIXIE_GUIDES;
use crate::sandbox::Sandbox;
use crate::verdict::{Details, Failure, Verdict, ensure};

/// The port at which the release's files are served in the case's namespace.
const PORT: u16 = 20_090;

pub fn cases() -> Vec<Case> {
    let guide = |name: &'static str, run: fn(&Context, &str) -> Verdict| {
        Case::new(format!("guides/{name}"), move |cx| run(cx, name))
            .sandbox(Sandbox::Namespace)
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
        Case::new("guides/rdma-cm-page", page_of_rdma_cm)
            .sandbox(Sandbox::Namespace)
            .limit(60),
        // The wheels of the guide "ai" are those for this machine's Python.
        in_trixie("debugging", false),
        in_trixie("mpi-and-ucx", false),
        in_trixie("real-nic", false),
        in_trixie("ci", true),
    ]
}

/// A guide in the root directory of Debian 13.
fn in_trixie(name: &'static str, release: bool) -> Case {
    let case = Case::new(format!("guides/trixie/{name}"), move |cx| {
        trixie(cx, name, release)
    });
    let case = case.sandbox(Sandbox::Root).cpu(200).tier(Tier::All);
    if release {
        case.limit(dist::LIMIT)
            .before(|| dist::make_dist().and_then(|()| TRIXIE_GUIDES.make()))
    } else {
        case.limit(300).before(|| TRIXIE_GUIDES.make())
    }
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
/// `sleep`, however busy the machine is. The server of the release's files listens from the beginning.
const START: &str = r#"
others=$(awk '$4 == "0A" { printf "%s ", $2 }' /proc/net/tcp*)
sleep() {
    local tries
    for tries in {1..300}; do
        if awk -v others="$others" '$4 == "0A" && !index(others, $2) { found = 1 }
            END { exit !found }' /proc/net/tcp*; then return; fi
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
    follow_in(cx, &page, &[], prepare)
}

/// The same behind a command that enters another root directory.
fn follow_in(
    cx: &Context,
    page: &str,
    enter: &[&str],
    prepare: impl FnOnce(Program) -> Program,
) -> Verdict {
    let blocks = blocks(page);
    let shell = ["bash", "-eo", "pipefail", "-c", &script(&blocks)];
    let shell = cx.program(enter.iter().copied().chain(shell));
    let shell = shell.merged().limit(Duration::from_secs(280));
    let ended = prepare(shell.env("HOME", cx.dir()))
        .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
        .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
        .succeed()?;
    for (number, block) in blocks.iter().enumerate() {
        if block.kind != "text" {
            continue;
        }
        let mark = format!("{MARK} {}\n", number - 1);
        let output = ended.out.split(&mark).nth(1).unwrap_or_default();
        let output = output.split(MARK).next().unwrap_or_default();
        for line in &block.lines {
            ensure(has(output, line)?, format!("no line {line:?}")).with(output)?;
        }
    }
    Ok(())
}

/// Runs the guide with the library under test and with-ibverbs-rs in PATH.
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

/// Runs the guide with Debian 13's programs: on the library under test, or on the release's files.
fn trixie(cx: &Context, name: &str, release: bool) -> Verdict {
    dist::old_glibc::enter(&TRIXIE_GUIDES.dir()?)?;
    let page = read(&cx.source(&format!("../docs/guides/{name}.md")));
    // cargo run sets CARGO to a file that is not there.
    let enter = ["env", "-u", "CARGO", "chroot", dist::old_glibc::ROOT];
    let dir = cx.dir().to_string_lossy();
    let enter = [&enter[..], &["env", "-C", &dir]].concat();
    let path = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin";
    if release {
        let (_server, url) = self::release(cx)?;
        return follow_in(cx, &page, &enter, |shell| {
            shell.env("UROCE_FROM", url).env("PATH", path)
        });
    }
    let wrapper = PathBuf::from(cx.built(WRAPPER)?);
    let dir = wrapper.parent().ok_or("with-ibverbs-rs has no directory")?;
    let path = format!("{}:{path}", dir.display());
    follow_in(cx, &page, &enter, |shell| {
        shell
            .env("PATH", path)
            .env("IBVERBS_RS_DIR", cx.library_dir(Library::Ours))
    })
}

/// The program in libibverbs-rs-rdma-cm(7), server and client.
const RDMA_CM: &str = r#"
awk '/^\.Ed/ {p = 0} p {gsub(/\\e/, "\\"); print} /^\.Bd -literal$/ {p = 1}' "$1" >hello.c
gcc -Wall -Wextra -Werror -o hello hello.c -lrdmacm -libverbs
export IBV_UROCE=uroce0=lo
with-ibverbs-rs ./hello >server.out &
server=$!
until with-ibverbs-rs ./hello 127.0.0.1 2>client.err; do
    kill -0 $server
    sleep 0.1
done
wait $server
cat server.out
"#;

fn page_of_rdma_cm(cx: &Context) -> Verdict {
    let page = cx.source("../man/libibverbs-rs-rdma-cm.7");
    let page = page.to_string_lossy();
    let wrapper = PathBuf::from(cx.built(WRAPPER)?);
    let program = cx.program(["bash", "-euc", RDMA_CM, "page", &page]);
    let ended = program
        .env("PATH", path_with(&wrapper)?)
        .env("IBVERBS_RS_DIR", cx.library_dir(Library::Ours))
        .succeed()?;
    ensure(
        ended.out == "received: hello over rdma_cm\n",
        format!("the server printed {:?}", ended.out),
    )
}

/// The server of the release's files, and their URL.
fn release(cx: &Context) -> Result<(Running, String), Failure> {
    let (server, url) = dist::ci::forge(cx, PORT)?;
    Ok((server, format!("{url}/v{}", env!("CARGO_PKG_VERSION"))))
}

/// Runs the guide with the release's files at a URL, and nothing installed.
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
        for case in cases().iter().filter(|case| !case.name.ends_with("-page")) {
            let name = case.name.rsplit('/').next().unwrap();
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
        let here = cases()
            .iter()
            .filter(|case| !case.name.contains("trixie") && !case.name.ends_with("-page"))
            .count();
        assert_eq!(pages.count(), here);
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
            "state: PORT_ACTIVE (4)", "GID[ 1]: x", "100 iters in ... seconds",
        ] {
            assert!(has(output, line).unwrap(), "{line}");
        }
        assert!(!has(output, "state: PORT.ACTIVE").unwrap());
    }
}
