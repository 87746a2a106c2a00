//! SYSFS_PATH itself: odd paths, and long ones.

use crate::fake::scene::{SYS, Scene};

use super::probe_on;

const LENGTHS: [usize; 15] = [
    200, 225, 226, 227, 228, 229, 230, 231, 240, 254, 255, 256, 257, 300, 5000,
];

const ODD: [(&str, &str); 11] = [
    ("trailing-slash", "/tmp/sys/"),
    ("many-trailing-slashes", "/tmp/sys////////"),
    ("double-slashes-inside", "/tmp//sys"),
    ("dots", "/tmp/sys/../sys/."),
    ("not-existing", "/tmp/nowhere"),
    ("a-file", "/tmp/sys/class/infiniband_verbs/uverbs0/dev"),
    ("empty", ""),
    ("only-slashes", "////"),
    ("root", "/"),
    ("blank", "/tmp/sys "),
    ("format-characters", "/tmp/sys/%s%n"),
];

pub fn scenes() -> Vec<Scene> {
    let mut scenes = Vec::new();
    for (name, path) in ODD {
        scenes.push(at(path, name.into(), "list"));
        scenes.push(at(path, format!("{name}-helpers"), "sysfs"));
    }
    scenes.push(at("sys", "relative".into(), "open").dir("/tmp"));
    for length in LENGTHS {
        let path = long(length);
        let slashes = format!("{SYS}{}", "/".repeat(length - SYS.len()));
        scenes.push(at(&path, format!("{length}-bytes"), "open"));
        scenes.push(at(&path, format!("{length}-bytes-helpers"), "sysfs").leaks(false));
        scenes.push(
            at(
                &slashes,
                format!("{length}-bytes-with-slashes-at-the-end"),
                "list",
            )
            .leaks(false),
        );
    }
    scenes
}

fn at(path: &str, name: String, command: &str) -> Scene {
    probe_on(&["rxe0"], name, command).env("SYSFS_PATH", path)
}

/// The path of the tree, extended with dots and slashes to this length.
fn long(length: usize) -> String {
    let mut path = SYS.to_string();
    while path.len() < length - 1 {
        path += "/.";
    }
    if path.len() < length {
        path = path.replacen("/sys", "//sys", 1);
    }
    path
}

#[cfg(test)]
mod tests {
    #[test]
    fn long_paths_have_their_length() {
        for length in super::LENGTHS {
            assert_eq!(super::long(length).len(), length);
        }
    }
}
