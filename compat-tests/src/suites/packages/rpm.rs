//! The rpm packages, in a root directory with an rpm database. This machine is not an rpm distribution, so
//! the packages that ours need are built here from this machine's files, divided as in Fedora and RHEL. rpm
//! determines what each provides and requires, and checks dependencies at every step.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{ended_well, last_words, libibverbs_in, package, same, sorted};
use crate::artifacts;
use crate::context::Context;
use crate::paths::text;
use crate::process::Ended;
use crate::sandbox::is_root;
use crate::verdict::{Details, Failure, Verdict, ensure};

const BUSYBOX: &[&str] = &[
    "id", "realpath", "dirname", "cmp", "sed", "awk", "sort", "comm", "grep", "od", "dd", "tr",
    "cut", "head", "xargs", "readlink", "cksum", "mkdir", "ln", "mv",
];
const THEIRS: &str = "/usr/lib64/libibverbs.so.1";
const OURS: &str = "/usr/lib64/libibverbs-rs/libibverbs.so.1";
pub const NAMES: &[&str] = &[
    "libibverbs-rs", "libibverbs-rs-devel", "libibverbs-rs-ofed-devel", "libibverbs-rs-tools",
];

struct Rpm<'a> {
    cx: &'a Context,
    root: PathBuf,
    version: String,
    packages: Vec<String>,
}

pub fn run(cx: &Context) -> Verdict {
    if !is_root() {
        return Err(Failure::skip("needs root"));
    }
    let rpm = Rpm::new(cx)?;
    let before = rpm.distribution()?;
    rpm.metadata()?;
    rpm.installed(&before)?;
    rpm.dependencies()?;
    rpm.upgraded_and_removed(&before)
}

/// Copies files, or what they are links to, into a directory of a tree.
fn put(tree: &Path, folder: &str, files: &[String]) -> Verdict {
    let dir = tree.join(folder);
    fs::create_dir_all(&dir)?;
    for file in files {
        let name = Path::new(file).file_name().unwrap_or_default();
        fs::copy(file, dir.join(name)).map_err(|e| format!("{file}: {e}"))?;
    }
    Ok(())
}

fn strings(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| word.to_string()).collect()
}

impl<'a> Rpm<'a> {
    fn new(cx: &'a Context) -> Result<Self, Failure> {
        let mut packages = Vec::new();
        for name in NAMES {
            packages.push(package("rpm", name)?.to_string_lossy().into_owned());
        }
        let version = cx.output([
            "rpm", "-qp", "--nosignature", "--qf", "%{VERSION}", &packages[0],
        ])?;
        Ok(Self {
            cx,
            root: cx.dir().join("root"),
            version,
            packages,
        })
    }

    fn rpm(&self, words: &[&str]) -> Result<Ended, Failure> {
        let root = self.root.to_string_lossy();
        let mut all = vec!["rpm", "--root", &root, "--nosignature"];
        all.extend(words);
        Ok(self.cx.program(all).limit(Duration::from_secs(300)).run()?)
    }

    fn try_rpm(&self, name: &str, words: &[&str]) -> Verdict {
        let ended = self.rpm(words)?;
        self.cx.report(name, ended_well(&ended))
    }

    /// rpm must refuse this, with this word in its message.
    fn refused(&self, name: &str, word: &str, words: &[&str]) -> Verdict {
        let ended = self.rpm(words)?;
        let verdict = ensure(
            !ended.ok() && last_words(&ended).contains(word),
            format!("not refused with {word:?}"),
        );
        let verdict = verdict.with(last_words(&ended));
        self.cx.report(name, verdict)
    }

    fn with_packages<'b>(&'b self, option: &'b str) -> Vec<&'b str> {
        let files = self.packages.iter().map(String::as_str);
        [option].into_iter().chain(files).collect()
    }

    /// The libibverbs that a program of the root loads.
    fn loads(&self, program: &str) -> Result<String, Failure> {
        let root = self.root.to_string_lossy();
        let loader = "/lib64/ld-linux-x86-64.so.2";
        let ended = self
            .cx
            .program(["chroot", &root, loader, "--list", program])
            .run()?;
        Ok(libibverbs_in(&ended.out).unwrap_or("none").into())
    }

    fn files(&self) -> Result<String, Failure> {
        let find = "find etc usr lib64 bin sbin \\( -type f -o -type l \\) ! -path etc/ld.so.cache \
            ! -path '*/lib/sysimage/*' -printf '%p %s %l\\n'";
        let ended = self
            .cx
            .program(["sh", "-ec", find])
            .dir(&self.root)
            .succeed()?;
        Ok(sorted(&ended.out))
    }

    /// Builds a package of a tree's files; returns its file.
    fn placeholder(&self, name: &str, version: &str, tree: &Path) -> Result<String, Failure> {
        let dir = self.cx.dir();
        let list = self
            .cx
            .program(["find", ".", "!", "-type", "d", "-printf", "/%P\\n"]);
        let list = list.dir(tree).run()?.out;
        // As in glibc's package.
        let (provides, post) = if name == "base" {
            ("Provides: rtld(GNU_HASH)\n", "")
        } else {
            ("", "%post -p /sbin/ldconfig\n")
        };
        let tree = tree.display();
        let spec = format!(
            "Name: {name}\nVersion: {version}\nRelease: 1\nSummary: placeholder\nLicense: none\n{provides}\
             %description\nx\n%install\ncp -a {tree}/. %{{buildroot}}\n{post}%files\n{list}"
        );
        let spec = self.cx.write(&format!("{name}.spec"), spec)?;
        let top = format!("_topdir {}", dir.join("top").display());
        let rpms = format!("_rpmdir {}", dir.join("rpms").display());
        let spec = spec.to_string_lossy();
        let mut words = vec!["rpmbuild", "-bb", "--quiet"];
        for define in [
            &top, &rpms, "_build_id_links none", "debug_package %{nil}", "__strip /bin/true",
        ] {
            words.extend(["--define", define]);
        }
        words.extend(["--target", "x86_64", &spec]);
        let build = self.cx.program(words).limit(Duration::from_secs(300));
        build.succeed()?;
        let file = dir.join(format!("rpms/x86_64/{name}-{version}-1.x86_64.rpm"));
        Ok(text(&file))
    }

    fn verbs_tree(&self) -> PathBuf {
        self.cx.dir().join("verbs")
    }

    /// The placeholders of the distribution's packages; returns the files of the root with them.
    fn distribution(&self) -> Result<String, Failure> {
        let (base, utils) = (self.cx.dir().join("base"), self.cx.dir().join("utils"));
        self.fill_base(&base)?;
        let lib = artifacts::library_dir()?;
        let file = |name: &str| lib.join(name).to_string_lossy().into_owned();
        let verbs = self.verbs_tree();
        put(
            &verbs,
            "usr/lib64",
            &[file("libibverbs.so.1"), file("libmlx5.so.1")],
        )?;
        let drivers = ["rxe", "siw"].map(|name| file(&format!("libibverbs/lib{name}-rdmav34.so")));
        put(&verbs, "usr/lib64/libibverbs", &drivers)?;
        let configuration = ["rxe", "siw"].map(|name| format!("/etc/libibverbs.d/{name}.driver"));
        put(&verbs, "etc/libibverbs.d", &configuration)?;
        put(
            &utils,
            "usr/bin",
            &strings(&["/usr/bin/ibv_devinfo", "/usr/bin/ibv_devices"]),
        )?;
        fs::create_dir_all(&self.root)?;
        let files = [
            self.placeholder("base", "1", &base)?,
            self.placeholder("libibverbs", "44.0", &verbs)?,
            self.placeholder("libibverbs-utils", "44.0", &utils)?,
        ];
        let mut words = vec!["-i"];
        words.extend(files.iter().map(String::as_str));
        self.try_rpm("the-distributions-packages", &words)?;
        self.same_load("programs-load-the-distributions", THEIRS)?;
        self.files()
    }

    /// libc, libnl, and a shell. The default directories of Debian's ldconfig and loader are not Fedora's.
    fn fill_base(&self, base: &Path) -> Verdict {
        put(base, "lib64", &strings(&["/lib64/ld-linux-x86-64.so.2"]))?;
        let lib = artifacts::library_dir()?;
        let names = "libc.so.6 libm.so.6 libgcc_s.so.1 libtinfo.so.6 libdl.so.2 libpthread.so.0 \
            libnl-3.so.200 libnl-route-3.so.200";
        let in_either = |name: &str| {
            let places = [
                lib.clone(),
                Path::new("/").join(lib.strip_prefix("/usr").unwrap_or(&lib)),
            ];
            let found = places
                .iter()
                .map(|dir| dir.join(name))
                .find(|file| file.exists());
            found.map(text)
        };
        let files: Vec<String> = names.split_whitespace().filter_map(in_either).collect();
        ensure(files.len() == 8, format!("not all of {names}"))?;
        put(base, "usr/lib64", &files)?;
        put(base, "sbin", &strings(&["/sbin/ldconfig"]))?;
        let busybox = self.cx.output(["sh", "-c", "command -v busybox"])?;
        put(base, "bin", &strings(&["/bin/bash", busybox.trim()]))?;
        for dir in ["usr/bin", "usr/sbin", "etc/ld.so.conf.d"] {
            fs::create_dir_all(base.join(dir))?;
        }
        symlink("bash", base.join("bin/sh"))?;
        for name in BUSYBOX {
            symlink("/bin/busybox", base.join("usr/bin").join(name))?;
        }
        fs::write(base.join("etc/ld.so.conf"), "include ld.so.conf.d/*.conf\n")?;
        let usr_lib64 = base.join("etc/ld.so.conf.d/zz-usr-lib64.conf");
        Ok(fs::write(usr_lib64, "/usr/lib64\n")?)
    }

    fn same(&self, name: &str, expected: &str, got: &str) -> Verdict {
        same(self.cx, name, expected, got)
    }

    fn same_load(&self, name: &str, expected: &str) -> Verdict {
        self.same(name, expected, &self.loads("/usr/bin/ibv_devices")?)
    }

    fn query(&self, option: &str) -> Result<String, Failure> {
        self.cx
            .output(["rpm", "-qp", "--nosignature", option, &self.packages[0]])
    }

    fn metadata(&self) -> Verdict {
        let library = self.verbs_tree().join("usr/lib64/libibverbs.so.1");
        let shown = self
            .cx
            .output(["readelf", "-V", &library.to_string_lossy()])?;
        let version = |line: &str| {
            let (_, name) = line.split_once("Name: ")?;
            let name = name.split_whitespace().next()?;
            name.starts_with("IBVERBS_")
                .then(|| format!("libibverbs.so.1({name})(64bit)"))
        };
        let theirs: BTreeSet<String> = shown.lines().filter_map(version).collect();
        let provides = self.query("--provides")?;
        let missing: Vec<&String> = theirs
            .iter()
            .filter(|name| !provides.lines().any(|line| line.trim() == name.as_str()))
            .collect();
        let verdict = ensure(
            missing.is_empty() && theirs.len() >= 13,
            format!("not provided of {} versions: {missing:?}", theirs.len()),
        );
        self.cx.report("metadata/provides-all-versions", verdict)?;
        let of_drivers = |text: String| -> Vec<String> {
            let lines = text
                .lines()
                .filter_map(|l| l.trim().strip_prefix("libibverbs(x86-64) "));
            lines.map(String::from).collect()
        };
        let needs = format!(
            "conflicts {:?}, requires {:?}",
            of_drivers(self.query("--conflicts")?),
            of_drivers(self.query("--requires")?)
        );
        let expected = "conflicts [\">= 66\"], requires [\">= 34\"]";
        self.same("metadata/needs-drivers-of-34-to-65", expected, &needs)?;
        let mut words = vec!["rpm", "-K", "--nosignature"];
        words.extend(self.packages.iter().map(String::as_str));
        let digests = self.cx.program(words).run()?;
        self.cx.report("metadata/digests", ended_well(&digests))
    }

    fn installed(&self, before: &str) -> Verdict {
        self.try_rpm("installed/rpm-i", &self.with_packages("-i"))?;
        let mut verify = vec!["-V"];
        verify.extend(NAMES);
        self.try_rpm("installed/rpm-V", &verify)?;
        self.same_load("installed/programs-load-ours", OURS)?;
        let now = self.files()?;
        let now: BTreeSet<&str> = now.lines().collect();
        let changed: Vec<&str> = before.lines().filter(|line| !now.contains(line)).collect();
        self.same(
            "installed/the-distributions-files-are-unchanged",
            "",
            &changed.join("\n"),
        )?;
        // Without devices the library loads no driver: where it searches is read from its file.
        let library = format!(
            "usr/lib64/libibverbs-rs/libibverbs.so.1.{}",
            self.version.trim()
        );
        let bytes = fs::read(self.root.join(library))?;
        let has = |text: &str| {
            bytes
                .windows(text.len())
                .any(|part| part == text.as_bytes())
        };
        let debian = artifacts::library_dir()?.join("libibverbs");
        let right = has("/usr/lib64/libibverbs") && !has(&debian.to_string_lossy());
        let verdict = ensure(right, "another directory is in its file");
        self.cx
            .report("installed/it-searches-usr-lib64-for-drivers", verdict)?;
        self.wrapper()?;
        let flags = self
            .cx
            .program(["pkg-config", "--cflags", "--libs", "libibverbs"])
            .env(
                "PKG_CONFIG_LIBDIR",
                self.root.join("usr/lib64/libibverbs-rs/pkgconfig"),
            );
        let expected = "-I/usr/lib64/libibverbs-rs/include -L/usr/lib64/libibverbs-rs -libverbs";
        self.same("installed/pkg-config", expected, flags.run()?.out.trim())
    }

    fn wrapper(&self) -> Verdict {
        for dir in ["proc", "dev", "tmp"] {
            fs::create_dir_all(self.root.join(dir))?;
        }
        let script = "mount --bind /proc \"$0/proc\" && mount --rbind /dev \"$0/dev\" &&
            chroot \"$0\" /usr/bin/with-ibverbs-rs --check ibv_devices";
        let root = self.root.to_string_lossy();
        let ended = self
            .cx
            .program(["unshare", "-m", "sh", "-c", script, &root])
            .run()?;
        let verdict = format!("verdict: libibverbs-rs, {OURS}");
        let says = last_words(&ended)
            .lines()
            .any(|line| line.starts_with(&verdict));
        let checked = ensure(ended.ok() && says, format!("it does not say {verdict}"));
        let checked = checked.with(last_words(&ended));
        self.cx.report("installed/with-ibverbs-rs-check", checked)
    }

    fn dependencies(&self) -> Verdict {
        let name = "dependencies/the-distributions-library-cannot-go";
        self.refused(name, "needed by", &["-e", "libibverbs"])?;
        let newer = self.placeholder("libibverbs", "66.0", &self.verbs_tree())?;
        let name = "dependencies/newer-drivers-are-refused";
        self.refused(name, "conflicts with", &["-U", &newer])?;
        let same_abi = self.placeholder("libibverbs", "50.0", &self.verbs_tree())?;
        let words = ["-U", "--force", &same_abi];
        self.try_rpm("dependencies/drivers-of-the-same-ABI-are-accepted", &words)?;
        self.same_load("dependencies/programs-still-load-ours", OURS)
    }

    fn upgraded_and_removed(&self, before: &str) -> Verdict {
        let newer = self.cx.dir().join("newer");
        fs::create_dir(&newer)?;
        let script = self.cx.paths.repo.join("packaging/build-rpm");
        self.cx
            .program([script.to_string_lossy(), newer.to_string_lossy()])
            .env("RPM_RELEASE", "2")
            // It reports that the change log does not have this release.
            .env("NO_RPMLINT", "1")
            .limit(Duration::from_secs(1200))
            .succeed()?;
        let upgrade = format!(
            "rpm --root {} --nosignature -U {}/*.rpm",
            self.root.display(),
            newer.display()
        );
        let ended = self.cx.program(["sh", "-c", &upgrade]).run()?;
        self.cx.report("upgrade/rpm-U", ended_well(&ended))?;
        self.same_load("upgrade/programs-load-ours", OURS)?;
        let mut remove = vec!["-e"];
        remove.extend(NAMES);
        self.try_rpm("removed/rpm-e", &remove)?;
        self.same("removed/all-files-are-as-before", before, &self.files()?)?;
        self.same_load("removed/programs-load-the-distributions", THEIRS)
    }
}
