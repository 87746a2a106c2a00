//! A CQ that is polled for seconds and stays empty: why no completion comes, as far as that is known. No
//! thread watches: the poll itself looks at the clock.

use core::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ibverbs_abi::*;

use super::{Qp, SendRequest, Shadow};
use crate::diagnose::check::state::state_name;
use crate::diagnose::finding::{Finding, Kind, Object, Outcome};
use crate::diagnose::rules::Rule;

/// Seconds without a completion; 0 stands for no limit.
static LIMIT: AtomicU64 = AtomicU64::new(5);

/// Sets the time after which an empty CQ is reported, in seconds. 0: never.
pub fn set_limit(seconds: u64) {
    LIMIT.store(seconds, Ordering::Relaxed);
}

/// How long a CQ has been empty.
#[derive(Clone, Copy, Debug, Default)]
pub struct Waiting {
    since: Option<Instant>,
    reported: bool,
}

/// A reason, and what to do.
type Reason = (String, &'static str);

impl Shadow {
    /// A poll of a CQ has returned nothing. Reports it once, if that has been so for long.
    pub(super) fn polled_empty(&mut self, address: usize, call: &'static str) -> Option<Finding> {
        let now = Instant::now();
        let waiting = &mut self.cqs.get_mut(&address)?.waiting;
        let elapsed = now.duration_since(*waiting.since.get_or_insert(now));
        let limit = LIMIT.load(Ordering::Relaxed);
        if waiting.reported || limit == 0 || elapsed < Duration::from_secs(limit) {
            return None;
        }
        waiting.reported = true;
        let (why, todo) = self.no_completion(address);
        let object = Object::at(Kind::Cq, address);
        Some(
            Finding::new(Rule::NoCompletion, object, call, Outcome::Succeeded)
                .with("seconds", limit)
                .with("why", why)
                .with("todo", todo),
        )
    }

    /// Why no completion comes to a CQ: the first reason that is certain, or else the possible ones.
    fn no_completion(&self, cq: usize) -> Reason {
        let qps = || {
            let uses = |qp: &&Qp| qp.send_cq == cq || qp.recv_cq == cq;
            self.qps.values().filter(uses)
        };
        if qps().next().is_none() {
            let why = "no queue pair has this CQ as its send_cq or recv_cq".into();
            return (why, "poll the CQs that the queue pairs were created with");
        }
        let failed = qps().find_map(failed);
        let sends = || {
            let mut sending = self.qps.iter().filter(|(_, qp)| qp.send_cq == cq);
            sending.find_map(|(at, qp)| self.sends_stay(*at, qp))
        };
        let receives = || {
            let mut receiving = self.qps.iter().filter(|(_, qp)| qp.recv_cq == cq);
            receiving.find_map(|(at, qp)| self.receives_stay(*at, qp))
        };
        let nothing = || {
            let elsewhere = qps().any(|qp| !qp.sends.is_empty() || !qp.receives.is_empty());
            match elsewhere {
                true => (
                    "the queue pairs have requests outstanding whose completions go to another CQ".into(),
                    "poll send_cq for requests and recv_cq for receives",
                ),
                false => (
                    "neither a request nor a receive is outstanding: all have completed, or none was posted"
                        .into(),
                    "poll only for as many completions as signaled requests and receives were posted",
                ),
            }
        };
        failed
            .or_else(sends)
            .or_else(receives)
            .unwrap_or_else(nothing)
    }

    /// Why requests do not complete, if there are some.
    fn sends_stay(&self, address: usize, qp: &Qp) -> Option<Reason> {
        let first = qp.sends.front()?;
        let (number, count) = (qp.number, qp.sends.len());
        let connection = &qp.connection;
        if !qp.sends.iter().any(|request| request.signaled) {
            return Some((
                format!(
                    "{count} requests of queue pair {number:#x} are posted, and none is signaled, so that \
                     none causes a completion (sq_sig_all is 0)"
                ),
                "set IBV_SEND_SIGNALED in the last request, or create the queue pair with sq_sig_all = 1",
            ));
        }
        if qp.state != IBV_QPS_RTS {
            return Some((
                format!(
                    "queue pair {number:#x} is in {}: it sends in RTS only",
                    state_name(qp.state)
                ),
                "modify the queue pair to RTS",
            ));
        }
        let peer = self.peer(address).map(|(_, peer)| peer);
        if let Some(peer) = peer {
            let state = state_name(peer.state);
            if !matches!(peer.state, IBV_QPS_RTR | IBV_QPS_RTS | IBV_QPS_SQD) {
                return Some((
                    format!(
                        "the peer's queue pair {:#x}, in this process, is in {state}",
                        peer.number
                    ),
                    "modify the peer's queue pair to RTR before sending",
                ));
            }
            let none_posted = peer.srq == 0 && peer.receives.is_empty();
            if none_posted && consumes_receive(first) && connection.rnr_retry == 7 {
                return Some((
                    format!(
                        "the peer's queue pair {:#x}, in this process, has no receive posted, and with \
                         rnr_retry 7 the request is repeated without end",
                        peer.number
                    ),
                    "post receives before the peer sends; with rnr_retry less than 7 it fails instead",
                ));
            }
        }
        let mut why =
            format!("{count} requests of queue pair {number:#x} are not acknowledged; possible: ");
        if consumes_receive(first) && connection.rnr_retry == 7 {
            why.push_str(
                "the peer has no receive posted, which rnr_retry 7 waits for without end; ",
            );
        }
        if connection.timeout == 0 {
            why.push_str("a packet was lost or the peer is gone, which timeout 0 never notices; ");
        }
        why.push_str("the peer is not in RTR, is connected to another queue pair, or is slow");
        let todo = "look at both queue pairs with `uroce-ctl` or ibv_query_qp, and set timeout (14 for \
                    example), retry_cnt and rnr_retry to values that are not infinite";
        Some((why, todo))
    }

    /// Why receives do not complete, if there are some.
    fn receives_stay(&self, address: usize, qp: &Qp) -> Option<Reason> {
        let in_srq = self
            .srqs
            .get(&qp.srq)
            .is_some_and(|srq| srq.posted > srq.completed);
        if qp.receives.is_empty() && !in_srq {
            return None;
        }
        let number = qp.number;
        if matches!(qp.state, IBV_QPS_RESET | IBV_QPS_INIT) {
            let state = state_name(qp.state);
            return Some((
                format!("queue pair {number:#x} is in {state}: it receives in RTR and later"),
                "modify the queue pair to RTR",
            ));
        }
        if qp.kind == IBV_QPT_UD {
            return Some((
                format!(
                    "no datagram has arrived at queue pair {number:#x}; possible: none was sent, or it was \
                     dropped, which UD does without an error: remote_qkey is not this queue pair's Q_Key, \
                     remote_qpn or the address handle is another's, or it does not fit the receive with \
                     40 bytes for the GRH"
                ),
                "compare remote_qpn, remote_qkey and the sizes of both sides",
            ));
        }
        let peer = self.peer(address).map(|(_, peer)| peer);
        if let Some(peer) = peer.filter(|peer| peer.state != IBV_QPS_RTS) {
            let state = state_name(peer.state);
            return Some((
                format!(
                    "the peer's queue pair {:#x}, in this process, is in {state}: it sends in RTS only",
                    peer.number
                ),
                "modify the peer's queue pair to RTS",
            ));
        }
        Some((
            format!(
                "the peer of queue pair {number:#x} has sent nothing that consumes a receive: only SEND and \
                 RDMA WRITE with immediate data do, RDMA WRITE and READ do not"
            ),
            "check that the peer has posted its SEND, and what its completion says",
        ))
    }
}

fn failed(qp: &Qp) -> Option<Reason> {
    let error = qp
        .first_error
        .as_ref()
        .filter(|_| qp.state == IBV_QPS_ERR)?;
    Some((
        format!(
            "queue pair {:#x} is in ERR since a {} (wr_id {}) completed with status {}",
            qp.number, error.operation, error.wr_id, error.status
        ),
        "remove the cause of that error, then modify the queue pair to RESET and connect it anew",
    ))
}

fn consumes_receive(request: &SendRequest) -> bool {
    matches!(
        request.opcode,
        IBV_WR_SEND | IBV_WR_SEND_WITH_IMM | IBV_WR_SEND_WITH_INV | IBV_WR_RDMA_WRITE_WITH_IMM
    )
}

#[cfg(test)]
mod tests {
    use super::super::tests::{receive, request, shadow_with_qp};
    use super::*;

    fn why(shadow: &Shadow) -> String {
        shadow.no_completion(20).0
    }

    #[test]
    fn the_cq_of_no_queue_pair() {
        let shadow = shadow_with_qp(IBV_QPS_RTS);
        assert!(shadow.no_completion(99).0.starts_with("no queue pair"));
    }

    #[test]
    fn requests() {
        let mut shadow = shadow_with_qp(IBV_QPS_RTS);
        assert!(why(&shadow).contains("neither a request nor a receive"));
        let unsignaled = SendRequest {
            signaled: false,
            ..request(1, 7)
        };
        shadow.qps.get_mut(&30).unwrap().sends.push_back(unsignaled);
        assert!(why(&shadow).contains("none is signaled"));
        shadow
            .qps
            .get_mut(&30)
            .unwrap()
            .sends
            .push_back(request(2, 7));
        assert!(why(&shadow).contains("timeout 0 never notices"));
        shadow.qps.get_mut(&30).unwrap().state = IBV_QPS_SQD;
        assert!(why(&shadow).contains("is in SQD"));
    }

    #[test]
    fn receives() {
        let mut shadow = shadow_with_qp(IBV_QPS_INIT);
        shadow
            .qps
            .get_mut(&30)
            .unwrap()
            .receives
            .push_back(receive(1, 7));
        assert!(why(&shadow).contains("is in INIT"));
        shadow.qps.get_mut(&30).unwrap().state = IBV_QPS_RTS;
        assert!(why(&shadow).contains("has sent nothing"));
    }

    #[test]
    fn a_queue_pair_in_error() {
        let mut shadow = shadow_with_qp(IBV_QPS_ERR);
        shadow.qps.get_mut(&30).unwrap().first_error = Some(super::super::FirstError {
            wr_id: 3,
            operation: "SEND",
            status: 12,
        });
        assert!(why(&shadow).contains("a SEND (wr_id 3) completed with status 12"));
    }
}
