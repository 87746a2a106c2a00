//! Memory regions: those that are registered, and the last that were deregistered.

use std::collections::VecDeque;

use super::registry::{Registry, push_bounded};
use crate::diagnose::check::key::{self, Access, Side};
use crate::diagnose::finding::{Finding, Object, Outcome};
use crate::diagnose::mr::Mr;
use crate::diagnose::rules::Rule;
use crate::diagnose::sge::Sge;

/// How many deregistered regions are remembered.
const MAX_DEREGISTERED: usize = 1024;

/// The regions of the process.
pub struct Regions {
    live: Registry<Mr>,
    /// The latest last.
    deregistered: VecDeque<Mr>,
    /// A region was on the stack of a thread.
    had_some_on_stack: bool,
}

impl Regions {
    pub const fn new() -> Regions {
        Regions {
            live: Registry::new(),
            deregistered: VecDeque::new(),
            had_some_on_stack: false,
        }
    }

    pub fn add(&mut self, address: usize, mr: Mr) {
        self.had_some_on_stack |= mr.stack_of != 0;
        self.live.add(address, mr);
    }

    /// Takes a region out, before it is deregistered.
    pub fn take(&mut self, address: usize) -> Option<Mr> {
        self.live.take(address)
    }

    /// Remembers a region that was taken out, and is deregistered.
    pub fn remember(&mut self, mr: Mr) {
        push_bounded(&mut self.deregistered, MAX_DEREGISTERED, mr);
    }

    /// The device of a context is closed. Returns the addresses of the regions that it still had.
    pub fn close(&mut self, context: usize) -> Vec<usize> {
        self.deregistered.retain(|mr| mr.context != context);
        self.live.take_all(|mr| mr.context == context)
    }

    pub fn get(&self, address: usize) -> Option<&Mr> {
        self.live.get(&address)
    }

    /// Changes a region, if it is known.
    pub fn change(&mut self, address: usize, change: impl FnOnce(&mut Mr)) {
        self.live.change(address, |mr| {
            change(mr);
            self.had_some_on_stack |= mr.stack_of != 0;
        });
    }

    /// The registered regions of a domain, by their addresses.
    pub fn of_domain(&self, pd: usize) -> impl Iterator<Item = (usize, &Mr)> {
        let of = self.live.iter().filter(move |(_, mr)| mr.pd == pd);
        of.map(|(at, mr)| (*at, mr))
    }

    /// The registered regions of a context.
    pub fn of_context(&self, context: usize) -> impl Iterator<Item = &Mr> + Clone {
        self.live.values().filter(move |mr| mr.context == context)
    }

    /// The registered region of a context that has this rkey.
    pub fn by_rkey(&self, context: usize, rkey: u32) -> Option<&Mr> {
        self.of_context(context).find(|mr| mr.rkey == rkey)
    }

    /// The registered region that has this lkey.
    pub fn by_lkey(&self, lkey: u32) -> Option<&Mr> {
        self.live.values().find(|mr| mr.lkey == lkey)
    }

    /// The region of a context that had this rkey, and was deregistered last.
    pub fn deregistered_by_rkey(&self, context: usize, rkey: u32) -> Option<&Mr> {
        let mut latest_first = self.deregistered.iter().rev();
        latest_first.find(|mr| mr.context == context && mr.rkey == rkey)
    }

    /// Whether the key is that of a region which is memory of the process, at its own addresses.
    pub fn is_memory(&self, lkey: u32) -> bool {
        let mut regions = self.live.values();
        regions.any(|mr| mr.lkey == lkey && mr.is_memory)
    }

    /// Why the regions of a context refuse an access; None if they allow it. `same`: whether two domains are
    /// one.
    pub fn refused(
        &self,
        access: &Access,
        context: usize,
        same: impl Fn(usize, usize) -> bool,
        finding: impl Fn(Rule) -> Finding,
    ) -> Option<Finding> {
        let dead = self.deregistered.iter();
        let dead = dead.filter(|mr| mr.context == context);
        key::refused(access, self.of_context(context), dead, same, finding)
    }

    /// The region of another context that has the key of an access; if it is a remote one, and the address.
    pub fn of_other_context(&self, access: &Access, context: usize) -> Option<&Mr> {
        let key = |mr: &Mr| match access.side {
            Side::Local => mr.lkey,
            Side::Remote => mr.rkey,
        };
        let is_it = |mr: &&Mr| {
            let range = mr.start..mr.start.saturating_add(mr.length);
            let is_near = access.side == Side::Local || range.contains(&access.addr);
            mr.context != context && key(mr) == access.key && is_near
        };
        self.live.values().find(is_it)
    }

    /// Whether a region was on the stack of a thread.
    pub fn had_some_on_stack(&self) -> bool {
        self.had_some_on_stack
    }

    /// A region of the stack whose function has returned. `stack` is where the program's stack ends now.
    pub fn on_dead_stack<'a>(
        &self,
        object: &Object,
        context: usize,
        sges: impl IntoIterator<Item = &'a Sge>,
        (thread, stack): (i32, u64),
        call: &'static str,
    ) -> Option<Finding> {
        if !self.had_some_on_stack {
            return None;
        }
        // All live frames are above the end of the stack.
        let of = self.of_context(context);
        let dead = of.filter(|mr| mr.stack_of == thread && mr.start < stack);
        let mut used = sges.into_iter().filter(|sge| sge.length > 0);
        let mr = used.find_map(|sge| dead.clone().find(|mr| mr.lkey == sge.lkey))?;
        Some(
            Finding::new(Rule::StackRegion, object.clone(), call, Outcome::Called)
                .with("region", key::region(mr)),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnose::finding::Kind;

    fn region(context: usize, key: u32) -> Mr {
        Mr {
            context,
            pd: 10,
            start: 0x1000,
            length: 0x1000,
            lkey: key,
            rkey: key + 100,
            access: 0,
            stack_of: 0,
            is_memory: true,
        }
    }

    #[test]
    fn keys_of_contexts() {
        let mut regions = Regions::new();
        regions.add(1, region(8, 7));
        regions.add(2, region(9, 17));
        assert_eq!(regions.by_rkey(8, 107), Some(&region(8, 7)));
        assert_eq!(regions.by_rkey(9, 107), None);
        assert!(regions.is_memory(7) && !regions.is_memory(107));
        let access = Access {
            side: Side::Remote,
            key: 117,
            addr: 0x1fff,
            length: 1,
            pd: 10,
            right: 0,
        };
        assert_eq!(regions.of_other_context(&access, 8), Some(&region(9, 17)));
        let behind = Access {
            addr: 0x2000,
            ..access
        };
        assert_eq!(regions.of_other_context(&behind, 8), None);
    }

    #[test]
    fn deregistered_regions_are_known_until_the_device_is_closed() {
        let mut regions = Regions::new();
        for key in 0..=MAX_DEREGISTERED as u32 {
            regions.add(1, region(8, key));
            let taken = regions.take(1).unwrap();
            regions.remember(taken);
        }
        assert_eq!(regions.deregistered_by_rkey(8, 100), None, "the oldest");
        assert!(regions.deregistered_by_rkey(8, 101).is_some());
        regions.add(1, region(8, 5));
        regions.add(2, region(9, 6));
        assert_eq!(regions.close(8), [1]);
        assert_eq!(regions.deregistered_by_rkey(8, 101), None);
        assert_eq!(regions.of_domain(10).count(), 1);
    }

    #[test]
    fn stacks_of_threads() {
        let mut regions = Regions::new();
        let object = Object::at(Kind::Qp, 1);
        let used = [Sge {
            addr: 0x1000,
            length: 1,
            lkey: 7,
        }];
        let find = |regions: &Regions, thread, stack| {
            let found = regions.on_dead_stack(&object, 8, &used, (thread, stack), "call");
            found.map(|found| found.rule)
        };
        regions.add(1, region(8, 7));
        assert_eq!(find(&regions, 3, 0x8000), None);
        regions.change(1, |mr| mr.stack_of = 3);
        assert_eq!(find(&regions, 3, 0x8000), Some(Rule::StackRegion));
        assert_eq!(find(&regions, 3, 0x800), None, "its frame is live");
        assert_eq!(find(&regions, 4, 0x8000), None, "another thread's");
    }
}
