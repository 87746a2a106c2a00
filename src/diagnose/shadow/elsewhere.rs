//! Guesses at what was meant: receives that are posted to another queue pair, a key of another
//! context.

use super::{Mr, Shadow};
use crate::diagnose::check::key::{self, Access, Side};

impl Shadow {
    /// The peer, in this process, has no receive, and another queue pair of its program has some, which no
    /// message has consumed.
    pub(super) fn receives_elsewhere(&self, address: usize) -> Option<String> {
        let (at, peer) = self
            .peer(address)
            .filter(|(_, peer)| peer.receives.posted == 0)?;
        let mut others = self.qps.iter().filter(|(of, other)| {
            let is_candidate = **of != at && other.context == peer.context && other.srq == 0;
            is_candidate && other.receives.completed == 0 && other.kind == peer.kind
        });
        let (_, other) = others.find(|(_, other)| !other.receives.list.is_empty())?;
        Some(format!(
            "{} receives are posted to another queue pair of that program, {:#x}, and none of them was \
             consumed",
            other.receives.list.len(),
            other.number
        ))
    }

    /// A region of another context that has the key; if it is a remote one, and the address.
    pub(super) fn of_other_context(&self, access: &Access, context: usize) -> Option<String> {
        let key = |mr: &Mr| match access.side {
            Side::Local => mr.lkey,
            Side::Remote => mr.rkey,
        };
        let is_it = |mr: &&Mr| {
            let range = mr.start..mr.start.saturating_add(mr.length);
            let is_near = access.side == Side::Local || range.contains(&access.addr);
            mr.context != context && key(mr) == access.key && is_near
        };
        let mr = self.mrs.values().find(is_it)?;
        Some(format!(
            "it is the key of the region {} of another context, that of {}: each ibv_open_device makes a \
             context \
             of its own",
            key::region(mr),
            self.device_of(mr.context)
        ))
    }
}
