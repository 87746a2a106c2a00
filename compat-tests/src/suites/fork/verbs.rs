//! Devices: regions, and the buffers that providers register.

use super::*;

/// How the program ends with providers that need more of a device than the fake kernel provides: they fail to
/// open or crash, and are compared up to that point.
const ENDS: &[(&str, i32)] = &[
    ("cxgb4_0", 139),
    ("irdma0", 136),
    ("ocrdma0", 136),
    ("efa_0", 2),
];

pub fn checks() -> Vec<Check> {
    let mut list = variables();
    for device in known_devices() {
        if device == "erdma_0" {
            // It locks a mutex that it has not initialized, and sometimes hangs.
            let why = "its provider hangs, also with the C library";
            list.push(Check::new(device, move |_| Err(Failure::skip(why))));
            continue;
        }
        let ends = ENDS.iter().find(|(name, _)| *name == device);
        let scene = safe(device, &["forkverbs", device]);
        list.push(scene.exit(ends.map_or(0, |(_, code)| *code)).check());
    }
    let ioctl = safe("mlx5_0-ioctl", &["forkverbs", "mlx5_0"]);
    list.push(ioctl.env("FAKE_IOCTL", "ok").check());
    let hole = safe("", &["forkverbs", "mlx5_0", "hole"]);
    list.push(Check::new("into-a-hole", move |cx| {
        Tree::all_known().write(SYS.as_ref())?;
        as_expected(cx, "verbs-into-a-hole", &hole)
    }));
    for command in [
        "REG_MR", "REREG_MR", "DEREG_MR", "EX_CREATE_CQ", "CREATE_QP", "CREATE_SRQ",
    ] {
        list.push(failing(command));
    }
    list
}

fn on(name: impl Into<String>, argv: &[&str]) -> Scene {
    both(FAKE, name, argv)
        .tree(Tree::all_known())
        .env("FAKE_NL", "ok")
}

fn safe(name: impl Into<String>, argv: &[&str]) -> Scene {
    on(name, argv).env("RDMAV_FORK_SAFE", "1")
}

/// The checks of the variables that turn fork safety on.
fn variables() -> Vec<Check> {
    let on = |name: &str| on(name, &["forkverbs", "mlx5_0"]);
    let two = |name: &str, rdmav: &str, ibv: &str| {
        on(name)
            .env("RDMAV_FORK_SAFE", rdmav)
            .env("IBV_FORK_SAFE", ibv)
    };
    vec![
        on("no-fork-safety").check(),
        on("initialized-by-the-program")
            .env("FORK_INIT", "1")
            .check(),
        on("RDMAV_FORK_SAFE-is-empty")
            .env("RDMAV_FORK_SAFE", "")
            .check(),
        two("both-variables-are-0", "0", "0").check(),
        two("IBV_FORK_SAFE", "0", "1").check(),
    ]
}

/// A command that fails with ENOMEM. Where memory is registered, the log has the reason.
fn failing(command: &'static str) -> Check {
    let registers = command == "REG_MR" || command == "REREG_MR";
    let parts = if registers { vec!["", "log"] } else { vec![""] };
    let name = format!("{command}-fails");
    let scene = safe(name.clone(), &["forkverbs", "mlx5_0"])
        .env("VERBS_LOG_LEVEL", "2")
        .env("VERBS_LOG_FILE", LOG)
        .env("FAKE_FAIL", format!("{command}=ENOMEM"));
    Check::with_parts(name, parts, move |cx| {
        let _ = fs::remove_file(LOG);
        let mut verdicts = vec![scene.compared(cx)];
        if registers {
            verdicts.push(log_says(
                "^libibverbs: ibv_re(re)?g_mr of 8192 bytes: out of memory; RLIMIT_MEMLOCK is ",
            ));
        }
        Ok(verdicts)
    })
}
