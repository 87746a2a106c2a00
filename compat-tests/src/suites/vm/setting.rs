//! How the machine is during a row: a second device, another limit or node. Dropping it restores the machine.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::case_file::MachineState;
use crate::process::read;
use crate::sandbox::sh;
use crate::verdict::{Failure, Verdict, ensure};

const NODE: &str = "/dev/infiniband/uverbs0";
const AWAY: &str = "/dev/infiniband/uverbs0-away";

/// The settings of the machine that this test has changed so far.
pub struct Setting {
    second: bool,
    away: bool,
    mode: bool,
}

impl Setting {
    pub fn new(machine: &MachineState) -> Result<Self, Failure> {
        let mut setting = Self {
            second: false,
            away: false,
            mode: false,
        };
        setting.make(machine)?;
        Ok(setting)
    }

    fn make(&mut self, machine: &MachineState) -> Verdict {
        if let Some(mode) = &machine.mode {
            let bits = u32::from_str_radix(mode, 8).map_err(|e| format!("mode {mode}: {e}"))?;
            fs::set_permissions(NODE, fs::Permissions::from_mode(bits))?;
            self.mode = true;
        }
        if machine.second_device || machine.kind.as_deref() == Some("watch") {
            self.second = true;
            make_second()?;
        }
        if let Some(node) = &machine.node {
            fs::rename(NODE, AWAY)?;
            self.away = true;
            match node.as_str() {
                "away" => Ok(()),
                "decoy" | "decoy-late" | "decoy-only" => decoy(node),
                other => Err(Failure::new(format!("unknown node {other}"))),
            }?;
        }
        Ok(())
    }
}

/// vm/setup exports the function.
fn make_second() -> Verdict {
    let made = Command::new("bash")
        .args(["-c", "make_device rxe1 rd1 2"])
        .status()?;
    ensure(made.success(), format!("make_device: {made}"))
}

/// Replaces the device's node by that of /dev/null. The right one is in /dev/char: from the start, after
/// a second (`decoy-late`), or not at all (`decoy-only`).
fn decoy(when: &str) -> Verdict {
    let number = read("/sys/class/infiniband_verbs/uverbs0/dev".as_ref());
    let link = format!("/dev/char/{}", number.trim());
    fs::create_dir_all("/dev/char")?;
    sh(&format!("mknod -m 0666 {NODE} c 1 3"))?;
    match when {
        "decoy" => symlink(AWAY, link)?,
        "decoy-late" => {
            thread::spawn(move || {
                thread::sleep(Duration::from_secs(1));
                symlink(AWAY, link)
            });
        }
        _ => (),
    }
    Ok(())
}

impl Drop for Setting {
    fn drop(&mut self) {
        let mut script = String::new();
        if self.away {
            script += &format!("mv -f {AWAY} {NODE}; rm -rf /dev/char\n");
        }
        if self.second {
            script += "rdma link delete rxe1; ip link delete rd1\n";
        }
        if self.mode {
            script += &format!("chmod 0666 {NODE}\n");
        }
        if let Err(failure) = sh(&script) {
            println!("{failure}: {}", failure.details);
        }
    }
}
