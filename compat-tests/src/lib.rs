//! The test runner: runs programs on rdma-core's libibverbs ("the C library") and on this library, and
//! compares what they do. README.md beside this crate says how to run a case and where a new one goes.
//!
//! How a case runs:
//!
//! 1. `suites` lists all cases; `rows` makes those of `cases/*.toml`.
//! 2. `runner` selects by tier and pattern, has `artifacts` stage both libraries and compile the C programs
//!    that the selected cases need, and hands the cases to `schedule`.
//! 3. Each case runs in a process of its own (`child`), in the sandbox that the case names (`sandbox`): a
//!    panic, a time limit or a killed process concerns that case only. The process appends its verdicts to a
//!    file.
//! 4. A case that has failed and is one of those that `flaky` lists, each with the cause, runs once more.
//! 5. `report` prints the verdicts as they come, and at the end what failed, what was skipped and why, and
//!    what passed only at the second try (*unstable*).
//!
//! Not here: what a program must do. `suites`, `cases/*.toml` and `output_checks` say that.

pub mod arguments;
pub mod artifacts;
pub mod attempt;
pub mod c_table;
pub mod case;
pub mod case_file;
pub mod checks;
pub mod child;
pub mod compare;
pub mod context;
pub mod downloads;
pub mod fake;
pub mod flaky;
pub mod junit;
pub mod lines;
pub mod machine;
pub mod make;
pub mod normalise;
pub mod output_checks;
pub mod pairs;
pub mod paths;
pub mod pattern;
pub mod process;
pub mod provider_layouts;
pub mod report;
pub mod roots;
pub mod row_outcome;
pub mod rows;
pub mod runner;
pub mod sandbox;
pub mod schedule;
pub mod suites;
pub mod testbed;
pub mod verdict;
