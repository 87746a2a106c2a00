//! The same bad input for both libraries over the fake kernel: configuration, providers, sysfs, netlink,
//! device nodes, environment. Standard output, standard error, exit code and errno must be equal, and
//! ours must not leak more.

mod config;
mod environment;
mod fixtures;
mod loops;
mod netlink;
mod node;
mod paths;
mod provider;
mod setid;
mod sysfs;

use crate::case::{Case, Tier};
use crate::checks::{self, Check};
use crate::fake::SHIM;
use crate::fake::scene::Scene;
use crate::fake::sysfs::Tree;
use crate::sandbox::Sandbox;

/// The share of scenes under valgrind: make test runs each 8th that can, and make test-all the
/// others, too (`badinput-leaks`).
const LEAKS: usize = 8;

/// Some scenes with something in common.
struct SceneGroup {
    name: String,
    sandbox: Sandbox,
    scenes: Vec<Scene>,
}

impl SceneGroup {
    fn new(name: impl Into<String>, scenes: Vec<Scene>) -> Self {
        Self {
            name: name.into(),
            sandbox: Sandbox::Namespace,
            scenes,
        }
    }

    /// Needs real root: device nodes, for example.
    fn on_real_root(mut self) -> Self {
        self.sandbox = Sandbox::Root;
        self
    }
}

fn groups() -> Vec<SceneGroup> {
    let mut groups = vec![
        SceneGroup::new("config", config::scenes()),
        SceneGroup::new("provider", provider::scenes()),
    ];
    groups.extend(sysfs::groups());
    groups.extend([
        SceneGroup::new("sysfs-path", paths::scenes()),
        SceneGroup::new("netlink", netlink::scenes()),
        SceneGroup::new("node", node::faked()),
        SceneGroup::new("real-node", node::real()).on_real_root(),
    ]);
    groups.extend(environment::groups());
    groups.push(SceneGroup::new("loops", loops::scenes()));
    groups
}

pub fn cases() -> Vec<Case> {
    let mut cases = vec![setid::case()];
    let mut number = 0;
    for group in groups() {
        let checks = group.scenes.into_iter().map(|scene| {
            number += usize::from(scene.can_leak());
            let chosen = scene.can_leak() && number % LEAKS == 0;
            scene.leaks(chosen).check()
        });
        let checks = checks.collect();
        let name = format!("badinput/{}", group.name);
        cases.push(case(&name, group.sandbox, Tier::Test, checks));
    }
    number = 0;
    for group in groups() {
        let rest = group.scenes.into_iter().filter_map(|scene| {
            number += usize::from(scene.can_leak());
            let chosen = scene.can_leak() && number % LEAKS != 0;
            chosen.then(|| scene.check_of_leaks())
        });
        let checks: Vec<Check> = rest.collect();
        if !checks.is_empty() {
            let name = format!("badinput-leaks/{}", group.name);
            cases.push(case(&name, group.sandbox, Tier::All, checks));
        }
    }
    cases
}

fn case(name: &str, sandbox: Sandbox, tier: Tier, checks: Vec<Check>) -> Case {
    let mut programs = vec![SHIM, "probe", "verbs_walk"];
    programs.extend(fixtures::PROGRAMS);
    checks::case(name, checks)
        .sandbox(sandbox)
        .tier(tier)
        .programs(&programs)
        .limit(1200)
        .estimate(20)
}

/// The probe (badinput/probe.c) with one of its commands.
fn probe(name: impl Into<String>, command: &str) -> Scene {
    Scene::new(name, ["probe", command]).leaks(true)
}

/// The probe on a tree with these devices.
fn probe_on(devices: &[&str], name: impl Into<String>, command: &str) -> Scene {
    probe(name, command).tree(Tree::new(devices.iter().copied()))
}
