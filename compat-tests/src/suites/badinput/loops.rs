//! Loops of 10,000 rounds: nothing leaks. The probe prints what it has lost.

use crate::fake::scene::Scene;
use crate::fake::sysfs::Tree;

use super::fixtures;

pub fn scenes() -> Vec<Scene> {
    let mut scenes = Vec::new();
    for device in ["rxe0", "mlx5_0"] {
        for nl in ["EPROTONOSUPPORT", "ok"] {
            for (what, command) in [
                ("list-and-free", "loop-list"),
                ("open-and-close", "loop-open"),
            ] {
                let name = format!("{what}-{device}-netlink-{nl}");
                scenes.push(long(name, command, device).env("FAKE_NL", nl));
            }
        }
        for io in ["ENOTTY", "ok"] {
            let name = format!("one-object-of-each-kind-{device}-ioctl-{io}");
            scenes.push(long(name, "loop-verbs", device).env("FAKE_IOCTL", io));
        }
        for command in [
            "GET_CONTEXT", "CREATE_CQ", "CREATE_QP", "REG_MR", "ALLOC_PD", "CREATE_SRQ",
        ] {
            scenes.push(
                rounds(
                    format!("failing-{command}-{device}"),
                    "loop-verbs",
                    device,
                    "1000",
                )
                .env("FAKE_FAIL", format!("{command}=ENOMEM")),
            );
        }
    }
    for nodes in ["absent", "open=EACCES", "wrong"] {
        let name = format!("failing-open-{nodes}");
        scenes.push(rounds(name, "loop-open", "mlx5_0", "1000").env("FAKE_NODES", nodes));
    }
    for odd in ["nodevice", "nocontext", "narrow", "nomatch"] {
        let name = format!("provider-{odd}");
        scenes.push(
            rounds(name, "loop-open", "odd0", "1000")
                .prepare(fixtures::make)
                .env("RDMAV_DRIVERS", fixtures::path(odd)),
        );
    }
    scenes
}

fn long(name: String, command: &str, device: &str) -> Scene {
    rounds(name, command, device, "10000").limit(300)
}

fn rounds(name: String, command: &str, device: &str, count: &str) -> Scene {
    Scene::new(name, ["probe", command, count]).tree(Tree::new([device]))
}
