//! The virtual machines, and which suites have members in each. With four cores or more, some run side by
//! side.

use super::releases::{SID, TRIXIE};
use super::{
    explain, fork, injection, neigh, other_projects, rdmacm_both, sources, threads, verbs, vm,
};
use crate::case::{Case, Tier};
use crate::machine::{Machine, Member};

/// The cases of the virtual machines, one for each machine. Members that call verbs on rxe0 are in
/// the machine of their tier.
pub fn cases() -> Result<Vec<Case>, String> {
    let mut on_rxe = explain::rxe::members()?;
    on_rxe.extend(injection::rxe::members());
    let (quick, long): (Vec<Member>, Vec<Member>) = on_rxe
        .into_iter()
        .partition(|member| member.tier < Tier::All);
    let library = fork::members()
        .into_iter()
        .chain(threads::members())
        .chain(verbs::members())
        .chain(neigh::members())
        .chain(quick);
    let suites = other_projects::members()?
        .into_iter()
        .chain(rdmacm_both::members())
        .chain(long);
    let machine = |name: &str, estimate| Machine::new(name).estimate(estimate);
    let long = |name: &str, estimate| machine(name, estimate).tier(Tier::All);
    Ok(vec![
        machine("machine/programs", 500).case(vm::members()?),
        machine("machine/library", 400).case(library.collect()),
        machine("machine/sources", 260)
            .prepare(sources::prepare)
            .case(sources::members()?)
            .token("sources"),
        long("machine/sources-pyverbs", 400)
            .prepare(sources::prepare)
            .case(sources::pyverbs_members()?)
            .token("sources"),
        long("machine/suites", 1500).case(suites.collect()),
        long("machine/pyverbs", 1200).case(other_projects::pyverbs::members()),
        long("machine/sid-programs", 600)
            .prepare(|cx, _| SID.prepare(cx))
            .case(SID.members()?),
        long("machine/sid-pyverbs", 1200)
            .prepare(|cx, _| SID.prepare(cx))
            .case(SID.pyverbs()),
        long("machine/trixie-programs", 600)
            .prepare(|cx, _| TRIXIE.prepare(cx))
            .case(TRIXIE.members()?),
    ])
}
