//! Runs compile commands in two variants, with rdma-core's headers and with ours, and judges what the
//! compiler says.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use regex_lite::Regex;

use crate::context::Library;
use crate::process::last_lines;
use crate::verdict::{Details, Failure, Verdict, ensure};

/// The result of compiling in one variant.
#[derive(Debug, Default, Clone)]
pub struct Compiled {
    /// The object files, by the path of the source.
    pub objects: BTreeMap<String, PathBuf>,
    /// The messages of the compiler.
    pub messages: String,
    /// The headers that were read.
    pub headers: BTreeSet<String>,
}

impl Compiled {
    /// The object file of the source with this name, without directory and extension.
    pub fn object(&self, name: &str) -> Result<&PathBuf, Failure> {
        let is = |path: &&String| Path::new(path).file_stem().is_some_and(|stem| stem == name);
        let found = self.objects.keys().find(is).map(|path| &self.objects[path]);
        found.ok_or_else(|| format!("{name}.c was not compiled").into())
    }

    pub fn all_objects(&self) -> Vec<PathBuf> {
        self.objects.values().cloned().collect()
    }

    pub fn add(&mut self, other: &Compiled) {
        self.messages += &other.messages;
        self.headers.extend(other.headers.iter().cloned());
    }
}

/// The same sources, on both.
#[derive(Debug, Default, Clone)]
pub struct Variants {
    pub c: Compiled,
    pub ours: Compiled,
}

impl Variants {
    pub fn of(&self, library: Library) -> &Compiled {
        match library {
            Library::C => &self.c,
            Library::Ours => &self.ours,
        }
    }

    pub fn add(&mut self, other: &Variants) {
        self.c.add(&other.c);
        self.ours.add(&other.ours);
    }
}

/// A source to compile.
pub struct CompileJob {
    pub library: Library,
    pub source: String,
    pub object: PathBuf,
    pub words: Vec<String>,
    pub directory: PathBuf,
}

/// Runs a command that must succeed; returns what it wrote to standard error.
pub fn run(words: &[String], directory: &Path) -> Result<String, Failure> {
    let output = Command::new(&words[0])
        .args(&words[1..])
        .current_dir(directory)
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("{}: {e}: run scripts/install-deps sources", words[0]))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() {
        return Ok(text(&output.stderr));
    }
    let command: String = words.join(" ").chars().take(300).collect();
    let shown = last_lines(&(text(&output.stdout) + &text(&output.stderr)), 30);
    Err(Failure::new(format!("{command}: {}", output.status)).with(shown))
}

/// Compiles all, in parallel.
pub fn compile(jobs: &[CompileJob]) -> Result<Variants, Failure> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::new());
    let work = || {
        while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let messages = run(&job.words, &job.directory);
            let mut results = results.lock().unwrap_or_else(|e| e.into_inner());
            results.push((job, messages));
        }
    };
    thread::scope(|scope| {
        let count = thread::available_parallelism().map_or(1, usize::from);
        for _ in 0..count {
            scope.spawn(work);
        }
    });
    let mut variants = Variants::default();
    for (job, messages) in results.into_inner().unwrap_or_else(|e| e.into_inner()) {
        let variant = match job.library {
            Library::C => &mut variants.c,
            Library::Ours => &mut variants.ours,
        };
        variant.messages += &messages?;
        variant
            .headers
            .extend(dependencies(&job.object.with_added_d())?);
        variant
            .objects
            .insert(job.source.clone(), job.object.clone());
    }
    Ok(variants)
}

/// `a.o` with its dependencies in `a.o.d`.
pub trait WithDependencies {
    fn with_added_d(&self) -> PathBuf;
}

impl WithDependencies for PathBuf {
    fn with_added_d(&self) -> PathBuf {
        let mut path = self.clone().into_os_string();
        path.push(".d");
        path.into()
    }
}

/// The files in a file of make rules that the compiler has written.
pub fn dependencies(file: &Path) -> Result<Vec<String>, Failure> {
    let text = fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
    let text = text.replace("\\\n", " ");
    Ok(text.split_whitespace().map(String::from).collect())
}

/// Fails with new warnings, warnings about our headers, and other headers in place of ours. `base` is the
/// source tree.
pub fn judge(name: &str, variants: &Variants, base: &Path, include: &Path) -> Verdict {
    let (old, new) = (
        warnings(&variants.c.messages, base),
        warnings(&variants.ours.messages, base),
    );
    let mut wrong: Vec<String> = new.difference(&old).map(|w| format!("new: {w}")).collect();
    let about_ours = include.to_string_lossy();
    let about_ours = variants
        .ours
        .messages
        .lines()
        .filter(|line| line.starts_with(&*about_ours) && line.contains(": warning: "));
    wrong.extend(about_ours.map(|line| format!("of ours: {line}")));
    let used: Vec<&String> = variants
        .ours
        .headers
        .iter()
        .filter(|header| is_replaced(header, include))
        .collect();
    for header in &used {
        let file = fs::canonicalize(header)?;
        if !file.starts_with(include) {
            wrong.push(format!("not ours: {header}"));
        }
    }
    if used.is_empty() {
        wrong.push("it uses no header of ours".into());
    }
    println!(
        "{name}: {} sources, {} headers of ours, {} warnings ({} with rdma-core's)",
        variants.ours.objects.len(),
        used.len(),
        new.len(),
        old.len()
    );
    ensure(
        wrong.is_empty(),
        format!("{name}: {} things are wrong", wrong.len()),
    )
    .with(wrong[..wrong.len().min(20)].join("\n"))
}

/// Whether the header is one of infiniband/ that we have too.
fn is_replaced(header: &str, include: &Path) -> bool {
    let path = Path::new(header);
    let within = path
        .parent()
        .and_then(Path::file_name)
        .is_some_and(|dir| dir == "infiniband");
    within
        && path
            .file_name()
            .is_some_and(|name| include.join("infiniband").join(name).exists())
}

/// The compiler's warnings, without line and directory.
fn warnings(text: &str, base: &Path) -> BTreeSet<String> {
    let Ok(line) = Regex::new(r"(?m)^(\S+?):\d+:(?:\d+:)? (warning: .*)$") else {
        return BTreeSet::new();
    };
    let found = line.captures_iter(text).map(|found| {
        let file = Path::new(&found[1]);
        let file = file.strip_prefix(base).unwrap_or(file);
        format!("{}: {}", file.display(), &found[2])
    });
    found.collect()
}

/// Splits a command as a shell does: quotes, and backslashes.
pub fn shell_words(command: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut chars = command.chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some('\''), '\'') | (Some('"'), '"') => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None | Some('"'), '\\') => word.get_or_insert_default().extend(chars.next()),
            (None, ' ') => words.extend(word.take()),
            _ => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_a_shells() {
        let words = shell_words(r#"gcc -DA=\"x y\" "-DB=\"z\"" '-DC=\'"#);
        assert_eq!(words, ["gcc", "-DA=\"x", "y\"", "-DB=\"z\"", r"-DC=\"]);
    }

    #[test]
    fn a_new_warning_is_found() {
        let base = Path::new("/src");
        let old = warnings("/src/a.c:1:2: warning: x\n", base);
        let new = warnings("/src/a.c:7:2: warning: x\nb.h:1: warning: y [-W]\n", base);
        let added: Vec<_> = new.difference(&old).collect();
        assert_eq!(added, ["b.h: warning: y [-W]"]);
    }
}
