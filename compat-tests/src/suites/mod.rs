//! The cases, by suite. A suite is a module with a function that returns its cases; one whose cases are not
//! listed below is dead code, which the compiler refuses.

use std::collections::BTreeSet;

use crate::case::Case;
use crate::rows;

mod arm64;
mod badinput;
mod capture;
mod compat10;
mod completion;
mod conditions;
mod control;
mod devices;
mod dist;
mod docs;
mod examples;
mod explain;
mod faults;
mod first_run;
mod fork;
mod fuzz;
mod guides;
mod headers;
mod injection;
mod install;
mod interop;
mod lab;
mod machines;
mod man;
mod matrix;
mod mpi;
mod neigh;
mod ofed;
mod oldest_rust;
mod other_projects;
mod other_targets;
mod packages;
mod provider_abis;
mod providers;
mod pyverbs;
mod qemu;
mod rdmacm;
mod rdmacm_both;
mod releases;
mod sanitizers;
mod selftest;
mod selftest_vm;
mod shared_memory;
mod slow_calls;
mod sources;
mod static_programs;
mod symbols;
mod threads;
mod ucx;
mod ucx_trixie;
mod umad;
mod verbs;
mod view;
mod view_functions;
mod vm;
mod without;
mod wrapper;

/// A list of cases, or why there is none.
trait Cases {
    fn get(self) -> Result<Vec<Case>, String>;
}

impl Cases for Vec<Case> {
    fn get(self) -> Result<Vec<Case>, String> {
        Ok(self)
    }
}

impl Cases for Result<Vec<Case>, String> {
    fn get(self) -> Result<Vec<Case>, String> {
        self
    }
}

/// The cases of these modules, in this order.
macro_rules! cases_of {
    ($($suite:ident)*) => {
        [$($suite::cases().get()?),*].into_iter().flatten().collect()
    };
}

/// All cases: those of the suites and those of the case files. With UROCE=0 in the environment, the library
/// has no uroce, and its cases are left out.
pub fn all() -> Result<Vec<Case>, String> {
    let mut cases: Vec<Case> = cases_of![
        symbols arm64 ofed capture completion matrix badinput fork compat10 threads providers docs examples
        explain injection conditions control headers install fuzz guides man mpi lab view view_functions
        first_run oldest_rust other_targets faults interop pyverbs qemu rdmacm ucx ucx_trixie umad verbs
        sanitizers selftest shared_memory slow_calls selftest_vm static_programs packages provider_abis
        devices dist without wrapper machines rows
    ];
    if std::env::var("UROCE").is_ok_and(|value| value == "0") {
        let needs_uroce = |name: &str| name.starts_with("uroce/") || name.starts_with("guides/");
        cases.retain(|case| !needs_uroce(&case.name));
    }
    let mut names = BTreeSet::new();
    for name in cases.iter().flat_map(Case::names) {
        if !names.insert(name) {
            return Err(format!(
                "two cases have the name {name}: see compat-tests/cases and src/suites"
            ));
        }
    }
    Ok(cases)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::artifacts;

    #[test]
    fn names_are_unique_and_programs_exist() {
        let programs: BTreeSet<String> = artifacts::sources().unwrap().into_keys().collect();
        for case in super::all().unwrap() {
            let needs: BTreeSet<String> = case.needs.programs.iter().cloned().collect();
            assert!(needs.is_subset(&programs), "{}: {needs:?}", case.name);
            assert!(case.name.contains('/'), "{}", case.name);
        }
    }
}
