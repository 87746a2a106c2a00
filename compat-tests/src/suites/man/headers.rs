//! The declarations of the headers and of the library, as far as the pages say them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use regex_lite::Regex;

use super::Checks;
use crate::paths::text;
use crate::verdict::Failure;

const SYSTEM: &[&str] = &[
    "errno.h", "stdio.h", "stddef.h", "sys/mman.h", "sys/resource.h",
];
pub const PUBLIC: [&str; 2] = ["infiniband/verbs.h", "infiniband/sa.h"];
/// Headers that rdma-core does not have.
pub const OWN: &str = "libibverbs-rs/names.h";

/// The declarations of a set of headers.
pub struct Headers {
    /// The set's name in messages.
    pub name: &'static str,
    pub files: Vec<&'static str>,
    /// Arguments for the compiler. The distribution's headers need none.
    pub flags: Vec<String>,
    /// The lines that include the headers.
    pub include: String,
    pub functions: BTreeSet<String>,
    pub verbs: BTreeSet<String>,
    /// The headers with all that they include and define.
    pub text: String,
    pub words: BTreeSet<String>,
    /// Macros with parameters.
    pub macros: BTreeSet<String>,
}

pub fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the pattern is one of the suite's")
}

/// The first group of each match.
pub fn all(pattern: &str, text: &str) -> BTreeSet<String> {
    regex(pattern)
        .captures_iter(text)
        .map(|found| found[1].to_string())
        .collect()
}

/// The compiler's messages for a C source; empty if it compiles without any.
pub fn compiles(source: &str, flags: &[String]) -> Result<String, Failure> {
    let mut child = Command::new("gcc")
        .args(["-std=gnu11", "-fsyntax-only"])
        .args(flags)
        .args(["-xc", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        use std::io::Write;
        // gcc reads all of its input before it prints messages.
        stdin.write_all(source.as_bytes())?;
    }
    let output = child.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if said.is_empty() && !output.status.success() {
        return Ok(format!("gcc: {}", output.status));
    }
    Ok(said)
}

/// A C source that must compile, and the failure to report if it does not.
pub type HeaderPart = (String, String);

/// Compiles C sources: all at once, which is much faster, then in halves to find the one that fails.
pub fn check_compiles(
    prefix: &str,
    parts: &[HeaderPart],
    flags: &[String],
    checks: &mut Checks,
) -> Result<(), Failure> {
    if parts.is_empty() {
        return Ok(());
    }
    let source: String = parts.iter().map(|(source, _)| source.as_str()).collect();
    let said = compiles(&format!("{prefix}{source}"), flags)?;
    if !said.is_empty() && parts.len() > 1 {
        let (first, second) = parts.split_at(parts.len() / 2);
        check_compiles(prefix, first, flags, checks)?;
        return check_compiles(prefix, second, flags, checks);
    }
    for (_, wrong) in parts {
        checks.check(said.is_empty(), format!("{wrong}: {said}"));
    }
    Ok(())
}

impl Headers {
    /// The three sets: ours, the distribution's, and ours for providers, whose layouts differ.
    pub fn sets(repo: &Path, work: &Path) -> Result<Vec<Self>, Failure> {
        let ours = repo.join("include");
        let theirs = PathBuf::from("/usr/include");
        Ok(vec![
            Self::read("include/", &ours, true, &[PUBLIC[0], PUBLIC[1], OWN], work)?,
            Self::read("the distribution's", &theirs, false, &PUBLIC, work)?,
            Self::read("include/", &ours, true, &["infiniband/driver.h"], work)?,
        ])
    }

    fn read(
        name: &'static str,
        dir: &Path,
        is_ours: bool,
        files: &[&'static str],
        work: &Path,
    ) -> Result<Self, Failure> {
        let flags = if is_ours {
            vec![format!("-I{}", dir.display())]
        } else {
            Vec::new()
        };
        let lines: String = SYSTEM
            .iter()
            .chain(files)
            .map(|header| format!("#include <{header}>\n"))
            .collect();
        let include = format!("#define RDMA_STATIC_PROVIDERS all\n{lines}");
        let functions = declared(&include, &flags, work)?;
        let mut text = preprocessed(&include, &flags, work)?;
        for header in files {
            text += &fs::read_to_string(dir.join(header))?;
        }
        let verb = regex(r"^(?:_*ibv_\w+|ibverbs_rs_\w+|verbs_\w+|mult_to_\w+|mbps_to_\w+)$");
        let mut verbs: BTreeSet<String> = functions
            .iter()
            .filter(|function| verb.is_match(function))
            .cloned()
            .collect();
        let macros = all(r"(?m)^\s*#\s*define (\w+)\(", &text);
        let is_verb = regex(r"^(?:ibv|verbs)_[a-z]");
        verbs.extend(macros.iter().filter(|name| is_verb.is_match(name)).cloned());
        let words = all(r"(\w+)", &text);
        let files = files.to_vec();
        Ok(Self {
            name,
            files,
            flags,
            include,
            functions,
            verbs,
            text,
            words,
            macros,
        })
    }

    pub fn has_type(&self, kind: &str, name: &str) -> bool {
        regex(&format!(r"\b{kind}\s+{name}\s*\{{")).is_match(&self.text)
    }
}

/// The functions that the headers of infiniband/ and of this project declare.
fn declared(include: &str, flags: &[String], work: &Path) -> Result<BTreeSet<String>, Failure> {
    let list = work.join("declared");
    let mut arguments = flags.to_vec();
    arguments.extend(["-aux-info".into(), text(&list)]);
    let said = compiles(include, &arguments)?;
    if !said.is_empty() {
        return Err(Failure::new("the headers do not compile").with(said));
    }
    let text = fs::read_to_string(&list)?;
    let name = regex(r"^/\*[^*]*\*/ .*?(\w+) \(");
    let lines = text
        .lines()
        .filter(|line| line.contains("infiniband/") || line.contains(OWN));
    Ok(lines
        .filter_map(|line| name.captures(line))
        .map(|found| found[1].to_string())
        .collect())
}

/// The headers with what they include, and the definitions of macros.
fn preprocessed(include: &str, flags: &[String], work: &Path) -> Result<String, Failure> {
    let file = work.join("headers.c");
    fs::write(&file, include)?;
    let output = Command::new("gcc")
        .args(["-E", "-dD"])
        .args(flags)
        .arg(&file)
        .output()?;
    if !output.status.success() {
        return Err(Failure::new("gcc -E").with(String::from_utf8_lossy(&output.stderr)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The exported names of libibverbs.map, and the version nodes of each.
#[derive(Debug, Default)]
pub struct VersionMap {
    /// The functions for programs.
    pub public: BTreeSet<String>,
    /// The functions for providers.
    pub private: BTreeSet<String>,
    pub nodes: BTreeMap<String, Vec<String>>,
}

impl VersionMap {
    pub fn read(repo: &Path) -> Result<Self, Failure> {
        let text = fs::read_to_string(repo.join("src/export/libibverbs.map"))?;
        let mut map = Self::default();
        let node = regex(r"(?ms)^((?:LIB)?IBVERBS_\S+) \{(.*?)^\}");
        for found in node.captures_iter(&text) {
            let (node, body) = (found[1].to_string(), &found[2]);
            let names = all(r"(?m)^\t\t(\w+);", body);
            for name in names.iter().chain([&node]) {
                let nodes = map.nodes.entry(name.clone()).or_default();
                // The first provider ABI with a name has its default version.
                if nodes.is_empty() || !node.contains("PRIVATE") {
                    nodes.push(node.clone());
                }
            }
            let of = if node.contains("PRIVATE") {
                &mut map.private
            } else {
                &mut map.public
            };
            of.extend(names);
        }
        Ok(map)
    }
}
