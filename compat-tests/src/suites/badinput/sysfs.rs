//! sysfs files that are missing, empty, huge or malformed.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::fake::scene::{SYS, Scene};

use super::{SceneGroup, probe_on};

/// Faults of every file.
const EVERYWHERE: &str = "missing empty newline newlines huge digits word garbage nul nul-behind bare crlf \
    two-lines blank-first negative plus zero hex big over-32 directory dangling unreadable";
/// The faults that are also checked for leaks.
const LEAKING: [&str; 5] = ["missing", "empty", "huge", "garbage", "word"];

/// Device, file, and more faults for this file. `uverbs/` is the directory of the uverbs device, ABI the file
/// with the kernel's ABI version; others are in the directory of the RDMA device.
const FILES: [(&str, &str, &str); 11] = [
    (
        "rxe0",
        "uverbs/ibdev",
        "len=31 len=63 len=64 lenn=63 lenn=64 len=65 slash dots",
    ),
    (
        "rxe0",
        "uverbs/dev",
        "half no-colon dev-more dev-big dev-negative len=31 len=32 lenn=31 lenn=32",
    ),
    (
        "rxe0",
        "uverbs/abi_version",
        "len=31 len=32 lenn=31 lenn=32",
    ),
    ("rxe0", "node_type", "len=31 len=32 lenn=31 lenn=32"),
    (
        "rxe0",
        "node_guid",
        "short-guid long-guid wide-guid len=23 len=24 lenn=23 lenn=24",
    ),
    (
        "rxe0",
        "ports/1/gids/0",
        "short-gid zero-gid wide-gid len=40 len=41 lenn=40 lenn=41",
    ),
    ("rxe0", "ports/1/pkeys/0", "len=7 len=8 lenn=7 lenn=8"),
    (
        "rxe0",
        "ports/1/gid_attrs/types/0",
        "roce-1 roce-2-lower len=31 len=32",
    ),
    ("rxe0", "ABI", "len=7 len=8 lenn=7 lenn=8"),
    (
        "mlx5_0",
        "device/modalias",
        "len=511 len=512 lenn=511 lenn=512",
    ),
    ("mlx5_0", "uverbs/ibdev", ""),
];

/// A file for which ibv_query_gid_ex of the C library leaves 0 in errno in about one run of 20,
/// otherwise ERANGE, as ours.
const VARIES: (&str, &str) = ("ports/1/gids/0", "big");

/// The C library ignores that an empty file returns no data, and parses uninitialized memory.
const EMPTY_IS_UNDEFINED: [&str; 6] = [
    "uverbs/dev", "node_guid", "ports/1/gids/0", "ports/1/pkeys/0", "ports/1/gid_attrs/types/0",
    "ABI",
];

pub fn groups() -> Vec<SceneGroup> {
    let mut groups: Vec<SceneGroup> = FILES
        .iter()
        .map(|(device, file, more)| files(device, file, more))
        .collect();
    groups.push(SceneGroup::new("sysfs-trees", trees()));
    groups
}

/// Every fault of one file.
fn files(device: &'static str, file: &'static str, more: &str) -> SceneGroup {
    let faults = EVERYWHERE.split_whitespace().chain(more.split_whitespace());
    let scene = |fault: &str| {
        let how = fault.to_string();
        let mut scene = warning(&[device], fault, "open")
            .prepare(move |_| Ok(spoil(&path_of(device, file), &how)?))
            .leaks(LEAKING.contains(&fault));
        if fault == "unreadable" {
            scene = scene.as_nobody();
        }
        let varies = (file, fault) == VARIES;
        if varies || fault == "empty" && EMPTY_IS_UNDEFINED.contains(&file) {
            scene = scene.undefined();
        }
        scene
    };
    let name = format!("sysfs-{device}-{}", file.replace('/', "-"));
    SceneGroup::new(name, faults.map(scene).collect())
}

fn warning(devices: &[&str], name: impl Into<String>, command: &str) -> Scene {
    probe_on(devices, name, command).env("IBV_SHOW_WARNINGS", "1")
}

fn path_of(device: &str, file: &str) -> PathBuf {
    let class = Path::new(SYS).join("class");
    match file.strip_prefix("uverbs/") {
        _ if file == "ABI" => class.join("infiniband_verbs/abi_version"),
        Some(name) => class.join("infiniband_verbs/uverbs0").join(name),
        None => class.join("infiniband").join(device).join(file),
    }
}

/// Replaces a file by one with this fault.
fn spoil(path: &Path, fault: &str) -> io::Result<()> {
    match fault {
        "missing" => return fs::remove_file(path),
        "directory" => {
            fs::remove_file(path)?;
            return fs::create_dir(path);
        }
        "dangling" => {
            fs::remove_file(path)?;
            return symlink("/nowhere", path);
        }
        "unreadable" => return fs::set_permissions(path, fs::Permissions::from_mode(0o000)),
        _ => {}
    }
    let old = fs::read_to_string(path)?;
    let contents = altered(old.trim_end_matches('\n'), fault)
        .or_else(|| fixed(fault).map(|text| text.as_bytes().to_vec()))
        .or_else(|| filled(fault));
    let contents = contents.ok_or_else(|| io::Error::other(format!("no fault {fault}")))?;
    fs::write(path, contents)
}

/// The old line, with something added.
fn altered(old: &str, fault: &str) -> Option<Vec<u8>> {
    let text = match fault {
        "nul-behind" => format!("{old}\0junk\n"),
        "bare" => old.to_string(),
        "crlf" => format!("{old}\r\n"),
        "two-lines" => format!("{old}\nand more\n"),
        "blank-first" => format!("  \t{old}\n"),
        _ => return None,
    };
    Some(text.into_bytes())
}

fn fixed(fault: &str) -> Option<&'static str> {
    Some(match fault {
        "empty" => "",
        "newline" => "\n",
        "newlines" => "\n\n\n",
        "word" => "nonsense\n",
        "nul" => "\0\0\0\0",
        "negative" => "-1\n",
        "plus" => "+1\n",
        "zero" => "0\n",
        "hex" => "0x2\n",
        "big" => "99999999999999999999999\n",
        "over-32" => "4294967298\n",
        "half" => "231:\n",
        "no-colon" => "231\n",
        "dev-more" => "231:192:7\n",
        "dev-big" => "99999999999:1\n",
        "dev-negative" => "-1:-1\n",
        "short-guid" => "0200:00ff:fe00\n",
        "long-guid" => "0200:00ff:fe00:0901:1234\n",
        "wide-guid" => "02000:00ff:fe00:0901\n",
        "short-gid" => "fe80:0000:0000:0000\n",
        "zero-gid" => "0000:0000:0000:0000:0000:0000:0000:0000\n",
        "wide-gid" => "fe800:0000:0000:0000:0000:00ff:fe00:0901\n",
        "roce-1" => "IB/RoCE v1\n",
        "roce-2-lower" => "roce v2\n",
        "slash" => "../../etc\n",
        "dots" => "..\n",
        _ => return None,
    })
}

/// Contents of a certain length, and bytes that are not text.
fn filled(fault: &str) -> Option<Vec<u8>> {
    match fault {
        "huge" => return Some(vec![b'a'; 1_000_000]),
        "digits" => return Some(vec![b'9'; 5000]),
        "garbage" => return Some(b"\x80\xff\x01\x02\x1b[0m%s%n\xfe\n".to_vec()),
        _ => {}
    }
    let (kind, length) = fault.split_once('=')?;
    let mut contents = vec![b'1'; length.parse().ok()?];
    if kind == "lenn" {
        contents.push(b'\n');
    }
    Some(contents)
}

/// Other faults of the tree.
fn trees() -> Vec<Scene> {
    let mut scenes = Vec::new();
    for (name, abi) in [
        ("0", "0"),
        ("1", "1"),
        ("2", "2"),
        ("3", "3"),
        ("4", "4"),
        ("5", "5"),
        ("6", "6"),
        ("7", "7"),
        ("99", "99"),
        ("-1", "-1"),
        ("0x6", "0x6"),
        ("6-7", "6 7"),
        ("blank-6", " 6"),
        ("06", "06"),
    ] {
        let file = path_of("rxe0", "ABI");
        scenes.push(
            warning(&["rxe0"], format!("kernel-ABI={name}"), "open")
                .prepare(move |_| Ok(fs::write(&file, format!("{abi}\n"))?)),
        );
    }
    let edited = |name: &str, command: &str, edit: fn(&Path) -> io::Result<()>| {
        warning(&["rxe0"], name, command).prepare(move |_| Ok(edit(&Path::new(SYS).join("class"))?))
    };
    scenes.extend([
        edited("no-directory-of-the-device", "open", |class| {
            fs::rename(class.join("infiniband/rxe0"), class.join("infiniband/gone"))
        }),
        edited("entries-that-are-not-devices", "open", other_entries),
        edited("several-names-for-one-device", "list", more_names),
        edited("no-infiniband_verbs", "list", |class| {
            fs::remove_dir_all(class.join("infiniband_verbs"))
        }),
        edited("infiniband_verbs-is-a-file", "list", |class| {
            fs::remove_dir_all(class.join("infiniband_verbs"))?;
            fs::write(class.join("infiniband_verbs"), "")
        }),
        warning(&[], "no-device-at-all", "list"),
        warning(&[], "no-device-and-no-ABI", "list")
            .prepare(|_| Ok(fs::remove_file(path_of("", "ABI"))?)),
    ]);
    scenes
}

fn other_entries(class: &Path) -> io::Result<()> {
    let verbs = class.join("infiniband_verbs");
    fs::write(verbs.join("uverbs9"), "file\n")?;
    symlink("/nowhere", verbs.join("dangling"))?;
    let long = "u".repeat(100);
    [".hidden", "empty", &long]
        .iter()
        .try_for_each(|name| fs::create_dir(verbs.join(name)))
}

/// Several names for one device, some of them long.
fn more_names(class: &Path) -> io::Result<()> {
    let verbs = class.join("infiniband_verbs");
    for name in ["u".repeat(63), "v".repeat(64), "uverbs55".into()] {
        copy_dir(&verbs.join("uverbs0"), &verbs.join(name))?;
    }
    Ok(())
}

/// Copies a directory that has only files in it.
pub fn copy_dir(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        fs::copy(entry.path(), to.join(entry.file_name()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::sysfs::Tree;

    #[test]
    fn every_fault_is_known() {
        let root = std::env::temp_dir().join(format!("compat-faults-{}", std::process::id()));
        for (device, file, more) in FILES {
            for fault in EVERYWHERE.split_whitespace().chain(more.split_whitespace()) {
                Tree::new([device]).write(&root).unwrap();
                let below = path_of(device, file);
                let path = root.join(below.strip_prefix(SYS).unwrap());
                spoil(&path, fault).unwrap_or_else(|e| panic!("{file} {fault}: {e}"));
            }
        }
        fs::remove_dir_all(root).unwrap();
    }
}
