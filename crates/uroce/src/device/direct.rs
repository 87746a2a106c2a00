//! RDMA WRITE and READ on one host without the target's CPU (`crate::direct`): what this process lets its
//! peers access, and its accesses to their memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ibverbs_abi::{IBV_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_WRITE};

use super::qp_hca::QpHca;
use super::queue_pair::{Export, Inner, QueuePair};
use crate::direct::{ExportedQp, Exports, Request};
use roce::engine::{Gid, SendOp, SendWr, Target};

/// Longer requests are sent: the thread that posts a request copies all of it, and has the queue pair locked.
const MAX_LEN: u64 = 64 << 20;
/// The most bytes that one system call copies. Before each, the target is checked for changes of its regions.
const MAX_COPY: u64 = 1 << 20;

/// `IBV_UROCE_LOCAL`: whether devices that are opened from now on access memory directly.
static ENABLED: AtomicBool = AtomicBool::new(false);

/// Lets devices that this process opens from now on access the memory of processes of this host directly, and
/// lets these access theirs, or not.
pub fn enable(direct: bool) {
    ENABLED.store(direct, Ordering::Relaxed);
}

/// Opens the exports of a new device; None if they are switched off or not possible.
pub fn open() -> Option<Arc<Exports>> {
    if !ENABLED.load(Ordering::Relaxed) {
        return None;
    }
    let exports = Exports::create();
    if let Err(error) = &exports {
        log::debug!("uroce: no direct access to memory: {error}");
    }
    exports.ok().map(Arc::new)
}

/// The memory that this process lets the peers of a device's queue pairs access. Thread-safe. Methods that
/// take a queue pair's [`Inner`] are called with the queue pair locked.
pub(super) struct DirectAccess {
    /// The table of what they may access; None if they may access nothing.
    exports: Option<Arc<Exports>>,
}

impl DirectAccess {
    /// Nothing may be accessed yet: see [`DirectAccess::begin`].
    pub fn new(exports: Option<Arc<Exports>>) -> DirectAccess {
        DirectAccess { exports }
    }

    /// The program has changed a queue pair: lets its peer access memory, or no longer. Returns whether
    /// accesses may be in progress that the old attributes allowed: see [`DirectAccess::await_ended`].
    #[must_use]
    pub fn allow(&self, qp: &QueuePair, inner: &mut Inner) -> bool {
        let Some(exports) = &self.exports else {
            return false;
        };
        let was_exported = self.end(qp, inner);
        let engine = inner.engine();
        // The responder counts the requests of the peer.
        let access = engine
            .direct_access()
            .filter(|_| !qp.counters.counts_peer());
        if let (Some(access), Some(pd)) = (access, qp.pd) {
            let peer = engine.initiator();
            let exported = exports.add_qp(&ExportedQp {
                qpn: qp.qpn,
                peer_qpn: peer.qpn,
                peer: peer.gid,
                pd: pd.0,
                access,
                first_psn: peer.first_psn.get(),
            });
            if exported {
                inner.hca.export = Export::Current;
            }
        }
        was_exported
    }

    /// The queue pair has changed by itself. Its first packet has arrived in RTR: its peer may access memory.
    /// It has failed: accesses of its peer begin no longer.
    #[inline]
    pub fn update(&self, qp: &QueuePair, inner: &mut Inner) {
        match inner.hca.export {
            Export::Due => self.allow_due(qp, inner),
            Export::Current if inner.engine().direct_access().is_none() => {
                self.withdraw(qp, inner);
            }
            _ => {}
        }
    }

    #[cold]
    fn allow_due(&self, qp: &QueuePair, inner: &mut Inner) {
        // The queue pair's peer had no access before.
        let _ = self.allow(qp, inner);
    }

    #[cold]
    fn withdraw(&self, qp: &QueuePair, inner: &mut Inner) {
        inner.hca.export = Export::Withdrawn;
        if let Some(exports) = &self.exports {
            exports.withdraw_qp(qp.qpn);
        }
    }

    /// The queue pair is being changed or destroyed. Returns whether accesses of its peer may be in progress.
    #[must_use]
    pub fn end(&self, qp: &QueuePair, inner: &mut Inner) -> bool {
        if inner.hca.export == Export::Current {
            self.withdraw(qp, inner);
        }
        core::mem::take(&mut inner.hca.export) == Export::Withdrawn
    }

    /// Blocks until the accesses of a queue pair's peer that were in progress have ended, if there may be
    /// any. The caller has no lock: the peer may take long.
    pub fn await_ended(&self, qp: &QueuePair, was_exported: bool) {
        if let Some(exports) = self.exports.as_ref().filter(|_| was_exported) {
            exports.wait_for_qp(qp.qpn);
        }
    }

    /// Lets peers access memory as long as the calling thread runs, and the guard exists.
    pub fn begin(&self) -> Option<impl Drop> {
        let exports = self.exports.as_ref()?;
        let begun = exports.begin();
        if let Err(error) = &begun {
            log::debug!("uroce: no direct access to memory of this process: {error}");
        }
        begun.ok()
    }

    /// [`DirectAccess::begin`], until the process ends.
    #[cfg(test)]
    pub fn begin_for_good(&self) {
        self.exports.as_ref().unwrap().begin_for_good();
    }

    /// Regions and queue pairs that peers cannot access, as the table had no place.
    pub fn without_place(&self) -> u64 {
        let exports = self.exports.as_ref();
        exports.map_or(0, |exports| exports.without_place())
    }
}

impl QpHca<'_> {
    /// The access that executes a WRITE or READ; None if the peer's responder is to do it.
    fn request(&self, gid: Gid, wr: &SendWr, target: Target) -> Option<Request> {
        let (va, rkey, flag) = match wr.op {
            SendOp::Write { va, rkey } => (va, rkey, IBV_ACCESS_REMOTE_WRITE),
            SendOp::Read { va, rkey } => (va, rkey, IBV_ACCESS_REMOTE_READ),
            _ => return None,
        };
        let len = wr.message_len();
        (1..=MAX_LEN).contains(&len).then_some(Request {
            qpn: self.qp.qpn,
            gid,
            target_qpn: target.qpn,
            first_psn: target.first_psn.get(),
            rkey,
            va,
            len,
            flag,
        })
    }

    /// Whether [`QpHca::access_directly`] would probably execute a WRITE or READ.
    pub(super) fn may_access_directly(&self, wr: &SendWr, target: Target) -> bool {
        self.channel.is_some_and(|channel| {
            let request = self.request(channel.gid(), wr, target);
            request.is_some_and(|request| channel.grants(&request))
        })
    }

    /// Executes a WRITE or READ. False if the peer's responder is to do it.
    pub(super) fn access_directly(&mut self, wr: &SendWr, target: Target) -> bool {
        let (Some(channel), Some(pd)) = (self.channel, self.qp.pd) else {
            return false;
        };
        let Some(request) = self.request(channel.gid(), wr, target) else {
            return false;
        };
        let Some(access) = channel.begin_access(&request) else {
            return false;
        };
        let reads = request.flag == IBV_ACCESS_REMOTE_READ;
        if let Some(inline) = wr.inline() {
            let bytes = [libc::iovec {
                iov_base: inline.as_ptr().cast_mut().cast(),
                iov_len: inline.len(),
            }];
            // SAFETY: `bytes` names the inline data, which is only read: a READ has none.
            return !reads && unsafe { access.copy(&bytes, (0, inline.len())) };
        }
        let (qp, mut offset) = (self.qp, 0);
        while offset < request.len {
            let range = (offset, (request.len - offset).min(MAX_COPY) as usize);
            let regions = (&mut self.state.regions, qp.qpn);
            let copy = |local: &[libc::iovec]| {
                // SAFETY: the program's keys allow this access, which the table or what is known of it has
                // checked.
                unsafe { access.copy(local, range) }
            };
            let copied = qp
                .memory
                .with_local_for(regions, wr.sges(), range, reads, pd, copy);
            if copied != Ok(true) {
                return false;
            }
            offset += range.1 as u64;
        }
        true
    }
}
