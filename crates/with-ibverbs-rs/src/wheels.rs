//! Copies of libibverbs in Python wheels.
//!
//! auditwheel and similar tools put them into PACKAGE.libs under a name with a hash in it. That name is
//! also their SONAME, and the name that the other libraries of the wheel require.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf, absolute};

use crate::own_library::Library;
use crate::{elf, program, var};

/// The copies that a program may load.
pub struct Copies {
    /// The copies that our library can replace.
    pub replaceable: Vec<PathBuf>,
    /// The copies that our library cannot replace, each with the reason.
    pub kept: Vec<String>,
}

impl Copies {
    pub fn find(program: &Path, library: &Library) -> Self {
        let mut copies = Self {
            replaceable: Vec::new(),
            kept: Vec::new(),
        };
        for copy in bundled(program) {
            match obstacle(&copy, library) {
                Some(why) => copies.kept.push(format!("{}: {why}", copy.display())),
                None => copies.replaceable.push(copy),
            }
        }
        copies
    }
}

/// The entries of a directory whose names match, in no order; none if it cannot be read.
fn entries(directory: &Path, matches: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter(|entry| matches(&entry.file_name().to_string_lossy()))
        .map(|entry| entry.path())
        .collect()
}

/// `/opt/env` of `/opt/env/bin/python3`
fn prefix_of(program: &Path) -> Option<PathBuf> {
    Some(
        absolute(program)
            .ok()?
            .parent()?
            .parent()
            .unwrap_or(Path::new("/"))
            .to_path_buf(),
    )
}

/// The prefixes of the Pythons that the program may be or may start: of the program (an interpreter, or a
/// script in the `bin` of an environment), of the active environment, of python3 in PATH, of pyenv, and of
/// the user.
fn prefixes(program: &Path) -> BTreeSet<PathBuf> {
    let home = var("HOME").map(PathBuf::from);
    let python = program::in_path(OsStr::new("python3"));
    let pyenv = var("PYENV_ROOT")
        .map(PathBuf::from)
        .or_else(|| Some(home.as_ref()?.join(".pyenv")));
    let real = program.canonicalize().ok();
    let mut prefixes: BTreeSet<_> = [Some(program.to_path_buf()), real, python]
        .into_iter()
        .flatten()
        .filter_map(|path| prefix_of(&path))
        .collect();
    prefixes.extend(
        pyenv
            .into_iter()
            .flat_map(|root| entries(&root.join("versions"), |name| !name.starts_with('.'))),
    );
    prefixes.extend(
        [var("VIRTUAL_ENV"), var("CONDA_PREFIX")]
            .into_iter()
            .flatten()
            .map(PathBuf::from),
    );
    prefixes.extend(home.map(|home| home.join(".local")));
    prefixes.extend(["/usr", "/usr/local"].map(PathBuf::from));
    prefixes
}

/// The directories that hold packages: PYTHONPATH, and `lib*/python3*/{site,dist}-packages` of the prefixes.
fn sites(program: &Path) -> BTreeSet<PathBuf> {
    let path = var("PYTHONPATH").unwrap_or_default();
    let mut sites: BTreeSet<_> = std::env::split_paths(&path)
        .filter(|site| !site.as_os_str().is_empty())
        .collect();
    for prefix in prefixes(program) {
        for lib in entries(&prefix, |name| name.starts_with("lib")) {
            for python in entries(&lib, |name| name.starts_with("python3")) {
                sites.extend(["site-packages", "dist-packages"].map(|name| python.join(name)));
            }
        }
    }
    sites
}

fn bundled(program: &Path) -> BTreeSet<PathBuf> {
    let mut copies = BTreeSet::new();
    for package in sites(program)
        .iter()
        .flat_map(|site| entries(site, |name| !name.starts_with('.')))
    {
        if package
            .extension()
            .is_some_and(|extension| extension == "libs")
        {
            copies.extend(copies_in(&package));
        }
        for directory in [".libs", "lib", "lib64"] {
            copies.extend(copies_in(&package.join(directory)));
        }
    }
    copies
}

fn copies_in(directory: &Path) -> impl Iterator<Item = PathBuf> {
    let copies = entries(directory, |name| {
        name.strip_prefix("libibverbs-")
            .is_some_and(|rest| rest.contains(".so"))
    });
    copies
        .into_iter()
        .filter_map(|copy| copy.canonicalize().ok())
}

/// Providers that programs link with directly. Only these are bundled in wheels.
const LINKED: [&str; 7] = ["mlx4", "mlx5", "efa", "hns", "mana", "bnxt_re", "ionic"];

fn is_provider(name: &str) -> bool {
    let Some(rest) = name.strip_prefix("lib") else {
        return false;
    };
    let linked = LINKED.iter().any(|vendor| {
        rest.strip_prefix(vendor)
            .is_some_and(|rest| rest.starts_with('-') && rest.contains(".so"))
    });
    linked
        || rest
            .split_once("-rdmav")
            .is_some_and(|(_, rest)| rest.contains(".so"))
}

/// Why a copy cannot be replaced: a provider beside it needs a symbol version that our library does not
/// define. Only providers use versions that differ from release to release, so other libraries are not
/// read.
fn obstacle(copy: &Path, library: &Library) -> Option<String> {
    let mut providers = entries(copy.parent()?, is_provider);
    providers.sort();
    let mut reasons = Vec::new();
    for provider in providers {
        let wanted = elf::wanted_symbols(&provider).unwrap_or_default();
        let ours = elf::defined_symbols(&library.file).unwrap_or_default();
        let missing = elf::missing_versions(&wanted, &ours);
        if !missing.is_empty() {
            let provider = Path::new(provider.file_name()?).display();
            reasons.push(format!("{provider} needs {}", missing.join(" ")));
        }
    }
    (!reasons.is_empty()).then(|| reasons.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn providers_are_known_by_their_names() {
        for name in [
            "libmlx5-1a2b.so.1.24.44.0",
            "libbnxt_re-0.so",
            "librxe-rdmav34.so",
            "librxe-rdmav34-1a.so.1",
        ] {
            assert!(is_provider(name), "{name}");
        }
        for name in [
            "libmlx5.so.1",
            "libibverbs-1a2b.so.1",
            "libmlx5-1a2b.a",
            "mlx5-1.so",
            "librdmav34.so",
        ] {
            assert!(!is_provider(name), "{name}");
        }
    }

    #[test]
    fn a_prefix_is_two_directories_up() {
        assert_eq!(
            prefix_of(Path::new("/opt/env/bin/python3")),
            Some("/opt/env".into())
        );
        assert_eq!(prefix_of(Path::new("/init")), Some("/".into()));
    }
}
