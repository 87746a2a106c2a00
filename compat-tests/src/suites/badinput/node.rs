//! Device nodes that are missing, cannot be opened, or belong to another device.

use crate::fake::scene::Scene;
use crate::fake::sysfs::{Device, Tree};

use super::{probe, probe_on};

/// A /dev of its own. The device has the number of /dev/null.
pub const OWN_DEV: &str = "mount -t tmpfs none /mnt; \
    mkdir /mnt/infiniband /mnt/char /mnt/shm; \
    for n in null:3 zero:5 full:7 random:8 urandom:9; do \
        mknod -m 666 /mnt/${n%:*} c 1 ${n#*:}; \
    done; \
    ln -s /proc/self/fd /mnt/fd; mount --move /mnt /dev;";
/// The device's node, and one with another number.
pub const RIGHT: &str = "mknod -m 666 /dev/infiniband/uverbs0 c 1 3;";
const WRONG: &str = "mknod -m 666 /dev/infiniband/uverbs0 c 1 5;";

/// Faults that the fake kernel has.
pub fn faked() -> Vec<Scene> {
    let modes = "absent EACCES ELOOP open=EACCES open=ENXIO open=ENODEV open=EMFILE wrong";
    let scene = |mode| probe_on(&["rxe0"], mode, "open").env("FAKE_NODES", mode);
    modes.split_whitespace().map(scene).collect()
}

/// Nodes that the case makes.
pub fn real() -> Vec<Scene> {
    vec![
        opened("present", RIGHT),
        opened("no-dev-infiniband", "rmdir /dev/infiniband;"),
        opened(
            "no-permission",
            "mknod -m 000 /dev/infiniband/uverbs0 c 1 3;",
        )
        .as_nobody(),
        opened(
            "no-permission-for-the-directory",
            &format!("{RIGHT} chmod 000 /dev/infiniband;"),
        )
        .as_nobody(),
        opened(
            "wrong-number-the-right-one-in-dev-char",
            &format!("{WRONG} ln -s ../null /dev/char/1:3;"),
        ),
        opened(
            "wrong-number-no-dev-char",
            &format!("{WRONG} rmdir /dev/char;"),
        ),
        opened(
            "a-regular-file",
            "echo x >/dev/infiniband/uverbs0; chmod 666 /dev/infiniband/uverbs0; rmdir /dev/char;",
        ),
        opened(
            "a-directory",
            "mkdir /dev/infiniband/uverbs0; rmdir /dev/char;",
        ),
        // The library waits five seconds for the node.
        opened("never-appears", WRONG).leaks(false),
        later(
            "appears-after-a-second",
            "sleep 1; ln -s ../null /dev/char/1:3",
        ),
        later(
            "appears-after-others",
            "for i in 1 2 3 4 5 6; do sleep 0.2; ln -s ../zero /dev/char/9:$i; done; \
             ln -s ../null /dev/char/1:3",
        ),
        later(
            "only-a-wrong-one-appears",
            "sleep 1; ln -s ../zero /dev/char/1:3",
        ),
    ]
}

fn opened(name: &str, commands: &str) -> Scene {
    probe(name, "open")
        .tree(Tree::new([Device::from("rxe0").number("1:3")]))
        .env("FAKE_NODES", "real")
        .in_namespace(format!("{OWN_DEV} {commands}"))
}

/// A scene in which something appears while the library waits.
fn later(name: &str, commands: &str) -> Scene {
    opened(name, &format!("{WRONG} ({commands}) &")).leaks(false)
}
