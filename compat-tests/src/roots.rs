//! Root directories of Debian releases, in which their programs run with their own libc. debootstrap makes
//! one once; it is kept in the cache directory.
//!
//! Programs enter it by chroot(8), in a mount namespace or a virtual machine of their own. Nothing is written
//! into the kept directory.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::downloads;
use crate::paths;
use crate::process::{path_with_sbin, read};
use crate::sandbox::is_root;
use crate::verdict::{Failure, Verdict};

/// A root directory.
pub struct Root {
    release: &'static str,
    /// The suffix that distinguishes this root directory's name from others of the release.
    variant: &'static str,
    /// The number of the root's contents, to be increased when they change.
    number: u32,
    /// The start of the version of its rdma-core, or of Debian where it has none.
    version: &'static str,
    packages: &'static str,
    /// Packages that stay in apt's cache, so that they can be installed again without the network. If there
    /// are none, apt's lists are removed too.
    kept: &'static str,
}

/// Debian sid with all that uses libibverbs in these tests.
pub const SID: Root = Root {
    release: "sid",
    variant: "",
    number: 1,
    version: "65.",
    packages: "ibverbs-utils ibverbs-providers rdmacm-utils rdma-core python3-pyverbs",
    kept: "",
};

/// The packages that the tests of our packages need: everything that depends on libibverbs1, and a
/// compiler.
const DEPENDENTS: &str = "ibverbs-utils ibverbs-providers rdmacm-utils librdmacm-dev libibverbs-dev perftest \
    qperf python3-pyverbs iproute2 gcc libc6-dev pkg-config";
const REPLACED: &str = "libibverbs1 libibverbs-dev";

pub const BOOKWORM: Root = Root {
    release: "bookworm",
    variant: "",
    number: 1,
    version: "44.",
    packages: DEPENDENTS,
    kept: REPLACED,
};

pub const TRIXIE: Root = Root {
    release: "trixie",
    variant: "",
    number: 1,
    version: "56.",
    packages: DEPENDENTS,
    kept: REPLACED,
};

/// Debian sid with the same as Debian 12 and 13.
pub const SID_DEPENDENTS: Root = Root {
    release: "sid",
    variant: "-dependents",
    number: 1,
    version: "65.",
    packages: DEPENDENTS,
    kept: REPLACED,
};

/// Debian 13's UCX. Its ucx_perftest needs mpirun.
pub const TRIXIE_UCX: Root = Root {
    release: "trixie",
    variant: "-ucx",
    number: 1,
    version: "56.",
    packages: "ucx-utils openmpi-bin libibverbs1 ibverbs-providers",
    kept: "",
};

/// Debian 11, whose glibc (2.31) is the oldest that Debian's mirrors have, with programs and a compiler.
pub const BULLSEYE: Root = Root {
    release: "bullseye",
    variant: "",
    number: 1,
    version: "33.",
    packages: "ibverbs-utils ibverbs-providers gcc libc6-dev pkg-config",
    kept: "",
};

/// Debian 13 with what our source package's Build-Depends names, and programs to run on what is built.
pub const TRIXIE_BUILD: Root = Root {
    release: "trixie",
    variant: "-build",
    number: 1,
    version: "56.",
    packages: "cargo rustc lld debhelper dpkg-dev build-essential ibverbs-utils ibverbs-providers",
    kept: "",
};

/// Debian 13 with what our source rpm's BuildRequires names, as Debian calls it, and rpmbuild.
pub const TRIXIE_RPM: Root = Root {
    release: "trixie",
    variant: "-rpm",
    number: 1,
    version: "56.",
    packages: "cargo rustc lld gcc binutils libc6-dev make xz-utils zstd rpm ibverbs-utils ibverbs-providers",
    kept: "",
};

/// Debian sid with the crates that the library and its programs are built with.
pub const SID_CRATES: Root = Root {
    release: "sid",
    variant: "-crates",
    number: 1,
    version: "65.",
    packages: "cargo rustc lld make gcc libc6-dev debhelper dpkg-dev ibverbs-utils ibverbs-providers \
        librust-arrayvec-dev librust-clap-dev librust-crc32fast-dev librust-libc-dev librust-libloading-dev \
        librust-lock-api-dev librust-log-dev librust-object-dev librust-once-cell-dev librust-rustc-hash-dev \
        librust-serde-json-dev librust-smallvec-dev librust-socket2-dev",
    kept: "",
};

/// Debian 13 with the programs of the guides.
pub const TRIXIE_GUIDES: Root = Root {
    release: "trixie",
    variant: "-guides",
    number: 1,
    version: "56.",
    packages: "ibverbs-utils ibverbs-providers perftest ucx-utils openmpi-bin libopenmpi-dev mpich \
        libmpich-dev gcc libc6-dev tshark curl ca-certificates zstd",
    kept: "",
};

/// The packages that README.md names as needed before the first command, sudo, and a command that
/// it shows. Rust comes from elsewhere: Debian 12's is too old.
pub const BOOKWORM_FIRST: Root = Root {
    release: "bookworm",
    variant: "-first",
    number: 2,
    version: "12",
    packages: "gcc make git sudo pkg-config",
    kept: "",
};

/// The same, with Debian 13's Rust.
pub const TRIXIE_FIRST: Root = Root {
    release: "trixie",
    variant: "-first",
    number: 2,
    version: "13",
    packages: "gcc make git sudo cargo pkg-config",
    kept: "",
};

/// Debian 13 with what the unit tests need, and Debian's own Rust: the oldest that Cargo.toml allows.
pub const TRIXIE_RUST: Root = Root {
    release: "trixie",
    variant: "-rust",
    number: 1,
    version: "56.",
    packages: "cargo rustc rustfmt lld gcc libc6-dev make binutils git iproute2 libibverbs-dev python3 \
        linux-libc-dev pkg-config",
    kept: "",
};

/// The contents of Debian's image 13-slim, but for its documentation. It has no rdma-core: the
/// version is that of Debian itself.
pub const TRIXIE_SLIM: Root = Root {
    release: "trixie",
    variant: "-slim",
    number: 1,
    version: "13",
    packages: "",
    kept: "",
};

/// Installs the packages in a new root directory, and writes the version of its rdma-core, or of Debian where
/// there is none, into the file `version`.
const MAKE: &str = r#"
new=$1 release=$2 mirror=$3 kept=$4
shift 4
debootstrap --variant=minbase --keyring=/usr/share/keyrings/debian-archive-keyring.gpg \
    "$release" "$new" "$mirror"
echo force-unsafe-io >"$new/etc/dpkg/dpkg.cfg.d/quick"
printf '#!/bin/sh\nexit 101\n' >"$new/usr/sbin/policy-rc.d"
chmod 755 "$new/usr/sbin/policy-rc.d"
in_root() { chroot "$new" env -i PATH="$PATH" LC_ALL=C DEBIAN_FRONTEND=noninteractive "$@"; }
in_root apt-get -q -y --no-install-recommends install "$@"
in_root apt-get clean
if [ -n "$kept" ]; then
    in_root apt-get -q -y --download-only --reinstall install $kept
else
    in_root sh -c 'rm -rf /var/lib/apt/lists/*'
fi
rm -f "$new/etc/resolv.conf"
echo '127.0.0.1 localhost' >"$new/etc/hosts"
version() { in_root dpkg-query -W -f '${Version}\n' "$1"; }
{ version libibverbs1 || version base-files; } >"$new/version"
"#;

impl Root {
    /// The directory of the root.
    pub fn dir(&self) -> io::Result<PathBuf> {
        let name = format!("{}{}-{}", self.release, self.variant, self.number);
        Ok(paths::downloads()?.join("roots").join(name))
    }

    pub fn release(&self) -> &'static str {
        self.release
    }

    pub fn variant(&self) -> &'static str {
        self.variant
    }

    /// Makes it, if it is not there. Skips the case if that is not possible here, or if the release has
    /// another rdma-core by now.
    pub fn make(&self) -> Verdict {
        let dir = self.dir()?;
        let parent = dir.parent().ok_or("the root has no parent directory")?;
        fs::create_dir_all(parent)?;
        let lock = File::create(parent.join(format!(".lock-{}", self.release)))?;
        // SAFETY: flock takes no pointers.
        if unsafe { libc::flock(lock.as_raw_fd(), libc::LOCK_EX) } != 0 {
            return Err(io::Error::last_os_error().into());
        }
        if !dir.exists() {
            self.install(&dir)?;
        }
        let version = read(&dir.join("version"));
        if version.starts_with(self.version) {
            return Ok(());
        }
        let (release, version, wanted) = (self.release, version.trim(), self.version);
        Err(Failure::skip(format!(
            "{release} has version {version}, the case is for {wanted}*"
        )))
    }

    fn install(&self, dir: &Path) -> Verdict {
        if !is_root() {
            return Err(Failure::skip("only root can install a root directory"));
        }
        let mirror = downloads::mirror("debian").map_err(Failure::skip)?;
        println!("{}: debootstrap from {mirror}", self.release);
        let new = dir.with_extension(format!("new-{}", std::process::id()));
        let log = dir.with_extension("log");
        let out = File::create(&log)?;
        let status = Command::new("sh")
            .args(["-ec", MAKE, "make"])
            .arg(&new)
            .args([self.release, &mirror, self.kept])
            .args(self.packages.split_whitespace())
            .env("PATH", path_with_sbin())
            .stdin(Stdio::null())
            .stdout(out.try_clone()?)
            .stderr(out)
            .status()?;
        let made = if status.success() {
            fs::rename(&new, dir)
        } else {
            Err(io::Error::other(format!("see {}", log.display())))
        };
        if made.is_err() && new.exists() {
            fs::remove_dir_all(&new)?;
        }
        made.map_err(|e| Failure::skip(format!("no root directory of {}: {e}", self.release)))
    }
}
