//! The archive in CI: the step of the action setup-uroce as a runner of GitHub or Forgejo executes it, and
//! the variant for GitLab. Then a ping-pong runs with nothing but the variables that they set.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{LIMIT, NAME, made, make_dist, text};
use crate::case::{Case, Tier};
use crate::checks::{self, Check};
use crate::context::Context;
use crate::process::{Program, Running, read, succeeded, wait_until};
use crate::sandbox::Sandbox;
use crate::verdict::{Details, Failure, Verdict, contains, ensure};

const VERSION: &str = env!("CARGO_PKG_VERSION");
const PORT: u16 = 20_080;

pub fn case() -> Case {
    let all = vec![
        Check::new("action, from a release", |cx| {
            let (_server, url) = forge(cx, PORT)?;
            passes(cx, action(cx, "release")?.env("RELEASES", url), "release")
        }),
        Check::new("action, from a directory", |cx| {
            let step = action(cx, "directory")?.env("FROM", made());
            passes(cx, step, "directory")
        }),
        Check::new("a changed archive is refused", refused),
        Check::new("a directory of others is not replaced", not_replaced),
        Check::new("GitLab", gitlab),
        Check::new("GitLab: the template's script", template),
    ];
    checks::case("dist/ci", all)
        .before(make_dist)
        .sandbox(Sandbox::Namespace)
        .tier(Tier::All)
        .limit(LIMIT)
        .estimate(30)
}

/// The commands of a YAML file below this line, up to the next line that is not indented further.
fn block(file: &Path, head: &str) -> Result<String, Failure> {
    let contents = read(file);
    let lines: Vec<&str> = contents.lines().collect();
    let indent = |line: &str| line.len() - line.trim_start().len();
    let at = lines
        .iter()
        .position(|line| line.trim() == head)
        .ok_or_else(|| format!("{} has no line {head:?}", file.display()))?;
    let own = indent(lines[at]);
    let below = lines[at + 1..].iter().take_while(|line| indent(line) > own);
    Ok(below
        .map(|line| format!("{}\n", line.trim_start()))
        .collect())
}

/// The files as a release of the forge has them, served by HTTP at this port; the server, and the URL of the
/// releases.
pub(in crate::suites) fn forge(cx: &Context, number: u16) -> Result<(Running, String), Failure> {
    let dir = cx.dir().join("forge");
    let release = dir.join(format!("v{VERSION}"));
    if !release.exists() {
        fs::create_dir_all(&dir)?;
        cx.output(["cp", "-r", &text(made()), &text(&release)])?;
    }
    let port = number.to_string();
    let words = ["python3", "-m", "http.server", "--bind", "127.0.0.1", &port];
    let server = cx.program(words).dir(&dir).spawn()?;
    let listens = || std::net::TcpStream::connect(("127.0.0.1", number)).is_ok();
    ensure(
        wait_until(Duration::from_secs(20), listens),
        "the HTTP server does not start",
    )?;
    Ok((server, format!("http://127.0.0.1:{number}")))
}

/// A home directory of this name, in which nothing is installed.
pub(super) fn home(cx: &Context, name: &str) -> Result<PathBuf, Failure> {
    let home = cx.dir().join(name);
    fs::create_dir_all(&home)?;
    Ok(home)
}

/// The action's step, with the environment that a runner gives it.
fn action(cx: &Context, name: &str) -> Result<Program, Failure> {
    let path = cx.source("../.github/actions/setup-uroce");
    let script = block(&path.join("action.yml"), "run: |")?;
    let home = home(cx, name)?;
    let program = cx.program(["bash", "-eo", "pipefail", "-c", &script]);
    Ok(program
        .env("GITHUB_ACTION_PATH", path)
        .env("GITHUB_ENV", home.join("github-env"))
        .env("GITHUB_PATH", home.join("github-path"))
        .env("HOME", &home)
        .env("VERSION", VERSION)
        .env("DEVICES", "uroce0=lo")
        .env("FROM", ""))
}

/// Runs the step, and then a ping-pong with the variables that it added.
fn passes(cx: &Context, step: Program, name: &str) -> Verdict {
    let ended = step.succeed()?;
    contains(&ended.err, &["setup-uroce: device uroce0"])?;
    let home = home(cx, name)?;
    let bin = read(&home.join("github-path"));
    let wrapper = Path::new(bin.trim()).join("with-ibverbs-rs");
    ensure(wrapper.exists(), format!("no {}", wrapper.display()))?;
    ping_pong(cx, &variables(&read(&home.join("github-env"))))
}

pub(super) fn variables(lines: &str) -> BTreeMap<String, String> {
    let pairs = lines.lines().filter_map(|line| line.split_once('='));
    pairs
        .map(|(name, value)| (name.to_string(), value.to_string()))
        .collect()
}

fn ping_pong(cx: &Context, variables: &BTreeMap<String, String>) -> Verdict {
    ensure(
        variables.contains_key("IBV_UROCE") && variables.contains_key("LD_LIBRARY_PATH"),
        format!("variables: {variables:?}"),
    )?;
    let words = ["ibv_rc_pingpong", "-d", "uroce0", "-g", "1", "-n", "100"];
    let program = |more: Option<&str>| cx.program(words.into_iter().chain(more)).envs(variables);
    let mut server = program(None).spawn()?;
    let mut client = program(Some("127.0.0.1")).run()?;
    // The server listens after it has set up its queue pair.
    let client_passes = || {
        if !client.ok() {
            client = program(Some("127.0.0.1")).run().unwrap_or(client.clone());
        }
        client.ok() || !server.is_running()
    };
    wait_until(Duration::from_secs(20), client_passes);
    succeeded("the client", &client)?;
    let exit = server.wait(Duration::from_secs(20))?;
    succeeded("the server", &server.ended(exit)?)
}

fn refused(cx: &Context) -> Verdict {
    let dir = cx.dir().join("changed");
    cx.output(["cp", "-r", &text(made()), &text(&dir)])?;
    let archive = dir.join(format!("{NAME}.tar.zst"));
    let mut bytes = fs::read(&archive)?;
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&archive, bytes)?;
    let ended = action(cx, "refused")?.env("FROM", &dir).run()?;
    ensure(!ended.ok(), "the changed archive was installed")?;
    contains(&ended.err, &["does not have the checksum"])?;
    let installed = home(cx, "refused")?.join(".local");
    ensure(!installed.exists(), "something was installed")
}

/// The script, by itself, for other CI systems.
fn setup(cx: &Context, more: &[&str]) -> Program {
    let script = text(cx.source("../packaging/ci/setup-uroce"));
    let from = text(made());
    let words = [&script, "--from", &from, "--version", VERSION];
    let devices = ["--devices", "uroce0=lo"];
    cx.program(words.into_iter().chain(devices).chain(more.iter().copied()))
}

/// setup-uroce replaces what it has installed itself, and no other directory.
fn not_replaced(cx: &Context) -> Verdict {
    let prefix = home(cx, "of-others")?;
    let file = prefix.join("file");
    fs::write(&file, "of others")?;
    let into_it = || setup(cx, &["--prefix", &text(&prefix)]).run();
    let ended = into_it()?;
    ensure(!ended.ok() && file.exists(), "the directory was replaced").with(&ended.err)?;
    ensure(ended.err.contains("is not empty"), "another message").with(&ended.err)?;
    fs::remove_file(&file)?;
    succeeded("into an empty directory", &into_it()?)?;
    let old = prefix.join("lib/of-an-older-version");
    fs::write(&old, "")?;
    succeeded("again", &into_it()?)?;
    ensure(!old.exists(), "a file of the last time is left")
}

/// setup-uroce prints the variables.
fn gitlab(cx: &Context) -> Verdict {
    let ended = setup(cx, &[]).env("HOME", home(cx, "shell")?).succeed()?;
    ping_pong(cx, &variables(&ended.out))
}

/// The commands of gitlab.yml, with the variables that a job has; `env` prints what the job's script gets.
fn template(cx: &Context) -> Verdict {
    let (_server, url) = forge(cx, PORT)?;
    let file = cx.source("../packaging/ci/gitlab.yml");
    let commands: String = block(&file, "before_script:")?
        .lines()
        .map(|line| format!("{}\n", line.trim_start_matches("- ")))
        .collect();
    let home = home(cx, "gitlab")?;
    let program = cx.program(["bash", "-eo", "pipefail", "-c", &format!("{commands}env")]);
    let ended = program
        .env("HOME", &home)
        .env("UROCE_FROM", format!("{url}/v{VERSION}"))
        .env("UROCE_VERSION", VERSION)
        .env("UROCE_DEVICES", "uroce0=lo")
        .dir(&home)
        .succeed()?;
    let mut all = variables(&ended.out);
    all.retain(|name, _| name == "IBV_UROCE" || name == "LD_LIBRARY_PATH" || name == "PATH");
    ping_pong(cx, &all)
}
