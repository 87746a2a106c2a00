//! The distribution's unmodified providers on both libraries, over the fake kernel: all of them load and
//! register, match their devices and open them, and each control verb returns the same result and passes the
//! same bytes to the kernel.

mod failing;
mod load;

use crate::case::{Case, Place, Tier};
use crate::checks::{self, Check};
use crate::compare;
use crate::context::{Context, Library};
use crate::fake::scene::{Record, SYS, Scene};
use crate::fake::sysfs::{Device, Tree, known_devices};
use crate::fake::{self, SHIM};
use crate::normalise::replace;
use crate::verdict::{Failure, Verdict, ensure};

/// The devices whose providers work over the fake kernel as far as they are tested with all verbs.
const DEVICES: [&str; 2] = ["rxe0", "mlx5_0"];
/// How the fake kernel answers ioctls.
const IOCTLS: [&str; 3] = ["ENOTTY", "ok", "nowrite"];

pub fn cases() -> Vec<Case> {
    let mut cases = vec![
        group("load", load::checks()),
        group("matching", matching()),
        group("strings", strings()),
        group("old-kernels", old_kernels()),
        group("others", others()),
    ];
    for device in DEVICES {
        cases.push(group(device, verbs(device)));
        let name = format!("failing-{device}");
        cases.push(group(&name, failing::commands(device)));
    }
    cases.push(group("failing-ioctls", failing::methods()));
    cases
}

fn group(name: &str, checks: Vec<Check>) -> Case {
    checks::case(&format!("providers/{name}"), checks)
        .place(Place::Namespace)
        .tier(Tier::Check)
        .programs(&[SHIM, "load_all", "verbs_walk", "datapath"])
        .limit(600)
        .estimate(10)
}

/// A program with all 17 devices, warnings, and the intended differences.
fn scene(name: impl Into<String>, argv: &[&str]) -> Scene {
    on(Tree::all_known(), name, argv)
}

fn on(tree: Tree, name: impl Into<String>, argv: &[&str]) -> Scene {
    Scene::new(name, argv.iter().copied())
        .tree(tree)
        .env("IBV_SHOW_WARNINGS", "1")
        .mask_c(intended)
}

/// Two intended differences (ARCHITECTURE.md): rdma-core 44 does not know event 20 yet, and our
/// ibv_create_srq_ex is the library's, which lets one SRQ command at a time reach the provider.
fn intended(text: &str) -> String {
    let text = replace(
        r"(?m)^verbs_context\.create_srq_ex: lib.*rdmav34.so .*$",
        text,
        "verbs_context.create_srq_ex: the library",
    );
    replace(
        r"(?m)^  20: unknown \| unknown \| unknown \|",
        &text,
        "  20: unknown | unknown | Device link speed change |",
    )
}

fn matching() -> Vec<Check> {
    let without_ids = |text: &str| replace(r":[0-9]+(:[0-9]+:[0-9]+(,|$))", text, ":-$1");
    let mut scenes = vec![
        scene("17-devices-sysfs", &["ibv_devices"]),
        scene("17-devices-netlink", &["ibv_devices"]).env("FAKE_NL", "ok"),
        scene("17-devices-netlink-without-driver-ids", &["ibv_devices"])
            .env("FAKE_NL", "ok")
            .env("FAKE_NL_DEVICES", without_ids(&Tree::all_known().netlink())),
    ];
    for device in known_devices() {
        let list = |how: &str, tree| on(tree, format!("{device}-{how}"), &["ibv_devices"]);
        scenes.push(list("alone-sysfs", Tree::new([device])));
        scenes.push(list("alone-netlink", Tree::new([device])).env("FAKE_NL", "ok"));
        // An ABI version that the provider may not support.
        let other = Tree::new([Device::from(device).abi(77)]);
        scenes.push(list("with-ABI-version-77", other));
    }
    for text in [
        "1: CA",
        "2: switch",
        "3: router",
        "4: RNIC",
        "5: usNIC",
        "6: usNIC UDP",
        "7: unspecified",
        "8: ?",
    ] {
        let tree = Tree::new([Device::from("rxe0").node_type(text)]);
        scenes.push(on(
            tree,
            format!("node-type-{}", text.replace(": ", "-")),
            &["load_all", "libibverbs.so.1"],
        ));
    }
    scenes.into_iter().map(Scene::check).collect()
}

/// All control verbs of a device, on kernels with and without ioctl and netlink.
fn verbs(device: &'static str) -> Vec<Check> {
    let mut scenes = Vec::new();
    for io in IOCTLS {
        for nl in ["EPROTONOSUPPORT", "ok"] {
            let info = |name: &str, argv: &[&str]| {
                scene(format!("{name}-ioctl-{io}-netlink-{nl}"), argv)
                    .env("FAKE_IOCTL", io)
                    .env("FAKE_NL", nl)
            };
            scenes.push(info("devinfo", &["ibv_devinfo", "-d", device]));
            scenes.push(
                info("devinfo-v", &["ibv_devinfo", "-v", "-d", device]).record(Record::Everything),
            );
        }
        let with = |name: &str, argv: &[&str]| {
            scene(format!("{name}-ioctl-{io}"), argv)
                .env("FAKE_IOCTL", io)
                .env("FAKE_NL", "ok")
        };
        scenes.push(with(
            "devinfo-port-2",
            &["ibv_devinfo", "-d", device, "-i", "2"],
        ));
        scenes.push(with("verbs", &["verbs_walk", device]).record(Record::Everything));
    }
    let mut checks: Vec<Check> = scenes.into_iter().map(Scene::check).collect();
    checks.push(Check::with_parts(
        "inline-verbs",
        vec!["", "provider"],
        move |cx| inline_verbs(cx, device),
    ));
    checks
}

/// ibv_post_send and ibv_poll_cq call the provider's functions, without the library in between.
fn inline_verbs(cx: &Context, device: &str) -> Result<Vec<Verdict>, Failure> {
    Tree::all_known().write(SYS.as_ref())?;
    let scene = scene("datapath", &["datapath", device]);
    let (c, ours) = (scene.run(cx, Library::C)?, scene.run(cx, Library::Ours)?);
    let of_provider = |verb: &str| {
        let found = regex_lite::Regex::new(&format!(r"(?m)^{verb}: lib[a-z0-9.-]* \+ 0x"));
        found.is_ok_and(|found| found.is_match(&ours.text))
    };
    Ok(vec![
        compare::same(("C library", &c.text), ("ours", &ours.text)),
        ensure(
            of_provider("post_send") && of_provider("poll_cq"),
            "post_send and poll_cq are not functions of the provider",
        )
        .map_err(|failure| failure.with(&ours.text)),
    ])
}

/// Programs that list devices, and functions that need none.
fn strings() -> Vec<Check> {
    let two = |name, argv: &[&str]| on(Tree::new(DEVICES), name, argv).check();
    vec![
        two("devinfo-l", &["ibv_devinfo", "-l"]),
        two("devinfo-nosuch", &["ibv_devinfo", "-d", "nosuch"]),
        two("devinfo", &["ibv_devinfo"]),
        scene("strings-and-rates", &["verbs_walk", "--strings"]).check(),
    ]
}

/// Kernels with older versions of the uverbs ABI.
fn old_kernels() -> Vec<Check> {
    let mut checks = Vec::new();
    for abi in [3, 4, 5] {
        for device in DEVICES {
            let tree = Tree::new(DEVICES).kernel_abi(abi);
            let scene = on(tree, format!("{device}-abi-{abi}"), &["verbs_walk", device]);
            checks.push(scene.record(Record::Everything).check());
        }
    }
    checks
}

/// The other providers, as far as they work without hardware.
fn others() -> Vec<Check> {
    let all = known_devices().into_iter();
    let scenes = all
        .filter(|device| !DEVICES.contains(device))
        .map(|device| {
            if device == "vmw_pvrdma0" {
                // Its provider of rdma-core 44 writes beyond its own memory: results after that are random.
                scene(device, &["ibv_devinfo", "-v", "-d", device]).record(Record::Everything)
            } else {
                scene(device, &["verbs_walk", device]).record(Record::Calls)
            }
        });
    scenes
        .map(|scene| scene.env("FAKE_NL", "ok").check())
        .collect()
}

/// The files of the distribution's providers, sorted.
fn provider_files() -> Result<Vec<String>, Failure> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(fake::provider_dir()?)? {
        let path = entry?.path().to_string_lossy().into_owned();
        if path.ends_with("-rdmav34.so") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
