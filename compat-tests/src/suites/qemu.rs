//! QEMU moves a virtual machine between two processes by RDMA on uroce, over rdma_cm. The machine has no
//! CPU that runs: only its memory is sent.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::case::{Case, Tier};
use crate::context::{Context, Library};
use crate::process::{Exit, Program, Running, wait_until};
use crate::sandbox::Sandbox;
use crate::testbed::Host;
use crate::verdict::{Details, Failure, Verdict, ensure};

const QEMU: &str = "qemu-system-x86_64";
const DESTINATION: &str = "rdma:127.0.0.1:4444";
const PORT: u16 = 4444;
/// The time limit on a busy host.
const LIMIT: Duration = Duration::from_secs(120);

pub fn cases() -> Vec<Case> {
    vec![
        Case::new("uroce/qemu/migration", migration)
            .sandbox(Sandbox::Namespace)
            .tier(Tier::All)
            .limit(300)
            .estimate(20),
    ]
}

/// A QEMU process and its monitor.
struct Machine {
    process: Running,
    monitor: PathBuf,
}

impl Machine {
    fn start(cx: &Context, host: &Host, name: &str, more: &[&str]) -> Result<Machine, Failure> {
        let monitor = cx.dir().join(name);
        let option = format!("unix:{},server,nowait", monitor.display());
        let words = "-M none -m 16 -display none -nodefaults -S -monitor";
        let words = [QEMU].into_iter().chain(words.split(' '));
        let words = words.chain([option.as_str()]).chain(more.iter().copied());
        let program: Program = host.on_host(cx.program(words)).limit(LIMIT).merged();
        Ok(Machine {
            process: program.spawn()?,
            monitor,
        })
    }

    /// Executes a command of QEMU's human monitor. Returns what it prints.
    fn command(&self, command: &str) -> Result<String, Failure> {
        let mut connected = None;
        // QEMU's socket has a name before it listens.
        let connect = || {
            connected = UnixStream::connect(&self.monitor).ok();
            connected.is_some()
        };
        wait_until(LIMIT, connect);
        let mut stream = connected.ok_or("QEMU has no monitor")?;
        stream.set_read_timeout(Some(LIMIT))?;
        read_prompt(&mut stream)?;
        stream.write_all(format!("{command}\n").as_bytes())?;
        // The monitor repeats the line.
        let text = read_prompt(&mut stream)?;
        println!("{command}: {text}");
        Ok(text)
    }

    fn end(mut self) -> Verdict {
        self.process.terminate();
        let exit = self.process.wait(LIMIT)?;
        ensure(exit == Exit::Code(0), format!("{QEMU}: {exit}")).with(self.process.output())
    }
}

fn read_prompt(stream: &mut UnixStream) -> Result<String, Failure> {
    let mut text = Vec::new();
    let mut byte = [0];
    while !text.ends_with(b"(qemu) ") && stream.read(&mut byte)? == 1 {
        text.extend(byte);
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

fn migration(cx: &Context) -> Verdict {
    let version = cx.program([QEMU, "--version"]).run();
    if !version.is_ok_and(|ended| ended.ok()) {
        return Err(Failure::skip(format!("{QEMU} is missing")));
    }
    let host = Host::on_uroce(cx, "127.0.0.1", "uroce0=lo", "lo");
    println!("library: {}", cx.library_dir(Library::Ours).display());
    let incoming = Machine::start(cx, &host, "destination", &["-incoming", DESTINATION])?;
    ensure(
        wait_until(LIMIT, || host.listens_cm(PORT)),
        "QEMU does not listen",
    )
    .with(incoming.process.output())?;
    let outgoing = Machine::start(cx, &host, "source", &[])?;
    outgoing.command(&format!("migrate -d {DESTINATION}"))?;
    let end = Instant::now() + LIMIT;
    let status = loop {
        let status = outgoing.command("info migrate")?;
        if !["setup", "active"]
            .iter()
            .any(|is| status.contains(&format!("Migration status: {is}")))
        {
            break status;
        }
        ensure(Instant::now() < end, "the migration does not end")?;
        sleep(Duration::from_millis(300));
    };
    ensure(status.contains("Migration status: completed"), status)?;
    let state = incoming.command("info status")?;
    ensure(state.contains("VM status: paused"), state)?;
    outgoing.end()?;
    incoming.end()
}
