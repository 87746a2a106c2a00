//! A case: its name, where it runs, what it needs, and what it does.

use std::time::Duration;

use serde::Deserialize;

use crate::arguments::Arguments;
use crate::context::Context;
use crate::pattern::Patterns;
use crate::sandbox::Sandbox;
use crate::verdict::Verdict;

/// The shortest of `make check`, `make test` and `make test-all` that runs the case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tier {
    Check,
    Test,
    All,
}

/// The resources that a case needs while it runs. The scheduler starts it when all of this is free.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Needs {
    /// CPU time that it uses, in percent of one core.
    pub cpu: u32,
    /// Memory in MiB.
    pub memory: u64,
    /// Names of resources that one case at a time uses: `apt`, for example.
    pub tokens: Vec<&'static str>,
    /// No other case may run meanwhile.
    pub alone: bool,
    /// Boots virtual machines, one at a time.
    pub machine: bool,
    /// Compiles for the most part. It runs beside the cases that fill the machine, with a low priority: it
    /// takes the processors while those wait.
    pub batch: bool,
    /// Programs of cases/programs.toml, which are compiled before it starts.
    pub programs: Vec<String>,
}

impl Default for Needs {
    fn default() -> Self {
        Self {
            cpu: 100,
            memory: 100,
            tokens: Vec::new(),
            alone: false,
            machine: false,
            batch: false,
            programs: Vec::new(),
        }
    }
}

type Body = Box<dyn Fn(&Context) -> Verdict + Send + Sync>;
type GuestBody = Box<dyn Fn(Arguments) -> Verdict + Send + Sync>;

/// One run of a process of its own, with one verdict, or with one for each of `members`.
pub struct Case {
    /// `suite/group/name`.
    pub name: String,
    pub sandbox: Sandbox,
    pub tier: Tier,
    /// After this time it is killed and has failed.
    pub limit: Duration,
    pub needs: Needs,
    /// The names of the cases that one run reports, if there are several: all cases of one virtual machine,
    /// for example. A member without a verdict has failed.
    pub members: Vec<String>,
    /// The estimated duration; used until a run has been recorded.
    pub estimate: Duration,
    /// An action of the runner before the case's process starts, outside of its sandbox: for what
    /// needs the network.
    pub before: Option<fn() -> Verdict>,
    body: Body,
    /// The body that this program runs in the virtual machine that the case boots.
    guest: Option<GuestBody>,
}

impl Case {
    pub fn new(
        name: impl Into<String>,
        body: impl Fn(&Context) -> Verdict + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            sandbox: Sandbox::Host,
            tier: Tier::Test,
            limit: Duration::from_secs(120),
            needs: Needs::default(),
            members: Vec::new(),
            estimate: Duration::from_secs(2),
            before: None,
            body: Box::new(body),
            guest: None,
        }
    }

    /// Sets the body of the case, in place of the one that `new` was given.
    pub fn body(mut self, body: impl Fn(&Context) -> Verdict + Send + Sync + 'static) -> Self {
        self.body = Box::new(body);
        self
    }

    /// Sets the body that this program runs in the virtual machine, when the case's script starts
    /// it there with `--guest`.
    pub fn guest(mut self, body: impl Fn(Arguments) -> Verdict + Send + Sync + 'static) -> Self {
        self.guest = Some(Box::new(body));
        self
    }

    pub fn sandbox(mut self, sandbox: Sandbox) -> Self {
        self.sandbox = sandbox;
        if sandbox == Sandbox::Vm {
            self.needs.memory = 2500;
            self.estimate = Duration::from_secs(300);
            self.needs.machine = true;
        }
        self
    }

    /// Marks the case as one that boots a virtual machine at times, also if that is not its sandbox.
    pub fn boots_machine(mut self) -> Self {
        self.needs.machine = true;
        self
    }

    pub fn tier(mut self, tier: Tier) -> Self {
        self.tier = tier;
        self
    }

    /// The time limit, in seconds.
    pub fn limit(mut self, seconds: u64) -> Self {
        self.limit = Duration::from_secs(seconds);
        self
    }

    /// CPU time in percent of one core.
    pub fn cpu(mut self, percent: u32) -> Self {
        self.needs.cpu = percent;
        self
    }

    pub fn memory(mut self, mib: u64) -> Self {
        self.needs.memory = mib;
        self
    }

    pub fn token(mut self, token: &'static str) -> Self {
        self.needs.tokens.push(token);
        self
    }

    pub fn alone(mut self) -> Self {
        self.needs.alone = true;
        self
    }

    /// Marks the case as one that compiles for the most part, and in which nothing depends on how
    /// fast it runs.
    pub fn batch(mut self) -> Self {
        self.needs.batch = true;
        self
    }

    /// Programs of cases/programs.toml that it runs.
    pub fn programs(mut self, names: &[&str]) -> Self {
        self.needs
            .programs
            .extend(names.iter().map(|name| name.to_string()));
        self
    }

    pub fn members(mut self, names: Vec<String>) -> Self {
        self.members = names;
        self
    }

    /// The estimated duration, in seconds.
    pub fn estimate(mut self, seconds: u64) -> Self {
        self.estimate = Duration::from_secs(seconds);
        self
    }

    /// Sets an action for the host, run before each try. An error is the case's verdict.
    pub fn before(mut self, action: fn() -> Verdict) -> Self {
        self.before = Some(action);
        self
    }

    /// The names that this case reports.
    pub fn names(&self) -> Vec<&str> {
        match self.members.as_slice() {
            [] => vec![&self.name],
            members => members.iter().map(String::as_str).collect(),
        }
    }

    /// The names that it reports of those that the patterns select.
    pub fn selected(&self, patterns: &Patterns) -> Vec<&str> {
        let names = self.names().into_iter();
        names.filter(|name| patterns.select(name)).collect()
    }

    pub fn run(&self, context: &Context) -> Verdict {
        (self.body)(context)
    }

    pub fn run_in_guest(&self, args: Arguments) -> Verdict {
        match &self.guest {
            Some(body) => body(args),
            None => Err(format!("{} runs nothing in a virtual machine", self.name).into()),
        }
    }
}
