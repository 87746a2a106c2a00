//! The distribution's unmodified providers on both libraries, over the fake kernel: all of them load and
//! register, match their devices and open them, and each control verb returns the same result and passes the
//! same bytes to the kernel. The providers of Debian 13 (another layout of the same ABI) and of Debian sid
//! (another ABI) do so on the C library of their release and on ours.

mod failing;
mod load;
mod other;

use crate::case::{Case, Tier};
use crate::checks::{self, Check};
use crate::compare;
use crate::context::{Context, Library};
use crate::fake::record::Record;
use crate::fake::scene::{SYS, Scene};
use crate::fake::sysfs::{Device, Tree, known_devices};
use crate::fake::{self, SHIM};
use crate::normalise::replace;
use crate::roots::{Root, SID, TRIXIE};
use crate::sandbox::Sandbox;
use crate::verdict::{Details, Failure, Verdict, ensure};

/// The providers of Debian's ibverbs-providers, which are also the names by which its archives are registered
/// (verbs_provider_NAME).
pub const PROVIDERS: [&str; 17] = [
    "bnxt_re", "cxgb4", "efa", "erdma", "hfi1verbs", "hns", "ipathverbs", "irdma", "mana", "mlx4",
    "mlx5", "mthca", "ocrdma", "qedr", "rxe", "siw", "vmw_pvrdma",
];

/// The devices whose providers work over the fake kernel as far as they are tested with all verbs.
const DEVICES: [&str; 2] = ["rxe0", "mlx5_0"];
/// How the fake kernel answers ioctls.
const IOCTLS: [&str; 3] = ["ENOTTY", "ok", "nowrite"];

/// The providers that run, and the C library that they run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProviderSource {
    /// This machine's: of rdma-core 44.0 on Debian 12.
    Installed,
    /// Debian 13's, of rdma-core 56.1, in its root directory.
    Trixie,
    /// Debian sid's, of rdma-core 65, in its root directory.
    Sid,
}

pub fn cases() -> Vec<Case> {
    let release = ProviderSource::Installed;
    let mut cases = of_release(release);
    cases.push(release.group("load", load::checks()));
    cases.push(release.group("old-kernels", old_kernels(release)));
    for device in DEVICES {
        let name = format!("failing-{device}");
        cases.push(release.group(&name, failing::commands(release, device)));
    }
    cases.push(release.group("failing-ioctls", failing::methods(release)));
    // Failures are reported as in release 44, which differs in errno and in unwritten attributes.
    for release in [ProviderSource::Trixie, ProviderSource::Sid] {
        cases.extend(of_release(release));
        cases.push(release.group("load", other::load(release)));
    }
    cases
}

fn of_release(release: ProviderSource) -> Vec<Case> {
    let group = |name: &str, checks| release.group(name, checks);
    let mut cases = vec![
        group("matching", matching(release)),
        group("strings", strings(release)),
        group("others", others(release)),
    ];
    cases.extend(DEVICES.map(|device| group(device, verbs(release, device))));
    cases
}

impl ProviderSource {
    fn group(self, name: &str, checks: Vec<Check>) -> Case {
        let (suite, tier) = match self {
            ProviderSource::Installed => ("providers", Tier::Check),
            ProviderSource::Trixie => ("providers/trixie", Tier::All),
            ProviderSource::Sid => ("providers/sid", Tier::Test),
        };
        let case = checks::case(&format!("{suite}/{name}"), checks)
            .sandbox(Sandbox::Namespace)
            .tier(tier)
            .programs(&[SHIM, "load_all", "verbs_walk", "datapath"])
            .limit(600)
            .estimate(10);
        match self {
            ProviderSource::Installed => case,
            ProviderSource::Trixie => case.before(|| TRIXIE.make()),
            ProviderSource::Sid => case.before(|| SID.make()),
        }
    }

    /// The root directory with its programs, if they are not this machine's.
    fn root(self) -> Option<&'static Root> {
        match self {
            ProviderSource::Installed => None,
            ProviderSource::Trixie => Some(&TRIXIE),
            ProviderSource::Sid => Some(&SID),
        }
    }

    /// A device for each provider.
    fn devices(self) -> Vec<&'static str> {
        let mut devices = known_devices();
        devices.extend((self == ProviderSource::Sid).then_some("ionic_0"));
        devices
    }

    fn tree(self) -> Tree {
        Tree::new(self.devices())
    }

    /// A program with all devices, warnings, and the intended differences.
    fn scene(self, name: impl Into<String>, argv: &[&str]) -> Scene {
        self.on(self.tree(), name, argv)
    }

    fn on(self, tree: Tree, name: impl Into<String>, argv: &[&str]) -> Scene {
        let scene = Scene::new(name, argv.iter().copied())
            .tree(tree)
            .env("IBV_SHOW_WARNINGS", "1");
        let scene = scene.mask_c(intended);
        match self.root() {
            None => scene,
            Some(root) => scene.in_namespace(other::enter(root)),
        }
    }
}

/// Two intended differences (ARCHITECTURE.md): rdma-core 44 and 56 do not know event 20 yet, and our
/// ibv_create_srq_ex is the library's, which lets one SRQ command at a time reach the provider. And what
/// newer releases leave in errno when ibv_fork_init(3) fails, which returns its error: they ask netlink
/// before.
fn intended(text: &str) -> String {
    let text = replace(
        r"(?m)^ibv_fork_init\(\): 22, errno 93$",
        text,
        "ibv_fork_init(): 22, errno 0",
    );
    let text = replace(
        r"(?m)^verbs_context\.create_srq_ex: lib.*rdmav[0-9]+.so .*$",
        &text,
        "verbs_context.create_srq_ex: the library",
    );
    replace(
        r"(?m)^  20: unknown \| unknown \| unknown \|",
        &text,
        "  20: unknown | unknown | Device link speed change |",
    )
}

fn matching(release: ProviderSource) -> Vec<Check> {
    let without_ids = |text: &str| replace(r":[0-9]+(:[0-9]+:[0-9]+(,|$))", text, ":-$1");
    let mut scenes = vec![
        release.scene("17-devices-sysfs", &["ibv_devices"]),
        release
            .scene("17-devices-netlink", &["ibv_devices"])
            .env("FAKE_NL", "ok"),
        release
            .scene("17-devices-netlink-without-driver-ids", &["ibv_devices"])
            .env("FAKE_NL", "ok")
            .env("FAKE_NL_DEVICES", without_ids(&release.tree().netlink())),
    ];
    for device in release.devices() {
        let list = |how: &str, tree| release.on(tree, format!("{device}-{how}"), &["ibv_devices"]);
        scenes.push(list("alone-sysfs", Tree::new([device])));
        scenes.push(list("alone-netlink", Tree::new([device])).env("FAKE_NL", "ok"));
        // An ABI version that the provider may not support.
        let other = Tree::new([Device::from(device).abi(77)]);
        scenes.push(list("with-ABI-version-77", other));
    }
    for text in [
        "1: CA", "2: switch", "3: router", "4: RNIC", "5: usNIC", "6: usNIC UDP", "7: unspecified",
        "8: ?",
    ] {
        let tree = Tree::new([Device::from("rxe0").node_type(text)]);
        scenes.push(release.on(
            tree,
            format!("node-type-{}", text.replace(": ", "-")),
            &["load_all", "libibverbs.so.1"],
        ));
    }
    scenes.into_iter().map(Scene::check).collect()
}

/// All control verbs of a device, on kernels with and without ioctl and netlink.
fn verbs(release: ProviderSource, device: &'static str) -> Vec<Check> {
    let mut scenes = Vec::new();
    for io in IOCTLS {
        for nl in ["EPROTONOSUPPORT", "ok"] {
            let info = |name: &str, argv: &[&str]| {
                release
                    .scene(format!("{name}-ioctl-{io}-netlink-{nl}"), argv)
                    .env("FAKE_IOCTL", io)
                    .env("FAKE_NL", nl)
            };
            scenes.push(info("devinfo", &["ibv_devinfo", "-d", device]));
            scenes.push(
                info("devinfo-v", &["ibv_devinfo", "-v", "-d", device]).record(Record::Everything),
            );
        }
        let with = |name: &str, argv: &[&str]| {
            release
                .scene(format!("{name}-ioctl-{io}"), argv)
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
        move |cx| inline_verbs(release, cx, device),
    ));
    checks
}

/// ibv_post_send and ibv_poll_cq call the provider's functions, without the library in between.
fn inline_verbs(
    release: ProviderSource,
    cx: &Context,
    device: &str,
) -> Result<Vec<Verdict>, Failure> {
    release.tree().write(SYS.as_ref())?;
    let scene = release.scene("datapath", &["datapath", device]);
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
        .with(&ours.text),
    ])
}

/// Programs that list devices, and functions that need none.
fn strings(release: ProviderSource) -> Vec<Check> {
    let two = |name, argv: &[&str]| release.on(Tree::new(DEVICES), name, argv).check();
    vec![
        two("devinfo-l", &["ibv_devinfo", "-l"]),
        two("devinfo-nosuch", &["ibv_devinfo", "-d", "nosuch"]),
        two("devinfo", &["ibv_devinfo"]),
        release
            .scene("strings-and-rates", &["verbs_walk", "--strings"])
            .check(),
    ]
}

/// Kernels with older versions of the uverbs ABI.
fn old_kernels(release: ProviderSource) -> Vec<Check> {
    let mut checks = Vec::new();
    for abi in [3, 4, 5] {
        for device in DEVICES {
            let tree = Tree::new(DEVICES).kernel_abi(abi);
            let scene = release.on(tree, format!("{device}-abi-{abi}"), &["verbs_walk", device]);
            checks.push(scene.record(Record::Everything).check());
        }
    }
    checks
}

/// The other providers, as far as they work without hardware.
fn others(release: ProviderSource) -> Vec<Check> {
    let all = release.devices().into_iter();
    let scenes = all
        .filter(|device| !DEVICES.contains(device))
        .map(|device| {
            if device == "vmw_pvrdma0" {
                // The provider of rdma-core 44 writes beyond its own memory: results after that are random.
                release
                    .scene(device, &["ibv_devinfo", "-v", "-d", device])
                    .record(Record::Everything)
            } else if device == "irdma0" && release == ProviderSource::Sid {
                // The provider passes three members of REG_MR's data on without setting them.
                release.scene(device, &["verbs_walk", device])
            } else if device == "irdma0" {
                release
                    .scene(device, &["verbs_walk", device])
                    .record(Record::Calls)
                    .mask(without_unset)
            } else {
                release
                    .scene(device, &["verbs_walk", device])
                    .record(Record::Calls)
            }
        });
    scenes
        .map(|scene| scene.env("FAKE_NL", "ok").check())
        .collect()
}

/// Without bytes that irdma's provider does not set: those beside the version, 5, in GET_CONTEXT, and, in
/// release 56, the three words behind the command's own 44 bytes of REG_MR. They have whatever the stack had
/// there: those of GET_CONTEXT look like an address of the process now and then.
fn without_unset(bytes: &str) -> String {
    let text = replace(
        r"(attr 0x1000 in len=8 .* data=)(?:0x(?:[0-9a-f]*0)?5[0-9a-f]{8}|ptr)\b",
        bytes,
        "${1}version 5",
    );
    let text = replace(
        r"(?m)^( *0000: ptr )(?:[0-9a-f]{8} [0-9a-f]{6}05|ptr)$",
        &text,
        "${1}version 5",
    );
    replace(
        r"(?m)^(write .* REG_MR .* bytes=56\n.*\n *002c:)( [0-9a-f]{8})+$",
        &text,
        "$1 --------",
    )
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
