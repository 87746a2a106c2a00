//! Checks of what the pages say of the programs' behaviour: environment variables, options, and
//! messages.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::fs;
use std::path::Path;

use super::Checks;
use super::headers::{all, regex};
use super::interface::rust_sources;
use super::mdoc::{Page, plain};
use ibverbs_faults::{
    ACTIONS, CALLS, COMPLETION_OPCODES, EVENTS, KEYS, Key, PACKET_OPCODES, STATUSES,
};

use crate::paths;
use crate::verdict::Failure;

const WRAPPER: &str = "crates/with-ibverbs-rs";

/// The texts of the library's sources, without tests.
fn sources(repo: &Path) -> Result<Vec<String>, Failure> {
    let mut texts = Vec::new();
    for dir in ["src", "crates"] {
        for (path, text) in rust_sources(&repo.join(dir))? {
            let relative = paths::text(path.strip_prefix(repo).unwrap_or(&path));
            if !relative.contains("tests") && !relative.starts_with(WRAPPER) {
                let text = text
                    .split("#[cfg(test)]\nmod tests")
                    .next()
                    .unwrap_or_default();
                texts.push(text.to_string());
            }
        }
    }
    Ok(texts)
}

/// libibverbs-rs(7) lists exactly the environment variables that the sources read.
pub fn environment(page: &Page, repo: &Path, checks: &mut Checks) -> Result<(), Failure> {
    let (mut read, mut built) = (BTreeSet::new(), BTreeSet::new());
    for text in sources(repo)? {
        read.extend(all(
            r#"\benv::(?:get|flag|var|var_os)\(\s*c?"(\w+)""#,
            &text,
        ));
        built.extend(all(r#"option_env!\("(\w+)"\)"#, &text));
    }
    same_variables(page, &read, checks);
    for name in &built {
        let why = format!(
            "{}: does not mention {name}, which the build reads",
            page.file
        );
        checks.check(page.marked("Ev").contains(name.as_str()), why);
    }
    Ok(())
}

/// The page lists the variables that are read.
fn same_variables(page: &Page, read: &BTreeSet<String>, checks: &mut Checks) {
    let shown = page.items_of("ENVIRONMENT").into_iter().map(String::from);
    same(page, "ENVIRONMENT", &shown.collect(), read, checks);
}

/// A section of the page lists what the sources have, and nothing else.
fn same<T: Ord + Debug>(
    page: &Page,
    section: &str,
    listed: &BTreeSet<T>,
    sources: &BTreeSet<T>,
    checks: &mut Checks,
) {
    let more: Vec<_> = listed.difference(sources).collect();
    let less: Vec<_> = sources.difference(listed).collect();
    let why = format!(
        "{}: {section} lists {more:?}, which the sources do not have, and lacks {less:?}",
        page.file
    );
    checks.check(more.is_empty() && less.is_empty(), why);
}

/// with-ibverbs-rs(1) lists the options and variables of the program.
pub fn wrapper(page: &Page, repo: &Path, checks: &mut Checks) -> Result<(), Failure> {
    let text: String = rust_sources(&repo.join(WRAPPER))?
        .into_iter()
        .map(|(_, text)| text)
        .collect();
    let mut read = all(r#"\bvar\("([A-Z_]+)"\)"#, &text);
    read.remove("PATH");
    same_variables(page, &read, checks);
    let options = all(r#"\bb"(--\w+)""#, &text);
    let named: BTreeSet<String> = all(r"\bFl (-\w+)", &page.source)
        .iter()
        .map(|option| format!("-{option}"))
        .collect();
    same(page, "OPTIONS", &named, &options, checks);
    Ok(())
}

/// uroce-ctl(1) lists exactly the commands and long options of the program.
pub fn control(page: &Page, repo: &Path, checks: &mut Checks) -> Result<(), Failure> {
    let source = fs::read_to_string(repo.join("crates/uroce-ctl/src/cli.rs"))?;
    let commands: BTreeSet<String> = all(r#"Command::new\("([a-z]+)"\)"#, &source);
    let described = all(r"\n\.It Cm ([a-z]+)", &page.source);
    same(page, "COMMANDS", &described, &commands, checks);
    let mut options = all(r#"\.long\("([a-z]+)"\)"#, &source);
    options.extend(["help", "version"].map(String::from));
    let described = all(r"\n\.It Fl (?:. , )?-([a-z]+)", &page.source);
    same(page, "OPTIONS", &described, &options, checks);
    Ok(())
}

/// libibverbs-rs-explain(7) lists exactly the rules of IBV_EXPLAIN, with their texts.
pub fn explanations(page: &Page, repo: &Path, checks: &mut Checks) -> Result<(), Failure> {
    let mut table = String::new();
    for file in fs::read_dir(repo.join("src/diagnose/rules"))? {
        table += &fs::read_to_string(file?.path())?;
    }
    let text = r#""((?:[^"\\]|\\.|\\\n)*)""#;
    let rule = regex(&format!(
        r#"(?s)\w+ "([a-z-]+)" (\w+) (\w+):\s*{text},\s*{text},\s*{text};"#
    ));
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let shown = words(&page.source);
    let mut names = BTreeSet::new();
    let mut severities = BTreeSet::new();
    for found in rule.captures_iter(&table) {
        let class = match &found[2] {
            "Gid" => "GID".into(),
            "Rnr" => "RNR".into(),
            class => class.to_lowercase(),
        };
        let [what, why, advice] = [&found[4], &found[5], &found[6]].map(placeholders);
        let name = &found[1];
        severities.insert((found[3].to_lowercase(), name.to_string()));
        names.insert(name.to_string());
        let wanted = format!(".It Sy {name} {class}: {what}. Why: {why}. Do: {advice}. ");
        let why = format!(
            "{}: not in RULES as the sources have it: {wanted}",
            page.file
        );
        checks.check(shown.contains(&words(&wanted)), why);
    }
    let listed = all(r"\.It Sy ([a-z-]+)", &page.source);
    same(page, "RULES", &listed, &names, checks);
    // The page names all rules that are not errors.
    severities.retain(|(severity, _)| severity != "error");
    let listed = listed_severities(&shown);
    same(page, "SEVERITIES", &listed, &severities, checks);
    Ok(())
}

/// The rules in the section SEVERITIES, with their severities: `.It warning DESCRIPTION: rule, rule.`
fn listed_severities(page: &str) -> BTreeSet<(String, String)> {
    let section = page.split(".Sh SEVERITIES").nth(1).unwrap_or_default();
    let section = section.split(".El").next().unwrap_or_default();
    let mut listed = BTreeSet::new();
    for item in section.split(".It ").skip(1) {
        let (severity, rest) = item.split_once(' ').unwrap_or((item, ""));
        let rules = rest.rsplit_once(": ").map_or("", |(_, rules)| rules);
        let rules = rules.trim().trim_end_matches('.').split(", ");
        let rules = rules.filter(|_| severity != "error");
        listed.extend(rules.map(|rule| (severity.to_string(), rule.to_string())));
    }
    listed
}

/// libibverbs-rs-faults(7) lists the actions, keys and names of the table that the rules are parsed by.
pub fn faults(page: &Page, checks: &mut Checks) {
    let tagged = all(r"\.It Sy ([a-z-]+)\n", &page.source);
    let actions = ACTIONS.iter().map(|action| action.name);
    let known: BTreeSet<String> = actions
        .chain(KEYS.iter().map(|key| key.name))
        .map(String::from)
        .collect();
    same(page, "ACTIONS and KEYS", &tagged, &known, checks);
    for action in &ACTIONS {
        let names = |keys: &[Key]| {
            let name = |key: &Key| {
                KEYS.iter()
                    .find(|entry| entry.key == *key)
                    .map(|entry| entry.name)
            };
            keys.iter().filter_map(name).collect::<Vec<_>>().join(" ")
        };
        let (needs, takes) = (names(action.needs), names(action.takes));
        let row = format!(".It {} Ta {needs} Ta {takes}\n", action.name).replace("Ta  Ta", "Ta Ta");
        let why = format!("{}: the table has the row {row}", page.file);
        checks.check(page.source.contains(&row), why);
    }
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let shown = words(&page.source);
    let first = |table: &[(&'static str, u32)]| table.iter().map(|(name, _)| *name).collect();
    let lists: [(&str, Vec<&str>); 5] = [
        ("opcode of packets", PACKET_OPCODES.to_vec()),
        ("opcode of completions", first(&COMPLETION_OPCODES)),
        ("status", first(&STATUSES)),
        ("type", first(&EVENTS)),
        ("call", CALLS.to_vec()),
    ];
    for (what, names) in lists {
        let wanted = format!(".It Sy {what} {}.", names.join(", "));
        let why = format!(
            "{}: not in RULE VALUES as the table has it: {wanted}",
            page.file
        );
        checks.check(shown.contains(&wanted), why);
    }
}

/// A text of a rule as the page has it: on one line, with names in capitals for the values.
fn placeholders(text: &str) -> String {
    let one_line = regex(r"\\\n\s*").replace_all(text, "").into_owned();
    let mut shown = String::new();
    let mut capitals = false;
    for c in one_line.chars() {
        match c {
            '{' | '}' => capitals = c == '{',
            c if capitals => shown.extend(c.to_uppercase()),
            c => shown.push(c),
        }
    }
    shown
}

/// libibverbs-rs(7) lists exactly the messages that the sources print.
pub fn messages(page: &Page, repo: &Path, checks: &mut Checks) -> Result<(), Failure> {
    let mut printed = BTreeSet::new();
    for text in sources(repo)? {
        let found = all(r#""((?:Warning|Fatal): [^"%{\\]*)"#, &text);
        printed.extend(found.iter().map(|message| message.trim_end().to_string()));
    }
    let items = page
        .items
        .iter()
        .filter(|(section, _)| section == "DIAGNOSTICS");
    let shown: BTreeSet<String> = items
        .filter_map(|(_, words)| words.first())
        .map(|text| {
            plain(text)
                .split('%')
                .next()
                .unwrap_or_default()
                .to_string()
        })
        .map(|text| text.trim_end_matches([' ', '.']).to_string())
        .collect();
    let starts =
        |known: &str, message: &str| known.starts_with(message.trim_end_matches([' ', '.']));
    for message in &printed {
        let listed = shown.iter().any(|known| starts(known, message));
        let why = format!("{}: DIAGNOSTICS lacks the message «{message}»", page.file);
        checks.check(listed, why);
    }
    for known in &shown {
        let exists = printed.iter().any(|message| starts(known, message));
        let why = format!(
            "{}: the sources do not contain the message «{known}»",
            page.file
        );
        checks.check(exists, why);
    }
    Ok(())
}
