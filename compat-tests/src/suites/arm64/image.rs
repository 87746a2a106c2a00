//! The arm64 machine: Debian 13's programs and kernels for arm64, unpacked once and kept in the cache.
//! Nothing of it runs while it is made: the packages are unpacked, not configured. Debian has no kernel with
//! pages of 64 KiB; that one is Ubuntu's.

use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::downloads;
use crate::machine::boot::Hardware;
use crate::paths;
use crate::process::path_with_sbin;
use crate::sandbox::is_root;
use crate::verdict::{Failure, Verdict};

/// The number of the image's contents, to be increased when they change.
const NUMBER: u32 = 1;

/// A kernel of a distribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// Pages of 4 KiB.
    Pages4,
    /// Pages of 16 KiB.
    Pages16,
    /// Pages of 64 KiB: Ubuntu 26.04's. The case is skipped where apt has no archive of Ubuntu.
    Pages64,
}

impl Kernel {
    /// The name of the kernel's directory in the image.
    fn name(self) -> &'static str {
        match self {
            Kernel::Pages4 => "kernel",
            Kernel::Pages16 => "kernel-16k",
            Kernel::Pages64 => "kernel-64k",
        }
    }

    /// The package that depends on the newest one.
    fn package(self) -> &'static str {
        match self {
            Kernel::Pages4 => "linux-image-arm64",
            Kernel::Pages16 => "linux-image-arm64-16k",
            Kernel::Pages64 => "linux-image-generic-64k",
        }
    }

    /// The size of a page, in bytes.
    pub fn page_size(self) -> u32 {
        match self {
            Kernel::Pages4 => 4096,
            Kernel::Pages16 => 16384,
            Kernel::Pages64 => 65536,
        }
    }

    fn script(self) -> String {
        let download = match self {
            Kernel::Pages4 | Kernel::Pages16 => "",
            Kernel::Pages64 => UBUNTU,
        };
        format!("{download}{KERNEL}")
    }
}

/// The packages in the programs' directory.
const PACKAGES: &str = "bash busybox-static coreutils diffutils findutils grep ibverbs-providers \
    ibverbs-utils iproute2 libc-bin mawk perftest python3-pyverbs rdma-core rdmacm-utils sed util-linux";

/// Defines `apt`, which works on arm64 packages, in the root directory where the library is built. It keeps
/// there, in /guest, what it downloads.
const COMMON: &str = r#"
new=$1 build=$2
shift 2
rm -rf "$new" "$build/guest"
mkdir -p "$new" "$build/guest/partial"
: >"$build/guest/status"
sources=()
apt() {
    local command=$1
    shift
    chroot "$build" env -i PATH=/usr/bin:/usr/sbin LC_ALL=C DEBIAN_FRONTEND=noninteractive \
        sh -c 'cd /guest && exec "$@"' apt "$command" -q -o APT::Architecture=arm64 \
        -o APT::Architectures::=arm64 -o Dir::State::status=/guest/status \
        -o Dir::Cache::archives=/guest -o APT::Sandbox::User= "${sources[@]}" "$@"
}
apt apt-get update
"#;

/// Unpacks the packages into the directory `root`.
const PROGRAMS: &str = r#"
apt apt-get -y --no-install-recommends --download-only install "$@"
mkdir "$new/root"
for deb in "$build"/guest/*.deb; do dpkg -x "$deb" "$new/root"; done
mkdir -p "$new/root/mnt"
rm -rf "$build/guest"
"#;

/// Lets `apt` work on Ubuntu's packages. Debian has the keys of its archive.
const UBUNTU: &str = r#"
apt apt-get download ubuntu-keyring
dpkg -x "$build"/guest/ubuntu-keyring_*.deb "$build/guest/ubuntu"
keys=/guest/ubuntu/usr/share/keyrings/ubuntu-archive-keyring.gpg
mkdir -p "$build/guest/lists/partial"
echo "deb [signed-by=$keys] $UBUNTU_MIRROR resolute main" >"$build/guest/sources.list"
sources=(-o Dir::State::lists=/guest/lists -o Dir::Etc::sourcelist=/guest/sources.list
    -o Dir::Etc::sourceparts=-)
apt apt-get update
"#;

/// Takes the kernel, and the modules that `machine::kernel` takes, out of the packages that `$1` depends on.
/// Ubuntu's modules are a package of their own. Its kernel is a section of an EFI program, and contains the
/// compressed image that QEMU boots: the words at 8 and 12 are the image's offset and length there.
const KERNEL: &str = r#"
kernel=$(apt apt-cache depends "$1" | awk '/ Depends: linux-image-/ && !n++ {print $2}')
modules=$(apt apt-cache depends "$kernel" | awk '/ Depends: linux-modules-/ {print $2}')
apt apt-get download "$kernel" $modules
root=$new/unpacked
for deb in "$build"/guest/linux-*.deb; do dpkg -x "$deb" "$root"; done
[ -d "$root/lib/modules" ] || ln -s usr/lib "$root/lib"
version=$(ls "$root/lib/modules")
cp "$root"/boot/vmlinuz-* "$new/vmlinuz"
if [ "$modules" ]; then
    cp "$new/vmlinuz" "$build/guest/efi"
    chroot "$build" aarch64-linux-gnu-objcopy -O binary --only-section=.linux /guest/efi /guest/zboot
    read -r offset length < <(od -A n -t u4 -j 8 -N 8 "$build/guest/zboot")
    tail -c +$((offset + 1)) "$build/guest/zboot" | head -c "$length" | zstd -qdc >"$new/vmlinuz"
fi
rm -rf "$build/guest"
mkdir "$new/mods"
depmod -b "$root" "$version"
: >"$new/none.conf"
for m in virtio_pci virtio_net 9p 9pnet_virtio overlay dummy veth ipv6 crc32_generic ib_uverbs rdma_rxe \
    rdma_ucm; do
    # Newer kernels have no crc32_generic.
    modprobe -C "$new/none.conf" -d "$root" -S "$version" --show-depends "$m" || [ "$m" = crc32_generic ]
done | awk '$1 == "insmod" && !seen[$2]++ {print $2}' >"$new/list"
while read -r m; do
    name=$(basename "$m")
    name=${name%.ko*}.ko
    case $m in
    *.xz) xz -dc "$m" ;;
    *.zst) zstd -qdc "$m" ;;
    *) cat "$m" ;;
    esac >"$new/mods/$name"
    echo "$name" >>"$new/mods/order"
done <"$new/list"
grep -q /rdma_rxe.ko "$new/list"
rm -r "$root" "$new/list" "$new/none.conf"
"#;

/// The directory that the machine has as its root.
pub fn root() -> io::Result<PathBuf> {
    Ok(dir("programs")?.join("root"))
}

/// The processor and the kernel.
pub fn hardware(kernel: Kernel) -> io::Result<Hardware> {
    Ok(Hardware::Arm64 {
        kernel: dir(kernel.name())?,
        busybox: root()?.join("usr/bin/busybox"),
    })
}

/// Makes the programs' directory and the kernel's, if they are not there. Skips the case if that is not
/// possible.
pub fn make(kernel: Kernel) -> Verdict {
    let parent = paths::downloads()?.join("roots");
    fs::create_dir_all(&parent)?;
    let lock = File::create(parent.join(".lock-arm64-image"))?;
    lock_file(&lock)?;
    let missing: Vec<(&str, &str, String)> = [
        ("programs", PACKAGES, PROGRAMS.to_string()),
        (kernel.name(), kernel.package(), kernel.script()),
    ]
    .into_iter()
    .filter(|(name, ..)| dir(name).is_ok_and(|dir| !dir.exists()))
    .collect();
    let build = build_root()?;
    for (name, packages, script) in missing {
        let mirror = if script.starts_with(UBUNTU) {
            let why = "no kernel with pages of 64 KiB";
            downloads::mirror("ubuntu").map_err(|e| Failure::skip(why).with(e))?
        } else {
            String::new()
        };
        make_part((name, packages, &script), &mirror, &build)?;
    }
    Ok(())
}

fn dir(name: &str) -> io::Result<PathBuf> {
    let parent = paths::downloads()?.join("roots");
    Ok(parent.join(format!("arm64-{name}-{NUMBER}")))
}

/// Locks the file until it is closed. Another runner may make the same.
fn lock_file(file: &File) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    // SAFETY: flock takes no pointers.
    if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// The root directory of scripts/arm64, in which the library is built; its apt knows arm64. It is made if it
/// is not there. Skips the case if that is not possible.
pub fn build_root() -> Result<PathBuf, Failure> {
    if !is_root() {
        return Err(Failure::skip(
            "only root can build for arm64 in a root directory",
        ));
    }
    let output = Command::new(paths::repo().join("scripts/arm64"))
        .arg("--root")
        .stdin(Stdio::null())
        .output()?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(Failure::skip("no root directory to build in").with(why));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().into())
}

fn make_part(
    (name, packages, script): (&str, &str, &str),
    ubuntu_mirror: &str,
    build: &std::path::Path,
) -> Verdict {
    let to = dir(name)?;
    println!("{}: downloading", to.display());
    let new = to.with_extension("new");
    let log = to.with_extension("log");
    let out = File::create(&log)?;
    let status = Command::new("bash")
        .args(["-ec", &format!("{COMMON}{script}"), "make"])
        .args([new.as_path(), build])
        .args(packages.split_whitespace())
        .env("UBUNTU_MIRROR", ubuntu_mirror)
        .env("PATH", path_with_sbin())
        .stdin(Stdio::null())
        .stdout(out.try_clone()?)
        .stderr(out)
        .status()?;
    if !status.success() {
        return Err(Failure::skip(format!(
            "no arm64 machine: see {}",
            log.display()
        )));
    }
    fs::rename(&new, &to)?;
    Ok(())
}
