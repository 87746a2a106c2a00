//! Builds a source with a configure script, in two copies.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::Build;
use super::compiler::{self, Compiled, Variants, dependencies, judge};
use crate::context::Library;
use crate::paths::text;
use crate::verdict::{Failure, Verdict, ensure};

pub const PERFTEST: &[&str] = &[
    "ib_send_bw", "ib_send_lat", "ib_write_bw", "ib_write_lat", "ib_read_bw", "ib_read_lat",
    "ib_atomic_bw", "ib_atomic_lat", "raw_ethernet_bw", "raw_ethernet_lat",
    "raw_ethernet_burst_lat", "raw_ethernet_fs_rate",
];

/// Builds it and copies the programs to where the guest gets them.
pub fn build(build: &Build, name: &str, programs: &[&str]) -> Verdict {
    let mut variants = Variants::default();
    for library in Library::BOTH {
        let compiled = build_variant(build, name, programs, library)?;
        match library {
            Library::C => variants.c = compiled,
            Library::Ours => variants.ours = compiled,
        }
    }
    let base = build.out.join(Library::Ours.name()).join(name);
    judge(name, &variants, &base, &build.include)
}

fn build_variant(
    build: &Build,
    name: &str,
    programs: &[&str],
    library: Library,
) -> Result<Compiled, Failure> {
    let work = build.out.join(library.name()).join(name);
    if work.exists() {
        fs::remove_dir_all(&work)?;
    }
    let words = |words: &[&str]| {
        words
            .iter()
            .map(|word| word.to_string())
            .collect::<Vec<_>>()
    };
    fs::create_dir_all(work.parent().unwrap_or(&work))?;
    let from = text(build.sources.join(name));
    compiler::run(&words(&["cp", "-a", &from, &text(&work)]), &build.out)?;
    if !work.join("configure").exists() {
        compiler::run(&words(&["sh", "./autogen.sh"]), &work)?;
    }
    // automake's dependency tracking would use the file of -MD
    let mut configure = words(&[
        "./configure",
        "--disable-dependency-tracking",
        "CFLAGS=-g -O2 -Wall -MD",
    ]);
    if library == Library::Ours {
        let dir = build.libdir.display();
        configure.push(format!("CPPFLAGS=-I{}", build.include.display()));
        configure.push(format!("LDFLAGS=-L{dir} -Wl,-rpath-link={dir}"));
    }
    compiler::run(&configure, &work)?;
    let mut compiled = Compiled {
        messages: compiler::run(&words(&["make", "-j2"]), &work)?,
        ..Compiled::default()
    };
    let mut found = Vec::new();
    files(&work, &mut found)?;
    for path in &found {
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        if file.ends_with(".d") {
            compiled.headers.extend(dependencies(path)?);
        }
        if file.ends_with(".o") {
            compiled.objects.insert(text(path), path.clone());
        }
        let runs = fs::metadata(path)?.permissions().mode() & 0o111 != 0;
        if programs.contains(&&*file) && runs && !path.iter().any(|part| part == ".libs") {
            fs::copy(path, build.built(library).join("bin").join(&*file))?;
        }
    }
    let bin = build.built(library).join("bin");
    let missing: Vec<&&str> = programs.iter().filter(|p| !bin.join(p).exists()).collect();
    ensure(
        missing.is_empty(),
        format!("{name} has not been built in full: {missing:?}"),
    )?;
    Ok(compiled)
}

/// All regular files below a directory.
fn files(dir: &Path, found: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            files(&entry.path(), found)?;
        } else if kind.is_file() {
            found.push(entry.path());
        }
    }
    Ok(())
}
