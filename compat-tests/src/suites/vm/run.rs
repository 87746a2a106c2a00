//! Runs a row once, with one library.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use super::Variant;
use super::setting::Setting;
use crate::case_file::Row;
use crate::context::{Context, Library};
use crate::pairs::{self, client_words, split};
use crate::process::{Program, Running, read, signal, wait_until};
use crate::row_outcome::RowOutcome;
use crate::sandbox::sh;
use crate::testbed::Host;
use crate::verdict::Failure;

/// The time limit of each program: valgrind under emulation, on a busy host.
const LIMIT: Duration = Duration::from_secs(180);
/// The time until a program that runs alone has begun.
const BEGUN: Duration = Duration::from_secs(15);
const EVENT: Duration = Duration::from_secs(5);

/// A port of its own for each run, because the kernel keeps closed connections for a while.
pub fn port(number: u16, variant: Variant, attempt: u32) -> u16 {
    20_000 + 9 * number + 3 * variant as u16 + attempt as u16
}

/// A row in one variant.
struct VariantRun<'a> {
    cx: &'a Context,
    row: &'a Row,
    variant: Variant,
    port: u16,
    dir: PathBuf,
}

pub fn row(cx: &Context, row: &Row, variant: Variant, port: u16) -> Result<RowOutcome, Failure> {
    let dir = cx.dir().join(format!("{}-{port}", variant.name()));
    for dir in [&dir, &dir.join("own")] {
        fs::create_dir_all(dir)?;
        fs::set_permissions(dir, fs::Permissions::from_mode(0o1777))?;
    }
    let run = VariantRun {
        cx,
        row,
        variant,
        port,
        dir,
    };
    let _setting = Setting::new(&row.machine)?;
    let mut outcome = match row.machine.kind.as_deref() {
        None if row.server.is_some() => run.pair()?,
        None => run.one()?,
        Some("watch") => run.watch()?,
        Some("setuid") => run.setuid()?,
        Some(other) => return Err(Failure::new(format!("unknown kind {other}"))),
    };
    if row.machine.log && run.log().exists() {
        let log = read(&run.log());
        outcome.streams.insert("verbs.log".into(), log);
    }
    Ok(outcome)
}

impl VariantRun<'_> {
    /// The time limit of a program.
    fn limit(&self) -> Duration {
        pairs::limit(self.row).max(LIMIT)
    }

    fn log(&self) -> PathBuf {
        self.dir.join("own/verbs.log")
    }

    /// The words of a command, with the device, the server's address and the port.
    fn words(&self, words: Vec<String>) -> Vec<String> {
        let port = self.port.to_string();
        let replace = |word: &String| {
            let built = self.cx.built(word);
            built.unwrap_or_else(|_| {
                word.replace("%p", &port)
                    .replace("%a", "127.0.0.1")
                    .replace("%d", "rxe0")
            })
        };
        words.iter().map(replace).collect()
    }

    /// A program of the row, which gets the library of the variant.
    fn program(&self, role: &str, words: Vec<String>) -> Program {
        let own = self.dir.join("own").to_string_lossy().into_owned();
        let mut program = self
            .cx
            .program_at(self.words(words), self.dir.join(role))
            .report_library()
            .limit(self.limit());
        for (name, value) in &self.row.env {
            program = program.env(name, value.replace('@', &own));
        }
        if self.row.machine.log {
            program = program.env("VERBS_LOG_FILE", self.log());
        }
        program = match self.variant {
            Variant::C => program,
            Variant::Path => program.library(&self.cx.library_dir(Library::Ours)),
            Variant::Preload => program.env("LD_PRELOAD", self.cx.library(Library::Ours)),
        };
        if self.row.machine.user.is_some() {
            program = program.under([
                "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
            ]);
        }
        match self.row.machine.memlock {
            Some(kib) => program.under(["prlimit", &format!("--memlock={}:", kib * 1024), "--"]),
            None => program,
        }
    }

    fn one(&self) -> Result<RowOutcome, Failure> {
        let words = split(self.row.run.as_deref().unwrap_or_default())?;
        let program = self.program("program", words);
        let mut running = program.spawn()?;
        let exit = running.wait(self.limit())?;
        RowOutcome::of_program(&running, exit)
    }

    fn pair(&self) -> Result<RowOutcome, Failure> {
        let words = split(self.row.server.as_deref().unwrap_or_default())?;
        let mut server = self.program("server", words).spawn()?;
        let host = Host::on_kernel("rxe0", "127.0.0.1", "lo");
        pairs::await_ready(self.row.ready, &host, self.port, &mut server);
        let mut client = self.program("client", client_words(self.row)?).spawn()?;
        let client_exit = client.wait(self.limit())?;
        if self.row.kill && server.is_running() {
            server.terminate();
        }
        let server_exit = server.wait(self.limit())?;
        let mut outcome = RowOutcome {
            exit: format!("{server_exit}/{client_exit}"),
            ..RowOutcome::default()
        };
        outcome.add("server", &server, server_exit)?;
        outcome.add("client", &client, client_exit)?;
        Ok(outcome)
    }

    /// vm/suid.c, owned by root with the set-user-ID bit. The dynamic linker reports nothing of such
    /// programs, so it writes the library's path to file descriptor 3.
    fn setuid(&self) -> Result<RowOutcome, Failure> {
        let which = match self.variant {
            Variant::C => "suid-c",
            Variant::Path | Variant::Preload => "suid-ours",
        };
        let file = format!("/run/{which}");
        fs::copy(self.cx.built(which)?, &file)?;
        fs::set_permissions(&file, fs::Permissions::from_mode(0o4755))?;
        let mut words = vec![file];
        words.extend(split(self.row.run.as_deref().unwrap_or_default())?);
        let libraries = self.dir.join("program.lib");
        let redirect = format!("exec \"$@\" 3>'{}'", libraries.display());
        let program = self
            .program("program", words)
            .under(["sh", "-c", &redirect, "sh"]);
        let mut running = program.spawn()?;
        let exit = running.wait(self.limit())?;
        let mut outcome = RowOutcome::of_program(&running, exit)?;
        let seen = read(&libraries).lines().map(String::from).collect();
        outcome.libraries.insert("program", seen);
        Ok(outcome)
    }

    /// Runs in a terminal, so that the program does not buffer its output, while its device's port
    /// goes down and up.
    fn watch(&self) -> Result<RowOutcome, Failure> {
        let command = format!("exec {}", self.row.run.as_deref().unwrap_or_default());
        let words = ["script", "-qefc", &command, "/dev/null"].map(String::from);
        let program = self.program("program", words.to_vec());
        let mut running = program.env("SHELL", "/bin/sh").spawn()?;
        let shown = |running: &Running, text: &str, limit| {
            wait_until(limit, || running.output().contains(text));
        };
        shown(&running, "event FD", BEGUN);
        sleep(Duration::from_millis(300));
        sh("ip link set rd1 down")?;
        shown(&running, "IBV_EVENT_PORT_ERR", EVENT);
        sh("ip link set rd1 up")?;
        shown(&running, "IBV_EVENT_PORT_ACTIVE", EVENT);
        sleep(Duration::from_millis(300));
        for id in processes("ibv_asyncwatch") {
            signal(id, libc::SIGTERM);
        }
        let exit = running.wait(self.limit())?;
        RowOutcome::of_program(&running, exit)
    }
}

/// The processes with this name, as far as the kernel keeps it (15 bytes).
fn processes(name: &str) -> Vec<i32> {
    let ids = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = ids.filter_map(|entry| entry.file_name().to_string_lossy().parse::<i32>().ok());
    let comm = |id: &i32| read(Path::new(&format!("/proc/{id}/comm")));
    ids.filter(|id| comm(id).trim() == &name[..name.len().min(15)])
        .collect()
}
