//! Boots the virtual machine: QEMU with a distribution's kernel, whose root is a directory of this
//! machine. What the guest changes there is discarded.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::kernel;
use crate::context::Context;
use crate::process::{Program, last_lines, path_with_sbin, read};
use crate::verdict::{Failure, Verdict, ensure};

/// The processor and the kernel of a machine, and what its initial RAM disk runs.
#[derive(Debug, Clone)]
pub enum Hardware {
    /// This machine's architecture, with the kernel of `kernel::dir` and this machine's busybox.
    Native,
    /// arm64. The directory of its kernel has `vmlinuz` and `mods`, as that of `kernel::dir`.
    Arm64 { kernel: PathBuf, busybox: PathBuf },
}

/// How to boot.
#[derive(Debug, Clone)]
pub struct Boot {
    /// The machine loads the modules of RDMA, and has the device rxe0.
    pub rdma: bool,
    /// The guest's root directory.
    pub root: PathBuf,
    pub limit: Duration,
    pub hardware: Hardware,
    pub cable: Option<Cable>,
}

impl Default for Boot {
    fn default() -> Self {
        Self {
            rdma: true,
            root: "/".into(),
            limit: Duration::from_secs(600),
            hardware: Hardware::Native,
            cable: None,
        }
    }
}

/// The interface `eth0` is one end of a cable.
#[derive(Debug, Clone)]
pub struct Cable {
    /// QEMU's options for the cable (`-netdev stream`).
    pub options: String,
    /// The MAC address of this end. Soft-RoCE takes a peer with its own for itself.
    pub mac: &'static str,
}

/// How the machine ended.
#[derive(Debug, PartialEq, Eq)]
pub enum End {
    /// The script ended with this status, and the machine switched itself off.
    Status(i32),
    /// The guest did not get that far; why, as far as the console says it.
    Stopped(String),
}

/// The result of one start of QEMU.
enum Start {
    /// The script has run, or was running.
    Ended(End),
    /// The machine stopped before it ran the script, for this reason.
    Failed(String),
}

/// How many times a machine is started until it runs the script. Under QEMU's emulation, the kernel panics
/// now and then while it patches its own code ("Oops: int3").
const STARTS: u32 = 3;
/// The time until it runs the script, on a busy host.
const BOOTING: Duration = Duration::from_secs(240);
/// The file of the case's directory with what the guest's part of a case prints.
const GUEST_LOG: &str = "guest.log";
/// The guest's memory in MiB.
const MEMORY: u32 = 2048;

impl Boot {
    /// A machine with the device rxe0 that is switched off after this many seconds.
    pub fn limit(seconds: u64) -> Self {
        Self {
            limit: Duration::from_secs(seconds),
            ..Self::default()
        }
    }

    /// Boots, and runs a bash script as root in the case's directory, which the guest shares as `$OUT`.
    /// The console is in the output file of QEMU.
    pub fn run(&self, cx: &Context, script: &str) -> Result<End, Failure> {
        self.run_unless(cx, script, || false)
    }

    /// Like `run`; the script must end with status 0.
    pub fn succeeds(&self, cx: &Context, script: &str) -> Verdict {
        let end = self.run(cx, script)?;
        ensure(end == End::Status(0), format!("the machine: {end:?}"))
    }

    /// Like `run`; ends the machine early if `hangs` returns true.
    pub fn run_unless(
        &self,
        cx: &Context,
        script: &str,
        mut hangs: impl FnMut() -> bool,
    ) -> Result<End, Failure> {
        let boot = cx.dir().join(".boot");
        fs::create_dir_all(&boot)?;
        fs::write(boot.join("script"), script)?;
        fs::copy(cx.source("vm/setup"), boot.join("setup"))?;
        for _ in 1..STARTS {
            match self.start(cx, &boot, &mut hangs)? {
                Start::Ended(end) => return Ok(end),
                Start::Failed(why) => println!("the machine does not start: {why}"),
            }
        }
        match self.start(cx, &boot, &mut hangs)? {
            Start::Ended(end) => Ok(end),
            Start::Failed(why) => Err(format!("the machine does not start: {why}").into()),
        }
    }

    /// Boots, and runs the guest's part of this case (`Case::guest`). What it prints is in the file
    /// `guest.log`.
    pub fn run_guest_part(
        &self,
        cx: &Context,
        hangs: impl FnMut() -> bool,
    ) -> Result<End, Failure> {
        let own = std::env::current_exe()?;
        let mut words = vec![
            own.display().to_string(),
            "--guest".into(),
            cx.name.clone(),
            "$OUT".into(),
            cx.paths.staged.display().to_string(),
        ];
        words.extend(cx.patterns().iter().cloned());
        let quoted: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
        // Not on the console, which may cut lines.
        let script = format!("exec {} >>\"$OUT/{GUEST_LOG}\" 2>&1\n", quoted.join(" "));
        self.run_unless(cx, &script, hangs)
    }

    /// Runs QEMU once.
    fn start(
        &self,
        cx: &Context,
        boot: &Path,
        hangs: &mut impl FnMut() -> bool,
    ) -> Result<Start, Failure> {
        let (status, script) = (boot.join("status"), boot.join("started"));
        for file in [&status, &script] {
            if file.exists() {
                fs::remove_file(file)?;
            }
        }
        let mut running = self.qemu(cx, boot)?.spawn()?;
        let begin = Instant::now();
        let why = loop {
            if !running.is_running() {
                break String::new();
            }
            let limit = if script.exists() { self.limit } else { BOOTING };
            if begin.elapsed() > limit {
                break format!("not finished after {} s", limit.as_secs());
            }
            if script.exists() && hangs() {
                break "it hangs".into();
            }
            sleep(Duration::from_millis(50));
        };
        running.wait(Duration::ZERO)?;
        fs::remove_file(boot.join("initrd"))?;
        if let Ok(code) = read(&status).trim().parse() {
            return Ok(Start::Ended(End::Status(code)));
        }
        let why = reason(why, &running.output());
        if script.exists() {
            Ok(Start::Ended(End::Stopped(why)))
        } else {
            Ok(Start::Failed(why))
        }
    }

    fn qemu(&self, cx: &Context, boot: &Path) -> Result<Program, Failure> {
        let (kernel, busybox) = match &self.hardware {
            Hardware::Native => (kernel::dir()?, find("busybox")?),
            Hardware::Arm64 { kernel, busybox } => (kernel.clone(), busybox.clone()),
        };
        let initrd = boot.join("initrd");
        super::initrd::write(&initrd, &kernel, &busybox, &cx.source("vm/init"))?;
        let mut words = self.hardware.words();
        words.extend(["-m".into(), MEMORY.to_string(), "-smp".into(), "2".into()]);
        words.extend(
            "-display none -serial stdio -monitor none -no-reboot"
                .split(' ')
                .map(String::from),
        );
        match &self.cable {
            None => words.extend(["-nic".into(), "none".into()]),
            Some(Cable { options, mac }) => words.extend([
                "-netdev".into(),
                format!("stream,id=cable,{options}"),
                "-device".into(),
                format!("virtio-net-pci,netdev=cable,mac={mac},romfile="),
            ]),
        }
        let path = |path: &Path| path.to_string_lossy().into_owned();
        words.extend(["-kernel".into(), path(&kernel.join("vmlinuz"))]);
        words.extend(["-initrd".into(), path(&initrd)]);
        let rdma = if self.rdma { "yes" } else { "no" };
        let line = format!(
            "{} quiet panic=-1 oops=panic rdma={rdma}",
            self.hardware.kernel_options()
        );
        words.extend(["-append".into(), line]);
        words.extend(["-virtfs".into(), share(&self.root, "root,readonly=on")]);
        words.extend(["-virtfs".into(), share(cx.dir(), "out")]);
        // Programs on one of its processors poll for those on the other, which must run meanwhile.
        Ok(cx.program(words).merged().before_others())
    }
}

impl Hardware {
    /// QEMU's program, and its options for the processor.
    fn words(&self) -> Vec<String> {
        // KVM is not the default, because some machines have a /dev/kvm that cannot run a guest.
        let accel = std::env::var("VM_ACCEL").unwrap_or_else(|_| "tcg,thread=multi".into());
        let line = match self {
            Hardware::Native => format!("qemu-system-x86_64 -accel {accel} -cpu max"),
            // By default, pointer authentication is computed as the architecture says, which takes long.
            Hardware::Arm64 { .. } => {
                "qemu-system-aarch64 -machine virt -accel tcg,thread=multi -cpu max,pauth-impdef=on"
                    .into()
            }
        };
        line.split(' ').map(String::from).collect()
    }

    fn kernel_options(&self) -> &'static str {
        match self {
            // no_timer_check: on a loaded machine the emulated timer may be late, and the kernel then panics.
            Hardware::Native => "console=ttyS0 tsc=reliable no_timer_check mitigations=off",
            Hardware::Arm64 { .. } => "console=ttyAMA0",
        }
    }
}

/// The options of a shared directory. A comma in the value of a QEMU option is doubled.
fn share(dir: &Path, tag: &str) -> String {
    let dir = dir.to_string_lossy().replace(',', ",,");
    format!("local,path={dir},security_model=none,multidevs=remap,mount_tag={tag}")
}

/// A program in PATH or in the directories of system programs.
fn find(name: &str) -> Result<PathBuf, Failure> {
    let path = path_with_sbin();
    let found = path.split(':').map(|dir| Path::new(dir).join(name));
    found
        .into_iter()
        .find(|file| file.exists())
        .ok_or_else(|| Failure::new(format!("{name} is missing: run scripts/install-deps vm")))
}

/// Why the machine stopped: what the runner knows, and what the kernel said last.
fn reason(why: String, console: &str) -> String {
    let telling = ["Kernel panic", "BUG:", "RIP:"];
    let lines: Vec<&str> = console
        .lines()
        .map(str::trim_end)
        .filter(|line| telling.iter().any(|text| line.contains(text)))
        .collect();
    let last = lines[lines.len().saturating_sub(3)..].join("; ");
    match (why.is_empty(), last.is_empty()) {
        (false, true) => why,
        (false, false) => format!("{why}: {last}"),
        (true, false) => last,
        (true, true) => format!("no reason on the console:\n{}", last_lines(console, 10)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_the_kernels() {
        let console =
            "a\r\n[1] BUG: unable\r\nb\n[2] RIP: 0010:rxe\r\n[3] Kernel panic - not syncing\r\n";
        let last = "[1] BUG: unable; [2] RIP: 0010:rxe; [3] Kernel panic - not syncing";
        assert_eq!(reason(String::new(), console), last);
        assert_eq!(reason("it hangs".into(), "a"), "it hangs");
    }

    #[test]
    fn commas_are_doubled() {
        assert!(share(Path::new("/a,b"), "out").contains("path=/a,,b,"));
    }
}
