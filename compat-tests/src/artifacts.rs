//! Finds or builds what cases run: both libraries, and the C programs of cases/programs.toml.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::{env, fs, io};

use serde::Deserialize;

use crate::context::Library;
use crate::paths;
use crate::verdict::{Failure, Verdict};

/// A C program, or a shared library, of cases/programs.toml.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// Files relative to compat-tests/; `*` stands for any text in a file name.
    pub sources: Vec<String>,
    /// Further arguments for gcc: libraries, for example.
    #[serde(default)]
    pub flags: Vec<String>,
    /// Directories relative to compat-tests/ with headers.
    #[serde(default)]
    pub include: Vec<String>,
    /// A shared library instead of a program.
    #[serde(default)]
    pub shared: bool,
}

pub const FLAGS: &[&str] = &["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror"];

/// All programs by their names.
pub fn sources() -> Result<BTreeMap<String, Source>, String> {
    let path = paths::repo().join("compat-tests/cases/programs.toml");
    let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    toml::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))
}

/// Puts both libraries into `STAGED/lib/ours` and `STAGED/lib/c`, each under its two names. Returns the
/// files.
pub fn stage_libraries(staged: &Path) -> Result<[(Library, PathBuf); 2], String> {
    let ours = our_library()?;
    let original = c_library()?;
    for (library, file) in [(Library::Ours, &ours), (Library::C, &original)] {
        stage_library(&staged.join("lib").join(library.name()), file)
            .map_err(|e| format!("{}: {e}", file.display()))?;
    }
    Ok([(Library::Ours, ours), (Library::C, original)])
}

/// The name of with-ibverbs-rs among the programs.
pub const WRAPPER: &str = "with-ibverbs-rs";
/// The name of uroce-ctl among the programs.
pub const CONTROL: &str = "uroce-ctl";

/// Copies with-ibverbs-rs and uroce-ctl into `STAGED/bin`, if `make build` has built them: cases of `make
/// install` build them anew.
pub fn stage_programs(staged: &Path) -> Result<(), String> {
    for name in [WRAPPER, CONTROL] {
        let file = paths::target().join("release").join(name);
        if !file.exists() {
            continue;
        }
        let bin = staged.join("bin");
        let copied = fs::create_dir_all(&bin).and_then(|()| fs::copy(&file, bin.join(name)));
        copied.map_err(|e| format!("{}: {e}", file.display()))?;
    }
    Ok(())
}

fn stage_library(dir: &Path, file: &Path) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    fs::copy(file, dir.join("libibverbs.so.1"))?;
    symlink("libibverbs.so.1", dir.join("libibverbs.so"))
}

/// The library under test: in $OUR_LIBDIR, or what `make build` has built.
pub fn our_library() -> Result<PathBuf, String> {
    let dir =
        env::var_os("OUR_LIBDIR").map_or_else(|| paths::target().join("release"), PathBuf::from);
    ["libibverbs.so.1", "libibverbs.so"]
        .iter()
        .find_map(|name| fs::canonicalize(dir.join(name)).ok())
        .ok_or_else(|| format!("no libibverbs.so.1 in {}: run make first", dir.display()))
}

/// The C library: $C_LIB, or the distribution's.
pub fn c_library() -> Result<PathBuf, String> {
    let file = match env::var_os("C_LIB") {
        Some(file) => PathBuf::from(file),
        None => library_dir()?.join("libibverbs.so.1"),
    };
    fs::canonicalize(&file).map_err(|e| format!("{}: {e}: run make deps", file.display()))
}

/// Skips a case that compares with rdma-core 44.0 only, if the C library is of another release: its file is
/// libibverbs.so.1.14.44.0.
pub fn needs_reference_release() -> Verdict {
    let file = c_library()?;
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    if name.ends_with(".44.0") {
        return Ok(());
    }
    Err(Failure::skip(format!(
        "it is about rdma-core 44.0, here is {name}"
    )))
}

/// The directory of the distribution's libraries. gcc says it, once per process.
pub fn library_dir() -> Result<PathBuf, String> {
    static DIR: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let find = || {
        let output = Command::new("gcc").arg("-print-multiarch").output();
        let output = output.map_err(|e| format!("gcc: {e}: run make deps"))?;
        Ok(Path::new("/usr/lib").join(String::from_utf8_lossy(&output.stdout).trim()))
    };
    DIR.get_or_init(find).clone()
}

/// Compiles the programs into `STAGED/bin`, or takes them from earlier runs if their sources are the same.
/// Returns the compiler's messages for those that it refuses.
pub fn build_programs(staged: &Path, names: &BTreeSet<String>) -> BTreeMap<String, String> {
    let mut failed = BTreeMap::new();
    let all = sources();
    for name in names {
        let built = all.as_ref().map_err(String::clone).and_then(|all| {
            let source = all
                .get(name)
                .ok_or("cases/programs.toml has no such program")?;
            build(staged, name, source)
        });
        if let Err(why) = built {
            failed.insert(name.clone(), why);
        }
    }
    failed
}

fn build(staged: &Path, name: &str, source: &Source) -> Result<(), String> {
    let tests = paths::repo().join("compat-tests");
    let text = |e: io::Error| e.to_string();
    let files = expand(&tests, &source.sources).map_err(text)?;
    let arguments = arguments(&tests, source, &files);
    let key = key(&tests, source, &files, &arguments).map_err(text)?;
    let kept = paths::target().join("compat/programs");
    let program = kept.join(format!("{name}-{key:016x}"));
    if !program.exists() {
        fs::create_dir_all(&kept).map_err(text)?;
        println!("compiling {name}");
        // Another run may compile the same program: each writes a file of its own.
        let own = kept.join(format!(".{name}-{}", std::process::id()));
        let output = Command::new("gcc")
            .args(&arguments)
            .arg("-o")
            .arg(&own)
            .output();
        let output = output.map_err(|e| format!("gcc: {e}: run make deps"))?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        fs::rename(&own, &program).map_err(text)?;
    }
    let bin = staged.join("bin");
    fs::create_dir_all(&bin).map_err(text)?;
    fs::copy(&program, bin.join(name)).map_err(text)?;
    Ok(())
}

/// The arguments for gcc: sources before libraries.
fn arguments(tests: &Path, source: &Source, files: &[PathBuf]) -> Vec<String> {
    let mut words: Vec<String> = FLAGS.iter().map(|flag| flag.to_string()).collect();
    if source.shared {
        words.extend(["-shared".into(), "-fPIC".into()]);
    }
    words.extend(
        source
            .include
            .iter()
            .map(|dir| format!("-I{}", tests.join(dir).display())),
    );
    words.extend(files.iter().map(|file| file.display().to_string()));
    words.extend(source.flags.iter().cloned());
    words
}

/// The files that the patterns name, sorted.
fn expand(tests: &Path, patterns: &[String]) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for pattern in patterns {
        let (dir, name) = pattern.rsplit_once('/').unwrap_or(("", pattern));
        if !name.contains('*') {
            files.push(tests.join(pattern));
            continue;
        }
        let found = paths::names(tests.join(dir))?.into_iter();
        let found = found.filter(|file| crate::pattern::matches(name, file));
        files.extend(found.map(|file| tests.join(dir).join(file)));
    }
    Ok(files)
}

/// A number that changes with the compiler, its arguments, the sources, and the headers beside them.
fn key(tests: &Path, source: &Source, files: &[PathBuf], arguments: &[String]) -> io::Result<u64> {
    let mut hasher = DefaultHasher::new();
    Command::new("gcc")
        .arg("--version")
        .output()?
        .stdout
        .hash(&mut hasher);
    arguments.hash(&mut hasher);
    let mut dirs: BTreeSet<PathBuf> = source.include.iter().map(|dir| tests.join(dir)).collect();
    for file in files {
        fs::read(file)?.hash(&mut hasher);
        dirs.extend(file.parent().map(Path::to_path_buf));
    }
    for dir in dirs {
        let mut headers: Vec<_> = fs::read_dir(dir)?
            .collect::<io::Result<Vec<_>>>()?
            .iter()
            .map(|e| e.path())
            .collect();
        headers.sort();
        for header in headers
            .iter()
            .filter(|path| path.extension().is_some_and(|e| e == "h"))
        {
            fs::read(header)?.hash(&mut hasher);
        }
    }
    Ok(hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sources_of_all_programs_exist() {
        let tests = paths::repo().join("compat-tests");
        for (name, source) in sources().unwrap() {
            let files = expand(&tests, &source.sources).unwrap();
            assert!(!files.is_empty(), "{name} has no sources");
            for path in files
                .iter()
                .cloned()
                .chain(source.include.iter().map(|d| tests.join(d)))
            {
                assert!(path.exists(), "{name}: {} does not exist", path.display());
            }
        }
    }

    #[test]
    fn a_changed_header_changes_the_key() {
        let dir = env::temp_dir().join(format!("compat-artifacts-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("a.c"), "int main(void) { return 0; }").unwrap();
        fs::write(dir.join("a.h"), "").unwrap();
        let source = Source {
            sources: vec!["*.c".into()],
            flags: vec![],
            include: vec![],
            shared: false,
        };
        let files = expand(&dir, &["*.c".into()]).unwrap();
        assert_eq!(files, [dir.join("a.c")]);
        let before = key(&dir, &source, &files, &[]).unwrap();
        assert_eq!(before, key(&dir, &source, &files, &[]).unwrap());
        fs::write(dir.join("a.h"), "int x;").unwrap();
        assert_ne!(before, key(&dir, &source, &files, &[]).unwrap());
        assert_ne!(before, key(&dir, &source, &files, &["-g".into()]).unwrap());
    }
}
