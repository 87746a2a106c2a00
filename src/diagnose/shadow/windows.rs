//! Memory windows: what they are bound to, and the keys that they had.

use ibverbs_abi::*;

use super::{Mr, Shadow};
use crate::diagnose::check::key::{self, Access};
use crate::diagnose::finding::Finding;
use crate::diagnose::rules::Rule;

/// More former keys of a window than this are forgotten.
const MAX_PAST: usize = 64;
/// More keys of windows that are gone are forgotten.
const MAX_GONE: usize = 1024;

/// The memory that a window is bound to.
#[derive(Clone, Copy, Debug)]
pub struct Binding {
    region: usize,
    addr: u64,
    length: u64,
    access: u32,
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
    /// The bound part of the region; its length is 0 when the window is not bound.
    part: Mr,
    is_bound: bool,
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

impl Shadow {
    /// A bind of a window has been posted. It has the key `rkey` from then on. `qp`: the queue pair to which
    /// a window of type 2 is bound, or 0.
    pub fn bound(&mut self, mw: usize, rkey: u32, to: Binding, qp: usize) {
        let by = self.qps.get(&qp).map_or(0, |qp| qp.number);
        let region = self.mrs.get(&to.region).copied();
        let (Some(pd), Some(context)) = (
            self.mws.get(&mw).copied(),
            self.context_of(crate::diagnose::finding::Kind::Mw, mw),
        ) else {
            return;
        };
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
            is_memory: region.is_some_and(|region| region.is_memory),
        };
        let mut past = self
            .windows
            .remove(&mw)
            .map_or_else(Vec::new, |window| window.with_past());
        past.retain(|key| *key != rkey);
        past.truncate(MAX_PAST);
        let window = Window {
            part,
            is_bound: to.length > 0,
            by,
            past,
        };
        self.windows.insert(mw, window);
    }

    /// A bind is built in a queue pair.
    pub fn binding(&mut self, qp: usize, mw: usize, rkey: u32, to: Binding) {
        if let Some(qp) = self.qps.get_mut(&qp) {
            qp.binds.push((mw, rkey, to));
        }
    }

    /// Ends the binds that were built in a queue pair: they are posted, or dropped, as `posted`
    /// says.
    pub fn bindings_end(&mut self, qp: usize, posted: bool) {
        let taken = self
            .qps
            .get_mut(&qp)
            .map(|qp| core::mem::take(&mut qp.binds));
        for (mw, rkey, to) in taken.unwrap_or_default().into_iter().filter(|_| posted) {
            self.bound(mw, rkey, to, qp);
        }
    }

    /// The window is gone.
    pub fn unbound(&mut self, mw: usize) {
        if let Some(window) = self.windows.remove(&mw) {
            if self.gone_windows.len() == MAX_GONE {
                self.gone_windows.pop_front();
            }
            let key = (window.part.context, window.part.rkey);
            self.gone_windows.push_back(key);
        }
    }

    /// The window of this key has been invalidated.
    pub fn invalidated(&mut self, context: usize, rkey: u32) {
        let mut all = self.windows.values_mut();
        let of = |window: &&mut Window| window.part.rkey == rkey && window.part.context == context;
        if let Some(window) = all.find(of) {
            window.is_bound = false;
        }
    }

    fn window_of(&self, context: usize, rkey: u32) -> Option<Found<'_>> {
        let of = || {
            self.windows
                .values()
                .filter(|of| of.part.context == context)
        };
        let current = of()
            .find(|window| window.part.rkey == rkey)
            .map(Found::Current);
        current.or_else(|| {
            let past = of().any(|window| window.past.contains(&rkey));
            let gone = || self.gone_windows.contains(&(context, rkey));
            let gone = || gone().then_some(Found::Gone);
            past.then_some(Found::Past).or_else(gone)
        })
    }

    /// The part of memory that a key of a context gives access to, if it is that of a window that is bound.
    pub fn window_part(&self, context: usize, rkey: u32) -> Option<Mr> {
        match self.window_of(context, rkey)? {
            Found::Current(window) if window.is_bound => Some(window.part),
            _ => None,
        }
    }

    /// Why a key of a window does not give access: its text.
    pub fn window_state(&self, context: usize, rkey: u32) -> Option<&'static str> {
        match self.window_of(context, rkey)? {
            Found::Current(window) if window.is_bound => None,
            Found::Current(_) => Some(INVALIDATED),
            Found::Past => Some(REBOUND),
            Found::Gone => Some(DEALLOCATED),
        }
    }

    /// Why an access with the key of a window of this process is refused, to the queue pair of this number.
    pub(super) fn judge_window(
        &self,
        access: &Access,
        context: usize,
        number: u32,
        finding: impl Fn(Rule) -> Finding,
    ) -> Option<Finding> {
        if let Some(state) = self.window_state(context, access.key) {
            return Some(lost(finding(Rule::Argument), access.key, state));
        }
        let Some(Found::Current(window)) = self.window_of(context, access.key) else {
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

const REBOUND: &str = "before it was bound again";
const DEALLOCATED: &str = "until it was deallocated";
const INVALIDATED: &str = "until it was invalidated, or bound to nothing";

/// A window of type 2 that another queue pair has bound.
fn of_other(finding: Finding, rkey: u32, by: u32, number: u32) -> Finding {
    finding
        .with(
            "what",
            format!(
                "the remote key {rkey:#x} is that of a memory window of type 2, which the queue pair {by:#x} \
                 has bound, and the request came to the queue pair {number:#x}"
            ),
        )
        .with(
            "why",
            "a window of type 2 gives access only to the peer of the queue pair to which its bind was posted",
        )
        .with(
            "todo",
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
        .with(
            "what",
            format!("the remote key {rkey:#x} is that of a memory window of the peer, which it had {state}"),
        )
        .with("why", why)
        .with(
            "todo",
            "send the peer mw->rkey (type 1: as it is after ibv_bind_mw; type 2: the rkey of the request) \
             each time that the window is bound",
        )
}

#[cfg(test)]
mod tests {
    use super::super::tests::shadow_with_qp;
    use super::*;

    #[test]
    fn keys_of_windows() {
        let mut shadow = shadow_with_qp(IBV_QPS_RTS);
        shadow.add_mw(50, 10);
        let mut info = Binding {
            region: 0,
            addr: 0x1000,
            length: 64,
            access: IBV_ACCESS_REMOTE_WRITE,
        };
        shadow.bound(50, 7, info, 0);
        let context = shadow
            .context_of(crate::diagnose::finding::Kind::Mw, 50)
            .unwrap();
        assert_eq!(shadow.window_part(context, 7).unwrap().length, 64);
        shadow.bound(50, 8, info, 30);
        assert_eq!(shadow.window_state(context, 7), Some(REBOUND));
        assert_eq!(shadow.window_state(context, 8), None);
        shadow.invalidated(context, 8);
        assert_eq!(shadow.window_state(context, 8), Some(INVALIDATED));
        info.length = 0;
        shadow.bound(50, 9, info, 0);
        assert!(shadow.window_part(context, 9).is_none());
        shadow.unbound(50);
        assert_eq!(shadow.window_state(context, 9), Some(DEALLOCATED));
        assert!(shadow.window_of(context, 99).is_none());
    }
}
