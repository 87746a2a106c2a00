//! Changes of a queue pair's attributes.

use ibverbs_abi::*;

use super::connection;
use super::{Qp, Shadow};
use crate::diagnose::check::{gid, state};
use crate::diagnose::finding::{Finding, Outcome};
use crate::diagnose::peer_facts::Peer;

/// The arguments of a call of ibv_modify_qp.
#[derive(Clone, Copy)]
pub struct Change {
    pub mask: u32,
    pub attr: ibv_qp_attr,
    /// `attr.ah_attr.grh.dgid`.
    pub dgid: [u8; 16],
}

impl Change {
    fn has(&self, bit: u32) -> bool {
        self.mask & bit != 0
    }

    /// The state that the call asks for.
    pub fn state(&self) -> Option<ibv_qp_state> {
        self.has(IBV_QP_STATE).then_some(self.attr.qp_state)
    }
}

/// The machine's view of an address vector: GID table, routing table. None if no address vector is
/// set.
pub type Surroundings = Option<gid::Facts>;

impl Shadow {
    /// ibv_modify_qp has returned.
    pub fn modified(
        &mut self,
        address: usize,
        change: &Change,
        outcome: Outcome,
        surroundings: &Surroundings,
    ) -> Vec<Finding> {
        let object = self.qps.object(address);
        let Some(qp) = self.qps.get_mut(&address) else {
            return Vec::new();
        };
        if outcome.is(libc::EINVAL) {
            let refused = state::refused(&object, qp.kind, qp.state, change.state(), change.mask);
            if let Some(found) = refused {
                return vec![found];
            }
        }
        let vector = |facts| gid::vector(facts, &object, "ibv_modify_qp", &outcome);
        let mut found: Vec<Finding> = surroundings.iter().filter_map(vector).collect();
        if outcome.failed() {
            return found;
        }
        apply(qp, change, surroundings);
        match change.state() {
            Some(IBV_QPS_RESET) => self.qps.was_reset(address),
            Some(IBV_QPS_RTR) => self.qps.was_connected(address),
            _ => {}
        }
        let Some(qp) = self.qps.get(&address) else {
            return found;
        };
        let connects = change.has(IBV_QP_STATE) && matches!(qp.state, IBV_QPS_RTR | IBV_QPS_RTS);
        if connects && qp.kind != IBV_QPT_UD {
            let peer = self.peer(qp).map(|peer| peer.address);
            if let Some((at, peer)) = peer.and_then(|at| Some((at, self.describe(at, None)?))) {
                found.extend(connection::pair(&object, qp, &peer));
                let here = qp.connection.max_dest_rd_atomic.into();
                if peer.dest_qpn == Some(qp.number.into()) {
                    self.qps.change(at, |peer| peer.limit_reads(Some(here)));
                    self.qps
                        .change(address, |qp| qp.limit_reads(peer.max_dest_rd_atomic));
                }
            }
        }
        found
    }
}

impl Shadow {
    /// Whether a connected queue pair has its peer elsewhere, and nothing was sent or received by it: so it
    /// was not reset, with a peer that is still in the old connection.
    pub fn is_new_connection(&self, address: usize) -> bool {
        let Some(qp) = self.qps.get(&address) else {
            return false;
        };
        let is_new = qp.sends.posted() == 0 && qp.receives.completed() == 0;
        is_new && matches!(qp.kind, IBV_QPT_RC | IBV_QPT_UC) && self.peer(qp).is_none()
    }

    /// Compares a queue pair with its peer in another process.
    pub fn compared(&self, address: usize, peer: &Peer) -> Vec<Finding> {
        match self.qps.get(&address) {
            Some(qp) => connection::pair(&qp.object(), qp, peer),
            None => Vec::new(),
        }
    }
}

/// Records the attributes that the mask names.
fn apply(qp: &mut Qp, change: &Change, surroundings: &Surroundings) {
    let attr = &change.attr;
    let connection = &mut qp.connection;
    macro_rules! take {
        ($($bit:ident $to:ident = $from:expr;)+) => { $(
            if change.has($bit) {
                connection.$to = $from;
            }
        )+ };
    }
    take! {
        IBV_QP_PATH_MTU mtu = 128 << attr.path_mtu.min(5);
        IBV_QP_DEST_QPN dest_qpn = attr.dest_qp_num;
        IBV_QP_RQ_PSN rq_psn = attr.rq_psn;
        IBV_QP_SQ_PSN sq_psn = attr.sq_psn;
        IBV_QP_TIMEOUT timeout = attr.timeout;
        IBV_QP_RETRY_CNT retry_cnt = attr.retry_cnt;
        IBV_QP_RNR_RETRY rnr_retry = attr.rnr_retry;
        IBV_QP_MIN_RNR_TIMER min_rnr_timer = attr.min_rnr_timer;
        IBV_QP_MAX_QP_RD_ATOMIC max_rd_atomic = attr.max_rd_atomic;
        IBV_QP_MAX_DEST_RD_ATOMIC max_dest_rd_atomic = attr.max_dest_rd_atomic;
        IBV_QP_AV sgid_index = attr.ah_attr.grh.sgid_index;
    }
    if change.has(IBV_QP_AV) {
        connection.dgid = change.dgid;
        if let Some(facts) = surroundings {
            connection.sgid = facts.source().map_or([0; 16], |source| source.gid);
            connection.better_index = facts.same_with_v2();
        }
    }
    if change.has(IBV_QP_QKEY) {
        qp.qkey = attr.qkey;
    }
    if change.has(IBV_QP_ACCESS_FLAGS) {
        qp.access = attr.qp_access_flags;
    }
    if let Some(state) = change.state() {
        let asks = change.has(IBV_QP_EN_SQD_ASYNC_NOTIFY) && attr.en_sqd_async_notify != 0;
        qp.drains_unnoticed = state == IBV_QPS_SQD && !asks;
        qp.enter_state(state);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{new_qp, rules, shadow_with_qp};
    use super::*;
    use crate::diagnose::rules::Rule;

    fn change(state: ibv_qp_state, mask: u32, set: impl FnOnce(&mut ibv_qp_attr)) -> Change {
        // SAFETY: the struct consists of integers and bytes, for which zeros are valid.
        let mut attr: ibv_qp_attr = unsafe { core::mem::zeroed() };
        attr.qp_state = state;
        set(&mut attr);
        Change {
            mask: mask | IBV_QP_STATE,
            attr,
            dgid: [0; 16],
        }
    }

    #[test]
    fn refused_changes_change_nothing() {
        let mut shadow = shadow_with_qp(IBV_QPS_RESET);
        let to_rts = change(IBV_QPS_RTS, IBV_QP_SQ_PSN, |_| ());
        let found = shadow.modified(30, &to_rts, Outcome::of(libc::EINVAL), &None);
        assert_eq!(rules(&found), [Rule::QpTransition]);
        assert_eq!(shadow.qps[&30].state, IBV_QPS_RESET);
    }

    #[test]
    fn both_ends_are_compared_when_they_are_connected() {
        let mut shadow = shadow_with_qp(IBV_QPS_INIT);
        shadow.add_qp(31, new_qp(18));
        let connect = |shadow: &mut Shadow, at, dest, mtu| {
            let mask = IBV_QP_PATH_MTU | IBV_QP_DEST_QPN;
            let change = change(IBV_QPS_RTR, mask, |attr| {
                attr.dest_qp_num = dest;
                attr.path_mtu = mtu;
            });
            let found = shadow.modified(at, &change, Outcome::Succeeded, &None);
            rules(&found)
        };
        assert_eq!(connect(&mut shadow, 30, 18, IBV_MTU_1024), []);
        assert_eq!(connect(&mut shadow, 31, 17, IBV_MTU_1024), []);
        assert_eq!(
            connect(&mut shadow, 31, 17, IBV_MTU_4096),
            [Rule::MtuDiffers]
        );
        assert_eq!(shadow.qps[&31].connection.mtu, 4096);
        assert_eq!(
            connect(&mut shadow, 31, 17, IBV_MTU_256),
            [Rule::MtuDiffers]
        );
    }

    #[test]
    fn reset_forgets() {
        let mut shadow = shadow_with_qp(IBV_QPS_RTS);
        shadow.qps.get_mut(&30).unwrap().connection.dest_qpn = 5;
        let reset = change(IBV_QPS_RESET, 0, |_| ());
        assert!(
            shadow
                .modified(30, &reset, Outcome::Succeeded, &None)
                .is_empty()
        );
        assert_eq!(shadow.qps[&30].connection.dest_qpn, 0);
    }
}
