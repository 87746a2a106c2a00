//! A program that runs, and what uroce-ctl shows of it.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use crate::artifacts::CONTROL;
use crate::context::Context;
use crate::paths::text;
use crate::process::{Ended, Exit, Running, succeeded, wait_until};
use crate::sandbox::as_ordinary_user;
use crate::verdict::{Details, Failure, Verdict, ensure};

/// How long a program may take until its socket is there.
pub const START: Duration = Duration::from_secs(20);

/// `control` that runs, and its FIFO.
pub struct Victim {
    pub running: Running,
    fifo: PathBuf,
}

impl Victim {
    /// Starts it with these variables, and waits until it is ready.
    pub fn start(cx: &Context, name: &str, variables: &[(&str, &str)]) -> Result<Victim, Failure> {
        Victim::of(cx, "control", name, variables, "ready")
    }

    /// The same with another program, which prints `ready` when it is ready.
    pub fn of(
        cx: &Context,
        program: &str,
        name: &str,
        variables: &[(&str, &str)],
        ready: &str,
    ) -> Result<Victim, Failure> {
        let fifo = cx.dir().join(name);
        cx.output(["mkfifo", "-m", "666", &fifo.to_string_lossy()])?;
        let argv = vec![cx.built(program)?, text(&fifo)];
        let mut program = cx.on_uroce(argv);
        for (name, value) in variables {
            program = program.env(*name, value);
        }
        let victim = Victim {
            running: program.spawn()?,
            fifo,
        };
        victim.await_text(ready)?;
        Ok(victim)
    }

    /// Waits until the program has printed a text.
    pub fn await_text(&self, text: &str) -> Verdict {
        let printed = wait_until(START, || self.running.output().contains(text));
        ensure(printed, format!("it does not print '{text}'")).with(self.running.output())
    }

    /// Writes a line into its FIFO, and returns the lines that it prints then, of which there are `count`.
    pub fn does(&self, line: &str, count: usize) -> Result<Vec<String>, Failure> {
        let before = self.running.output().lines().count();
        let mut fifo = OpenOptions::new().write(true).open(&self.fifo)?;
        fifo.write_all(format!("{line}\n").as_bytes())?;
        wait_until(START, || {
            self.running.output().lines().count() >= before + count
        });
        let lines = self.running.output();
        let lines: Vec<String> = lines.lines().skip(before).map(String::from).collect();
        ensure(
            lines.len() == count,
            format!("{line}: it printed {lines:?}"),
        )?;
        Ok(lines)
    }

    pub fn prints(&self, line: &str, expected: &[&str]) -> Verdict {
        let printed = self.does(line, expected.len())?;
        ensure(
            printed == expected,
            format!("{line}: {printed:?}, not {expected:?}"),
        )
    }

    /// Ends the process by its command `quit`; it must exit without an error.
    pub fn quits(mut self) -> Verdict {
        let mut fifo = OpenOptions::new().write(true).open(&self.fifo)?;
        fifo.write_all(b"quit\n")?;
        let exit = self.running.wait(START)?;
        let ended = self.running.ended(exit)?;
        succeeded("control", &ended)
    }

    /// The PID of the program itself: setpriv(1) and env(1) execute it in their own process.
    pub fn pid(&self) -> String {
        self.running.id().to_string()
    }
}

/// uroce-ctl as the ordinary user.
pub fn ctl(cx: &Context, arguments: &[&str]) -> Result<Ended, Failure> {
    let mut argv = vec![cx.built(CONTROL)?];
    argv.extend(arguments.iter().map(ToString::to_string));
    Ok(cx.program(argv).under(as_ordinary_user()).run()?)
}

/// Runs uroce-ctl, which must succeed, and returns what it prints.
pub fn shown(cx: &Context, arguments: &[&str]) -> Result<String, Failure> {
    let ended = ctl(cx, arguments)?;
    succeeded(&format!("uroce-ctl {}", arguments.join(" ")), &ended)?;
    Ok(ended.out)
}

/// The JSON object that it prints for one process.
pub fn json(cx: &Context, arguments: &[&str]) -> Result<Value, Failure> {
    let text = shown(cx, &[&["--json"], arguments].concat())?;
    let parsed = serde_json::from_str(&text).map_err(|error| format!("{error}: {text}"))?;
    Ok(parsed)
}

/// uroce-ctl fails with a message that contains a text.
pub fn fails(cx: &Context, arguments: &[&str], text: &str) -> Verdict {
    let ended = ctl(cx, arguments)?;
    let ok = ended.exit == Exit::Code(1) && ended.err.contains(text);
    let why = format!("uroce-ctl {}: '{text}' is expected", arguments.join(" "));
    ensure(ok, why).with(ended.transcript())
}
