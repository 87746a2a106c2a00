//! Environment variables and resource limits.

use crate::fake::scene::Scene;
use crate::fake::sysfs::{Device, Tree};

use super::{SceneGroup, fixtures, probe, probe_on};

/// Commands that fail when a device has gone.
const GONE: &str = "DESTROY_CQ=EIO,DESTROY_QP=EIO,DESTROY_SRQ=EIO,DEALLOC_PD=EIO,DEREG_MR=EIO,DESTROY_AH=EIO,\
    CLOSE_XRCD=EIO,DEALLOC_MW=EIO,EX_DESTROY_WQ=EIO,EX_DESTROY_FLOW=EIO,EX_DESTROY_RWQ_IND_TBL=EIO,\
    DETACH_MCAST=EIO";

pub fn groups() -> Vec<SceneGroup> {
    vec![
        SceneGroup::new("warnings", warnings()),
        SceneGroup::new("fork-safety", fork_safety()),
        SceneGroup::new("drivers", drivers()),
        SceneGroup::new("log", log()),
        SceneGroup::new("device-gone", device_gone()),
        SceneGroup::new("limits", limits()),
    ]
}

/// A value as part of a name.
fn shown(value: &str) -> &str {
    if value.is_empty() { "empty" } else { value }
}

fn warnings() -> Vec<Scene> {
    let list = |name: String| {
        let devices = ["rxe0", "mlx5_0", "odd0"].map(Device::from);
        probe(name, "list").tree(Tree::new(devices))
    };
    let mut scenes = vec![list("unset".into())];
    for value in ["", "0", "1", "no"] {
        let name = format!("IBV_SHOW_WARNINGS={}", shown(value));
        scenes.push(list(name).env("IBV_SHOW_WARNINGS", value));
    }
    scenes
}

fn fork_safety() -> Vec<Scene> {
    let mut scenes = Vec::new();
    for value in ["", "0", "1", "no", "00"] {
        for variable in ["RDMAV_FORK_SAFE", "IBV_FORK_SAFE"] {
            let name = format!("{variable}={}", shown(value));
            scenes.push(probe_on(&["rxe0"], name.clone(), "reg").env(variable, value));
            for huge in ["", "0", "1"] {
                let name = format!("{name}-RDMAV_HUGEPAGES_SAFE={}", shown(huge));
                scenes.push(
                    probe_on(&["rxe0"], name, "fork")
                        .env(variable, value)
                        .env("RDMAV_HUGEPAGES_SAFE", huge),
                );
            }
        }
    }
    scenes.push(
        probe_on(&["rxe0"], "RDMAV_FORK_SAFE=0-IBV_FORK_SAFE=1", "reg")
            .env("RDMAV_FORK_SAFE", "0")
            .env("IBV_FORK_SAFE", "1"),
    );
    scenes.push(probe_on(&["rxe0"], "no-variable", "fork"));
    scenes
}

fn drivers() -> Vec<Scene> {
    let list = |name: String| probe_on(&["rxe0"], name, "list").prepare(fixtures::make);
    let (says, silent) = (fixtures::path("says"), fixtures::path("silent"));
    let several = format!("{says};nosuch:{silent}");
    let values = [
        ("empty", ""),
        ("rxe", "rxe"),
        ("nosuch", "nosuch"),
        ("rxe-colon-mlx5", "rxe:mlx5"),
        ("rxe-semicolon-nosuch", "rxe;nosuch"),
        ("colon", ":"),
        ("semicolons", ";;"),
        ("colon-behind", "nosuch:"),
        ("colon-before", ":nosuch"),
        ("twice", "rxe:rxe"),
        ("blank-before", " rxe"),
        ("blank-behind", "rxe "),
        ("a-path", &says),
        ("several-paths", &several),
        ("no-file", "/nowhere"),
        ("format-characters", "%s%n"),
    ];
    let mut scenes = Vec::new();
    for variable in ["RDMAV_DRIVERS", "IBV_DRIVERS"] {
        for (name, value) in values {
            let name = format!("{variable}={name}");
            scenes.push(list(name).env(variable, value).leaks(false));
        }
    }
    let both = |name: &str, first: &str| {
        list(name.into())
            .env("RDMAV_DRIVERS", first)
            .env("IBV_DRIVERS", "nosuch2")
    };
    let one = |name: &str, value| list(name.into()).env("RDMAV_DRIVERS", value);
    scenes.extend([
        both("RDMAV_DRIVERS-and-IBV_DRIVERS", "nosuch1"),
        both("RDMAV_DRIVERS-empty-and-IBV_DRIVERS", ""),
        one("RDMAV_DRIVERS-of-20000-bytes", "z".repeat(20_000)),
        one("RDMAV_DRIVERS-of-3000-colons", ":".repeat(3000)),
    ]);
    scenes
}

/// The log, to which providers write too.
fn log() -> Vec<Scene> {
    let file = "/tmp/verbs.log";
    let walk = |name: &str, level: &str| {
        Scene::new(name, ["verbs_walk", "rxe0"])
            .tree(Tree::new(["rxe0"]))
            .env("VERBS_LOG_LEVEL", level)
    };
    let levels = [
        "", "0", "1", "2", "3", "4", "9", "-1", "0x4", "04", "nonsense",
    ];
    let mut scenes: Vec<Scene> = levels
        .iter()
        .map(|level| {
            let name = format!("VERBS_LOG_LEVEL={}", shown(level));
            walk(&name, level).env("VERBS_LOG_FILE", file).log(file)
        })
        .collect();
    let to = |name, file| walk(name, "4").env("VERBS_LOG_FILE", file);
    scenes.extend([
        walk("without-a-file", "4"),
        to("a-file-that-cannot-be-created", "/nowhere/log"),
        to("an-empty-file-name", ""),
        to("on-a-full-disk", "/dev/full"),
    ]);
    scenes
}

fn device_gone() -> Vec<Scene> {
    let mut scenes = Vec::new();
    for variable in ["RDMAV_ALLOW_DISASSOC_DESTROY", "MLX4_DEVICE_FATAL_CLEANUP"] {
        for value in ["", "0", "1"] {
            for device in ["rxe0", "mlx5_0"] {
                let name = format!("{variable}={}-{device}", shown(value));
                scenes.push(
                    Scene::new(name, ["verbs_walk", device])
                        .tree(Tree::new(["rxe0", "mlx5_0"]))
                        .env(variable, value)
                        .env("FAKE_FAIL", GONE),
                );
            }
        }
    }
    scenes
}

fn limits() -> Vec<Scene> {
    let mut scenes = Vec::new();
    for kib in [0, 16384, 32767, 32768, 32769, 65536] {
        let list = |who: &str| {
            probe_on(&["rxe0"], format!("RLIMIT_MEMLOCK={kib}{who}"), "list")
                .limits(format!("--memlock={kib}"))
        };
        scenes.push(list("").as_nobody());
        scenes.push(list("-as-root").leaks(false));
    }
    for files in 4..=8 {
        scenes.push(
            probe_on(&["rxe0"], format!("RLIMIT_NOFILE={files}"), "open")
                .limits(format!("--nofile={files}"))
                .leaks(false),
        );
    }
    scenes.push(probe("no-SYSFS_PATH", "list"));
    scenes
}
