//! RDMA WRITE and READ on one host without the target's CPU (`crate::direct`): what this process lets its
//! peers access, and its accesses to their memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ibverbs_abi::{IBV_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_WRITE};

use super::Device;
use super::qp_host::QpHost;
use super::queue_pair::{Export, Inner, QueuePair};
use crate::direct::{ExportedQp, Exports, Request};
use crate::engine::{Gid, SendOp, SendWr, Target};
use crate::local::Access;

/// The most bytes that one WR copies in the thread that posts it.
const MAX_LEN: u64 = 64 << 20;

/// `IBV_UROCE_LOCAL`: whether devices that are opened from now on access memory directly.
static ENABLED: AtomicBool = AtomicBool::new(false);

/// Lets devices that this process opens from now on access the memory of processes of this host directly, and
/// lets these access theirs, or not.
pub fn enable(direct: bool) {
    ENABLED.store(direct, Ordering::Relaxed);
}

/// What a new device exports; None if that is switched off or not possible.
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

impl Device {
    /// The program has changed a queue pair: lets its peer access memory, or no longer. Returns when accesses
    /// have ended that the old attributes allowed.
    pub(super) fn export_qp(&self, qp: &QueuePair, inner: &mut Inner) {
        let Some(exports) = &self.exports else {
            return;
        };
        self.end_direct_access(qp, inner);
        let engine = inner.engine();
        if let (Some(access), Some(pd)) = (engine.direct_access(), qp.pd) {
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
                inner.export = Export::Current;
            }
        }
    }

    /// The queue pair has changed by itself. Its first packet has arrived in RTR: its peer may access memory.
    /// It has failed: accesses of its peer begin no longer.
    #[inline]
    pub(super) fn update_export(&self, qp: &QueuePair, inner: &mut Inner) {
        match inner.export {
            Export::Due => self.export_due(qp, inner),
            Export::Current if inner.engine().direct_access().is_none() => {
                self.withdraw_qp(qp, inner);
            }
            _ => {}
        }
    }

    #[cold]
    fn export_due(&self, qp: &QueuePair, inner: &mut Inner) {
        self.export_qp(qp, inner);
    }

    #[cold]
    fn withdraw_qp(&self, qp: &QueuePair, inner: &mut Inner) {
        inner.export = Export::Withdrawn;
        if let Some(exports) = &self.exports {
            exports.withdraw_qp(qp.qpn);
        }
    }

    /// The queue pair is being changed or destroyed. Returns when accesses of its peer have ended.
    pub(super) fn end_direct_access(&self, qp: &QueuePair, inner: &mut Inner) {
        if inner.export == Export::Due {
            inner.export = Export::None;
        }
        if inner.export == Export::Current {
            self.withdraw_qp(qp, inner);
        }
        if inner.export == Export::Withdrawn {
            inner.export = Export::None;
            if let Some(exports) = &self.exports {
                exports.wait();
            }
        }
    }

    /// Lets peers access memory as long as the calling thread runs, and the guard exists.
    pub(super) fn begin_exports(&self) -> Option<impl Drop> {
        let exports = self.exports.as_ref()?;
        let begun = exports.begin();
        if let Err(error) = &begun {
            log::debug!("uroce: no direct access to memory of this process: {error}");
        }
        begun.ok()
    }
}

impl QpHost<'_> {
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

    /// Executes a WRITE or READ. False if the peer's responder is to do it.
    pub(super) fn access_directly(&self, access: &Access<'_>, wr: &SendWr, target: Target) -> bool {
        let (Some(pd), Some(request)) = (self.qp.pd, self.request(access.gid(), wr, target)) else {
            return false;
        };
        let (Some(address), Some(process)) = (access.locate(&request), access.process()) else {
            return false;
        };
        let len = request.len as usize;
        let reads = request.flag == IBV_ACCESS_REMOTE_READ;
        if let Some(inline) = wr.inline() {
            let bytes = [libc::iovec {
                iov_base: inline.as_ptr().cast_mut().cast(),
                iov_len: inline.len(),
            }];
            // SAFETY: `bytes` names the inline data, which is only read: a READ has none.
            let copied = !reads && unsafe { process.write(&bytes, address, len) };
            return copied && access.process().is_some();
        }
        let memory = &self.qp.memory;
        let copied = memory.with_local(wr.sges(), (0, len), reads, pd, |local| {
            // SAFETY: `with_local` has checked that the program's keys allow this access.
            unsafe {
                if reads {
                    process.read(local, address, len)
                } else {
                    process.write(local, address, len)
                }
            }
        });
        copied.unwrap_or(false) && access.process().is_some()
    }
}
