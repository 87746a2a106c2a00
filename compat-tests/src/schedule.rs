//! Runs cases in parallel, as far as the machine has what they need.

use std::collections::BTreeSet;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::case::Needs;

/// The virtual machine has two processors. On fewer cores, programs that poll wait for each other until the
/// host switches between its processors: two machines on two cores take twice the CPU time.
const CORES_OF_MACHINE: usize = 2;

/// A batch case leaves a processor idle at times, but its compilers use several.
const CORES_OF_BATCH: usize = 2;

/// After this time in which no case has ended, those that run are reported.
#[cfg(not(test))]
const REPORT_INTERVAL: Duration = Duration::from_secs(60);
#[cfg(test)]
const REPORT_INTERVAL: Duration = Duration::from_millis(500);

/// The resources that the machine has, or those that are left of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resources {
    /// The CPU time that the case needs, in percent of one core.
    pub cpu: u32,
    /// The memory that the case needs, in MiB.
    pub memory: u64,
    /// How many more virtual machines may run.
    machines: usize,
    /// How many more batch cases may run.
    batches: usize,
    tokens: BTreeSet<&'static str>,
    running: usize,
    alone: bool,
}

impl Resources {
    pub fn new(cores: usize, memory: u64) -> Self {
        let cpu = 100 * cores as u32;
        Self {
            cpu,
            memory,
            machines: (cores / CORES_OF_MACHINE).max(1),
            batches: (cores / CORES_OF_BATCH).max(1),
            tokens: BTreeSet::new(),
            running: 0,
            alone: false,
        }
    }

    /// The resources of this machine: all cores, and three quarters of the memory that is available
    /// now.
    pub fn of_machine() -> Self {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let info = crate::process::read("/proc/meminfo".as_ref());
        let available = info
            .lines()
            .find_map(|line| line.strip_prefix("MemAvailable:"));
        let kib = available.and_then(|n| n.trim().trim_end_matches(" kB").parse::<u64>().ok());
        Self::new(cores, kib.unwrap_or(1 << 20) / 1024 * 3 / 4)
    }

    /// Whether a case can start now. One that needs more than the machine has runs when nothing else does.
    fn fit(&self, needs: &Needs) -> bool {
        if self.running == 0 {
            return true;
        }
        let free = |token: &&'static str| !self.tokens.contains(token);
        !self.alone
            && !needs.alone
            && self.has_processor(needs)
            && needs.memory <= self.memory
            && usize::from(needs.machine) <= self.machines
            && needs.tokens.iter().all(free)
    }

    /// Batch cases run beside the others, and take what those leave.
    fn has_processor(&self, needs: &Needs) -> bool {
        if needs.batch {
            self.batches > 0
        } else {
            needs.cpu <= self.cpu
        }
    }

    fn take(&mut self, needs: &Needs) -> Taken {
        let cpu = if needs.batch { 0 } else { needs.cpu };
        let taken = Taken {
            cpu: cpu.min(self.cpu),
            memory: needs.memory.min(self.memory),
        };
        self.cpu -= taken.cpu;
        self.memory -= taken.memory;
        self.machines -= usize::from(needs.machine);
        self.batches -= usize::from(needs.batch);
        self.tokens.extend(&needs.tokens);
        self.alone = needs.alone;
        self.running += 1;
        taken
    }

    fn give_back(&mut self, needs: &Needs, taken: Taken) {
        self.cpu += taken.cpu;
        self.memory += taken.memory;
        self.machines += usize::from(needs.machine);
        self.batches += usize::from(needs.batch);
        self.tokens.retain(|token| !needs.tokens.contains(token));
        self.alone = false;
        self.running -= 1;
    }
}

/// The resources that a case occupies while it runs.
#[derive(Debug, Clone, Copy)]
struct Taken {
    cpu: u32,
    memory: u64,
}

/// A case to run, by its index.
#[derive(Debug, Clone)]
pub struct Job {
    pub index: usize,
    pub needs: Needs,
    pub estimate: Duration,
}

/// Runs each job on a thread of its own: those with virtual machines first, which take long one after the
/// other, then the longest; those that must be alone run last. Blocks until all have ended. Calls
/// `only_batch` whenever batch cases run and no others, and `silent` with those that run and since when, if
/// none has ended for [`REPORT_INTERVAL`].
pub fn run(
    mut jobs: Vec<Job>,
    mut free: Resources,
    run: impl Fn(usize) + Sync,
    only_batch: impl Fn(),
    silent: impl Fn(&[(usize, Duration)]),
) {
    jobs.sort_by_key(|job| {
        let Needs { alone, machine, .. } = job.needs;
        (alone, !machine, std::cmp::Reverse(job.estimate))
    });
    let (ended, ends) = mpsc::channel();
    thread::scope(|scope| {
        let mut running = Vec::new();
        while !jobs.is_empty() || !running.is_empty() {
            while let Some(next) = jobs.iter().position(|job| free.fit(&job.needs)) {
                let job = jobs.remove(next);
                let taken = free.take(&job.needs);
                let (ended, run, index) = (ended.clone(), &run, job.index);
                running.push((job, taken, Instant::now()));
                scope.spawn(move || {
                    run(index);
                    let _ = ended.send(index);
                });
            }
            if running.iter().all(|(job, ..)| job.needs.batch) {
                only_batch();
            }
            let index = match ends.recv_timeout(REPORT_INTERVAL) {
                Ok(index) => index,
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    let since = running.iter();
                    let since = since.map(|(job, _, start)| (job.index, start.elapsed()));
                    silent(&since.collect::<Vec<_>>());
                    continue;
                }
            };
            if let Some(at) = running.iter().position(|(job, ..)| job.index == index) {
                let (job, taken, _) = running.remove(at);
                free.give_back(&job.needs, taken);
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    fn job(index: usize, seconds: u64, needs: Needs) -> Job {
        Job {
            index,
            needs,
            estimate: Duration::from_secs(seconds),
        }
    }

    /// The order in which jobs start on one core.
    fn order_of(jobs: Vec<Job>) -> Vec<usize> {
        let order = Mutex::new(Vec::new());
        let push = |index| order.lock().unwrap().push(index);
        let resources = Resources::new(1, 1000);
        run(jobs, resources, push, || unreachable!(), |_| {});
        order.into_inner().unwrap()
    }

    #[test]
    fn the_longest_starts_first_and_all_run() {
        let jobs = [1, 3, 2].map(|s| job(s, s as u64, Needs::default()));
        assert_eq!(order_of(jobs.into()), [3, 2, 1]);
    }

    #[test]
    fn what_runs_for_long_is_named() {
        let named = Mutex::new(Vec::new());
        let push = |running: &[(usize, Duration)]| named.lock().unwrap().extend_from_slice(running);
        let sleep = |_| thread::sleep(3 * REPORT_INTERVAL);
        let jobs = vec![job(7, 1, Needs::default())];
        run(jobs, Resources::new(1, 1000), sleep, || {}, push);
        let named = named.into_inner().unwrap();
        assert!(!named.is_empty());
        assert!(
            named
                .iter()
                .all(|(index, since)| *index == 7 && *since >= REPORT_INTERVAL)
        );
    }

    /// Runs the jobs; returns how many ran at once, at most.
    fn most_at_once(jobs: Vec<Job>, cores: usize) -> u32 {
        let (now, most) = (AtomicU32::new(0), AtomicU32::new(0));
        let work = |_| {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            thread::sleep(Duration::from_millis(50));
            now.fetch_sub(1, Ordering::SeqCst);
        };
        run(jobs, Resources::new(cores, 1000), work, || {}, |_| {});
        most.into_inner()
    }

    /// The same for four jobs with these needs on four cores.
    fn at_once(needs: Needs) -> u32 {
        let jobs = (0..4).map(|i| job(i, 1, needs.clone())).collect();
        most_at_once(jobs, 4)
    }

    #[test]
    fn no_more_run_than_the_machine_has_room_for() {
        let needs = Needs::default();
        assert!(at_once(needs.clone()) > 1);
        let limits: [fn(&mut Needs); 4] = [
            |needs| needs.cpu = 250,
            |needs| needs.memory = 501,
            |needs| needs.tokens = vec!["apt"],
            |needs| needs.alone = true,
        ];
        for limit in limits {
            let mut needs = needs.clone();
            limit(&mut needs);
            assert_eq!(at_once(needs), 1);
        }
    }

    #[test]
    fn a_virtual_machine_has_two_cores_and_comes_first() {
        let needs = Needs {
            machine: true,
            ..Needs::default()
        };
        assert_eq!(at_once(needs.clone()), 2);
        let jobs = vec![job(0, 9, Needs::default()), job(1, 1, needs)];
        assert_eq!(order_of(jobs), [1, 0]);
    }

    #[test]
    fn batch_cases_run_beside_the_others() {
        let batch = Needs {
            batch: true,
            ..Needs::default()
        };
        assert_eq!(at_once(batch.clone()), 2);
        let others = vec![job(0, 1, Needs::default()), job(1, 1, Needs::default())];
        assert_eq!(most_at_once(others.clone(), 1), 1);
        let jobs = others.into_iter().chain([job(2, 1, batch)]).collect();
        assert_eq!(most_at_once(jobs, 1), 2);
    }

    #[test]
    fn only_batch_cases_are_left() {
        let batch = Needs {
            batch: true,
            ..Needs::default()
        };
        let jobs = vec![job(0, 1, Needs::default()), job(1, 1, batch)];
        let (ended, calls) = (AtomicU32::new(0), AtomicU32::new(0));
        let work = |index| {
            // The batch case ends last.
            while index == 1 && calls.load(Ordering::SeqCst) == 0 {
                thread::yield_now();
            }
            ended.fetch_add(1, Ordering::SeqCst);
        };
        run(
            jobs,
            Resources::new(2, 1000),
            work,
            || {
                assert_eq!(ended.load(Ordering::SeqCst), 1);
                calls.fetch_add(1, Ordering::SeqCst);
            },
            |_| {},
        );
        assert_eq!(calls.into_inner(), 1);
    }

    #[test]
    fn what_needs_more_than_the_machine_has_runs_nevertheless() {
        let huge = Needs {
            cpu: 10_000,
            memory: 1 << 40,
            ..Needs::default()
        };
        assert_eq!(at_once(huge), 1);
    }
}
