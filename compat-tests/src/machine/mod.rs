//! Cases that run in the virtual machine: this machine's programs and libraries on a distribution's
//! kernel with Soft-RoCE. One machine boots and runs all its members one after the other.
//!
//! A suite makes a `Member` of each of its cases, and `Machine::case` makes one `Case` of the members of a
//! machine. That case's process boots the machine (`host`), in which this program runs again and reports
//! the members (`guest`). If the kernel panics or hangs, the rest runs in a new machine. The member that
//! was running runs once more, because Soft-RoCE can panic with either library; it has failed if the
//! machine stops again.

pub mod boot;
pub mod command;
pub mod guest;
mod host;
mod initrd;
pub mod kernel;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::case::{Case, Tier};
use crate::checks::Check;
use crate::context::Context;
use crate::sandbox::Sandbox;
use crate::verdict::{Failure, Verdict};

/// An action on the host before the first boot, given the names of all members. It may report some
/// of them, and leave files for the guest in the directory `FILES` of the case.
type Prepare = fn(&Context, &[String]) -> Verdict;

/// A machine with this machine's file system as its root, whose changes are discarded, and the device rxe0 on
/// 10.9.9.1 (GID index 1) and fd09::1 (GID index 2).
#[derive(Debug, Clone)]
pub struct Machine {
    name: String,
    tier: Tier,
    estimate: u64,
    prepare: Option<Prepare>,
}

impl Machine {
    /// The machine of a case with this name. The names of its members need not be below it.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            tier: Tier::Test,
            estimate: 300,
            prepare: None,
        }
    }

    pub fn tier(self, tier: Tier) -> Self {
        Self { tier, ..self }
    }

    /// How long all members take together, in seconds.
    pub fn estimate(self, estimate: u64) -> Self {
        Self { estimate, ..self }
    }

    pub fn prepare(self, prepare: Prepare) -> Self {
        let prepare = Some(prepare);
        Self { prepare, ..self }
    }

    /// The case that boots the machine and runs these members in it.
    pub fn case(self, members: Vec<Member>) -> Case {
        let names = members.iter().flat_map(|member| member.names.clone());
        let names: Vec<String> = names.collect();
        let programs = members.iter().flat_map(|member| &member.programs);
        let programs: BTreeSet<&str> = programs.map(String::as_str).collect();
        let programs: Vec<&str> = programs.into_iter().collect();
        let case = Case::new(self.name.clone(), |_| Ok(()))
            .sandbox(Sandbox::Vm)
            .tier(self.tier)
            .limit(HOURS)
            .estimate(self.estimate)
            .programs(&programs);
        let members = Arc::new(members);
        let inside = members.clone();
        case.body(move |cx| host::run(cx, &self, &members))
            .members(names)
            .guest(move |args| guest::run(args, &inside))
    }
}

/// The directory of the case that the guest copies into its memory.
pub const FILES: &str = "files";

/// The directory of the files in the guest.
pub fn files_in_guest() -> PathBuf {
    Path::new("/run").join(FILES)
}

/// A verdict, and why the program had to run again before it.
pub struct Judged {
    pub verdict: Verdict,
    /// Empty if it ran once.
    pub again: String,
}

impl From<Verdict> for Judged {
    fn from(verdict: Verdict) -> Self {
        Self {
            verdict,
            again: String::new(),
        }
    }
}

type MachineBody = Box<dyn Fn(&Context) -> Result<Vec<Judged>, Failure> + Send + Sync>;

/// A case, or several with the verdicts of one run, that run in a machine.
pub struct Member {
    names: Vec<String>,
    /// The tier, for suites whose members run in machines of several tiers: `Test`, unless it says
    /// otherwise.
    pub tier: Tier,
    /// The machine hangs if a member takes longer.
    limit: Duration,
    programs: Vec<String>,
    body: MachineBody,
}

/// How long a member may take, unless it says otherwise.
const LIMIT: Duration = Duration::from_secs(400);

impl Member {
    pub fn new<J: Into<Judged>>(
        name: impl Into<String>,
        body: impl Fn(&Context) -> J + Send + Sync + 'static,
    ) -> Self {
        Self::several(vec![name.into()], move |cx| Ok(vec![body(cx).into()]))
    }

    /// A member with a verdict for each of these names. An error is the verdict of all.
    pub fn several(
        names: Vec<String>,
        body: impl Fn(&Context) -> Result<Vec<Judged>, Failure> + Send + Sync + 'static,
    ) -> Self {
        Self {
            names,
            tier: Tier::Test,
            limit: LIMIT,
            programs: Vec::new(),
            body: Box::new(body),
        }
    }

    /// A check of a group that runs elsewhere too.
    pub fn of_check(group: &str, check: Check) -> Self {
        Self::several(check.names(group), move |cx| {
            let verdicts = check.verdicts(cx)?;
            Ok(verdicts.into_iter().map(Judged::from).collect())
        })
    }

    pub fn tier(self, tier: Tier) -> Self {
        Self { tier, ..self }
    }

    /// The time limit, in seconds.
    pub fn limit(mut self, seconds: u64) -> Self {
        self.limit = Duration::from_secs(seconds);
        self
    }

    /// Programs of cases/programs.toml that it runs.
    pub fn programs(mut self, names: &[&str]) -> Self {
        self.programs = names.iter().map(|name| name.to_string()).collect();
        self
    }

    fn selected<'a>(&'a self, cx: &'a Context) -> impl Iterator<Item = &'a String> {
        self.names.iter().filter(|name| cx.concerns(name))
    }
}

/// The limit of a machine's case, in seconds. Each member has its own; this one ends a case that they do
/// not.
const HOURS: u64 = 3 * 3600;
