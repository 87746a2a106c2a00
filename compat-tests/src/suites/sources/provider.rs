//! The ping-pongs on our library, with a provider for Soft-RoCE that was built with our driver.h, and no
//! other.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::context::{Context, Library};
use crate::machine::{Member, files_in_guest};
use crate::paths::text;
use crate::process::{Exit, Program, read, wait_until};
use crate::testbed::Host;
use crate::verdict::{Details, Failure, Verdict, ensure};

const PROGRAMS: [(&str, &str); 6] = [
    ("rc", "ibv_rc_pingpong -g 1 -n 100"),
    ("rc-events", "ibv_rc_pingpong -g 1 -n 100 -e"),
    ("rc-extended-qp", "ibv_rc_pingpong -g 1 -n 100 -N"),
    ("uc", "ibv_uc_pingpong -g 1 -n 100"),
    ("ud", "ibv_ud_pingpong -g 1 -n 100"),
    ("srq", "ibv_srq_pingpong -g 1 -n 100"),
];
const LIMIT: Duration = Duration::from_secs(120);
/// The configuration names the provider without what the library adds to it.
const PROVIDER: &str = "ours/lib/librxe";

pub fn members() -> Vec<Member> {
    let member = |(port, (name, command)): (u16, (&str, &'static str))| {
        Member::new(format!("sources/provider/{name}"), move |cx| {
            run(cx, command, 19_000 + port)
        })
    };
    (0..).zip(PROGRAMS).map(member).collect()
}

fn run(cx: &Context, command: &str, port: u16) -> Verdict {
    let provider = files_in_guest().join(PROVIDER);
    let config = cx.dir().join("config");
    fs::create_dir_all(&config)?;
    fs::write(
        config.join("rxe.driver"),
        format!("driver {}\n", provider.display()),
    )?;
    let mut server = program(cx, &config, "server", command, port).spawn()?;
    let host = Host::on_kernel("rxe0", "127.0.0.1", "lo");
    wait_until(Duration::from_secs(20), || {
        host.listens(port) || !server.is_running()
    });
    let client = format!("{command} 127.0.0.1");
    let mut client = program(cx, &config, "client", &client, port).spawn()?;
    let exits = [client.wait(LIMIT)?, server.wait(LIMIT)?];
    let output = client.output() + &server.output();
    ensure(
        exits == [Exit::Code(0); 2],
        format!("client and server ended with {} and {}", exits[0], exits[1]),
    )
    .with(output)?;
    for role in ["server", "client"] {
        check_loaded(cx, role, &provider.with_file_name("librxe-rdmav34.so"))?;
    }
    Ok(())
}

/// The program in a mount namespace with the configuration, and the dynamic linker's report in `ROLE.ld.*`.
fn program(cx: &Context, config: &Path, role: &str, command: &str, port: u16) -> Program {
    let mut words: Vec<String> = command.split(' ').map(String::from).collect();
    words.extend(["-p".into(), port.to_string()]);
    let mount = format!(
        "mount --bind {} /etc/libibverbs.d && exec \"$@\"",
        config.display()
    );
    cx.program_at(words, cx.dir().join(role))
        .merged()
        .library(&cx.library_dir(Library::Ours))
        .env("LD_DEBUG", "files")
        .env("LD_DEBUG_OUTPUT", cx.dir().join(format!("{role}.ld")))
        .under(["unshare", "-m", "sh", "-c", &mount, "sh"])
}

/// The program must have loaded our library and this provider, and no other of either.
fn check_loaded(cx: &Context, role: &str, provider: &Path) -> Verdict {
    let mut loaded = BTreeSet::new();
    for entry in fs::read_dir(cx.dir())? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if !name.starts_with(&format!("{role}.ld.")) {
            continue;
        }
        for line in read(&path).lines() {
            let file = line
                .split_once("calling init: ")
                .map(|(_, file)| file.trim());
            let of_interest =
                |file: &&str| file.contains("libibverbs.so") || file.contains("rdmav");
            loaded.extend(file.filter(of_interest).map(String::from));
        }
    }
    let wanted = BTreeSet::from([text(cx.library(Library::Ours)), text(provider)]);
    if loaded == wanted {
        return Ok(());
    }
    Err(Failure::new(format!("the {role} has loaded {loaded:?}")))
}
