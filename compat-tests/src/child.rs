//! The process of one case: enters the place, runs the body, and writes the verdict.

use std::path::PathBuf;

use crate::case::{Case, Place};
use crate::context::Context;
use crate::paths::Paths;
use crate::pattern::Patterns;
use crate::place;
use crate::verdict::{Failure, Finished, Verdict};

/// What the runner passes to the process, as arguments in this order.
pub struct Arguments {
    pub name: String,
    pub dir: PathBuf,
    pub staged: PathBuf,
    pub patterns: Patterns,
}

impl Arguments {
    /// From the command line, after `--child`.
    pub fn parse(mut args: impl Iterator<Item = String>) -> Option<Self> {
        let (name, dir, staged) = (args.next()?, args.next()?.into(), args.next()?.into());
        Some(Self {
            name,
            dir,
            staged,
            patterns: Patterns(args.collect()),
        })
    }

    /// The command line that `parse` reads.
    pub fn words(&self) -> Vec<String> {
        let text = |path: &PathBuf| path.to_string_lossy().into_owned();
        let mut words = vec![
            "--child".into(),
            self.name.clone(),
            text(&self.dir),
            text(&self.staged),
        ];
        words.extend(self.patterns.0.iter().cloned());
        words
    }
}

/// Runs the case and writes its verdict. Returns whether it got that far.
pub fn run(case: &Case, args: Arguments) -> Verdict {
    let host = Paths {
        repo: crate::paths::repo(),
        staged: args.staged,
        case: args.dir,
    };
    let mut paths = host.clone();
    let entered = match case.place {
        Place::Namespace | Place::Root => place::enter(&host).map(|inside| paths = inside),
        Place::Host | Place::Vm => std::env::set_current_dir(&paths.case).map_err(Failure::from),
    };
    let context = Context::new(&case.name, paths, args.patterns);
    let verdict = entered.and_then(|()| case.run(&context));
    if let Err(failure) = &verdict {
        println!("{failure}\n{}", failure.details);
    }
    context.append(&Finished::new(&case.name, &verdict))
}
