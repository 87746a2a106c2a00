//! A scene: one program, run in the same surroundings on the C library and on ours. Output and exit code
//! must be equal, and if the scene asks for it, also the bytes passed to the kernel, and the leaks that
//! valgrind finds.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use super::leaks::Leaks;
use super::record::{self, Record};
use super::sysfs::Tree;
use crate::checks::Check;
use crate::compare;
use crate::context::{Context, Library};
use crate::process::{Exit, Program, read};
use crate::sandbox;
use crate::verdict::{Details, Failure, Verdict, ensure};

/// Where a scene's tree of sysfs is. Scenes run in a namespace, which has a /tmp of its own.
pub const SYS: &str = "/tmp/sys";
/// The file in which the fake kernel records calls.
const LOG: &str = "/tmp/fake.log";

type Prepare = Box<dyn Fn(&Context) -> Verdict + Send + Sync>;
pub type Mask = fn(&str) -> String;

/// See the module. Built by its methods, and made a check by `check`.
pub struct Scene {
    name: String,
    argv: Vec<String>,
    env: BTreeMap<String, String>,
    prepare: Vec<Prepare>,
    in_namespace: String,
    as_nobody: bool,
    limits: Option<String>,
    search: Option<String>,
    dir: Option<String>,
    real_kernel: bool,
    undefined: bool,
    log: Option<String>,
    leaks: bool,
    limit: Duration,
    mask_c: Option<Mask>,
    mask: Option<Mask>,
    exit: Option<i32>,
    record: Record,
}

impl Scene {
    /// A program of cases/programs.toml or of the distribution, with its arguments.
    pub fn new<S: Into<String>>(
        name: impl Into<String>,
        argv: impl IntoIterator<Item = S>,
    ) -> Self {
        Self {
            name: name.into(),
            argv: argv.into_iter().map(Into::into).collect(),
            env: BTreeMap::new(),
            prepare: Vec::new(),
            in_namespace: String::new(),
            as_nobody: false,
            limits: None,
            search: None,
            dir: None,
            real_kernel: false,
            undefined: false,
            log: None,
            leaks: false,
            limit: Duration::from_secs(60),
            mask_c: None,
            mask: None,
            exit: None,
            record: Record::Nothing,
        }
    }

    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// Adds the devices of `tree` to sysfs and to netlink (which answers only with FAKE_NL).
    pub fn tree(mut self, tree: Tree) -> Self {
        self.env
            .entry("SYSFS_PATH".into())
            .or_insert_with(|| SYS.into());
        self.env
            .entry("FAKE_NL_DEVICES".into())
            .or_insert_with(|| tree.netlink());
        self.prepare(move |_| Ok(tree.write(SYS.as_ref())?))
    }

    /// Adds an action before the runs; actions run in the order of these calls.
    pub fn prepare(mut self, action: impl Fn(&Context) -> Verdict + Send + Sync + 'static) -> Self {
        self.prepare.push(Box::new(action));
        self
    }

    /// Shell commands to run before the program, in a mount namespace of its own.
    pub fn in_namespace(mut self, commands: impl Into<String>) -> Self {
        self.in_namespace = commands.into();
        self
    }

    /// The program runs as an ordinary user.
    pub fn as_nobody(mut self) -> Self {
        self.as_nobody = true;
        self
    }

    /// An argument for prlimit.
    pub fn limits(mut self, argument: impl Into<String>) -> Self {
        self.limits = Some(argument.into());
        self
    }

    /// A further directory in LD_LIBRARY_PATH.
    pub fn search(mut self, dir: impl Into<String>) -> Self {
        self.search = Some(dir.into());
        self
    }

    /// The program's working directory.
    pub fn dir(mut self, dir: impl Into<String>) -> Self {
        self.dir = Some(dir.into());
        self
    }

    /// Runs the scene on this machine's kernel, not on the fake one: in the virtual machine.
    pub fn real_kernel(mut self, wanted: bool) -> Self {
        self.real_kernel = wanted;
        self
    }

    /// The C library reads uninitialized memory: outputs are not compared, ours only has to exit with 0.
    pub fn undefined(mut self) -> Self {
        self.undefined = true;
        self
    }

    /// A file that the library writes, which is compared too.
    pub fn log(mut self, file: impl Into<String>) -> Self {
        self.log = Some(file.into());
        self
    }

    /// Under valgrind, ours must neither lose more bytes nor have more errors than the C library.
    pub fn leaks(mut self, wanted: bool) -> Self {
        self.leaks = wanted;
        self
    }

    pub fn limit(mut self, seconds: u64) -> Self {
        self.limit = Duration::from_secs(seconds);
        self
    }

    /// Makes the C library's output equal to ours, for an intended difference.
    pub fn mask_c(mut self, mask: Mask) -> Self {
        self.mask_c = Some(mask);
        self
    }

    /// Masks what varies in both outputs, and in what reaches the kernel.
    pub fn mask(mut self, mask: Mask) -> Self {
        self.mask = Some(mask);
        self
    }

    /// The exit code that our run must have.
    pub fn exit(mut self, code: i32) -> Self {
        self.exit = Some(code);
        self
    }

    pub fn record(mut self, record: Record) -> Self {
        self.record = record;
        self
    }

    /// Whether it is marked as one to run under valgrind.
    pub fn can_leak(&self) -> bool {
        self.leaks
    }

    /// The check of this scene: itself, `bytes` if it records, and `leaks` if that is wanted.
    pub fn check(self) -> Check {
        let mut parts = vec![""];
        if self.record != Record::Nothing {
            parts.push("bytes");
        }
        if self.leaks {
            parts.push("leaks");
        }
        Check::with_parts(self.name.clone(), parts, move |cx| self.verdicts(cx))
    }

    /// The same, under valgrind only.
    pub fn check_of_leaks(self) -> Check {
        Check::new(self.name.clone(), move |cx| {
            for action in &self.prepare {
                action(cx)?;
            }
            self.compare_leaks(cx)
        })
    }

    /// Prepares it, runs it on both libraries, and compares the outputs.
    pub fn compared(&self, cx: &Context) -> Verdict {
        for action in &self.prepare {
            action(cx)?;
        }
        let c = self.run(cx, Library::C)?;
        self.compare(&c, &self.run(cx, Library::Ours)?)
    }

    fn verdicts(&self, cx: &Context) -> Result<Vec<Verdict>, Failure> {
        for action in &self.prepare {
            action(cx)?;
        }
        let c = self.run(cx, Library::C)?;
        let ours = self.run(cx, Library::Ours)?;
        let mut verdicts = vec![self.compare(&c, &ours)];
        if self.record != Record::Nothing {
            let recorded = ensure(!c.bytes.is_empty(), "the fake kernel recorded nothing");
            let same = || compare::same(("C library", &c.bytes), ("ours", &ours.bytes));
            verdicts.push(recorded.and_then(|()| same()));
        }
        if self.leaks {
            verdicts.push(self.compare_leaks(cx));
        }
        Ok(verdicts)
    }

    fn compare(&self, c: &SceneOutcome, ours: &SceneOutcome) -> Verdict {
        for (library, outcome) in [("the C library", c), ("ours", ours)] {
            ensure(
                outcome.exit != Exit::Timeout,
                format!("with {library}: not finished after {:?}", self.limit),
            )
            .with(&outcome.text)?;
        }
        let wanted = if self.undefined { Some(0) } else { self.exit };
        if let Some(code) = wanted {
            let why = format!("ours: exit code {}, not {code}", ours.exit);
            ensure(ours.exit == Exit::Code(code), why).with(&ours.text)?;
        }
        if self.undefined {
            return Ok(());
        }
        compare::same(("C library", &c.text), ("ours", &ours.text))
    }

    /// Runs the program once, without comparing.
    pub fn run(&self, cx: &Context, library: Library) -> Result<SceneOutcome, Failure> {
        let mut program = self.program(cx, library, &self.argv)?;
        if self.record != Record::Nothing {
            fs::write(LOG, "")?;
            fs::set_permissions(LOG, fs::Permissions::from_mode(0o666))?;
            program = program.env("FAKE_LOG", LOG);
        }
        let ended = program.run()?;
        let mut text = super::transcript(cx, library, &ended);
        if let Some(file) = &self.log {
            text += &read(Path::new(file));
            let _ = fs::remove_file(file);
        }
        let masks = [self.mask, self.mask_c.filter(|_| library == Library::C)];
        text = masks
            .into_iter()
            .flatten()
            .fold(text, |text, mask| mask(&text));
        let bytes = record::comparable(&read(LOG.as_ref()), self.record);
        Ok(SceneOutcome {
            exit: ended.exit,
            text,
            bytes: self.mask.map_or_else(|| bytes.clone(), |mask| mask(&bytes)),
        })
    }

    /// The program with all that surrounds it.
    fn program(&self, cx: &Context, library: Library, argv: &[String]) -> Result<Program, Failure> {
        let mut program = if self.real_kernel {
            super::plain_program(cx, library, argv)
        } else {
            super::program(cx, library, argv)?
        };
        program = program.envs(&self.env).limit(self.limit);
        if let Some(dir) = &self.search {
            let path = format!("{}:{dir}", cx.library_dir(library).display());
            program = program.env("LD_LIBRARY_PATH", path);
        }
        if let Some(dir) = &self.dir {
            program = program.dir(Path::new(dir));
        }
        if self.as_nobody {
            program = program.under(sandbox::as_ordinary_user());
        }
        if let Some(argument) = &self.limits {
            program = program.under(["prlimit", argument]);
        }
        if !self.in_namespace.is_empty() {
            let script = format!("{}\nexec \"$@\"", self.in_namespace);
            program = program.under(["unshare", "-m", "sh", "-c", &script, "launch"]);
        }
        Ok(program)
    }

    fn compare_leaks(&self, cx: &Context) -> Verdict {
        let c = self.leaks_of(cx, Library::C)?;
        let ours = self.leaks_of(cx, Library::Ours)?;
        let why = format!("ours: {}; C library: {}", ours.counts, c.counts);
        ensure(!ours.counts.exceed(&c.counts), why).with(&ours.report)
    }

    fn leaks_of(&self, cx: &Context, library: Library) -> Result<Leaks, Failure> {
        let report = format!("/tmp/valgrind.{}", library.name());
        let mut argv = self.argv.clone();
        argv[0] = cx.built(&argv[0]).unwrap_or_else(|_| argv[0].clone());
        let argv: Vec<String> = Leaks::command(&report).into_iter().chain(argv).collect();
        // valgrind is some 50 times slower.
        let limit = self.limit.max(Duration::from_secs(240));
        let program = self.program(cx, library, &argv)?.limit(limit);
        let _ = fs::remove_file(&report);
        let ended = program.run()?;
        if ended.exit == Exit::Code(127) {
            return Err(Failure::skip("valgrind is missing"));
        }
        Leaks::read(Path::new(&report))
            .ok_or_else(|| Failure::new("valgrind reported no result").with(ended.transcript()))
    }
}

/// The outcome of a run: exit, output, and what the fake kernel recorded.
#[derive(Debug, Clone)]
pub struct SceneOutcome {
    pub exit: Exit,
    /// Output, exit code and log.
    pub text: String,
    /// The calls and bytes that the fake kernel recorded.
    pub bytes: String,
}
