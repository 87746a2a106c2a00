//! `--check`: which libibverbs a program would load by itself, and which with with-ibverbs-rs. The program is
//! not run.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::linker::{Listing, SearchResult, listing};
use crate::own_library::Library;
use crate::program::NotAProgram;
use crate::wheels::Copies;
use crate::{
    NO_SUCH_PROGRAM, Settings, Stop, elf, not_a_program, privilege, program, say, var, verdict,
};

/// Exit status if the program would load another libibverbs, or none.
const NOT_OURS: i32 = 1;

/// Prints the report. The exit status is 0 if the program would load our library and no other libibverbs.
pub fn check(name: &OsStr, library: &Library) -> Result<i32, Stop> {
    let program = match program::find(name) {
        Ok(program) => program,
        Err(why @ NotAProgram::Missing(_)) => return Err(not_a_program(name, &why)),
        Err(why) => {
            say(&format!(
                "verdict: none: {} {why}",
                Path::new(name).display()
            ));
            return Ok(NOT_OURS);
        }
    };
    say(&format!("program: {}", program.display()));
    let file = follow_scripts(&program)?;
    let shown = |name| var(name).map_or_else(|| "(not set)".into(), PathBuf::from);
    let (library_path, preload) = (shown("LD_LIBRARY_PATH"), shown("LD_PRELOAD"));
    say(&format!(
        "environment: LD_LIBRARY_PATH={} LD_PRELOAD={}",
        library_path.display(),
        preload.display()
    ));
    let ld = match verdict::dynamic_linker(&file, library) {
        Ok(ld) => ld,
        Err(reason) => {
            say(&format!("verdict: {}", reason.verdict(&file, library)));
            return Ok(NOT_OURS);
        }
    };
    Report {
        ld,
        file,
        library,
        copies: Copies::find(&program, library),
    }
    .print()
}

/// The file that the kernel loads. Prints a line for each script that leads to it.
fn follow_scripts(program: &Path) -> Result<PathBuf, Stop> {
    let loaded = program::loaded(program);
    for interpreter in &loaded.interpreters {
        say(&format!("  a script, run by {}", interpreter.display()));
    }
    if loaded.file.exists() {
        Ok(loaded.file)
    } else {
        Err(Stop(
            NO_SUCH_PROGRAM,
            format!("{}: no such program", loaded.file.display()),
        ))
    }
}

/// The result of a program's start with our library, as the dynamic linker predicts it.
struct Outcome {
    /// The program would load our library, and no other libibverbs.
    ours: bool,
    /// The symbols that our library lacks. The dynamic linker then refuses to start the program.
    missing: Vec<String>,
}

struct Report<'a> {
    ld: PathBuf,
    file: PathBuf,
    library: &'a Library,
    copies: Copies,
}

impl Report<'_> {
    fn print(&self) -> Result<i32, Stop> {
        self.by_itself();
        if let Some(privilege) = privilege::of(&self.file) {
            let why = format!("the program is {privilege}, {}", privilege::IGNORED);
            say(&format!(
                "verdict: as by itself: {why} (install the package instead)"
            ));
            return Ok(NOT_OURS);
        }
        let Outcome { ours, missing } = self.with_our_library()?;
        if let Some(missing) = missing.first() {
            say(&format!(
                "verdict: none: the program would not start: {missing}"
            ));
            return Ok(NOT_OURS);
        }
        if ours {
            say(&format!(
                "verdict: libibverbs-rs, {}",
                self.library.file.display()
            ));
        } else {
            say("verdict: not ours alone");
        }
        Ok(if ours { 0 } else { NOT_OURS })
    }

    fn listing(&self, library_path: &OsStr, preload: &OsStr) -> Listing {
        listing(&self.ld, &self.file, library_path, preload)
    }

    fn by_itself(&self) {
        let library_path = var("LD_LIBRARY_PATH").unwrap_or_default();
        let preload = var("LD_PRELOAD").unwrap_or_default();
        let found = self.listing(&library_path, &preload).libibverbs;
        say("by itself:");
        if found.is_empty() {
            say(
                "  not linked with libibverbs; a library that it loads later may be. By name it would find:",
            );
            for name in ["libibverbs.so.1", "libibverbs.so"] {
                self.by_name(name, &library_path);
            }
        }
        for found in &found {
            self.line(found);
        }
        let copies = self
            .copies
            .replaceable
            .iter()
            .map(|copy| copy.display().to_string());
        for copy in copies.chain(self.copies.kept.iter().cloned()) {
            say(&format!("  in a Python wheel: {copy}"));
        }
    }

    /// Reports the library that dlopen would find: preloading searches the same places.
    fn by_name(&self, name: &str, library_path: &OsStr) {
        let preload = crate::prepended(OsString::from(name), "LD_PRELOAD");
        let found = self.listing(library_path, &preload).libibverbs;
        match found.first() {
            Some(SearchResult {
                file: Some(file),
                why,
                ..
            }) => {
                let why = if why.is_empty() { "preloaded" } else { why };
                say(&format!("  {name} is {file} ({}): {why}", self.owner(file)));
            }
            _ => say(&format!("  {name}: not found")),
        }
    }

    /// Reports the libraries that the program would load with ours.
    fn with_our_library(&self) -> Result<Outcome, Stop> {
        let Settings {
            library_path,
            preload,
        } = Settings::new(self.library, &self.copies)?;
        let listing = self.listing(&library_path, &preload);
        let found = &listing.libibverbs;
        say("with with-ibverbs-rs:");
        for found in found {
            self.line(found);
        }
        for copy in &self.copies.kept {
            say(&format!(
                "  not replaced: {copy}, which libibverbs-rs does not have"
            ));
        }
        for copy in &self.copies.replaceable {
            let name = Path::new(copy.file_name().unwrap_or_default()).display();
            let directory = copy.parent().unwrap_or(Path::new("/")).display();
            say(&format!("  replaced: {name} of {directory}"));
        }
        let all = found
            .iter()
            .all(|found| found.file.as_deref().is_some_and(|file| self.is_ours(file)));
        // Symbols that another libibverbs defines are not missing.
        let missing = if all {
            self.missing_versions(&listing.files)
        } else {
            Vec::new()
        };
        Ok(Outcome {
            ours: all && self.copies.kept.is_empty(),
            missing,
        })
    }

    /// The symbol versions of libibverbs that the program or a library needs and our library does not define,
    /// as sentences. A program that is linked with a vendor's driver needs its release's private version.
    fn missing_versions(&self, libraries: &[PathBuf]) -> Vec<String> {
        let Some(defined) = elf::defined_symbols(&self.library.file) else {
            return Vec::new();
        };
        let files = std::iter::once(&self.file).chain(libraries);
        let missing = files.filter_map(|file| {
            let missing = elf::missing_versions(&elf::wanted_symbols(file)?, &defined);
            let (file, missing) = (file.display(), missing.join(", "));
            (!missing.is_empty())
                .then(|| format!("{file} needs {missing}, which libibverbs-rs does not have"))
        });
        missing.collect()
    }

    fn line(&self, found: &SearchResult) {
        let name = found.name.rsplit('/').next().unwrap_or_default();
        let needed_by = match found.needed_by.as_str() {
            // (a preloaded library)
            "" => String::new(),
            _ if found.name.starts_with('/') => String::new(),
            by => format!("; needed by {by}"),
        };
        let Some(file) = &found.file else {
            return say(&format!("  {name}: not found{needed_by}"));
        };
        let why = match found.why.as_str() {
            _ if found.name.starts_with('/') => "preloaded",
            "" => "already loaded under that name",
            why => why,
        };
        say(&format!(
            "  {name} is {file} ({}): {why}{needed_by}",
            self.owner(file)
        ));
    }

    fn owner(&self, file: &str) -> &'static str {
        if self.is_ours(file) {
            "libibverbs-rs"
        } else {
            "not ours"
        }
    }

    /// Whether it is our library or a copy of it.
    fn is_ours(&self, file: &str) -> bool {
        let (file, ours) = (Path::new(file), &self.library.file);
        let (Ok(found), Ok(expected)) = (file.metadata(), ours.metadata()) else {
            return false;
        };
        let same_file = (found.dev(), found.ino()) == (expected.dev(), expected.ino());
        let same_bytes = || {
            fs::read(file).is_ok_and(|bytes| fs::read(ours).is_ok_and(|expected| bytes == expected))
        };
        same_file || found.len() == expected.len() && same_bytes()
    }
}
