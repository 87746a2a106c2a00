//! Starting programs, waiting for them with a time limit, and ending whole process groups.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::verdict::{Failure, Verdict};

/// Variables that change what the libraries do: programs get only those that the case sets.
const CLEARED: &[&str] = &[
    "IBV_", "RDMAV_", "LD_", "VERBS_", "FAKE_", "MLX", "SYSFS_", "IBVERBS_RS_",
];
/// The priorities of `Program::before_others` and of batch cases, as of nice(1).
const BEFORE_OTHERS: i32 = -10;
pub const AFTER_OTHERS: i32 = 5;
/// How often a wait looks again.
const POLL: Duration = Duration::from_millis(5);

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// The exit code; 128 and the signal's number, as a shell has it, for a program that a signal killed.
    Code(i32),
    /// The program exceeded its time limit and was killed.
    Timeout,
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Exit::Code(code) => write!(f, "{code}"),
            Exit::Timeout => f.write_str("timeout"),
        }
    }
}

impl From<ExitStatus> for Exit {
    fn from(status: ExitStatus) -> Self {
        Exit::Code(
            status
                .code()
                .unwrap_or_else(|| 128 + status.signal().unwrap_or(0)),
        )
    }
}

/// A program that has ended.
#[derive(Debug, Clone)]
pub struct Ended {
    pub exit: Exit,
    /// Standard output; with `Program::merged`, standard error too. Bytes that are not UTF-8 are `\xNN`.
    pub out: String,
    pub err: String,
    /// The files of libibverbs that the program and its children loaded, if `report_library` was set.
    pub libraries: BTreeSet<String>,
}

impl Ended {
    pub fn ok(&self) -> bool {
        self.exit == Exit::Code(0)
    }

    /// The output, the error output and the exit code, as one text that can be compared.
    pub fn transcript(&self) -> String {
        let err = if self.err.is_empty() {
            String::new()
        } else {
            format!("stderr:\n{}", self.err)
        };
        format!("{}{err}exit code {}\n", self.out, self.exit)
    }
}

/// A program to start. Its output goes to files, so that it is there when the program has been killed.
#[derive(Debug, Clone)]
pub struct Program {
    argv: Vec<String>,
    prefix: Vec<String>,
    env: BTreeMap<String, String>,
    dir: PathBuf,
    /// The path of its output files, without `.out` and `.err`.
    files: PathBuf,
    limit: Duration,
    merged: bool,
    report_library: bool,
    before_others: bool,
}

impl Program {
    /// A program in the directory `dir`, whose output goes to `FILES.out` and `FILES.err`.
    pub fn new(argv: Vec<String>, dir: &Path, files: PathBuf) -> Self {
        Self {
            argv,
            prefix: Vec::new(),
            env: BTreeMap::new(),
            dir: dir.into(),
            files,
            limit: Duration::from_secs(60),
            merged: false,
            report_library: false,
            before_others: false,
        }
    }

    pub fn env(mut self, name: impl Into<String>, value: impl AsRef<Path>) -> Self {
        self.env
            .insert(name.into(), value.as_ref().to_string_lossy().into_owned());
        self
    }

    pub fn envs(mut self, vars: &BTreeMap<String, String>) -> Self {
        self.env.extend(vars.clone());
        self
    }

    /// The directory from which it takes libibverbs.
    pub fn library(self, dir: &Path) -> Self {
        self.env("LD_LIBRARY_PATH", dir)
    }

    pub fn dir(mut self, dir: &Path) -> Self {
        self.dir = dir.into();
        self
    }

    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// A command that runs this one, `nsenter ... --`, for example. The last that is added comes first.
    pub fn under<S: Into<String>>(mut self, command: impl IntoIterator<Item = S>) -> Self {
        let mut prefix: Vec<String> = command.into_iter().map(Into::into).collect();
        prefix.append(&mut self.prefix);
        self.prefix = prefix;
        self
    }

    /// Standard error goes where standard output goes.
    pub fn merged(mut self) -> Self {
        self.merged = true;
        self
    }

    /// Standard error goes to a file of its own, as it does unless `merged` was called.
    pub fn apart(mut self) -> Self {
        self.merged = false;
        self
    }

    /// Has the dynamic linker report which libibverbs it loads.
    pub fn report_library(mut self) -> Self {
        self.report_library = true;
        self
    }

    /// Gives the program the processor before programs of ordinary priority, where this user may
    /// set that.
    pub fn before_others(mut self) -> Self {
        self.before_others = true;
        self
    }

    pub fn argv(&self) -> &[String] {
        &self.argv
    }

    /// Starts the program in a process group of its own.
    pub fn spawn(&self) -> io::Result<Running> {
        let words = self.words();
        println!("+ {}", words.join(" "));
        let program = words
            .first()
            .ok_or_else(|| io::Error::other("no program"))?;
        let mut command = Command::new(program);
        let out = File::create(self.files.with_added("out"))?;
        let err = if self.merged {
            out.try_clone()?
        } else {
            File::create(self.files.with_added("err"))?
        };
        command.args(&words[1..]).current_dir(&self.dir);
        command.stdin(Stdio::null()).stdout(out).stderr(err);
        clear_variables(&mut command);
        command
            .env("LC_ALL", "C.UTF-8")
            .env("PATH", path_with_sbin());
        command.process_group(0);
        die_with_parent(&mut command);
        if self.before_others {
            set_priority(&mut command, BEFORE_OTHERS);
        }
        let child = command
            .spawn()
            .map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", self.argv.join(" "))))?;
        Ok(Running {
            child,
            program: self.clone(),
            started: Instant::now(),
        })
    }

    /// The whole command line. Variables are set by env(1) behind the commands in front, which they do not
    /// concern.
    fn words(&self) -> Vec<String> {
        let mut vars = self.env.clone();
        if self.report_library {
            vars.insert("LD_DEBUG".into(), "files".into());
            let report = self.files.with_added("ld").to_string_lossy().into_owned();
            vars.insert("LD_DEBUG_OUTPUT".into(), report);
        }
        let mut words = self.prefix.clone();
        if !vars.is_empty() {
            words.push("env".into());
            words.extend(vars.iter().map(|(name, value)| format!("{name}={value}")));
        }
        words.extend(self.argv.iter().cloned());
        words
    }

    /// Starts the program and waits for its end, at most for its time limit.
    pub fn run(&self) -> io::Result<Ended> {
        let mut running = self.spawn()?;
        let exit = running.wait(self.limit)?;
        running.ended(exit)
    }

    /// The same for a program that must exit with 0.
    pub fn succeed(&self) -> Result<Ended, Failure> {
        let ended = self.run()?;
        let words = self.argv.join(" ");
        let is_short = words.len() < 80 && !words.contains('\n');
        succeeded(if is_short { &words } else { &self.argv[0] }, &ended)?;
        Ok(ended)
    }
}

/// Passes if the program exited with 0.
pub fn succeeded(what: &str, ended: &Ended) -> Verdict {
    if ended.ok() {
        return Ok(());
    }
    let details = format!(
        "{}{}",
        last_lines(&ended.out, 30),
        last_lines(&ended.err, 30)
    );
    Err(Failure::new(format!("{what}: exit code {}", ended.exit)).with(details))
}

/// The last lines of a text.
pub fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<_> = text.lines().collect();
    let last = &lines[lines.len().saturating_sub(count)..];
    last.iter().map(|line| format!("{line}\n")).collect()
}

/// A program that runs. It is killed when this value is dropped, with all of its process group.
#[derive(Debug)]
pub struct Running {
    child: Child,
    program: Program,
    started: Instant,
}

impl Running {
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn argv(&self) -> &[String] {
        &self.program.argv
    }

    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Reads what the program has written to standard output until now.
    pub fn output(&self) -> String {
        read(&self.program.files.with_added("out"))
    }

    /// Asks it to end.
    pub fn terminate(&self) {
        signal(self.child.id() as i32, libc::SIGTERM);
    }

    /// Waits for the end for this time, then kills it. What is left of its process group is killed in any
    /// case.
    pub fn wait(&mut self, limit: Duration) -> io::Result<Exit> {
        let deadline = Instant::now() + limit;
        let exit = loop {
            if let Some(status) = self.child.try_wait()? {
                break status.into();
            }
            if Instant::now() >= deadline {
                break Exit::Timeout;
            }
            sleep(POLL);
        };
        self.kill();
        println!(
            "= {exit} after {:.1} s: {}",
            self.started.elapsed().as_secs_f64(),
            self.argv().join(" ")
        );
        Ok(exit)
    }

    /// Reads what the program wrote; to be called when it has ended.
    pub fn ended(&self, exit: Exit) -> io::Result<Ended> {
        let files = &self.program.files;
        let err = if self.program.merged {
            String::new()
        } else {
            read(&files.with_added("err"))
        };
        let libraries = if self.program.report_library {
            loaded(files)?
        } else {
            BTreeSet::new()
        };
        Ok(Ended {
            exit,
            out: read(&files.with_added("out")),
            err,
            libraries,
        })
    }

    fn kill(&mut self) {
        signal(-(self.child.id() as i32), libc::SIGKILL);
        let _ = self.child.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Waits until the condition holds; returns whether it did within the time.
pub fn wait_until(limit: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + limit;
    loop {
        if holds() {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        sleep(POLL);
    }
}

/// Reads a text file; a byte that is not UTF-8 becomes `\xNN`, so that comparisons see it. A file that is not
/// there is empty.
pub fn read(path: &Path) -> String {
    text_of(&fs::read(path).unwrap_or_default())
}

fn text_of(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        text += chunk.valid();
        text.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}")));
    }
    text
}

/// PATH, and the directories of `ip` and `rdma`, which ordinary users may not have in it.
pub fn path_with_sbin() -> String {
    std::env::var("PATH").unwrap_or_else(|_| "/usr/bin:/bin".into()) + ":/usr/sbin:/sbin"
}

/// Removes the variables that change what the libraries do.
pub fn clear_variables(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if CLEARED
            .iter()
            .any(|prefix| name.to_string_lossy().starts_with(prefix))
        {
            command.env_remove(name);
        }
    }
}

/// Has the kernel kill the process when the thread that starts it ends.
pub fn die_with_parent(command: &mut Command) {
    let set = || {
        // SAFETY: prctl with these constants reads no memory, and is safe between fork and exec.
        match unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    // SAFETY: `set` makes one system call, and touches neither locks nor the heap.
    unsafe { command.pre_exec(set) };
}

/// Gives the process a priority, as of nice(1). Without the right to it (CAP_SYS_NICE), it keeps its own.
pub fn set_priority(command: &mut Command, niceness: i32) {
    let set = move || {
        // SAFETY: setpriority takes integers and reads no memory; it is safe between fork and exec.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, niceness) };
        Ok(())
    };
    // SAFETY: `set` makes one system call, and touches neither locks nor the heap.
    unsafe { command.pre_exec(set) };
}

/// [`set_priority`] of the processes that this one has started, and those that they have started.
pub fn set_priority_of_descendants(niceness: i32) {
    let stat = |pid: i32| read(format!("/proc/{pid}/stat").as_ref());
    // The name, in parentheses, may have any characters.
    let parent = |stat: &str| stat.rsplit_once(')')?.1.split(' ').nth(2)?.parse().ok();
    let pids = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let parents: HashMap<i32, i32> = pids
        .filter_map(|pid| Some((pid, parent(&stat(pid))?)))
        .collect();
    let own = std::process::id() as i32;
    let above = |pid: &i32| parents.get(pid).copied();
    for pid in parents.keys() {
        if std::iter::successors(above(pid), above).any(|pid| pid == own) {
            // SAFETY: setpriority takes integers and reads no memory.
            unsafe { libc::setpriority(libc::PRIO_PROCESS, *pid as libc::id_t, niceness) };
        }
    }
}

/// Sends a signal to a process, or (negative) to a process group. That it has ended is no error.
pub fn signal(id: i32, number: i32) {
    // SAFETY: kill takes two integers and reads no memory.
    unsafe { libc::kill(id, number) };
}

/// The libraries in the dynamic linker's reports, which are removed.
fn loaded(files: &Path) -> io::Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    let (Some(dir), Some(name)) = (files.parent(), files.file_name()) else {
        return Ok(found);
    };
    let prefix = format!("{}.ld.", name.to_string_lossy());
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if !path
            .file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with(&prefix))
        {
            continue;
        }
        let report = read(&path);
        let calls = report
            .lines()
            .filter_map(|line| line.split_once("calling init: "));
        found.extend(
            calls
                .map(|(_, file)| file.trim().into())
                .filter(|file: &String| {
                    file.rsplit('/')
                        .next()
                        .is_some_and(|name| name.starts_with("libibverbs.so"))
                }),
        );
        fs::remove_file(&path)?;
    }
    Ok(found)
}

/// `a/b` with `x` added is `a/b.x`, also where `b` has a dot.
trait WithAdded {
    fn with_added(&self, extension: &str) -> PathBuf;
}

impl WithAdded for PathBuf {
    fn with_added(&self, extension: &str) -> PathBuf {
        let mut path = self.clone().into_os_string();
        path.push(".");
        path.push(extension);
        path.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_not_text_stay_distinct() {
        assert_eq!(text_of(b"a\x80\xffb"), "a\\x80\\xffb");
    }

    fn sh(name: &str, script: &str) -> Program {
        let dir =
            std::env::temp_dir().join(format!("compat-process-{}-{name}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        Program::new(
            vec!["sh".into(), "-c".into(), script.into()],
            &dir,
            dir.join("a.b"),
        )
    }

    #[test]
    fn output_and_exit_code() {
        let ended = sh("code", "echo out; echo err >&2; exit 3").run().unwrap();
        assert_eq!(
            (ended.exit, ended.out.as_str(), ended.err.as_str()),
            (Exit::Code(3), "out\n", "err\n")
        );
        assert_eq!(ended.transcript(), "out\nstderr:\nerr\nexit code 3\n");
        assert_eq!(
            sh("signal", "kill -9 $$").run().unwrap().exit,
            Exit::Code(137)
        );
    }

    #[test]
    fn merged_output_keeps_the_order() {
        let ended = sh("merged", "echo 1; echo 2 >&2; echo 3")
            .merged()
            .run()
            .unwrap();
        assert_eq!((ended.out.as_str(), ended.err.as_str()), ("1\n2\n3\n", ""));
    }

    #[test]
    fn a_time_limit_kills_the_whole_group() {
        let program = sh("limit", "sleep 60 & echo $!; wait").limit(Duration::from_millis(300));
        let ended = program.run().unwrap();
        assert_eq!(ended.exit, Exit::Timeout);
        let path = PathBuf::from(format!("/proc/{}/stat", ended.out.trim()));
        // A killed process may remain as a zombie until its new parent waits for it.
        let gone = || !path.exists() || read(&path).contains(") Z ");
        assert!(wait_until(Duration::from_secs(5), gone));
    }

    #[test]
    fn variables_of_the_libraries_are_not_inherited() {
        let ended = sh("env", "echo $IBV_UROCE.$LD_LIBRARY_PATH.$LC_ALL")
            .env("IBV_UROCE", "1")
            .run();
        assert_eq!(ended.unwrap().out, "1..C.UTF-8\n");
    }

    #[test]
    fn the_last_prefix_comes_first() {
        let program = sh("prefix", "echo $A$B")
            .under(["env", "A=1"])
            .under(["env", "A=2", "B=2"]);
        assert_eq!(program.run().unwrap().out, "12\n");
    }
}
