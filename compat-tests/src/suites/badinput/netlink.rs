//! Netlink that fails or returns malformed messages.

use std::fs;
use std::path::Path;

use crate::fake::scene::{SYS, Scene};
use crate::normalise::replace;
use crate::verdict::Verdict;

use super::probe_on;
use super::sysfs::copy_dir;

/// The modes of the fake kernel's netlink (fake-uverbs/netlink.c).
const MODES: &str = "ok EPERM EPROTONOSUPPORT EAFNOSUPPORT EACCES EMFILE ENFILE ENOMEM ENOBUFS \
    send=EPERM send=ECONNREFUSED send=ENOBUFS recv=EAGAIN recv=ENOBUFS recv=ENOMEM recv=EPERM \
    eof garbage error=EPERM error=EINVAL error=EOPNOTSUPP error=ENODATA short-error overrun noop cut \
    half-header attr-too-long attr-too-short short-index no-index no-name unterminated-name long-name \
    empty-name unknown-attrs wrong-seq wrong-pid other-type len-too-big interrupted no-done done-error \
    no-chardev no-chardev-abi long-chardev cut-chardev";

/// The devices that netlink reports, in the format of FAKE_NL_DEVICES.
const DEVICES: [(&str, &str); 18] = [
    ("no-devices", ""),
    ("no-driver-id", "1:rxe0:1:uverbs0:2:-:231:192"),
    (
        "driver-id-of-another-provider",
        "1:rxe0:1:uverbs0:1:1:231:192",
    ),
    ("unknown-driver-id", "1:rxe0:1:uverbs0:2:999:231:192"),
    ("wrong-ABI", "1:rxe0:1:uverbs0:77:14:231:192"),
    ("no-character-device", "1:rxe0:1:-:2:14:231:192"),
    (
        "character-device-with-another-number",
        "1:rxe0:1:uverbs0:2:14:231:193",
    ),
    ("big-minor", "1:rxe0:1:uverbs0:2:14:231:70000"),
    ("node-type-0", "1:rxe0:0:uverbs0:2:14:231:192"),
    ("node-type-4", "1:rxe0:4:uverbs0:2:14:231:192"),
    ("node-type-255", "1:rxe0:255:uverbs0:2:14:231:192"),
    (
        "device-that-is-missing-in-sysfs",
        "1:other0:1:uverbs0:2:14:231:192",
    ),
    (
        "the-same-index-twice",
        "1:rxe0:1:uverbs0:2:14:231:192,1:rxe1:1:uverbs1:2:14:231:193",
    ),
    (
        "the-same-name-twice",
        "1:rxe0:1:uverbs0:2:14:231:192,2:rxe0:1:uverbs1:2:14:231:193",
    ),
    ("index-0", "0:rxe0:1:uverbs0:2:14:231:192"),
    ("index--1", "4294967295:rxe0:1:uverbs0:2:14:231:192"),
    (
        "a-path-as-device-name",
        "1:../../rxe0:1:uverbs0:2:14:231:192",
    ),
    ("a-path-as-uverbs-name", "1:rxe0:1:../uverbs0:2:14:231:192"),
];

pub fn scenes() -> Vec<Scene> {
    let mut scenes = Vec::new();
    for mode in MODES.split_whitespace() {
        let scene = probing(mode, "open").env("FAKE_NL", mode);
        scenes.push(match mode {
            "unterminated-name" => scene.mask_c(name_end),
            _ => scene,
        });
    }
    scenes.push(
        probing("600-devices", "list")
            .env("FAKE_NL", "many")
            .leaks(false),
    );
    for (name, devices) in DEVICES {
        let command = if devices.is_empty() { "list" } else { "open" };
        scenes.push(
            probing(name, command)
                .env("FAKE_NL", "ok")
                .env("FAKE_NL_DEVICES", devices),
        );
    }
    scenes.extend(without_get_chardev());
    for (value, name) in [("", "empty"), ("0", "0"), ("1", "1"), ("7", "7")] {
        for mode in ["ok", "error=EPERM", "EPERM"] {
            scenes.push(
                probing(&format!("copy-on-fork={name}-{mode}"), "fork")
                    .env("FAKE_NL", mode)
                    .env("FAKE_NL_COF", value),
            );
        }
    }
    scenes
}

fn probing(name: &str, command: &str) -> Scene {
    probe_on(&["rxe0", "mlx5_0"], name, command)
}

/// The C library reads beyond the attribute, up to the next zero byte.
fn name_end(text: &str) -> String {
    replace(r"abcdefgh[\x00-\x09\x0b-\x1f\x7f]", text, "abcdefgh")
}

/// Without GET_CHARDEV (kernels before 5.1) the uverbs name comes from the device's directory in sysfs.
fn without_get_chardev() -> [Scene; 2] {
    let scene = |name| {
        probing(name, "open")
            .env("FAKE_NL", "no-chardev")
            .prepare(|_| link_uverbs())
    };
    let file = "class/infiniband/rxe0/device/infiniband_verbs/uverbs0/dev";
    [
        scene("no-GET_CHARDEV-name-from-sysfs"),
        scene("no-GET_CHARDEV-sysfs-broken")
            .prepare(move |_| Ok(fs::remove_file(Path::new(SYS).join(file))?)),
    ]
}

fn link_uverbs() -> Verdict {
    let class = Path::new(SYS).join("class");
    for (device, uverbs) in [("rxe0", "uverbs0"), ("mlx5_0", "uverbs1")] {
        let to = format!("infiniband/{device}/device/infiniband_verbs/{uverbs}");
        copy_dir(
            &class.join("infiniband_verbs").join(uverbs),
            &class.join(to),
        )?;
    }
    Ok(())
}
