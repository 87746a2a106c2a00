//! Where the dynamic linker finds libibverbs for a program, by its own report. `ld.so --list` loads the
//! program's libraries as ldd does, and runs none of their code. With LD_DEBUG it reports each search.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The outcome of the search for a libibverbs that a program needs or preloads.
#[derive(Debug, PartialEq, Default)]
pub struct SearchResult {
    /// The name that was requested: `libibverbs.so.1`, or the path of a preloaded library.
    pub name: String,
    /// None if the search failed.
    pub file: Option<String>,
    /// The search that found the file. Empty if it was already loaded.
    pub why: String,
    /// The first file that requires it. Empty if none does.
    pub needed_by: String,
}

/// The libraries that the dynamic linker would load for a program.
#[derive(Debug, PartialEq, Default)]
pub struct Listing {
    /// Each libibverbs.
    pub libibverbs: Vec<SearchResult>,
    /// All libraries that were found, libibverbs among them. The program itself is not listed.
    pub files: Vec<PathBuf>,
}

/// Asks the dynamic linker what it would load with these values of LD_LIBRARY_PATH and LD_PRELOAD.
pub fn listing(ld: &Path, file: &Path, library_path: &OsStr, preload: &OsStr) -> Listing {
    let mut list = Command::new(ld);
    list.arg("--list").arg(file).stdin(Stdio::null());
    list.env("LD_LIBRARY_PATH", library_path)
        .env("LD_PRELOAD", preload)
        .env("LD_DEBUG", "libs,files");
    list.env_remove("LD_DEBUG_OUTPUT");
    list.output().map_or_else(
        |_| Listing::default(),
        |output| {
            parse(
                &String::from_utf8_lossy(&output.stderr),
                &String::from_utf8_lossy(&output.stdout),
            )
        },
    )
}

/// NAME of `NAME [NAMESPACE]...`.
fn without_namespace(text: &str) -> &str {
    text.split_once(" [").map_or(text, |(name, _)| name)
}

/// The searches in the output of LD_DEBUG, by library: the first file that requires it, and the
/// last search for it.
#[derive(Default)]
struct Searches<'a> {
    needed_by: HashMap<&'a str, &'a str>,
    why: HashMap<&'a str, &'a str>,
}

impl<'a> Searches<'a> {
    fn read(log: &'a str) -> Self {
        let mut searches = Self::default();
        let mut searched = "";
        for line in log.lines() {
            if let Some((library, by)) = line
                .split_once("file=")
                .and_then(|(_, rest)| rest.split_once(";  needed by "))
            {
                searches
                    .needed_by
                    .entry(without_namespace(library))
                    .or_insert(without_namespace(by));
            } else if let Some((_, library)) = line.split_once("find library=") {
                searched = without_namespace(library);
            } else if line.contains("search path=") {
                let why = line
                    .rsplit_once("\t(")
                    .map_or("", |(_, why)| why.strip_suffix(')').unwrap_or(why));
                searches.why.insert(searched, why);
            } else if line.contains("search cache=") {
                searches
                    .why
                    .insert(searched, "the linker's cache, /etc/ld.so.cache");
            }
        }
        searches
    }
}

/// The file of each library. Lines are `NAME => FILE (0x...)`, `NAME => not found`, or `FILE (0x...)`.
fn listed_files(list: &str) -> BTreeMap<&str, Option<&str>> {
    let mut files = BTreeMap::new();
    for line in list.lines().filter_map(|line| line.strip_prefix('\t')) {
        let entry = line.rsplit_once(" (0x").map(|(entry, _)| entry);
        match (entry, entry.unwrap_or(line).split_once(" => ")) {
            (Some(_), Some((name, file))) => drop(files.insert(name, Some(file))),
            (None, Some((name, "not found"))) => drop(files.insert(name, None)),
            (Some(file), None) if file.starts_with('/') => drop(files.insert(file, Some(file))),
            _ => {}
        }
    }
    files
}

fn is_libibverbs(name: &str) -> bool {
    let base = name.rsplit('/').next();
    base.is_some_and(|base| base.starts_with("libibverbs"))
}

fn parse(log: &str, list: &str) -> Listing {
    let searches = Searches::read(log);
    let listed = listed_files(list);
    let text = |text: Option<&&str>| text.copied().unwrap_or_default().to_owned();
    let found = |(&name, &file): (&&str, &Option<&str>)| SearchResult {
        name: name.to_owned(),
        file: file.map(str::to_owned),
        why: text(searches.why.get(name)),
        needed_by: text(searches.needed_by.get(name)),
    };
    let libibverbs = listed.iter().filter(|(name, _)| is_libibverbs(name));
    Listing {
        libibverbs: libibverbs.map(found).collect(),
        files: listed.values().flatten().map(PathBuf::from).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // As glibc 2.36 prints it, shortened.
    const LOG: &str = "
      77:\tfile=/own/libibverbs.so.1 [0];  needed by ./runpath [0]
      77:\tfile=libibverbs.so.1 [0];  needed by ./runpath [0]
      77:\tfind library=libibverbs.so.1 [0]; searching
      77:\t search path=/a/b:/a\t\t(RUNPATH from file ./runpath)
      77:\t  trying file=/a/b/libibverbs.so.1
      77:\tfile=libibverbs.so.1 [0];  needed by /lib/libmlx5.so.1 [0]
      77:\tfind library=libc.so.6 [0]; searching
      77:\t search cache=/etc/ld.so.cache
      77:\tfile=libibverbs-1a.so.1 [0];  needed by /w/x.so [0]
";

    fn found(name: &str, file: Option<&str>, why: &str, needed_by: &str) -> SearchResult {
        SearchResult {
            name: name.into(),
            file: file.map(Into::into),
            why: why.into(),
            needed_by: needed_by.into(),
        }
    }

    #[test]
    fn what_the_dynamic_linker_prints_is_understood() {
        let list = "\tlinux-vdso.so.1 (0x00007ffc)\n\t/own/libibverbs.so.1 (0x00007f00)\n\
                    \tlibibverbs.so.1 => /a/b c/libibverbs.so.1 (0x00007f01)\n\
                    \tlibc.so.6 => /lib/libc.so.6 (0x00007f02)\n\
                    \tlibibverbs-1a.so.1 => not found\n\t/lib64/ld-linux-x86-64.so.2 (0x00007f03)\n";
        let expected = [
            found(
                "/own/libibverbs.so.1",
                Some("/own/libibverbs.so.1"),
                "",
                "./runpath",
            ),
            found("libibverbs-1a.so.1", None, "", "/w/x.so"),
            found(
                "libibverbs.so.1",
                Some("/a/b c/libibverbs.so.1"),
                "RUNPATH from file ./runpath",
                "./runpath",
            ),
        ];
        let listing = parse(LOG, list);
        assert_eq!(listing.libibverbs, expected);
        let files = [
            "/lib64/ld-linux-x86-64.so.2",
            "/own/libibverbs.so.1",
            "/lib/libc.so.6",
            "/a/b c/libibverbs.so.1",
        ];
        assert_eq!(listing.files, files.map(PathBuf::from));
        assert_eq!(parse("", "nonsense"), Listing::default());
    }
}
