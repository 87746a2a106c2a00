//! Memory windows: what they are bound to, and the keys that they had.

use std::collections::{BTreeMap, VecDeque};

use ibverbs_abi::*;

use super::registry::{Registry, push_bounded};
use crate::diagnose::check::key::{self, Access};
use crate::diagnose::finding::Finding;
use crate::diagnose::mr::Mr;
use crate::diagnose::rules::Rule;

/// More former keys of a window than this are forgotten.
const MAX_PAST: usize = 64;
/// More keys of windows that are gone are forgotten.
const MAX_GONE: usize = 1024;

/// The memory that a window is bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding {
    pub region: usize,
    pub(super) addr: u64,
    pub(super) length: u64,
    pub(super) access: u32,
}

impl From<ibv_mw_bind_info> for Binding {
    fn from(info: ibv_mw_bind_info) -> Binding {
        Binding {
            region: info.mr as usize,
            addr: info.addr,
            length: info.length,
            access: info.mw_access_flags,
        }
    }
}

/// A window that has been bound, as a region that the key gives access to.
#[derive(Clone, Debug)]
pub struct Window {
    /// The part that it was bound to last; `is_bound` says whether it still is.
    part: Mr,
    is_bound: bool,
    was_bound: bool,
    /// The number of the queue pair that has bound it, the only one that it is for; 0 if it is of type 1.
    by: u32,
    /// The keys that it had before.
    past: Vec<u32>,
}

/// The outcome of looking a key up.
enum Found<'a> {
    Current(&'a Window),
    Past,
    Gone,
}

/// The memory windows of the process.
pub struct Windows {
    /// The PD of each.
    domains: Registry<usize>,
    /// The windows that have been bound.
    bound: BTreeMap<usize, Window>,
    /// The keys of windows that are gone, with their contexts, the latest last.
    gone: VecDeque<(usize, u32)>,
}

impl Windows {
    pub const fn new() -> Windows {
        Windows {
            domains: Registry::new(),
            bound: BTreeMap::new(),
            gone: VecDeque::new(),
        }
    }

    pub fn add(&mut self, mw: usize, pd: usize) {
        self.domains.add(mw, pd);
    }

    /// A window was allocated, with this key in this context, which gives no access.
    pub fn allocate(&mut self, mw: usize, pd: usize, (context, rkey): (usize, u32)) {
        self.add(mw, pd);
        let part = Mr {
            context,
            pd,
            start: 0,
            length: 0,
            lkey: 0,
            rkey,
            access: 0,
            stack_of: 0,
            is_memory: false,
        };
        let window = Window {
            part,
            is_bound: false,
            was_bound: false,
            by: 0,
            past: Vec::new(),
        };
        match rkey {
            // The device gives it a key when it is bound.
            0 => self.bound.remove(&mw),
            _ => self.bound.insert(mw, window),
        };
    }

    /// Takes a window out, before it is deallocated. Returns its PD. [`Windows::add`] puts it back.
    pub fn take(&mut self, mw: usize) -> Option<usize> {
        self.domains.take(mw)
    }

    /// The device of a context is closed, with these domains. Returns the addresses of the windows that they
    /// still had.
    pub fn close(&mut self, context: usize, pds: &[usize]) -> Vec<usize> {
        self.bound
            .retain(|_, window| window.part.context != context);
        self.gone.retain(|(of, _)| *of != context);
        self.domains.take_all(|pd| pds.contains(pd))
    }

    pub fn pd_of(&self, mw: usize) -> Option<usize> {
        self.domains.owner_of(mw)
    }

    /// The windows of a domain.
    pub fn of_domain(&self, pd: usize) -> impl Iterator<Item = usize> {
        self.domains.of_owner(pd)
    }

    /// A bind of a window has been posted. It has the key `rkey` from then on. `by` is the number of the
    /// queue pair to which a window of type 2 is bound, or 0; `is_memory` is that of the region.
    pub fn bind(
        &mut self,
        mw: usize,
        (context, rkey): (usize, u32),
        to: Binding,
        by: u32,
        is_memory: bool,
    ) {
        let Some(pd) = self.pd_of(mw) else { return };
        let part = Mr {
            context,
            pd,
            start: match to.access & IBV_ACCESS_ZERO_BASED {
                0 => to.addr,
                _ => 0,
            },
            length: to.length,
            lkey: 0,
            rkey,
            access: to.access,
            stack_of: 0,
            is_memory,
        };
        let mut past = self
            .bound
            .remove(&mw)
            .map_or_else(Vec::new, |window| window.with_past());
        past.retain(|key| *key != rkey);
        past.truncate(MAX_PAST);
        let window = Window {
            part,
            is_bound: to.length > 0,
            was_bound: true,
            by,
            past,
        };
        self.bound.insert(mw, window);
    }

    /// A window is deallocated.
    pub fn forget(&mut self, mw: usize) {
        if let Some(window) = self.bound.remove(&mw) {
            let key = (window.part.context, window.part.rkey);
            push_bounded(&mut self.gone, MAX_GONE, key);
        }
    }

    /// The window of this key has been invalidated.
    pub fn invalidate(&mut self, context: usize, rkey: u32) {
        let mut all = self.bound.values_mut();
        let of = |window: &&mut Window| window.part.rkey == rkey && window.part.context == context;
        if let Some(window) = all.find(of) {
            window.is_bound = false;
        }
    }

    fn by_key(&self, context: usize, rkey: u32) -> Option<Found<'_>> {
        let of = || self.bound.values().filter(|of| of.part.context == context);
        let current = of()
            .find(|window| window.part.rkey == rkey)
            .map(Found::Current);
        current.or_else(|| {
            let past = of().any(|window| window.past.contains(&rkey));
            let gone = || self.gone.contains(&(context, rkey));
            let gone = || gone().then_some(Found::Gone);
            past.then_some(Found::Past).or_else(gone)
        })
    }

    /// The part of memory that a key of a context gives access to, if it is that of a window that is bound.
    pub fn part(&self, context: usize, rkey: u32) -> Option<Mr> {
        match self.by_key(context, rkey)? {
            Found::Current(window) if window.is_bound => Some(window.part),
            _ => None,
        }
    }

    /// Whether a key of a context is that of a window, or was.
    pub fn has_key(&self, context: usize, rkey: u32) -> bool {
        self.by_key(context, rkey).is_some()
    }

    /// Why a key of a window does not give access: its text.
    pub fn lost_because(&self, context: usize, rkey: u32) -> Option<&'static str> {
        match self.by_key(context, rkey)? {
            Found::Current(window) if window.is_bound => None,
            Found::Current(window) if !window.was_bound => Some(NEVER_BOUND),
            Found::Current(_) => Some(INVALIDATED),
            Found::Past => Some(REBOUND),
            Found::Gone => Some(DEALLOCATED),
        }
    }

    /// Why an access with the key of a window of this process is refused, to the queue pair of this number.
    pub fn refused(
        &self,
        access: &Access,
        context: usize,
        number: u32,
        finding: impl Fn(Rule) -> Finding,
    ) -> Option<Finding> {
        if let Some(state) = self.lost_because(context, access.key) {
            return Some(lost(finding(Rule::Argument), access.key, state));
        }
        let Some(Found::Current(window)) = self.by_key(context, access.key) else {
            return None;
        };
        if window.by != 0 && window.by != number {
            return Some(of_other(
                finding(Rule::Argument),
                access.key,
                window.by,
                number,
            ));
        }
        let same = |_: usize, _: usize| true;
        let mut found = key::refused(access, [window.part].iter(), [].iter(), same, finding)?;
        found.notes.push(
            "the key is that of a memory window, which gives the access that its bind names \
             (mw_access_flags)"
                .into(),
        );
        Some(found)
    }
}

impl Window {
    /// The keys that it had, the latest first, with the present one.
    fn with_past(mut self) -> Vec<u32> {
        self.past.insert(0, self.part.rkey);
        self.past
    }
}

const NEVER_BOUND: &str = "before any bind: it is not bound yet";
const REBOUND: &str = "before it was bound again";
const DEALLOCATED: &str = "until it was deallocated";
const INVALIDATED: &str = "until it was invalidated, or bound to nothing";

/// A window of type 2 that another queue pair has bound.
fn of_other(finding: Finding, rkey: u32, by: u32, number: u32) -> Finding {
    finding
        .with_texts(
            format!(
                "the remote key {rkey:#x} is that of a memory window of type 2, which the queue pair {by:#x} \
                 has bound, and the request came to the queue pair {number:#x}"
            ),
            "a window of type 2 gives access only to the peer of the queue pair to which its bind was posted",
            "post the bind to the queue pair of the connection that is to use the key, or use a window of \
             type 1",
        )
}

/// A key that a window had.
pub(super) fn lost(finding: Finding, rkey: u32, state: &str) -> Finding {
    let why = match state {
        DEALLOCATED => "the key of a window gives access until ibv_dealloc_mw",
        _ => "each bind gives a window a new key, and from then on the old one gives no access",
    };
    finding
        .with_texts(
            format!("the remote key {rkey:#x} is that of a memory window of the peer, which it had {state}"),
            why,
            "send the peer mw->rkey (type 1: as it is after ibv_bind_mw; type 2: the rkey of the request) \
             each time that the window is bound",
        )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnose::finding::{Object, Outcome};

    #[test]
    fn keys_of_windows() {
        const CONTEXT: usize = 1;
        let mut windows = Windows::new();
        windows.allocate(50, 10, (CONTEXT, 6));
        assert_eq!(windows.lost_because(CONTEXT, 6), Some(NEVER_BOUND));
        let mut info = Binding {
            region: 0,
            addr: 0x1000,
            length: 64,
            access: IBV_ACCESS_REMOTE_WRITE,
        };
        windows.bind(50, (CONTEXT, 7), info, 0, true);
        assert_eq!(windows.lost_because(CONTEXT, 6), Some(REBOUND));
        assert_eq!(windows.part(CONTEXT, 7).unwrap().length, 64);
        windows.bind(50, (CONTEXT, 8), info, 17, true);
        assert_eq!(windows.lost_because(CONTEXT, 7), Some(REBOUND));
        assert_eq!(windows.lost_because(CONTEXT, 8), None);
        windows.invalidate(CONTEXT, 8);
        assert_eq!(windows.lost_because(CONTEXT, 8), Some(INVALIDATED));
        info.length = 0;
        windows.bind(50, (CONTEXT, 9), info, 0, true);
        assert!(windows.part(CONTEXT, 9).is_none());
        windows.forget(50);
        assert_eq!(windows.lost_because(CONTEXT, 9), Some(DEALLOCATED));
        assert!(windows.has_key(CONTEXT, 9) && !windows.has_key(CONTEXT, 99));
        assert!(!windows.has_key(CONTEXT + 1, 9));
    }

    #[test]
    fn a_window_of_type_2_is_for_one_queue_pair() {
        let mut windows = Windows::new();
        windows.add(50, 10);
        let info = Binding {
            region: 0,
            addr: 0x1000,
            length: 64,
            access: IBV_ACCESS_REMOTE_WRITE,
        };
        windows.bind(50, (1, 7), info, 17, true);
        let access = Access {
            side: key::Side::Remote,
            key: 7,
            addr: 0x1000,
            length: 64,
            pd: 10,
            right: IBV_ACCESS_REMOTE_WRITE,
        };
        let judge = |access: &Access, number| {
            let object = Object::qp(30, number);
            let finding = |rule| Finding::new(rule, object.clone(), "call", Outcome::Called);
            let found = windows.refused(access, 1, number, finding);
            found.map(|found| found.rule)
        };
        assert_eq!(judge(&access, 17), None);
        assert_eq!(judge(&access, 18), Some(Rule::Argument));
        let longer = Access {
            length: 65,
            ..access
        };
        assert_eq!(judge(&longer, 17), Some(Rule::KeyRange));
    }

    /// Another context may get the address of one that is closed.
    #[test]
    fn a_closed_context_leaves_no_keys() {
        let mut windows = Windows::new();
        for (mw, rkey) in [(1, 7), (2, 8)] {
            windows.allocate(mw, 10, (5, rkey));
        }
        windows.allocate(3, 11, (6, 7));
        windows.forget(2);
        assert!(windows.has_key(5, 7) && windows.has_key(5, 8));
        assert_eq!(windows.close(5, &[10]), [1, 2]);
        assert!(!windows.has_key(5, 7) && !windows.has_key(5, 8));
        assert!(windows.has_key(6, 7));
    }

    #[test]
    fn windows_of_domains() {
        let mut windows = Windows::new();
        for (mw, pd) in [(1, 10), (2, 11), (3, 10)] {
            windows.add(mw, pd);
        }
        assert_eq!(windows.of_domain(10).collect::<Vec<_>>(), [1, 3]);
        assert_eq!(windows.take(3), Some(10));
        assert_eq!(windows.close(5, &[10]), [1]);
        assert_eq!((windows.pd_of(1), windows.pd_of(2)), (None, Some(11)));
    }
}
