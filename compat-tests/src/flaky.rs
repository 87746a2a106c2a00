//! The cases that may fail at a try though nothing is wrong with the library, each with the cause. They may
//! run again; any other case must pass at its first try.
//!
//! A case that runs on both libraries, and fails on the C library, may run again there, and on ours
//! ([`Tries`]).
//!
//! An entry is not the place for a race of this library, or of a case: those are mended. What belongs here
//! fails on the C library too, or depends on when an emulated kernel or a busy host runs a program.

use crate::pattern;

/// Cases that may run again.
struct Flaky {
    /// A pattern of full names, or of GROUP/ROW for the rows that run on Soft-RoCE with both libraries.
    cases: &'static str,
    /// How many times one may run until it ends as expected.
    tries: u32,
    /// Why a try may fail.
    why: &'static str,
}

const fn flaky(cases: &'static str, tries: u32, why: &'static str) -> Flaky {
    Flaky { cases, tries, why }
}

const UNRELIABLE: &str = "Soft-RoCE drops packets on a busy host, and the program waits for every message \
    of an unreliable transport.";
const EMULATED: &str = "The kernel of one end runs in emulation, on a host that other cases keep busy. If it \
    gets no CPU for about half a second while netem loses packets, the retries that the program asked for \
    (ibv_rc_pingpong: seven of 67 ms) are used up.";
const ANEW: &str = "perftest's server with -R stops to listen after its first connection and listens anew, \
    while its client makes the second one; the client does not survive that this is rejected.";

const CLOSED: &str = "When the main thread closes its event channel, the other's exit(-1) may come before the \
    main one's exit(0): it had acknowledged the last event, and not yet asked for the next one.";

const FLAKY: &[Flaky] = &[
    flaky(
        "pyverbs/test_cq.CQTest.test_resize_cq",
        6,
        "It shrinks a queue right after posting sends, and expects more completions on it than fit: they \
            may not be there yet.",
    ),
    flaky("rdmacm/rping*", 6, CLOSED),
    flaky("*/rdmacm/rping*", 3, CLOSED),
    flaky(
        "rdmacm/mckey",
        6,
        "The sender leaves without waiting for its sends: none or a few of its messages may have gone out.",
    ),
    flaky("rdmacm/mckey-o", 6, "As mckey."),
    flaky(
        "rdmacm/rstream-async",
        6,
        "The client ends with 16 in 3 of 12 runs on the C library: POLLHUP, which poll reported to it.",
    ),
    flaky(
        "perftest/send_lat-RC-e",
        6,
        "Its completion queue is too small for events: the kernel's log says \"rxe_cq_post: queue full\", \
            then nobody wakes up (6 of 20 runs on the C library).",
    ),
    flaky("perftest/*-R", 3, ANEW),
    flaky("perftest/*-R-e", 3, ANEW),
    flaky("vm/pingpong/uc*", 3, UNRELIABLE),
    flaky("vm/pingpong/ud*", 3, UNRELIABLE),
    flaky("uroce/interop*/*rxe*/pingpong/uc*", 2, UNRELIABLE),
    flaky("uroce/interop*/*rxe*/pingpong/ud*", 2, UNRELIABLE),
    flaky("uroce/interop*/*rxe*/rdmacm/*udpong*", 2, UNRELIABLE),
    flaky("uroce/interop*/*rxe*/rdmacm/mckey*", 2, UNRELIABLE),
    flaky("uroce/interop*/*rxe*/perftest/*-R", 2, ANEW),
    flaky("uroce/interop*/*rxe*/perftest/*-R-e", 2, ANEW),
    flaky("uroce/interop*/*rxe*-loss", 2, EMULATED),
    flaky("uroce/interop*/*rxe*-all", 2, EMULATED),
    // The self-test's.
    flaky("fixture/later/2", 2, "It fails at its first try."),
    flaky(
        "fixture/listed*",
        2,
        "It fails at its first try, or always.",
    ),
];

/// The runs of a case on the C library, if they fail. These say what is right, so such a failure is the
/// program's, or the machine's.
const REFERENCE_TRIES: u32 = 3;
const ON_THE_C_LIBRARY: &str = "C library";
const REFERENCE_FAILED: &str = "It failed on the C library first. So the program fails at times, whatever the \
    library is.";

/// The tries of a case that runs on the C library first, and then on ours.
pub struct Tries {
    listed: u32,
    /// It has failed on the C library, and passed there later.
    reference_failed: bool,
    /// Why it ran again, for the report.
    pub again: Vec<String>,
}

impl Tries {
    /// The tries of a case with this name, which has not run yet.
    pub fn new(name: &str) -> Tries {
        Tries {
            listed: tries(name),
            reference_failed: false,
            again: Vec::new(),
        }
    }

    /// Runs the case until `wrong` finds nothing, as many times as it may run. Returns the last run. `library`:
    /// the name of the library that it runs on; None for the C library. `run` gets the number of runs before.
    pub fn run<T, E>(
        &mut self,
        library: Option<&str>,
        mut run: impl FnMut(u32) -> Result<T, E>,
        wrong: impl Fn(&T) -> Option<String>,
    ) -> Result<T, E> {
        let tries = match library.is_none() || self.reference_failed {
            true => self.listed.max(REFERENCE_TRIES),
            false => self.listed,
        };
        let mut outcome = run(0)?;
        for attempt in 1..tries {
            let Some(why) = wrong(&outcome) else { break };
            self.reference_failed |= library.is_none();
            let library = library.unwrap_or(ON_THE_C_LIBRARY);
            self.again.push(format!("{library}: {why}"));
            outcome = run(attempt)?;
        }
        Ok(outcome)
    }
}

/// How many times a case may run until it ends as expected: 1, unless it is listed.
pub fn tries(name: &str) -> u32 {
    let of = FLAKY
        .iter()
        .find(|flaky| pattern::matches(flaky.cases, name));
    of.map_or(1, |flaky| flaky.tries)
}

/// Why a reported case was allowed to run again, after `first` ([`Tries::again`], for example).
pub fn reason(name: &str, first: &str) -> Option<&'static str> {
    if first.starts_with(ON_THE_C_LIBRARY) {
        return Some(REFERENCE_FAILED);
    }
    let row = name.split_once('/').map_or(name, |(_, row)| row);
    let listed = |flaky: &&Flaky| {
        [name, row]
            .iter()
            .any(|name| pattern::matches(flaky.cases, name))
    };
    FLAKY.iter().find(listed).map(|flaky| flaky.why)
}

/// The entries below this name, without it.
pub fn below(prefix: &str) -> impl Iterator<Item = &'static str> {
    FLAKY
        .iter()
        .filter_map(move |flaky| flaky.cases.strip_prefix(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suites;

    #[test]
    fn each_entry_is_of_a_case_and_has_a_reason() {
        let cases = suites::all().unwrap();
        let names: Vec<&str> = cases.iter().flat_map(|case| case.names()).collect();
        for flaky in FLAKY {
            // The self-test's, and tests that pyverbs itself lists.
            let own = ["fixture/", "pyverbs/"]
                .iter()
                .any(|of| flaky.cases.starts_with(of));
            let matches = |name: &&str| {
                pattern::matches(flaky.cases, name)
                    || pattern::matches(&format!("suites/{}", flaky.cases), name)
            };
            assert!(own || names.iter().any(matches), "{}", flaky.cases);
            assert!(
                flaky.tries > 1 && flaky.why.ends_with('.'),
                "{}",
                flaky.cases
            );
        }
    }

    /// Runs on the C library, then on ours, which fail so often at first. Returns whether they passed,
    /// and how often the case ran again.
    fn runs(name: &str, failures: [u32; 2]) -> ([bool; 2], usize) {
        let mut tries = Tries::new(name);
        let mut fails = |library, failures: u32| {
            let run = |before| Ok::<bool, ()>(before >= failures);
            let wrong = |passed: &bool| (!passed).then(|| "it failed".to_string());
            tries.run(library, run, wrong).unwrap()
        };
        let passed = [fails(None, failures[0]), fails(Some("ours"), failures[1])];
        (passed, tries.again.len())
    }

    #[test]
    fn a_case_that_fails_on_the_c_library_runs_again_on_both() {
        assert_eq!(runs("rdmacm/ucmatose", [0, 0]), ([true, true], 0));
        assert_eq!(runs("rdmacm/ucmatose", [0, 1]), ([true, false], 0));
        assert_eq!(runs("rdmacm/ucmatose", [1, 1]), ([true, true], 2));
        assert_eq!(runs("rdmacm/ucmatose", [3, 0]), ([false, true], 2));
        assert_eq!(runs("rdmacm/rping", [0, 5]), ([true, true], 5));
        let reason = reason("suites/rdmacm/ucmatose", "C library: it failed");
        assert_eq!(reason, Some(REFERENCE_FAILED));
        assert_eq!(
            super::reason("suites/rdmacm/ucmatose", "ours: it failed"),
            None
        );
    }

    #[test]
    fn only_what_is_listed_runs_again() {
        assert_eq!((tries("rdmacm/rping-6"), tries("rdmacm/ucmatose")), (6, 1));
        assert_eq!(
            tries("uroce/interop/uroce-rxe-all/pingpong/rc-1M-m2048-c"),
            2
        );
        assert_eq!(tries("uroce/interop/uroce-rxe/pingpong/rc-1M-m2048-c"), 1);
        assert_eq!(tries("uroce/loopback/rdmacm/rping-q"), 3);
        assert_eq!(tries("uroce/loopback/rdmacm/ucmatose"), 1);
    }
}
