//! Tests call every exported function: MATRIX.md lists which test programs call which function.
//!
//! MATRIX.md is compared with the list of symbols, with what the programs over the fake kernel call now,
//! under an auditor of the dynamic linker (matrix/audit.c), and with what the programs in the virtual
//! machine called when they were recorded (matrix/vm.lst, by the case `matrix/recorded-in-vm`). A row fails
//! if it names a program that does not call the function, or no program at all, unless matrix/remarks gives a
//! reason and the test that replaces the call. matrix/rest.c calls what no other program does.
//!
//! The case `matrix/calls` writes MATRIX.md as it would be now into its directory.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use regex_lite::Regex;

use crate::case::{Case, Tier};
use crate::checks::{self, Check};
use crate::compare;
use crate::context::{Context, Library};
use crate::fake::record::Record;
use crate::fake::scene::{SYS, Scene};
use crate::fake::sysfs::{Tree, known_devices};
use crate::fake::{self, SHIM};
use crate::machine::boot::Boot;
use crate::paths;
use crate::process::read;
use crate::sandbox::Sandbox;
use crate::verdict::{Details, Failure, Verdict, ensure};

/// Symbol and program.
type Calls = BTreeSet<(String, String)>;

pub fn cases() -> Vec<Case> {
    let programs = [
        SHIM, "audit", "verbs_walk", "load_all", "rest", "probe", "threads", "forktest", "compat10",
    ];
    let rest = checks::case("matrix/rest", rest_checks())
        .sandbox(Sandbox::Namespace)
        .limit(300);
    let cases = [
        Case::new("matrix/rows", rows_are_complete),
        Case::new("matrix/tested", each_symbol_has_a_test),
        Case::new("matrix/calls-in-vm", calls_in_vm),
        Case::new("matrix/remarks", remarks),
        Case::new("matrix/calls", calls)
            .before(crate::artifacts::needs_reference_release)
            .sandbox(Sandbox::Namespace)
            .limit(900)
            .programs(&programs),
        rest.programs(&[SHIM, "rest"]),
    ];
    let mut cases: Vec<Case> = cases
        .into_iter()
        .map(|case| case.tier(Tier::Check))
        .collect();
    let in_vm = Case::new("matrix/recorded-in-vm", recorded_in_vm);
    let programs = ["audit", "threads", "compat10"];
    cases.push(
        in_vm
            .sandbox(Sandbox::Vm)
            .tier(Tier::All)
            .programs(&programs)
            .limit(1300),
    );
    cases
}

/// A row of MATRIX.md.
struct MatrixRow {
    symbol: String,
    on_fake: Vec<String>,
    on_vm: Vec<String>,
    remark: String,
}

fn rows(cx: &Context) -> Result<Vec<MatrixRow>, Failure> {
    let text = fs::read_to_string(cx.paths.repo.join("MATRIX.md"))?;
    let row = Regex::new(r"(?m)^\| `([^`]*)` \| ([^ ]*) \| (.*) \| (.*) \| (.*) \|$");
    let row = row.map_err(|e| e.to_string())?;
    let list = |text: &str| {
        text.split(", ")
            .filter(|p| !p.is_empty())
            .map(String::from)
            .collect()
    };
    let rows: Vec<MatrixRow> = row
        .captures_iter(&text)
        .map(|found| MatrixRow {
            symbol: format!("{}@{}", &found[1], &found[2]),
            on_fake: list(&found[3]),
            on_vm: list(&found[4]),
            remark: found[5].to_string(),
        })
        .collect();
    ensure(
        rows.len() > 150,
        format!("MATRIX.md has only {} rows", rows.len()),
    )?;
    Ok(rows)
}

/// The functions and the one object, without the symbols that mark version nodes: by version, then by name.
fn symbols(cx: &Context) -> Vec<String> {
    let list = read(&cx.source("symbols/exports.lst"));
    let mut symbols: Vec<(Vec<u64>, String, String)> = list
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .filter(|fields| fields.len() == 4 && fields[1] != "ABS")
        .map(|fields| {
            let version = fields[2].trim_matches(['(', ')']).to_string();
            let numbers = version.split(|c: char| !c.is_ascii_digit());
            let key = numbers.filter_map(|n| n.parse().ok()).collect();
            (key, version, fields[3].to_string())
        })
        .collect();
    symbols.sort_by(|a, b| {
        (a.1.contains("PRIVATE"), &a.0, &a.2).cmp(&(b.1.contains("PRIVATE"), &b.0, &b.2))
    });
    symbols
        .into_iter()
        .map(|(_, version, name)| format!("{name}@{version}"))
        .collect()
}

/// MATRIX.md has a row for each symbol, and no other.
fn rows_are_complete(cx: &Context) -> Verdict {
    let sorted = |mut names: Vec<String>| {
        names.sort();
        names.join("\n")
    };
    let listed = sorted(rows(cx)?.into_iter().map(|row| row.symbol).collect());
    compare::same(
        ("MATRIX.md", &listed),
        ("exports.lst", &sorted(symbols(cx))),
    )
}

fn each_symbol_has_a_test(cx: &Context) -> Verdict {
    let rows = rows(cx)?;
    let without =
        |row: &&MatrixRow| row.on_fake.is_empty() && row.on_vm.is_empty() && row.remark.is_empty();
    let missing: Vec<&str> = rows
        .iter()
        .filter(without)
        .map(|row| row.symbol.as_str())
        .collect();
    ensure(missing.is_empty(), format!("without a test: {missing:?}"))
}

/// Lines `SYMBOL PROGRAM`.
fn parse_calls(text: &str) -> Calls {
    let pairs = text.lines().filter_map(|line| line.split_once(' '));
    pairs
        .map(|(symbol, program)| (symbol.into(), program.into()))
        .collect()
}

fn claims_are_true(claims: &Calls, facts: &Calls) -> Verdict {
    ensure(
        claims.len() > 50,
        format!("MATRIX.md claims only {} calls", claims.len()),
    )?;
    let lines = claims
        .difference(facts)
        .map(|(symbol, program)| format!("{symbol} {program}"));
    let wrong: Vec<String> = lines.collect();
    let why = format!("{} calls of MATRIX.md are not made", wrong.len());
    ensure(wrong.is_empty(), why).with(wrong.join("\n"))
}

fn claims(rows: &[MatrixRow], of: impl Fn(&MatrixRow) -> &Vec<String>) -> Calls {
    let pairs = |row: &MatrixRow| {
        of(row)
            .iter()
            .map(|program| (row.symbol.clone(), program.clone()))
            .collect::<Vec<_>>()
    };
    rows.iter().flat_map(pairs).collect()
}

fn calls_in_vm(cx: &Context) -> Verdict {
    let recorded = parse_calls(&read(&cx.source("matrix/vm.lst")));
    claims_are_true(&claims(&rows(cx)?, |row| &row.on_vm), &recorded)
}

/// The programs in the virtual machine make the calls of MATRIX.md. The script matrix/guest runs them there.
fn recorded_in_vm(cx: &Context) -> Verdict {
    let files = cx.dir().join("in");
    fs::create_dir(&files)?;
    fs::copy(cx.library(Library::Ours), files.join("libibverbs.so.1"))?;
    for (program, name) in [
        ("audit", "audit.so"),
        ("threads", "threads"),
        ("compat10", "compat10"),
    ] {
        fs::copy(cx.built(program)?, files.join(name))?;
    }
    Boot::limit(1200).succeeds(cx, &read(&cx.source("matrix/guest")))?;
    let mut made = Calls::new();
    for (program, directory) in recorded_programs(&cx.dir().join("records"))? {
        made.extend(marked(&directory, &program)?);
    }
    let lines = made
        .iter()
        .map(|(symbol, program)| format!("{symbol} {program}\n"));
    cx.write("vm.lst", lines.collect::<String>())?;
    claims_are_true(&claims(&rows(cx)?, |row| &row.on_vm), &made)
}

/// The programs of which there are records, and the directories with these. A program's name may contain `/`.
fn recorded_programs(records: &Path) -> Result<Vec<(String, PathBuf)>, Failure> {
    let mut found = Vec::new();
    for entry in fs::read_dir(records)? {
        let path = entry?.path();
        if !path.is_dir() {
            continue;
        }
        let name = paths::name(&path);
        let below = recorded_programs(&path)?;
        found.extend(
            below
                .into_iter()
                .map(|(program, dir)| (format!("{name}/{program}"), dir)),
        );
        found.push((name, path));
    }
    Ok(found)
}

/// The functions that are marked in the auditor's records of a program.
fn marked(directory: &Path, program: &str) -> Result<Calls, Failure> {
    let mut made = Calls::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            continue;
        }
        for line in read(&path).lines() {
            let mut fields = line.split_whitespace();
            if let (Some(symbol), Some("1")) = (fields.next(), fields.next()) {
                made.insert((symbol.into(), program.into()));
            }
        }
    }
    Ok(made)
}

/// Lines of matrix/remarks: pattern of symbols, remark, test.
fn remark_lines(cx: &Context) -> Vec<[String; 3]> {
    let text = read(&cx.source("matrix/remarks"));
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let columns = lines.map(|line| line.split(" | ").map(String::from).collect::<Vec<_>>());
    columns
        .filter_map(|columns| columns.try_into().ok())
        .collect()
}

/// The tests that matrix/remarks names, as FILE or FILE:WORD, exist.
fn remarks(cx: &Context) -> Verdict {
    let remarks = remark_lines(cx);
    ensure(!remarks.is_empty(), "matrix/remarks is empty")?;
    for [pattern, _, place] in &remarks {
        let (file, word) = place.split_once(':').unwrap_or((place, ""));
        let text = fs::read_to_string(cx.paths.repo.join(file));
        let exists = text.is_ok_and(|text| text.contains(word));
        let verdict = ensure(exists, format!("{place} does not exist"));
        cx.report(&checks::slug(pattern), verdict)?;
    }
    Ok(())
}

/// The programs over the fake kernel make the calls of MATRIX.md.
fn calls(cx: &Context) -> Verdict {
    let made = Recorder::new(cx)?.all()?;
    let lines: Vec<String> = made
        .iter()
        .map(|(symbol, program)| format!("{symbol} {program}\n"))
        .collect();
    cx.write("calls", lines.concat())?;
    cx.write("MATRIX.md", matrix(cx, &made))?;
    println!("{} pairs of function and program", made.len());
    claims_are_true(&claims(&rows(cx)?, |row| &row.on_fake), &made)
}

/// MATRIX.md as it would be now.
fn matrix(cx: &Context, made: &Calls) -> String {
    let collect = |calls: &Calls| {
        let mut by_symbol: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (symbol, program) in calls {
            by_symbol
                .entry(symbol.clone())
                .or_default()
                .push(program.clone());
        }
        by_symbol
    };
    let on_fake = collect(made);
    let on_vm = collect(&parse_calls(&read(&cx.source("matrix/vm.lst"))));
    let remarks = remark_lines(cx);
    let programs = |of: &BTreeMap<String, Vec<String>>, symbol: &str| {
        of.get(symbol)
            .map(|programs| programs.join(", "))
            .unwrap_or_default()
    };
    let mut text = read(&cx.source("matrix/head.md"));
    for symbol in symbols(cx) {
        let fits = |pattern: &str| {
            Regex::new(&format!("^(?:{pattern})$")).is_ok_and(|regex| regex.is_match(&symbol))
        };
        let remark = remarks.iter().find(|[pattern, _, _]| fits(pattern));
        let remark = remark
            .map(|[_, why, place]| format!("{why} ({place})"))
            .unwrap_or_default();
        let (name, version) = symbol.split_once('@').unwrap_or((&symbol, ""));
        let (fake, vm) = (programs(&on_fake, &symbol), programs(&on_vm, &symbol));
        text += &format!("| `{name}` | {version} | {fake} | {vm} | {remark} |\n");
    }
    text
}

/// Runs programs under the auditor, and collects which functions they call.
struct Recorder<'a> {
    cx: &'a Context,
    made: Calls,
}

impl<'a> Recorder<'a> {
    fn new(cx: &'a Context) -> Result<Self, Failure> {
        Tree::all_known().write(SYS.as_ref())?;
        Ok(Self {
            cx,
            made: Calls::new(),
        })
    }

    /// Runs a program, and records its calls as made by `name`. Some providers crash without their
    /// hardware, with any library: how the program ends does not matter.
    fn called(&mut self, name: &str, argv: &[&str], env: &[(&str, &str)]) -> Verdict {
        let records = self.cx.dir().join("records");
        let _ = fs::remove_dir_all(&records);
        fs::create_dir_all(&records)?;
        let argv: Vec<String> = argv.iter().map(|word| word.to_string()).collect();
        let mut program = fake::program(self.cx, Library::Ours, &argv)?
            .env("SYSFS_PATH", SYS)
            .env("FAKE_NL_DEVICES", Tree::all_known().netlink())
            .env("MATRIX_DIR", &records)
            .env("LD_AUDIT", self.cx.built("audit")?);
        for (variable, value) in env {
            program = program.env(*variable, value);
        }
        program.run()?;
        self.made.extend(marked(&records, name)?);
        Ok(())
    }

    fn all(mut self) -> Result<Calls, Failure> {
        for nl in ["EPROTONOSUPPORT", "ok"] {
            let env = [("FAKE_NL", nl)];
            self.called("ibv_devices", &["ibv_devices"], &env)?;
            self.called("ibv_devinfo", &["ibv_devinfo", "-v"], &env)?;
        }
        // pvrdma's provider writes beyond its own memory: what it calls is random.
        for device in known_devices()
            .into_iter()
            .filter(|device| *device != "vmw_pvrdma0")
        {
            self.called(
                "providers/verbs_walk",
                &["verbs_walk", device],
                &[("FAKE_NL", "ok")],
            )?;
        }
        let ours = paths::text(self.cx.library(Library::Ours));
        self.called("providers/load_all", &["load_all", &ours], &[])?;
        self.called("providers/verbs_walk", &["verbs_walk", "--strings"], &[])?;
        for device in ["rxe0", "mlx5_0"] {
            for io in ["ENOTTY", "ok"] {
                self.device(device, &[("FAKE_IOCTL", io)])?;
            }
        }
        Tree::new(["rxe0"]).write(SYS.as_ref())?;
        self.called("badinput/probe", &["probe"], &[])?;
        self.called("badinput/probe", &["probe", "loop-verbs", "5"], &[])?;
        Tree::all_known().write(SYS.as_ref())?;
        self.called("fork/forktest", &["forktest", "overlaps"], &[])?;
        Ok(self.made)
    }

    fn device(&mut self, device: &str, env: &[(&str, &str)]) -> Verdict {
        self.called("providers/verbs_walk", &["verbs_walk", device], env)?;
        if device == "rxe0" {
            self.called("c/compat10", &["compat10", device], env)?;
        }
        for mode in ["objects", "shared", "events", "cancel", "fork"] {
            let env = [env, &[("LIMIT", "60")]].concat();
            self.called("threads", &["threads", mode, device, "2", "5"], &env)?;
        }
        self.called("matrix/rest", &["rest", device], env)?;
        self.called("matrix/rest", &["rest", "--newer", device], env)
    }
}

/// The program that calls what no other does, on both libraries; and what is newer than Debian 12, on ours.
fn rest_checks() -> Vec<Check> {
    let mut checks = Vec::new();
    for device in ["rxe0", "mlx5_0"] {
        for io in ["ENOTTY", "ok", "nowrite"] {
            let scene = move |name: &str, argv: &[&str]| {
                Scene::new(format!("{name}{device}-ioctl-{io}"), argv.iter().copied())
                    .tree(Tree::new(["rxe0", "mlx5_0"]))
                    .env("FAKE_IOCTL", io)
            };
            checks.push(
                scene("", &["rest", device])
                    .record(Record::Everything)
                    .check(),
            );
            let name = format!("newer-{device}-ioctl-{io}");
            checks.push(Check::new(name, move |cx| newer_functions(cx, device, io)));
        }
    }
    checks
}

/// Checks that functions newer than Debian 12's library fail on its providers as newer.expected
/// says, or work without them.
fn newer_functions(cx: &Context, device: &str, io: &str) -> Verdict {
    let ours = Scene::new("", ["rest", "--newer", device])
        .tree(Tree::new(["rxe0", "mlx5_0"]))
        .env("FAKE_IOCTL", io);
    Tree::new(["rxe0", "mlx5_0"]).write(SYS.as_ref())?;
    let ours = ours.run(cx, Library::Ours)?;
    let expected = read(&cx.source("matrix/newer.expected"));
    compare::same(("newer.expected", &expected), ("ours", &ours.text))
}
