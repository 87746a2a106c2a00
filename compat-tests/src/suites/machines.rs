//! The virtual machines, and which suites have members in each. With four cores or more, some run side by
//! side.

use std::borrow::Cow;

use super::releases::{SID, TRIXIE};
use super::{
    explain, fork, injection, neigh, other_projects, rdmacm_both, sources, threads, verbs, vm,
};
use crate::case::{Case, Tier};
use crate::machine::{Machine, case};

/// Programs of the distribution.
const PROGRAMS: Machine = Machine {
    name: Cow::Borrowed("machine/programs"),
    tier: Tier::Test,
    rdma: true,
    estimate: 500,
    prepare: None,
};

/// What calls the library itself.
const LIBRARY: Machine = Machine {
    name: Cow::Borrowed("machine/library"),
    tier: Tier::Test,
    rdma: true,
    estimate: 400,
    prepare: None,
};

/// Programs that are built here from their sources.
const SOURCES: Machine = Machine {
    name: Cow::Borrowed("machine/sources"),
    tier: Tier::Test,
    rdma: true,
    estimate: 260,
    prepare: Some(sources::prepare),
};

/// The same for pyverbs, which takes long to build.
const SOURCES_PYVERBS: Machine = Machine {
    name: Cow::Borrowed("machine/sources-pyverbs"),
    tier: Tier::All,
    rdma: true,
    estimate: 400,
    prepare: Some(sources::prepare),
};

/// Programs of other projects.
const SUITES: Machine = Machine {
    name: Cow::Borrowed("machine/suites"),
    tier: Tier::All,
    rdma: true,
    estimate: 1500,
    prepare: None,
};

/// Their tests in Python.
const PYVERBS: Machine = Machine {
    name: Cow::Borrowed("machine/pyverbs"),
    tier: Tier::All,
    rdma: true,
    estimate: 1200,
    prepare: None,
};

/// Debian sid's programs.
const SID_PROGRAMS: Machine = Machine {
    name: Cow::Borrowed("machine/sid-programs"),
    tier: Tier::All,
    rdma: true,
    estimate: 600,
    prepare: Some(|cx, _| SID.prepare(cx)),
};

/// Debian sid's tests in Python.
const SID_PYVERBS: Machine = Machine {
    name: Cow::Borrowed("machine/sid-pyverbs"),
    tier: Tier::All,
    rdma: true,
    estimate: 1200,
    prepare: Some(|cx, _| SID.prepare(cx)),
};

/// Debian 13's programs.
const TRIXIE_PROGRAMS: Machine = Machine {
    name: Cow::Borrowed("machine/trixie-programs"),
    tier: Tier::All,
    rdma: true,
    estimate: 600,
    prepare: Some(|cx, _| TRIXIE.prepare(cx)),
};

pub fn cases() -> Result<Vec<Case>, String> {
    let mut library = fork::members();
    library.extend(threads::members());
    library.extend(verbs::members());
    library.extend(neigh::members());
    library.extend(explain::rxe::quick_members());
    library.extend(injection::rxe::quick_members());
    let mut suites = other_projects::members()?;
    suites.extend(rdmacm_both::members());
    suites.extend(explain::rxe::members()?);
    suites.extend(injection::rxe::members());
    Ok(vec![
        case(PROGRAMS, vm::members()?),
        case(LIBRARY, library),
        case(SOURCES, sources::members()?).token("sources"),
        case(SOURCES_PYVERBS, sources::pyverbs_members()?).token("sources"),
        case(SUITES, suites),
        case(PYVERBS, other_projects::pyverbs::members()),
        case(SID_PROGRAMS, SID.members()?),
        case(SID_PYVERBS, SID.pyverbs()),
        case(TRIXIE_PROGRAMS, TRIXIE.members()?),
    ])
}
