//! The values of macros, as gcc computes them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use regex_lite::Regex;

use super::{Facts, Macro, Query};

/// Runs a command with this standard input; returns its output. The error has what it printed to standard
/// error.
pub fn run(program: &str, args: &[&str], input: &str) -> Result<String, String> {
    let mut child = Command::new(program)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| format!("{program}: {e}: run make deps"))?;
    let mut stdin = child.stdin.take();
    let input = input.to_string();
    let writer = std::thread::spawn(move || {
        stdin
            .take()
            .map(|mut stdin| stdin.write_all(input.as_bytes()));
    });
    let output = child.wait_with_output().map_err(|e| e.to_string())?;
    let _ = writer.join();
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

/// Adds the facts of the macros. Those that were undefined again do not count.
pub fn add(
    query: &Query,
    macros: &BTreeMap<String, Macro>,
    facts: &mut Facts,
) -> Result<(), String> {
    let flags = query.flags();
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let listed = run(
        "gcc",
        &[&flags[..], &["-E", "-dM", "-"]].concat(),
        &query.source(),
    )?;
    let left: BTreeSet<&str> = listed
        .lines()
        .filter_map(|line| line.strip_prefix("#define "))
        .map(|rest| rest.split([' ', '(']).next().unwrap_or_default())
        .collect();
    let mut plain = Vec::new();
    for (name, of) in macros
        .iter()
        .filter(|(name, _)| left.contains(name.as_str()))
    {
        if of.has_parameters {
            facts.insert(format!(
                "macro {name} with {} parameters",
                parameters(&of.tokens)
            ));
        } else if of.tokens.is_empty() {
            facts.insert(format!("macro {name} empty"));
        } else if of.tokens == [name.as_str()] {
            facts.insert(format!("macro {name} is {name}"));
        } else {
            plain.push(name.as_str());
        }
    }
    let values = values(&plain, &query.source(), &flags)?;
    let rest: Vec<&str> = plain
        .into_iter()
        .filter(|name| !values.contains_key(*name))
        .collect();
    facts.extend(
        values
            .iter()
            .map(|(name, value)| format!("macro {name} = {value}")),
    );
    let expanded = expansions(&rest, &query.source(), &flags)?;
    facts.extend(
        expanded
            .iter()
            .map(|(name, text)| format!("macro {name} is {text}")),
    );
    Ok(())
}

/// The number of parameters between the first parentheses.
fn parameters(tokens: &[String]) -> usize {
    let inside = tokens.iter().skip(1).take_while(|token| *token != ")");
    inside.filter(|token| *token != ",").count()
}

/// The values of those macros that are constant expressions.
fn values(
    names: &[&str],
    source: &str,
    flags: &[&str],
) -> Result<BTreeMap<String, String>, String> {
    let work = std::env::temp_dir().join(format!("facts-{}", std::process::id()));
    fs::create_dir_all(&work).map_err(|e| e.to_string())?;
    let program = work.join("values").to_string_lossy().into_owned();
    let number = |name: &str| format!("(unsigned long long)({name})");
    // An address is not a constant expression.
    let mut probes: Vec<Option<String>> = names
        .iter()
        .map(|name| {
            let n = number(name);
            Some(format!(
                "_Static_assert({n} | 1, \"\"); static const unsigned long long v_{name} = {n};"
            ))
        })
        .collect();
    let error = Regex::new(r"(?m)^probe:(\d+):\d+: error").map_err(|e| e.to_string())?;
    // gcc reports an unknown name only once: repeat until there are no errors.
    loop {
        let text = probe_source(names, &probes, source);
        let args = [
            flags,
            &["-ftrack-macro-expansion=0", "-xc", "-", "-o", &program],
        ]
        .concat();
        let Err(messages) = run("gcc", &args, &text) else {
            break;
        };
        let wrong: BTreeSet<usize> = error
            .captures_iter(&messages)
            .filter_map(|found| found[1].parse().ok())
            .collect();
        let before = probes.iter().flatten().count();
        for (at, probe) in probes.iter_mut().enumerate() {
            if wrong.contains(&(at + 1)) {
                *probe = None;
            }
        }
        if probes.iter().flatten().count() == before {
            return Err(messages);
        }
    }
    let printed = run(&program, &[], "")?;
    let _ = fs::remove_dir_all(&work);
    let pairs = printed.lines().filter_map(|line| line.split_once(' '));
    Ok(pairs
        .map(|(name, value)| (name.to_string(), value.to_string()))
        .collect())
}

fn probe_source(names: &[&str], probes: &[Option<String>], source: &str) -> String {
    let mut text = format!("{source}#include <stdio.h>\n#line 1 \"probe\"\n");
    for probe in probes {
        text += probe.as_deref().unwrap_or("");
        text += "\n";
    }
    text += "\nint main(void) {\n";
    for (name, _) in names
        .iter()
        .zip(probes)
        .filter(|(_, probe)| probe.is_some())
    {
        text += &format!("printf(\"{name} %llu\\n\", v_{name});\n");
    }
    text + "return 0; }\n"
}

/// The expansions of the other macros.
fn expansions(
    names: &[&str],
    source: &str,
    flags: &[&str],
) -> Result<BTreeMap<String, String>, String> {
    // The name in front of the space is expanded as well, so expansions are matched by their order.
    let lines: String = names
        .iter()
        .map(|name| format!("\n@@{name}@ {name}"))
        .collect();
    let args = [flags, &["-E", "-P", "-"]].concat();
    let text = run("gcc", &args, &format!("{source}{lines}\n"))?;
    let expanded = text
        .lines()
        .filter(|line| line.starts_with("@@"))
        .map(|line| {
            let after = line.splitn(4, '@').nth(3).unwrap_or_default();
            after
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ")
                .replace("{ }", "{}")
        });
    Ok(names
        .iter()
        .map(|name| name.to_string())
        .zip(expanded)
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_expansions() {
        let source = "#define A 3\n#define B (A + 1)\n#define C struct x { }\n#define D nosuch\n";
        let names = ["A", "B", "C", "D"];
        let values = values(&names, source, &["-w"]).unwrap();
        assert_eq!(
            values.into_iter().collect::<Vec<_>>(),
            [("A".into(), "3".into()), ("B".into(), "4".into())]
        );
        let expanded = expansions(&["C", "D"], source, &["-w"]).unwrap();
        assert_eq!(expanded["C"], "struct x {}");
        assert_eq!(expanded["D"], "nosuch");
    }

    #[test]
    fn parameters_are_counted() {
        let tokens = |text: &str| text.split(' ').map(String::from).collect::<Vec<_>>();
        assert_eq!(parameters(&tokens("( a , b ) ( a + b )")), 2);
        assert_eq!(parameters(&tokens("( ... ) f ( 1 )")), 1);
        assert_eq!(parameters(&tokens("( ) x")), 0);
    }
}
