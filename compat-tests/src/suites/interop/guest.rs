//! The guest's side: runs the rows, between hosts that rows with the same ones share.

use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::rxe::{self, RxeHosts};
use super::{Ends, GIDS, GIDS_GROUP, Impairment, InteropRow};
use crate::context::{Context, Library};
use crate::flaky;
use crate::lines;
use crate::machine::{Judged, Member};
use crate::pairs;
use crate::verdict::{Failure, Verdict};

/// The first port. Each run of a row gets others, because the kernel keeps closed connections for a while.
const PORT: u16 = 20_000;

/// The hosts of the row before, for the next one.
#[derive(Default)]
pub struct Current {
    hosts: Mutex<Option<Made>>,
    ports: AtomicU16,
}

/// Hosts, and what they were made for.
struct Made {
    ends: Ends,
    impairment: Impairment,
    hosts: RxeHosts,
}

impl Current {
    /// Runs the row. If it fails and is listed as flaky, it runs once more, between new hosts.
    pub fn judge(&self, cx: &Context, row: &InteropRow) -> Judged {
        let Err(first) = self.run(cx, row) else {
            return Ok(()).into();
        };
        if first.skipped || flaky::tries(&row.name) == 1 {
            return Err(first).into();
        }
        println!("{}: again, after: {first}", row.name);
        Judged {
            verdict: self.run(cx, row),
            again: first.why,
        }
    }

    fn run(&self, cx: &Context, between: &InteropRow) -> Verdict {
        let mut row = between.row.clone();
        if row.port.is_none() {
            row.port = Some(PORT + self.ports.fetch_add(row.times, Ordering::Relaxed));
        }
        let mut current = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        let made = match current.take() {
            Some(made) if made.is_for(between) => made,
            others => {
                // All hosts have the same addresses.
                drop(others);
                Made::new(cx, between)?
            }
        };
        let verdict = pairs::run(cx, &row, made.hosts.hosts());
        // The next row expects the usual MTU.
        if verdict.is_ok() && row.mtu.is_none() {
            *current = Some(made);
        } else {
            made.hosts.print_losses(cx)?;
        }
        verdict
    }
}

impl Made {
    fn new(cx: &Context, row: &InteropRow) -> Result<Self, Failure> {
        let (ends, impairment) = (row.ends, row.impairment);
        let hosts = rxe::make(cx, ends, impairment.netem)?;
        Ok(Self {
            ends,
            impairment,
            hosts,
        })
    }

    fn is_for(&self, row: &InteropRow) -> bool {
        self.ends == row.ends && self.impairment == row.impairment
    }
}

/// The script checks GID tables, ports and events, and prints a line for each check.
pub fn gids() -> Member {
    let names = GIDS
        .iter()
        .map(|check| format!("{GIDS_GROUP}/{check}"))
        .collect();
    Member::several(names, run_gids).limit(500)
}

fn run_gids(cx: &Context) -> Result<Vec<Judged>, Failure> {
    let script = cx.source("uroce/devices/gids-guest").display().to_string();
    let ended = cx
        .program(["bash".into(), script])
        .env("OUR_LIBDIR", cx.library_dir(Library::Ours))
        .limit(Duration::from_secs(400))
        .merged()
        .run()?;
    let checks = lines::parse(&ended.out);
    let verdict = |wanted: &&str| {
        let found = checks.iter().find(|(name, _)| name == wanted);
        let missing = || Err(Failure::new("not reported").with(&ended.out));
        Judged::from(found.map_or_else(missing, |(_, verdict)| verdict.clone()))
    };
    Ok(GIDS.iter().map(verdict).collect())
}
