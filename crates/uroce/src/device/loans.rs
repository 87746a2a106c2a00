//! Messages whose bytes the receiver copies from the sender's memory (`engine/requester/lending.rs`): what a
//! queue pair has lent, and the copies.

use std::sync::Arc;

use libc::iovec;

use super::Device;
use super::qp_host::QpHost;
use super::queue_pair::{Inner, QueuePair};
use crate::direct::write_parts;
use crate::engine::{LocalError, RemoteError, RemoteKey, Sge};
use crate::local::Channel;
use crate::memory::PdHandle;
use crate::wire::{Packet, Reference, ReferencePart};

impl QpHost<'_> {
    /// See [`crate::engine::Host::lend`].
    pub(super) fn lend_memory(&mut self, sges: &[Sge], offset: u64, len: u32) -> Option<Reference> {
        let channel = self.channel?;
        // Before the addresses are known: a loan that is withdrawn meanwhile is not valid.
        let loan = channel.loan(self.qp.qpn)?;
        let range = (offset, len as usize);
        let located = self
            .qp
            .memory
            .with_local(sges, range, false, self.qp.pd?, |local| {
                Reference::new(loan, local.iter().map(part_of))
            });
        let reference = located.ok().flatten()?;
        let is_same = |lent: &Arc<Channel>| Arc::ptr_eq(lent, channel);
        if !self.lent.as_ref().is_some_and(is_same) {
            self.withdraw_loans();
            *self.lent = Some(Arc::clone(channel));
        }
        Some(reference)
    }

    /// See [`crate::engine::Host::withdraw`].
    #[inline]
    pub(super) fn withdraw_loans(&mut self) {
        if let Some(channel) = self.lent.take() {
            channel.withdraw(self.qp.qpn);
        }
    }

    /// Copies what a reference names into the memory of a receive WR. False as [`Channel::copy_loan`].
    pub(super) fn copy_to_sges(
        &self,
        sges: &[Sge],
        offset: u64,
        from: &Reference,
        pd: PdHandle,
    ) -> Result<bool, LocalError> {
        let range = (offset, from.payload_len() as usize);
        let memory = &self.qp.memory;
        memory.with_local(sges, range, true, pd, |local| self.copy(from, local))
    }

    /// Copies what a reference names to where an RDMA WRITE goes. The last bytes become visible last. False
    /// as [`Channel::copy_loan`].
    pub(super) fn copy_to_va(
        &self,
        key: RemoteKey,
        va: u64,
        from: &Reference,
    ) -> Result<bool, RemoteError> {
        let len = from.payload_len() as usize;
        self.as_accessing_qp(key.xrc_srqn, |qp| {
            let memory = &self.qp.memory;
            memory.with_remote(key.rkey, va, len, qp, |to| {
                self.copy(from, &write_parts(to))
            })
        })
    }

    fn copy(&self, from: &Reference, local: &[iovec]) -> bool {
        let copy = |channel: &Arc<Channel>| {
            channel.copy_loan(from.loan, |process| {
                let remote = from.parts().iter();
                let remote = remote.map(|part| (part.address, part.len as usize));
                // SAFETY: the callers have it from the memory table, which has checked that the program's
                // keys allow writing there, and whose lock they hold.
                unsafe { process.read_parts(local, remote) == from.payload_len() as usize }
            })
        };
        self.source.as_ref().is_some_and(copy)
    }
}

impl Inner {
    /// The queue pair or the process ends: what the peer has not copied yet is to be sent. Programs end with
    /// requests outstanding. Returns whether there is any.
    pub(super) fn call_in_loans(&mut self, qp: &QueuePair) -> bool {
        let (engine, _) = self.split(qp);
        engine.send_lent_as_bytes()
    }

    /// The queue pair ends: its memory is the program's again.
    pub(super) fn withdraw_loans(&mut self, qpn: u32) {
        if let Some(channel) = self.take_lent() {
            channel.withdraw(qpn);
        }
    }
}

impl Device {
    /// The process ends. Skips locks that are held, as their holder may never run again.
    pub(super) fn call_in_loans_at_exit(&self) {
        let Some(queue_pairs) = self.queue_pairs.try_read() else {
            return;
        };
        let all: Vec<_> = queue_pairs.values().cloned().collect();
        // A thread that sends may look one up.
        drop(queue_pairs);
        for qp in all {
            if let Some(mut inner) = qp.inner.try_lock() {
                if inner.call_in_loans(&qp) {
                    self.send(&qp, inner);
                }
            }
        }
    }

    /// What the reference of a packet came through, if the packet has one.
    #[inline]
    pub(super) fn source_of(&self, packet: &Packet<'_>) -> Option<Arc<Channel>> {
        let reference = packet.reference?;
        self.paths.as_ref()?.numbered(reference.source)
    }
}

fn part_of(local: &iovec) -> ReferencePart {
    ReferencePart {
        address: local.iov_base.expose_provenance() as u64,
        // At most what was asked for.
        len: local.iov_len as u32,
    }
}
