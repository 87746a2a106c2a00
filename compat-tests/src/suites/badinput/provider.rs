//! Providers that are missing, corrupt, for another ABI version, or do not register.

use std::fs;

use crate::fake::scene::Scene;
use crate::fake::sysfs::{Device, Tree};
use crate::normalise::replace;
use crate::provider_layouts::supported;

use super::config::{MOUNT_CONF, new_conf};
use super::{fixtures, probe};

const NAMES: &str = "missing class32 othermachine badmagic executable cut0 cut10 cut64 cut1000 cut9000 text \
    directory dangling loop fine silent says nodevice nocontext narrow nomatch notable twice unresolved \
    future";

pub fn scenes() -> Vec<Scene> {
    let mut scenes = Vec::new();
    for name in NAMES.split_whitespace() {
        // In addition to the distribution's configuration, and instead of it.
        let added = open(name).env("RDMAV_DRIVERS", fixtures::path(name));
        let line = format!("driver {}\n", fixtures::path(name));
        let instead = configured(&format!("{name}-from-the-configuration"), line);
        let mask = |scene: Scene| match name {
            "future" => scene.mask_c(other_abi),
            _ => scene,
        };
        scenes.extend([added, instead].map(mask));
    }
    scenes.push(
        open("unreadable")
            .env("RDMAV_DRIVERS", fixtures::path("unreadable"))
            .as_nobody(),
    );
    let elsewhere = |name: &str| configured(name, "driver elsewhere\n".into());
    scenes.push(elsewhere("not-on-the-library-search-path"));
    scenes.push(elsewhere("on-the-library-search-path").search(fixtures::DIR));
    scenes
}

/// Replaces the C library's message for an unknown provider ABI: ours knows the ABI from the file.
fn other_abi(text: &str) -> String {
    let supported = supported();
    replace(
        "LIBDIR.*IBVERBS_PRIVATE_99.*",
        text,
        &format!("it has provider ABI 99 (of rdma-core 99); {supported}"),
    )
}

fn open(name: &str) -> Scene {
    let tree = Tree::new([Device::from("rxe0"), Device::from("odd0").abi(7)]);
    probe(name, "open")
        .tree(tree)
        .env("IBV_SHOW_WARNINGS", "1")
        .prepare(fixtures::make)
}

fn configured(name: &str, line: String) -> Scene {
    open(name).in_namespace(MOUNT_CONF).prepare(move |_| {
        new_conf()?;
        Ok(fs::write("/tmp/conf/test", &line)?)
    })
}
