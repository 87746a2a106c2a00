//! The configuration directory and its directives.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use crate::context::Context;
use crate::fake::scene::Scene;
use crate::sandbox;
use crate::verdict::Verdict;

use super::probe_on;

/// The directory that replaces /etc/libibverbs.d.
pub const CONF: &str = "/tmp/conf";
pub const MOUNT_CONF: &str = "mount --bind /tmp/conf /etc/libibverbs.d;";
/// The same for /etc.
const MOUNT_ETC: &str = "mount --bind /tmp/etc /etc;";

/// Contents of a configuration file.
const TEXTS: [(&str, &[u8]); 25] = [
    ("empty-file", b""),
    ("no-newline-at-the-end", b"driver rxe"),
    ("bare-directive", b"driver\n"),
    ("bare-directive-no-newline", b"driver"),
    ("directive-and-blanks", b"driver   \n"),
    ("directive-and-a-tab", b"driver\t\n"),
    ("tab-between", b"driver\trxe\ndriver \t mlx5\n"),
    ("leading-blanks", b" \t driver rxe\n"),
    ("blank-lines", b"\n\n   \n\t\ndriver rxe\n\n"),
    (
        "comments",
        b"# a comment\n   # another\ndriver rxe # trailing\n#driver mlx5\n",
    ),
    ("trailing-word", b"driver rxe mlx5\n"),
    ("misspelled", b"drivers rxe\ndriver rxe\n"),
    ("upper-case", b"DRIVER rxe\n"),
    ("unknown-directive", b"load rxe\nfoo\n=\ndriver rxe\n"),
    ("carriage-returns", b"driver rxe\r\ndriver mlx5\r\n"),
    (
        "NUL-bytes",
        b"driver rxe\0mlx5\n\0\ndriver\0 rxe\ndri\0ver rxe\n",
    ),
    (
        "binary-garbage",
        b"\x01\x02\xff\xfe driver\n\x80driver rxe\n",
    ),
    ("other-white-space", b"driver\x0brxe\n\x0cdriver rxe\n"),
    ("missing-driver", b"driver nosuch\n"),
    (
        "missing-driver-then-a-good-one",
        b"driver nosuch\ndriver rxe\n",
    ),
    (
        "a-good-driver-then-a-missing-one",
        b"driver rxe\ndriver nosuch\n",
    ),
    (
        "all-good-drivers-and-a-missing-one",
        b"driver rxe\ndriver mlx5\ndriver nosuch\n",
    ),
    (
        "the-same-driver-three-times",
        b"driver rxe\ndriver rxe\ndriver rxe\n",
    ),
    (
        "a-path-with-slashes",
        b"driver ../libibverbs/rxe\ndriver sub/rxe\n",
    ),
    ("format-characters", b"driver %s%n%d\n%s%n x\n"),
];

pub fn scenes() -> Vec<Scene> {
    let mut scenes = directories();
    scenes.extend(TEXTS.map(|(name, text)| with_text(name, text.to_vec())));
    let directories = b"driver /\ndriver .\ndriver ..\n";
    scenes.push(with_text(
        "a-name-that-is-a-directory",
        directories.to_vec(),
    ));
    let long = |start: &str, fill: &str, count| format!("{start}{}\n", fill.repeat(count));
    scenes.push(with_text(
        "a-name-of-5000-bytes",
        long("driver ", "x", 5000),
    ));
    scenes.push(with_text("a-line-of-200000-bytes", long("", "y", 200_000)));
    let many: Vec<String> = (1..=300).map(|i| format!("driver nosuch{i}")).collect();
    scenes.push(with_text("300-missing-drivers", many.join("\n")).leaks(false));
    scenes
}

/// The list of devices, after `setup` in an empty configuration directory.
fn list(
    name: &str,
    mount: &str,
    setup: impl Fn(&Context) -> Verdict + Send + Sync + 'static,
) -> Scene {
    probe_on(&["rxe0", "mlx5_0"], name, "list")
        .in_namespace(mount)
        .prepare(|_| new_conf())
        .prepare(setup)
}

/// A scene whose whole configuration is one file with this text.
fn with_text(name: &str, text: impl Into<Vec<u8>>) -> Scene {
    let text = text.into();
    list(name, MOUNT_CONF, move |_| {
        Ok(fs::write(format!("{CONF}/test.driver"), &text)?)
    })
}

pub fn new_conf() -> Verdict {
    if Path::new(CONF).exists() {
        fs::remove_dir_all(CONF)?;
    }
    Ok(fs::create_dir(CONF)?)
}

fn directories() -> Vec<Scene> {
    vec![
        list("empty-directory", MOUNT_CONF, |_| Ok(())),
        list("no-directory", MOUNT_ETC, |_| new_etc()),
        list("a-file-instead-of-the-directory", MOUNT_ETC, |_| {
            new_etc()?;
            Ok(fs::write("/tmp/etc/libibverbs.d", "")?)
        }),
        list("unreadable-directory", MOUNT_CONF, |_| mode(CONF, 0o000)).as_nobody(),
        list("unreadable-file", MOUNT_CONF, |_| {
            two_files()?;
            mode("/tmp/conf/a", 0o000)
        })
        .as_nobody(),
        list("directory-without-search-permission", MOUNT_CONF, |_| {
            two_files()?;
            mode(CONF, 0o444)
        })
        .as_nobody(),
        list("links-FIFO-subdirectory-hidden-file", MOUNT_CONF, |_| {
            other_entries()
        }),
    ]
}

fn mode(path: &str, mode: u32) -> Verdict {
    Ok(fs::set_permissions(path, fs::Permissions::from_mode(mode))?)
}

/// A directory in place of /etc, without libibverbs.d.
fn new_etc() -> Verdict {
    let etc = Path::new("/tmp/etc");
    if etc.exists() {
        fs::remove_dir_all(etc)?;
    }
    fs::create_dir(etc)?;
    for name in ["passwd", "group", "ld.so.cache"] {
        let _ = fs::copy(Path::new("/etc").join(name), etc.join(name));
    }
    Ok(())
}

fn two_files() -> Verdict {
    fs::write("/tmp/conf/a", "driver rxe\n")?;
    Ok(fs::write("/tmp/conf/b", "driver mlx5\n")?)
}

fn other_entries() -> Verdict {
    fs::create_dir("/tmp/conf/sub")?;
    symlink("/nowhere", "/tmp/conf/dangling")?;
    symlink("loop", "/tmp/conf/loop")?;
    sandbox::sh("mkfifo /tmp/conf/fifo")?;
    fs::write("/tmp/conf/sub/rxe.driver", "driver rxe\n")?;
    fs::write("/tmp/conf/no suffix", "driver rxe\n")?;
    Ok(fs::write("/tmp/conf/.hidden", "driver mlx5\n")?)
}
