//! Fetches what cases need from the network, once: later runs take it from the cache directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::paths;

const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// The contents of a package of a Debian release, unpacked, with its version in the file `version`. A name
/// may end in another architecture than this machine's, as in `libibverbs1:arm64`. Apt uses sources and
/// lists of its own: the system's are not changed, and root is not needed. `mirror` is where to download
/// from.
pub fn package(release: &str, name: &str, cached_as: &str) -> Result<PathBuf, String> {
    let cache = paths::downloads()
        .map_err(|e| e.to_string())?
        .join(cached_as);
    if cache.join("version").exists() {
        return Ok(cache);
    }
    println!("fetching {name} of Debian {release}");
    if !Path::new(KEYS).exists() {
        return Err(format!("{KEYS} is missing: run make deps"));
    }
    into_cache(cache, "version", |work| fetch(work, release, name))
}

/// Makes a directory of the cache, which is complete when it has the file `last`: what `fetch` makes below
/// its working directory is moved there.
fn into_cache(
    cache: PathBuf,
    last: &str,
    fetch: impl FnOnce(&Path) -> Result<PathBuf, String>,
) -> Result<PathBuf, String> {
    let work = cache.with_extension(format!("new-{}", std::process::id()));
    let moved = fetch(&work).and_then(|root| {
        // Another process may have been faster.
        fs::rename(&root, &cache).or_else(|e| {
            if cache.join(last).exists() {
                Ok(())
            } else {
                Err(e.to_string())
            }
        })
    });
    let _ = fs::remove_dir_all(&work);
    moved.map(|()| cache)
}

/// Where the archive of a name, `debian` or `ubuntu`, is to be downloaded from: see scripts/debian-mirror. No
/// archive is used that this machine's apt does not know, unless a variable names it.
pub fn mirror(name: &str) -> Result<String, String> {
    let script = paths::repo().join("scripts/debian-mirror");
    let output = Command::new(script).arg(name).stdin(Stdio::null()).output();
    let output = output.map_err(|e| format!("scripts/debian-mirror: {e}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_string();
    if output.status.success() {
        Ok(text(&output.stdout))
    } else {
        Err(text(&output.stderr))
    }
}

fn fetch(work: &Path, release: &str, name: &str) -> Result<PathBuf, String> {
    let text = |e: std::io::Error| e.to_string();
    for dir in ["lists/partial", "archives/partial", "deb", "root"] {
        fs::create_dir_all(work.join(dir)).map_err(text)?;
    }
    let mirror = mirror("debian")?;
    let sources = work.join("sources.list");
    fs::write(
        &sources,
        format!("deb [signed-by={KEYS}] {mirror} {release} main\n"),
    )
    .map_err(text)?;
    for command in [["update"].as_slice(), &["download", name]] {
        let mut apt = apt(work);
        if let Some((_, architecture)) = name.split_once(':') {
            apt.args(["-o", &format!("APT::Architectures::={architecture}")]);
        }
        let status = apt
            .args(command)
            .current_dir(work.join("deb"))
            .status()
            .map_err(text)?;
        if !status.success() {
            return Err(format!("apt-get {}: {status}", command.join(" ")));
        }
    }
    let file = fs::read_dir(work.join("deb")).map_err(text)?.next();
    let file = file
        .ok_or_else(|| format!("no package {name}"))?
        .map_err(text)?
        .path();
    let root = work.join("root");
    let unpacked = Command::new("dpkg")
        .arg("-x")
        .args([&file, &root])
        .status()
        .map_err(text)?;
    let version = Command::new("dpkg-deb")
        .arg("-f")
        .arg(&file)
        .arg("Version")
        .output()
        .map_err(text)?;
    if !unpacked.success() || !version.status.success() {
        return Err(format!("{} cannot be unpacked", file.display()));
    }
    fs::write(root.join("version"), &version.stdout).map_err(text)?;
    Ok(root)
}

/// The wheel of a Python package, for CPython 3.11 on x86-64, fetched by pip.
pub fn wheel(package: &str) -> Result<PathBuf, String> {
    let text = |e: std::io::Error| e.to_string();
    let cache = paths::downloads().map_err(text)?;
    let kept = cache.join(format!("wheel-{package}"));
    if let Some(file) = first_file(&kept) {
        return Ok(file);
    }
    println!("fetching the wheel of {package}");
    let new = cache.join(format!("wheel-{package}.new-{}", std::process::id()));
    let status = Command::new("python3")
        .args([
            "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:",
        ])
        .args([
            "--python-version", "3.11", "--platform", "manylinux_2_28_x86_64",
        ])
        .arg("--dest")
        .args([new.as_path(), Path::new(package)])
        .stdin(Stdio::null())
        .status();
    let status = status.map_err(|e| format!("python3: {e}"))?;
    // If another process was faster, its directory stays.
    let moved = fs::rename(&new, &kept);
    let _ = fs::remove_dir_all(&new);
    first_file(&kept).ok_or_else(|| format!("pip download {package}: {status}, {moved:?}"))
}

/// A directory for PYTHONPATH with these packages of the Python index (`NAME==VERSION`), installed by pip.
pub fn python_packages(cached_as: &str, packages: &[&str]) -> Result<PathBuf, String> {
    install_wheels(cached_as, &[], packages)
}

/// The same for CPython of this version, as in `3.14`, on x86-64 with glibc 2.28 or later. This machine need
/// not have that Python.
pub fn packages_of_python(version: &str, packages: &[&str]) -> Result<PathBuf, String> {
    let target = [
        "--only-binary=:all:",
        "--implementation=cp",
        "--platform=manylinux_2_28_x86_64",
        "--python-version",
        version,
    ];
    install_wheels(
        &format!("{version}-{}", packages.join("-")),
        &target,
        packages,
    )
}

fn install_wheels(cached_as: &str, target: &[&str], packages: &[&str]) -> Result<PathBuf, String> {
    let text = |e: std::io::Error| e.to_string();
    let cache = paths::downloads().map_err(text)?;
    let kept = cache.join(format!("python-{cached_as}"));
    if kept.exists() {
        return Ok(kept);
    }
    println!("fetching {}", packages.join(", "));
    let new = cache.join(format!("python-{cached_as}.new-{}", std::process::id()));
    let status = Command::new("python3")
        .args(["-m", "pip", "install", "-q", "--no-compile", "--target"])
        .arg(&new)
        .args(target)
        .args(packages)
        .stdin(Stdio::null())
        .status();
    let status = status.map_err(|e| format!("python3: {e}"))?;
    // If another process was faster, its directory stays.
    let moved = status.success().then(|| fs::rename(&new, &kept));
    let _ = fs::remove_dir_all(&new);
    if kept.exists() {
        return Ok(kept);
    }
    Err(format!(
        "pip install {}: {status}, {moved:?}",
        packages.join(" ")
    ))
}

fn first_file(dir: &Path) -> Option<PathBuf> {
    Some(fs::read_dir(dir).ok()?.next()?.ok()?.path())
}

const SOURCES: &[&str] = &["rdma-core", "perftest", "qperf"];

/// The upstream sources of rdma-core, perftest and qperf, unpacked below one directory, with their versions
/// in the file `complete`. They are Debian 13's: mirrors no longer have Debian 12's. Apt uses its own sources
/// and lists.
pub fn sources() -> Result<PathBuf, String> {
    let cache = paths::downloads()
        .map_err(|e| e.to_string())?
        .join("sources");
    if cache.join("complete").exists() {
        return Ok(cache);
    }
    println!("fetching the sources of {}", SOURCES.join(", "));
    if !Path::new(KEYS).exists() {
        return Err(format!(
            "{KEYS} is missing: run scripts/install-deps sources"
        ));
    }
    into_cache(cache, "complete", fetch_sources)
}

fn fetch_sources(work: &Path) -> Result<PathBuf, String> {
    let text = |e: std::io::Error| e.to_string();
    for dir in ["lists/partial", "archives/partial", "download", "root"] {
        fs::create_dir_all(work.join(dir)).map_err(text)?;
    }
    let mirror = mirror("debian")?;
    let line = format!("deb-src [signed-by={KEYS}] {mirror} trixie main\n");
    fs::write(work.join("sources.list"), line).map_err(text)?;
    let mut download = vec!["source", "--tar-only"];
    download.extend(SOURCES);
    for command in [vec!["update"], download] {
        let dir = work.join("download");
        let status = apt(work).args(&command).current_dir(dir).status();
        if !status.map_err(text)?.success() {
            return Err(format!("apt-get {} failed", command.join(" ")));
        }
    }
    let root = work.join("root");
    let mut complete = String::new();
    for name in SOURCES {
        complete += &unpack_source(&work.join("download"), name, &root.join(name))?;
    }
    fs::write(root.join("complete"), complete).map_err(text)?;
    Ok(root)
}

/// Unpacks NAME_VERSION.orig.tar.*; returns the line "NAME VERSION".
fn unpack_source(download: &Path, name: &str, to: &Path) -> Result<String, String> {
    let text = |e: std::io::Error| e.to_string();
    let prefix = format!("{name}_");
    let files = fs::read_dir(download).map_err(text)?.flatten();
    let tarball = files
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .find(|file| file.starts_with(&prefix) && file.contains(".orig.tar."))
        .ok_or_else(|| format!("no source of {name}"))?;
    fs::create_dir_all(to).map_err(text)?;
    let unpacked = Command::new("tar")
        .arg("-xf")
        .arg(download.join(&tarball))
        .arg("-C")
        .arg(to)
        .arg("--strip-components=1")
        .status()
        .map_err(text)?;
    let version = tarball[prefix.len()..].split(".orig.tar.").next();
    match (unpacked.success(), version) {
        (true, Some(version)) => Ok(format!("{name} {version}\n")),
        _ => Err(format!("{tarball} cannot be unpacked")),
    }
}

/// apt-get with directories of its own.
fn apt(work: &Path) -> Command {
    let mut command = Command::new("apt-get");
    let option = |name: &str, path: &str| format!("{name}={}", work.join(path).display());
    command.arg("-q").stdin(Stdio::null());
    for option in [
        option("Dir::Etc::SourceList", "sources.list"),
        "Dir::Etc::SourceParts=-".into(),
        option("Dir::State::Lists", "lists"),
        "Dir::State::status=/dev/null".into(),
        option("Dir::Cache", ""),
        "APT::Sandbox::User=".into(),
        "Acquire::Languages=none".into(),
        "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false".into(),
    ] {
        command.args(["-o", &option]);
    }
    command
}
