//! The process of one case: enters the sandbox, runs the body, and writes the verdict.

use crate::arguments::Arguments;
use crate::case::Case;
use crate::context::Context;
use crate::paths::Paths;
use crate::sandbox;
use crate::sandbox::Sandbox;
use crate::verdict::{Failure, Finished, Verdict};

/// Runs the case and writes its verdict. Returns whether it got that far.
pub fn run(case: &Case, args: Arguments) -> Verdict {
    let host = Paths {
        repo: crate::paths::repo(),
        staged: args.staged,
        case: args.dir,
    };
    let mut paths = host.clone();
    let entered = match case.sandbox {
        Sandbox::Namespace | Sandbox::Root => sandbox::enter(&host).map(|inside| paths = inside),
        Sandbox::Host | Sandbox::Vm => {
            std::env::set_current_dir(&paths.case).map_err(Failure::from)
        }
    };
    let context = Context::new(&case.name, paths, args.patterns);
    let verdict = entered.and_then(|()| case.run(&context));
    if let Err(failure) = &verdict {
        println!("{failure}\n{}", failure.details);
    }
    context.append(&Finished::new(&case.name, &verdict))
}
