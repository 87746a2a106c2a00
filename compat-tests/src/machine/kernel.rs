//! The virtual machine's kernel: a distribution's, with Soft-RoCE (rdma_rxe). It is fetched once by this
//! machine's apt, which verifies it; of its files, those that the machine needs are kept: `vmlinuz`,
//! `mods/*.ko`, and `mods/order` with the modules in the order in which they are loaded.
//!
//! $VM_KERNEL_DIR is where to keep it; by default a directory of the cache of downloads. $VM_KERNEL is the
//! name of the package to fetch.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::paths;
use crate::process::path_with_sbin;
use crate::verdict::{Details, Failure, Verdict, ensure};

/// The format of the directory, to be changed when what is kept changes.
const FORMAT: &str = "v4";
/// Modules to load, after those that they need. A module that does not exist is part of the kernel.
const MODULES: [&str; 19] = [
    "virtio_pci", "virtio_net", "9p", "9pnet_virtio", "overlay", "dummy", "veth", "8021q", "tun",
    "ipv6", "crc32_generic", "crc32-pclmul", "ib_uverbs", "rdma_rxe", "rdma_ucm", "ib_umad",
    "sch_netem", "sch_prio", "cls_u32",
];
/// The modules that a kernel must have, loadable or built in; the others are optional.
const REQUIRED: [&str; 4] = ["ib_uverbs", "rdma_rxe", "overlay", "9p"];

/// The directory with the kernel and its modules. Fetches them if they are not there.
pub fn dir() -> Result<PathBuf, Failure> {
    let cache = match std::env::var_os("VM_KERNEL_DIR") {
        Some(dir) => PathBuf::from(dir),
        None => paths::downloads()?.join("kernel"),
    };
    let kept = cache.join(FORMAT);
    if kept.join("name").exists() {
        return Ok(kept);
    }
    fs::create_dir_all(&cache)?;
    let lock = File::create(cache.join(".lock"))?;
    // SAFETY: flock takes no pointers.
    if unsafe { libc::flock(lock.as_raw_fd(), libc::LOCK_EX) } != 0 {
        return Err(io::Error::last_os_error().into());
    }
    // Another process may have fetched it meanwhile.
    if !kept.join("name").exists() {
        fetch(&cache, &kept)?;
    }
    Ok(kept)
}

/// Fetches the kernel, for `Case::before`.
pub fn make() -> Verdict {
    dir().map(drop)
}

fn fetch(cache: &Path, kept: &Path) -> Verdict {
    ensure(
        std::env::consts::ARCH == "x86_64",
        "the virtual machine requires an x86-64 host",
    )?;
    let work = cache.join("new");
    if work.exists() {
        fs::remove_dir_all(&work)?;
    }
    fs::create_dir_all(work.join("download"))?;
    let package = match std::env::var("VM_KERNEL") {
        Ok(name) => name,
        Err(_) => choose()?,
    };
    let root = work.join("root");
    fs::create_dir_all(&root)?;
    for name in with_modules(&package) {
        println!("fetching {name}");
        let deb = download(&work.join("download"), &name)?;
        run(Command::new("dpkg").arg("-x").arg(deb).arg(&root))?;
    }
    let new = work.join(FORMAT);
    keep(&root, &new)?;
    fs::write(new.join("name"), format!("{package}\n"))?;
    if kept.exists() {
        fs::remove_dir_all(kept)?;
    }
    fs::rename(new, kept)?;
    Ok(fs::remove_dir_all(work)?)
}

/// Runs a command that must succeed; returns what it printed.
fn run(command: &mut Command) -> Result<String, Failure> {
    command.stdin(Stdio::null()).env("PATH", path_with_sbin());
    let output = command.output()?;
    let why = format!("{command:?}: {}", output.status);
    let shown = String::from_utf8_lossy(&output.stderr);
    ensure(output.status.success(), why).with(shown)?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn update_lists() -> Verdict {
    println!("fetching apt's lists of packages");
    let root = crate::sandbox::is_root();
    let mut command = Command::new(if root { "apt-get" } else { "sudo" });
    command.args((!root).then_some("apt-get"));
    run(command.args(["-q", "update"])).map(drop)
}

fn choose() -> Result<String, Failure> {
    if let Some(name) = known_to_apt() {
        return Ok(name);
    }
    update_lists()?;
    let none = "apt knows no kernel package (linux-image-amd64, linux-image-generic)";
    known_to_apt().ok_or_else(|| none.into())
}

/// The newest of Debian's 6.12 kernels (the default in Debian 13, a backport in 12), else the default of
/// the distribution.
fn known_to_apt() -> Option<String> {
    let pattern = r"^linux-image-6\.12\..*-amd64$";
    let found = run(Command::new("apt-cache").args(["search", "--names-only", pattern])).ok()?;
    let names = found
        .lines()
        .filter_map(|line| line.split_whitespace().next());
    let other = ["cloud", "rt-", "dbg", "unsigned"];
    let usual = names.filter(|name| !other.iter().any(|word| name.contains(word)));
    if let Some(newest) = usual.max_by_key(|name| numbers(name)) {
        return Some(newest.into());
    }
    let default = |package: &&str| {
        let depends = run(Command::new("apt-cache").args(["depends", package])).ok()?;
        let of_kernels = depends
            .lines()
            .filter_map(|line| line.trim().strip_prefix("Depends: "));
        let mut images = of_kernels.filter(|name| name.starts_with("linux-image-"));
        images.next().map(String::from)
    };
    ["linux-image-amd64", "linux-image-generic"]
        .iter()
        .find_map(default)
}

/// The numbers in a name, by which versions are ordered.
fn numbers(name: &str) -> Vec<u64> {
    let parts = name.split(|c: char| !c.is_ascii_digit());
    parts.filter_map(|part| part.parse().ok()).collect()
}

/// The package, and those which have its modules in Ubuntu.
fn with_modules(package: &str) -> Vec<String> {
    let version = package.trim_start_matches("linux-image-");
    let more = ["modules", "modules-extra"].map(|kind| format!("linux-{kind}-{version}"));
    let known = |name: &String| run(Command::new("apt-cache").args(["show", name])).is_ok();
    [package.to_string()]
        .into_iter()
        .chain(more.into_iter().filter(known))
        .collect()
}

/// Downloads a package into a directory; with new lists if the mirror does not have it any more.
fn download(dir: &Path, package: &str) -> Result<PathBuf, Failure> {
    let apt = || {
        run(Command::new("apt-get")
            .args(["-q", "download", package])
            .current_dir(dir))
    };
    if let Err(failure) = apt() {
        println!("{failure}\n{}", failure.details);
        update_lists()?;
        apt()?;
    }
    let start = format!("{package}_");
    let mut files = fs::read_dir(dir)?.filter_map(|entry| Some(entry.ok()?.path()));
    let file = files.find(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(&start) && name.ends_with(".deb")
    });
    file.ok_or_else(|| format!("apt-get has downloaded no {package}").into())
}

/// Copies what the machine needs from the unpacked packages.
fn keep(root: &Path, new: &Path) -> Verdict {
    let mods = new.join("mods");
    fs::create_dir_all(&mods)?;
    // With merged /usr the modules are there.
    if !root.join("lib/modules").exists() {
        std::os::unix::fs::symlink("usr/lib", root.join("lib"))?;
    }
    let modules = root.join("lib/modules");
    let version = one_of(&modules, "")?;
    let boot = root.join("boot");
    let image = one_of(&boot, "vmlinuz-").map(|name| boot.join(name));
    // In some distributions it is beside the modules.
    let image = image.unwrap_or_else(|_| modules.join(&version).join("vmlinuz"));
    fs::copy(image, new.join("vmlinuz"))?;
    run(Command::new("depmod").arg("-b").arg(root).arg(&version))?;
    let mut order = String::new();
    let built_in = fs::read_to_string(modules.join(&version).join("modules.builtin"))?;
    let mut have: BTreeSet<String> = built_in.lines().map(module_name).collect();
    for file in needed(root, new, &version)? {
        let name = module_name(&file);
        if have.insert(name.clone()) {
            fs::write(mods.join(format!("{name}.ko")), unpacked(&file)?)?;
            order += &format!("{name}.ko\n");
        }
    }
    for name in REQUIRED {
        ensure(have.contains(name), format!("the kernel has no {name}"))?;
    }
    Ok(fs::write(mods.join("order"), order)?)
}

/// The name of the first entry of a directory that starts with this.
fn one_of(dir: &Path, start: &str) -> Result<String, Failure> {
    let names = fs::read_dir(dir)?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| name.starts_with(start)).collect();
    names.sort();
    let first = names.into_iter().next();
    first.ok_or_else(|| format!("nothing in {}", dir.display()).into())
}

/// The files of the modules, each after those that it needs; some more than once.
fn needed(root: &Path, new: &Path, version: &str) -> Result<Vec<String>, Failure> {
    // This machine's own configuration of modprobe is of no concern.
    let configuration = new.join("no-modprobe.conf");
    fs::write(&configuration, "")?;
    let mut files = Vec::new();
    for module in MODULES {
        let mut command = Command::new("modprobe");
        command.arg("-C").arg(&configuration).arg("-d").arg(root);
        command.args(["-S", version, "--show-depends", module]);
        let shown = run(&mut command).unwrap_or_else(|_| {
            println!("no module {module}: assumed to be built in");
            String::new()
        });
        let inserted = shown
            .lines()
            .filter_map(|line| line.strip_prefix("insmod "));
        files.extend(inserted.filter_map(|line| Some(line.split_whitespace().next()?.to_string())));
    }
    fs::remove_file(configuration)?;
    Ok(files)
}

/// `9p` of `/lib/modules/6.12/kernel/fs/9p/9p.ko.xz`.
fn module_name(file: &str) -> String {
    let name = file.rsplit('/').next().unwrap_or_default();
    name.split(".ko").next().unwrap_or_default().into()
}

/// The contents of a module's file, which may be compressed.
fn unpacked(file: &str) -> Result<Vec<u8>, Failure> {
    let unpack: &[&str] = match file.rsplit('.').next() {
        Some("xz") => &["xz", "-dc"],
        Some("zst") => &["zstd", "-qdc"],
        Some("gz") => &["gzip", "-dc"],
        _ => &["cat"],
    };
    let output = Command::new(unpack[0])
        .args(&unpack[1..])
        .arg(file)
        .stdin(Stdio::null())
        .output()?;
    ensure(
        output.status.success(),
        format!("{file}: {}", output.status),
    )?;
    Ok(output.stdout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newer_versions_are_greater() {
        let names = [
            "linux-image-6.12.9+deb12-amd64",
            "linux-image-6.12.117+deb12-amd64",
        ];
        assert!(numbers(names[0]) < numbers(names[1]));
    }

    #[test]
    fn a_module_is_named_without_its_compression() {
        assert_eq!(module_name("/lib/modules/6.12/kernel/9p.ko.xz"), "9p");
        assert_eq!(module_name("kernel/drivers/a-b.ko"), "a-b");
    }
}
