//! IBV_EXPLAIN (libibverbs-rs-explain(7)): each way of misusing verbs is explained, by the right rule and
//! with the right values; correct programs are not commented on; and nothing changes but the output.

mod machine;
mod mistakes;
pub mod rxe;
mod silent;
mod unwrapped;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

use crate::c_table;
use crate::case::{Case, Tier};
use crate::compare;
use crate::context::{Context, Library};
use crate::process::{Program, read, succeeded, wait_until};
use crate::sandbox::Sandbox;
use crate::testbed::Testbed;
use crate::verdict::{Details, Failure, Verdict, contains, ensure};

/// A scene of c/explain, or a mistake, as the table in its source has it.
struct Expected {
    name: String,
    /// The rules that apply, separated by spaces.
    rules: String,
    /// A part of the explanation.
    says: String,
}

impl Expected {
    /// The entries of a table that say what is expected.
    fn of_table(directory: &str, element: &str) -> Vec<Expected> {
        let rows = c_table::entries(directory, element).into_iter();
        let expected = rows.filter_map(|row| <[String; 3]>::try_from(row).ok());
        expected
            .map(|[name, rules, says]| Expected { name, rules, says })
            .collect()
    }

    fn rules(&self) -> Vec<&str> {
        self.rules.split(' ').collect()
    }
}

/// The scenes of c/explain: the rules apply once each, and the first explanation has the part.
static SCENES: LazyLock<Vec<Expected>> =
    LazyLock::new(|| Expected::of_table("c/explain", "struct scene"));

/// The rules of IBV_FAULTS for scenes that uroce itself does not fail. An injected error is
/// explained as a real one.
const FAULTS: [(&str, &str); 3] = [
    (
        "rtr-timeout",
        "fail:call=modify_qp,errno=ETIMEDOUT,after=1,count=1",
    ),
    ("reg-no-memory", "fail:call=reg_mr,errno=ENOMEM,after=1"),
    ("reg-file", "fail:call=reg_mr,errno=EFAULT,after=1"),
];

/// The distribution's programs, as a server and a client. The findings are true: the client of
/// ib_send_bw creates two CQs and destroys one.
const PROGRAMS: [(&str, Option<&str>); 9] = [
    ("ibv_rc_pingpong -g 1 -n 500", None),
    ("ibv_rc_pingpong -g 1 -n 500 -e", None),
    ("ibv_uc_pingpong -g 1 -n 100", None),
    ("ibv_ud_pingpong -g 1 -n 100", None),
    ("ibv_srq_pingpong -g 1 -n 100", None),
    (
        "ib_send_bw -F -x 1 -n 1000",
        Some("the device is closed with 1 CQ left"),
    ),
    ("ib_send_lat -F -x 1 -n 300 -e", None),
    ("ib_write_lat -F -x 1 -n 1000", None),
    ("ib_read_bw -F -x 1 -n 1000", None),
];

type CaseBody = fn(&Context) -> Verdict;

pub fn cases() -> Result<Vec<Case>, String> {
    let place = |case: Case| case.sandbox(Sandbox::Namespace).programs(&["explain"]);
    let mut cases: Vec<Case> = SCENES
        .iter()
        .map(|scene| {
            let name = format!("uroce/explain/{}", scene.name);
            place(Case::new(name, move |cx| explains(cx, scene))).tier(Tier::Check)
        })
        .collect();
    for (command, said) in PROGRAMS {
        let name = command.replace(" -", "-").replace(' ', "");
        let run = move |cx: &Context| runs(cx, command, said);
        cases.push(place(Case::new(format!("uroce/explain/{name}"), run)).limit(120));
    }
    let more: [(&str, CaseBody); 5] = [
        ("correct", correct),
        ("no-device", no_device),
        ("all-scenes", all_scenes),
        ("text", text),
        ("bad-values", bad_values),
    ];
    cases.extend(more.map(|(name, run)| {
        place(Case::new(format!("uroce/explain/{name}"), run)).tier(Tier::Check)
    }));
    cases.push(Case::new("explain/every-rule", every_rule).tier(Tier::Check));
    cases.extend(machine::cases());
    cases.extend(mistakes::cases());
    cases.extend(silent::cases()?);
    cases.push(unwrapped::case());
    Ok(cases)
}

fn file(cx: &Context) -> PathBuf {
    cx.dir().join("explained")
}

/// A scene, as an ordinary user, on the loopback interface.
fn scene(cx: &Context, name: &str, explain: &str) -> Result<Program, Failure> {
    let faults = FAULTS.iter().find(|(scene, _)| *scene == name);
    Ok(cx
        .on_uroce([cx.built("explain")?, name.into()])
        .env("IBV_FAULTS", faults.map_or("0", |(_, rules)| rules))
        .env("IBV_EXPLAIN_WAIT", "1")
        .env("IBV_EXPLAIN", explain))
}

/// The rules that a file of IBV_EXPLAIN=json: names.
struct Explained {
    rules: BTreeSet<String>,
    /// The explanations, as sentences.
    texts: Vec<String>,
    /// The rules of the last line.
    counted: BTreeSet<String>,
}

fn explained(cx: &Context) -> Result<Explained, Failure> {
    let mut found = Explained {
        rules: BTreeSet::new(),
        texts: Vec::new(),
        counted: BTreeSet::new(),
    };
    for line in read(&file(cx)).lines() {
        let json: serde_json::Value =
            serde_json::from_str(line).map_err(|error| format!("{error}: {line}"))?;
        if let Some(counts) = json["counts"].as_object() {
            found.counted.extend(counts.keys().cloned());
            continue;
        }
        if json["fault"].is_number() {
            continue;
        }
        let member = |name: &str| json[name].as_str().unwrap_or_default().to_string();
        found.rules.insert(member("rule"));
        let text = ["what", "why", "do", "note"].map(member).join(". ");
        // Structures are shown as `{ member = value }`.
        let is_name = |(at, _): (usize, &str)| text[at + 1..].starts_with(char::is_alphabetic);
        let complete = !text.match_indices('{').any(is_name);
        ensure(complete, format!("a value is missing: {text}"))?;
        found.texts.push(text);
    }
    Ok(found)
}

/// The scene causes exactly these rules. They are counted at exit, but not in a child that calls _exit(2).
fn explains(cx: &Context, expected: &Expected) -> Verdict {
    let output = format!("json:{}", file(cx).display());
    let name = expected.name.as_str();
    scene(cx, name, &output)?.succeed()?;
    // Whether the request fails before its queue pair is destroyed is a matter of time.
    let ignored: &[&str] = match name {
        "mr-in-use" => &["key-deregistered", "unread-error"],
        _ => &[],
    };
    check_scene(cx, name, &expected.rules(), &expected.says, ignored)
}

/// The file has exactly these rules, without those that are ignored, and the first explanation has this part.
fn check_scene(cx: &Context, name: &str, rules: &[&str], part: &str, ignored: &[&str]) -> Verdict {
    let found = explained(cx)?;
    let counts = |rule: &str| !ignored.contains(&rule) || rules == [rule];
    let list = |rules: &BTreeSet<String>| -> String {
        let rules = rules.iter().filter(|rule| counts(rule));
        rules.map(|rule| format!("{rule}\n")).collect()
    };
    let wanted = rules.iter().filter(|rule| counts(rule));
    let wanted: String = wanted.map(|rule| format!("{rule}\n")).collect();
    compare::same(("expected", &wanted), ("explained", &list(&found.rules)))?;
    if name != "child-verb" {
        compare::same(("expected", &wanted), ("counted", &list(&found.counted)))?;
    }
    let first = found.texts.first().cloned().unwrap_or_default();
    contains(&first, &[part])
}

/// A program that does everything right is not commented on.
fn correct(cx: &Context) -> Verdict {
    let output = format!("file:{}", file(cx).display());
    scene(cx, "correct", &output)?.succeed()?;
    compare::same(("expected", ""), ("explained", &read(&file(cx))))
}

fn no_device(cx: &Context) -> Verdict {
    let output = format!("json:{}", file(cx).display());
    let program = scene(cx, "no-device", &output)?.env("IBV_UROCE", "");
    program.succeed()?;
    let rules = explained(cx)?.rules;
    let only = rules.len() == 1;
    ensure(
        only && (rules.contains("no-device") || rules.contains("no-device-file")),
        format!("explained: {rules:?}"),
    )
}

/// The program has no scene that is not a case here.
fn all_scenes(cx: &Context) -> Verdict {
    let listed = scene(cx, "list", "0")?.succeed()?;
    let sorted = |names: BTreeSet<&str>| names.into_iter().collect::<Vec<_>>().join("\n");
    let here: BTreeSet<&str> = SCENES
        .iter()
        .map(|scene| scene.name.as_str())
        .chain(["correct"])
        .chain(machine::scenes())
        .collect();
    let there: BTreeSet<&str> = listed.out.lines().collect();
    compare::same(("cases", &sorted(here)), ("the program", &sorted(there)))
}

/// A case provokes each rule that libibverbs-rs-explain(7) lists, which are those of the table (man/explain),
/// and no case expects another.
fn every_rule(cx: &Context) -> Verdict {
    let page = read(&cx.paths.repo.join("man/libibverbs-rs-explain.7"));
    let listed = page.lines().filter_map(|line| line.strip_prefix(".It Sy "));
    let listed: BTreeSet<&str> = listed.collect();
    let provoked = SCENES.iter().flat_map(Expected::rules);
    let provoked: BTreeSet<&str> = provoked
        .chain(machine::rules())
        .chain(mistakes::rules())
        .chain(["no-device", mistakes::SLOTS_COMPLETED])
        .collect();
    let text = |rules: BTreeSet<&str>| rules.into_iter().collect::<Vec<_>>().join("\n");
    compare::same(("listed", &text(listed)), ("provoked", &text(provoked)))
}

/// The same on stderr, once per object, and the counts at exit.
fn text(cx: &Context) -> Verdict {
    let ended = scene(cx, "busy", "1")?.succeed()?;
    let lines: Vec<&str> = ended.err.lines().collect();
    let ok = matches!(
        lines.as_slice(),
        [pd, channel, counts]
            if pd.starts_with("libibverbs: explain: error: PD 0x")
                && pd.contains("ibv_dealloc_pd failed with errno 16 (Device or resource busy): ")
                && pd.ends_with("[busy]")
                && channel.starts_with("libibverbs: explain: error: completion channel 0x")
                && *counts == "libibverbs: explain: counts: busy 2 (on 2 objects)"
    );
    ensure(ok, "the text is another").with(ended.err)
}

/// Values that mean nothing, and files that cannot be written: a warning, and the program works.
fn bad_values(cx: &Context) -> Verdict {
    let run = |value: &str| -> Result<String, Failure> {
        let ended = scene(cx, "busy", value)?.succeed()?;
        Ok(ended.err)
    };
    let warned = run("yes")?;
    let warning =
        "libibverbs: Warning: ignoring IBV_EXPLAIN='yes': expected 1, error, warning, hint";
    ensure(
        warned.starts_with(warning) && warned.lines().count() == 1,
        warned,
    )?;
    for value in ["0", ""] {
        compare::same(("expected", ""), ("got", &run(value)?))?;
    }
    let warned = run("json:/nonexistent/file")?;
    let first = warned.lines().next().unwrap_or_default();
    ensure(
        first.starts_with(
            "libibverbs: Warning: couldn't open the file of IBV_EXPLAIN '/nonexistent/file': ",
        ) && warned.contains("[busy]"),
        format!("it printed {warned}"),
    )
}

/// A server and a client. There is no finding about the server, and `said` is found about the client.
fn runs(cx: &Context, command: &str, said: Option<&str>) -> Verdict {
    const PORT: &str = "20000";
    let hosts = Testbed::Loopback.make(cx)?;
    let program = |role: &str, address: Option<&str>| {
        let words = command.split(' ').chain(["-p", PORT]).chain(address);
        let explained = cx.dir().join(role);
        cx.program(words)
            .library(&cx.library_dir(Library::Ours))
            .env("IBV_UROCE", "uroce0=127.0.0.1")
            .env("IBV_EXPLAIN", format!("file:{}", explained.display()))
    };
    let mut server = program("server", None).spawn()?;
    let port = PORT.parse().map_err(|_| Failure::new("PORT"))?;
    let ready = wait_until(Duration::from_secs(20), || hosts.server.listens(port));
    ensure(ready, "the server does not listen")?;
    program("client", Some("127.0.0.1")).succeed()?;
    let exit = server.wait(Duration::from_secs(20))?;
    succeeded("server", &server.ended(exit)?)?;
    let explained = |role: &str| read(&cx.dir().join(role));
    compare::same(("expected", ""), ("server", &explained("server")))?;
    let client = explained("client");
    match said {
        None => compare::same(("expected", ""), ("client", &client)),
        Some(said) => {
            let lines: Vec<&str> = client.lines().collect();
            let ok = matches!(lines.as_slice(), [only, _counts] if only.contains(said));
            ensure(ok, format!("the client: {client}"))
        }
    }
}
