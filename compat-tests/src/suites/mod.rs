//! The cases, by suite. A suite is a module with a function that returns its cases.

use std::collections::BTreeSet;

use crate::case::Case;
use crate::rows;

pub mod arm64;
pub mod badinput;
pub mod capture;
pub mod compat10;
pub mod completion;
pub mod conditions;
pub mod control;
pub mod devices;
pub mod dist;
pub mod docs;
pub mod examples;
pub mod explain;
pub mod faults;
pub mod first_run;
pub mod fork;
pub mod fuzz;
pub mod guides;
pub mod headers;
pub mod injection;
pub mod install;
pub mod interop;
pub mod lab;
pub mod machines;
pub mod man;
pub mod matrix;
pub mod mpi;
pub mod neigh;
pub mod ofed;
pub mod other_projects;
pub mod packages;
pub mod provider_abis;
pub mod providers;
pub mod pyverbs;
pub mod qemu;
pub mod rdmacm;
pub mod rdmacm_both;
pub mod releases;
pub mod sanitizers;
pub mod selftest;
pub mod selftest_vm;
pub mod shared_memory;
pub mod slow_calls;
pub mod sources;
pub mod static_programs;
pub mod symbols;
pub mod threads;
pub mod ucx;
pub mod ucx_trixie;
pub mod verbs;
pub mod view;
pub mod view_functions;
pub mod vm;
pub mod without;
pub mod wrapper;

/// All cases: those of the suites and those of the case files. With UROCE=0 in the environment, the library
/// has no uroce, and its cases are left out.
pub fn all() -> Result<Vec<Case>, String> {
    let mut cases = symbols::cases();
    cases.extend(arm64::cases());
    cases.extend(ofed::cases());
    cases.extend(capture::cases());
    cases.extend(completion::cases());
    cases.extend(matrix::cases());
    cases.extend(badinput::cases());
    cases.extend(fork::cases());
    cases.extend(compat10::cases());
    cases.extend(threads::cases());
    cases.extend(providers::cases());
    cases.extend(docs::cases());
    cases.extend(examples::cases());
    cases.extend(explain::cases()?);
    cases.extend(injection::cases());
    cases.extend(conditions::cases());
    cases.extend(control::cases());
    cases.extend(headers::cases());
    cases.extend(install::cases());
    cases.extend(fuzz::cases()?);
    cases.extend(guides::cases());
    cases.extend(man::cases());
    cases.extend(mpi::cases());
    cases.extend(lab::cases());
    cases.extend(view::cases());
    cases.extend(view_functions::cases());
    cases.extend(first_run::cases());
    cases.extend(faults::cases());
    cases.extend(interop::cases()?);
    cases.extend(pyverbs::cases());
    cases.extend(qemu::cases());
    cases.extend(rdmacm::cases());
    cases.extend(ucx::cases());
    cases.extend(ucx_trixie::cases());
    cases.extend(verbs::cases());
    cases.extend(sanitizers::cases());
    cases.extend(selftest::cases());
    cases.extend(shared_memory::cases());
    cases.extend(slow_calls::cases());
    cases.extend(selftest_vm::cases());
    cases.extend(static_programs::cases());
    cases.extend(packages::cases());
    cases.extend(provider_abis::cases());
    cases.extend(devices::cases());
    cases.extend(dist::cases()?);
    cases.extend(without::cases());
    cases.extend(wrapper::cases());
    cases.extend(machines::cases()?);
    cases.extend(rows::cases()?);
    if std::env::var("UROCE").is_ok_and(|value| value == "0") {
        let needs_uroce = |name: &str| name.starts_with("uroce/") || name.starts_with("guides/");
        cases.retain(|case| !needs_uroce(&case.name));
    }
    let mut names = BTreeSet::new();
    for name in cases.iter().flat_map(Case::names) {
        if !names.insert(name) {
            return Err(format!("two cases have the name {name}"));
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
