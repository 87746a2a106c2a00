//! Runs a row once, with one library.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use crate::case_file::{Ready, Row};
use crate::context::{Context, Library};
use crate::machine::files_in_guest;
use crate::pairs::{self, client_words, split};
use crate::process::{Exit, Program, path_with_sbin, read, wait_until};
use crate::row_outcome::RowOutcome;
use crate::sandbox::sh;
use crate::testbed::Host;
use crate::verdict::{Failure, ensure};

/// The time limit of a program that has none of its own.
const LIMIT: u64 = 120;
/// The listener of the run before may still exist, and would be mistaken for this one's.
const PORT_FREE: Duration = Duration::from_secs(5);
/// A server whose client has failed may never end.
const AFTER_FAILURE: Duration = Duration::from_secs(5);
/// The addresses of rxe0.
const ADDRESS: &str = "10.9.9.1";
const IPV6: &str = "fd09::1";

/// A row on one library.
struct RowRun<'a> {
    cx: &'a Context,
    row: &'a Row,
    library: Library,
    port: u16,
    files: PathBuf,
}

/// `number` selects a port that only this row uses.
pub fn run(cx: &Context, row: &Row, library: Library, number: u16) -> Result<RowOutcome, Failure> {
    let run = RowRun {
        cx,
        row,
        library,
        port: row.port.unwrap_or(18_000 + number),
        files: cx.dir().join("files"),
    };
    if run.files.exists() {
        fs::remove_dir_all(&run.files)?;
    }
    fs::create_dir(&run.files)?;
    fs::set_permissions(&run.files, fs::Permissions::from_mode(0o777))?;
    let _veth = if row.machine.veth {
        Some(Veth::new()?)
    } else {
        None
    };
    run.run()
}

impl RowRun<'_> {
    fn run(&self) -> Result<RowOutcome, Failure> {
        let mut outcome = RowOutcome::default();
        wait_until(PORT_FREE, || !self.listens());
        let mut server = match &self.row.server {
            Some(command) => Some(self.program("server", split(command)?)?.spawn()?),
            None => None,
        };
        if let Some(server) = &mut server {
            pairs::await_ready(self.row.ready, &host(), self.port, server);
        }
        let mut client = self.program("client", client_words(self.row)?)?.spawn()?;
        let limit = self.row.limit.unwrap_or(LIMIT);
        let client_exit = client.wait(Duration::from_secs(limit))?;
        outcome.add("client", &client, client_exit)?;
        outcome.exit = client_exit.to_string();
        if let Some(mut server) = server {
            if self.row.kill && server.is_running() {
                server.terminate();
            }
            let left = match client_exit {
                Exit::Code(0) => Duration::from_secs(limit.min(20)),
                _ => AFTER_FAILURE,
            };
            let exit = server.wait(left)?;
            outcome.add("server", &server, exit)?;
            outcome.exit = format!("{exit}/{client_exit}");
        }
        Ok(outcome)
    }

    fn program(&self, role: &str, words: Vec<String>) -> Result<Program, Failure> {
        let (port, files) = (self.port.to_string(), self.files.to_string_lossy());
        let replace = |word: &String| {
            word.replace("%p", &port)
                .replace("%f", &files)
                .replace("%a", ADDRESS)
                .replace("%6", IPV6)
                .replace("%l", ADDRESS)
                .replace("%d", "rxe0")
        };
        let words: Vec<String> = words.iter().map(replace).collect();
        let mut search = Vec::new();
        let mut python = None;
        let mut path = path_with_sbin();
        if self.library == Library::Ours {
            search.push(self.cx.library_dir(Library::Ours));
        }
        let built = files_in_guest().join(self.library.name());
        if built.exists() {
            let program = built.join("bin").join(&words[0]);
            ensure(program.exists(), format!("{} was not built", words[0]))?;
            path = format!("{}:{path}", built.join("bin").display());
            search.push(built.join("lib"));
            python = Some(built.join("python")).filter(|dir| dir.exists());
        }
        let output = self
            .cx
            .dir()
            .join(format!("{}-{role}", self.library.name()));
        let mut program = self.cx.program_at(words, output).report_library();
        program = program.envs(&self.row.env).env("PATH", path);
        if !search.is_empty() {
            let dirs: Vec<_> = search.iter().map(|dir| dir.to_string_lossy()).collect();
            program = program.env("LD_LIBRARY_PATH", dirs.join(":"));
        }
        if let Some(modules) = python {
            program = program.env("PYTHONPATH", modules);
        }
        if self.row.machine.rsocket {
            program = program.env("LD_PRELOAD", rsocket()?);
        }
        Ok(program)
    }

    /// Whether a server listens on the port. False for those that are known to be ready after a time.
    fn listens(&self) -> bool {
        match self.row.ready {
            Ready::After(_) => false,
            Ready::Tcp => host().listens(self.port),
            Ready::Cm => host().listens_cm(self.port),
        }
    }
}

/// The machine with rxe0.
fn host() -> Host {
    Host::on_kernel("rxe0", ADDRESS, "rd0")
}

/// The library that replaces sockets by rsockets.
fn rsocket() -> Result<PathBuf, Failure> {
    let file = crate::artifacts::library_dir()?.join("rsocket/librspreload.so");
    ensure(file.exists(), format!("{} is missing", file.display()))?;
    Ok(file)
}

/// Two devices connected by a veth pair, rxv1 on 10.9.8.1 and rxv2 on 10.9.8.2: rxe0 does not receive its own
/// multicast messages.
struct Veth;

impl Veth {
    fn new() -> Result<Self, Failure> {
        let mut script =
            String::from("ip link add ve1 mtu 4200 type veth peer name ve2 mtu 4200\n");
        for n in [1, 2] {
            // Packets from the machine's own addresses are not to be dropped.
            script += &format!(
                "echo 1 >/proc/sys/net/ipv4/conf/ve{n}/accept_local
                 ip addr add 10.9.8.{n}/24 dev ve{n}; ip link set ve{n} up
                 rdma link add rxv{n} type rxe netdev ve{n}\n"
            );
        }
        let made = Self;
        sh(&script)?;
        for n in [1, 2] {
            // rxe fills its GID table a little later.
            let has_address = || {
                let path = |index| format!("/sys/class/infiniband/rxv{n}/ports/1/gids/{index}");
                (0..4).any(|index| read(path(index).as_ref()).contains(":ffff:0a09:"))
            };
            ensure(
                wait_until(Duration::from_secs(10), has_address),
                format!("rxv{n} has no GID of its address"),
            )?;
        }
        Ok(made)
    }
}

impl Drop for Veth {
    fn drop(&mut self) {
        if let Err(failure) = sh("rdma link delete rxv1; rdma link delete rxv2; ip link delete ve1")
        {
            println!("{failure}");
        }
    }
}
