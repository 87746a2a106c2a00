//! A program that waits for a completion: finds out why none comes to the CQ that it polls, or whose event it
//! sleeps for.
//!
//! Not here: which threads sleep, and for what (`sleeping.rs`, `watch.rs`).
//!
//! A program may wait for hours for a peer that has nothing to say. So nothing is said of receives that stay
//! posted, unless something was seen that keeps them there; requests that are sent must complete.

use ibverbs_abi::*;

use super::cq::{Armed, Dropped};
use super::limit::limit;
use super::quiet::{self, ended};
use super::sends::consumes_receive;
use super::wait::{Reason, Unread, Wait};
use super::{IN_THIS_PROCESS, Qp, SendRequest, Shadow};
use crate::diagnose::check::state::state_name;
use crate::diagnose::facts;
use crate::diagnose::finding::{Finding, Kind, Object, Outcome};
use crate::diagnose::peer_facts::Peer;
use crate::diagnose::rules::Rule;
use crate::diagnose::shadow::connection;

impl Shadow {
    /// A poll of a CQ has returned nothing. If that has been so for long, the queue pairs of which both ends
    /// are to be examined; once.
    pub fn overdue(&mut self, address: usize) -> Option<Vec<usize>> {
        let is_overdue = self.cqs.empty_for_long(address);
        is_overdue.then(|| self.qps.on_cqs(&[address]))
    }

    /// Why no completion comes to a CQ that is polled.
    pub fn polled_too_long(
        &self,
        address: usize,
        call: &'static str,
        unread: Unread,
    ) -> Option<Finding> {
        let seconds = limit()?.as_secs();
        let wait = self.wait(unread);
        let reason = wait.no_completion(address);
        let reason = reason.or_else(|| wait.counts_unsignaled(address));
        let (why, todo) = reason.or_else(|| self.dropped(address))?;
        let object = Object::at(Kind::Cq, address);
        Some(
            Finding::new(Rule::NoCompletion, object, call, Outcome::Succeeded)
                .with("seconds", seconds)
                .with("why", why)
                .with("todo", todo),
        )
    }
}

impl Shadow {
    /// The last queue pair of the process was destroyed with something outstanding. A program of several
    /// threads, or with ids of librdmacm, may make others; so may one that listens on a socket.
    fn dropped(&self, cq: usize) -> Option<Reason> {
        let dropped = self.cqs.get(&cq)?.dropped?;
        let is_last = self.qps.values().next().is_none();
        let goes_on = || self.cm_ids.all().next().is_some() || !facts::is_alone();
        (is_last && !goes_on()).then(|| {
            let Dropped {
                number,
                sends,
                receives,
            } = dropped;
            (
                format!(
                    "no queue pair uses this CQ: {number:#x} was destroyed with {sends} signaled requests \
                     and {receives} receives outstanding, which have no completion"
                ),
                "modify a queue pair to ERR, poll the completions of all that is flushed, and destroy it \
                 then",
            )
        })
    }
}

impl Wait<'_> {
    /// Why no completion comes to a CQ; None if that may be right.
    pub(super) fn no_completion(&self, cq: usize) -> Option<Reason> {
        let on_sends = |qp: &&Qp| qp.send_cq == cq;
        let on_receives = |qp: &&Qp| qp.recv_cq == cq;
        let uses = |qp: &&Qp| on_sends(qp) || on_receives(qp);
        let qps = || self.qps.values().filter(uses);
        if qps().next().is_some() && qps().all(|qp| qp.state == IBV_QPS_ERR) {
            let of_error = qps().find_map(failed);
            let of_srq = || qps().find_map(|qp| self.srq_keeps(qp));
            let ended = || qps().filter(|qp| qp.srq == 0).find_map(ended);
            return of_error.or_else(ended).or_else(of_srq);
        }
        let (signaled, receives) = self.qps.outstanding_on(cq);
        if let Some(reason) = self.asks_for_none(cq) {
            return Some(reason);
        }
        let mut sending = self.qps.values().filter(on_sends);
        let mut receiving = self.qps.values().filter(on_receives);
        sending
            .clone()
            .find_map(not_completed)
            .or_else(|| {
                sending.clone().find_map(|qp| {
                    let entries = self.cqs.get(&cq).map_or(0, |cq| cq.entries);
                    quiet::overrun(qp, signaled, entries).or_else(|| sends_stay(qp))
                })
            })
            .or_else(|| {
                let (other, todo) = self.elsewhere(cq, qps().next().is_none())?;
                let waits_only = signaled == 0 && receives == 0;
                let here = || sending.clone().find_map(unsignaled);
                Some(match waits_only.then(here).flatten() {
                    Some((here, todo)) => (format!("{here}; besides, {other}"), todo),
                    None => (other, todo),
                })
            })
            .or_else(|| {
                let (why, todo) = receiving.find_map(|qp| self.receives_stay(qp))?;
                let sent = sending.clone().find_map(unsignaled);
                Some(match sent {
                    // Which of both the program waits for is not known.
                    Some((sent, _)) => (format!("{sent}; and of the receives: {why}"), EITHER),
                    None => (why, todo),
                })
            })
            .or_else(|| {
                let nothing_else = signaled == 0 && receives == 0 && self.cqs.is_only_polled(cq);
                let of = nothing_else.then(|| {
                    let has_srq = qps().any(|qp| qp.srq != 0);
                    let ended = || qps().filter(|_| !has_srq).find_map(ended);
                    sending.find_map(unsignaled).or_else(ended)
                });
                of.flatten()
            })
    }

    /// Polls with room for no completion.
    fn asks_for_none(&self, cq: usize) -> Option<Reason> {
        let (_, asked) = self.cqs.get(&cq)?.notify.last_poll?;
        let waiting = (self.unread)(cq).filter(|waiting| *waiting > 0)?;
        (asked == 0 || asked > i32::MAX as u32).then(|| {
            let asked = asked as i32;
            (
                format!(
                    "{waiting} completions wait in this CQ, and ibv_poll_cq was called with \
                     num_entries {asked}"
                ),
                "pass the number of elements of the array wc, 1 at least",
            )
        })
    }

    /// Completions on a CQ that the program does not poll. `unused`: no queue pair has the CQ that it polls.
    fn elsewhere(&self, cq: usize, unused: bool) -> Option<Reason> {
        limit()?;
        let todo = "poll send_cq of a queue pair for its requests, and recv_cq for its receives";
        let beginning = match unused {
            true => "no queue pair has this CQ as its send_cq or recv_cq, and",
            false => "nothing has come to this CQ, and",
        };
        for (at, other) in self.cqs.neglected(cq) {
            let waiting = (self.unread)(*at).unwrap_or(0);
            if waiting > 0 && other.is_armed == Armed::No {
                return Some((
                    format!(
                        "{beginning} {waiting} completions wait on the CQ {at:#x}, which is not polled"
                    ),
                    todo,
                ));
            }
            let (signaled, receives) = self.qps.outstanding_on(*at);
            if unused && signaled + receives > 0 {
                return Some((
                    format!(
                        "{beginning} {signaled} requests and {receives} receives are outstanding on the CQ \
                         {at:#x}, which is not polled"
                    ),
                    todo,
                ));
            }
        }
        None
    }

    /// Why receives do not complete, if something was seen that keeps them.
    fn receives_stay(&self, qp: &Qp) -> Option<Reason> {
        let number = qp.number;
        let srq = self.srqs.get(&qp.srq);
        let posted =
            !qp.receives.is_empty() || srq.is_some_and(|srq| srq.receives.outstanding() > 0);
        if let Some(reason) = quiet::datagrams_dropped(qp) {
            return Some(reason);
        }
        if qp.kind == IBV_QPT_UD && (qp.state > IBV_QPS_INIT || !posted) {
            return self.datagrams_elsewhere(qp);
        }
        if !posted {
            let count = qp
                .evidence
                .counter("send_rnr_err")
                .filter(|naks| *naks > 0)?;
            let (whose, todo) = match qp.srq {
                0 => (
                    "",
                    "post receives: one is consumed by each SEND and WRITE with immediate data",
                ),
                _ => (
                    "the SRQ of ",
                    "post receives to the SRQ with ibv_post_srq_recv: one is consumed by each SEND and WRITE \
                     with immediate data",
                ),
            };
            let why = format!(
                "{whose}queue pair {number:#x} has no receive posted, and has answered {count} messages of \
                 its peer with RNR NAKs"
            );
            return Some((why, todo));
        }
        if matches!(qp.state, IBV_QPS_RESET | IBV_QPS_INIT) {
            // Receives of an SRQ are there before its queue pairs are connected.
            if qp.srq != 0 || !self.cqs.is_only_polled(qp.recv_cq) {
                return None;
            }
            let others = self.qps.values().filter(|of| of.recv_cq == qp.recv_cq);
            if others.into_iter().any(|of| of.state > IBV_QPS_INIT) {
                return None;
            }
            let state = state_name(qp.state);
            return Some((
                format!("queue pair {number:#x} is in {state}: it receives in RTR and later"),
                "modify the queue pair to RTR",
            ));
        }
        self.peer_is_silent(qp)
    }

    /// Why the peer's messages do not come, if it is observed.
    fn peer_is_silent(&self, qp: &Qp) -> Option<Reason> {
        let Some(peer) = &qp.evidence.peer else {
            return self.peer_has_gone(qp);
        };
        if let Some(reason) = quiet::is_own_peer(qp, peer) {
            return Some(reason);
        }
        let of = |text: String| format!("{}{text}", its_queue_pair(peer));
        let other = peer.dest_qpn.filter(|other| *other != u64::from(qp.number));
        if let (Some(other), true) = (other, qp.kind != IBV_QPT_UD) {
            return Some((of(format!("is connected to {other:#x}")), NUMBERS));
        }
        let limit = limit()?.as_millis() as u64;
        let peer_waits = peer.waits_ms.is_some_and(|waits| waits >= limit);
        let peer_has_receive = peer.posted > peer.consumed;
        match (peer.sends_posted, peer.sends_consuming) {
            (Some(0), _) if qp.sends.posted() == 0 && peer_waits && peer_has_receive => Some((
                of("has posted receives and no request, as this one has, and its program polls, too: both \
                    sides wait for the first message"
                    .into()),
                "let one side send first",
            )),
            // A program that sends too may look at memory besides polling.
            (Some(posted @ 1..), Some(0))
                if qp.sends.posted() == 0 && self.cqs.is_only_polled(qp.recv_cq) =>
            {
                let why = format!(
                    "has posted {posted} requests, none of which consumes a receive: only SEND and \
                     RDMA WRITE with immediate data do"
                );
                Some((
                    of(why),
                    "wait on the memory that is written, or use RDMA WRITE with immediate data",
                ))
            }
            (Some(_), Some(sent)) if qp.kind == IBV_QPT_UC && sent > qp.receives.completed() => {
                let done = qp.receives.completed();
                let why = format!(
                    "has sent {sent} messages that consume a receive, of which {done} have arrived: UC \
                     drops a message without a word if no receive was posted when it came, if the receive \
                     was too small, or if a packet was lost"
                );
                let todo = "post receives that are large enough before the peer sends, or use RC";
                Some((of(why), todo))
            }
            // Only another thread of this process could change it.
            (Some(0), _)
                if peer.place == IN_THIS_PROCESS && peer.state == Some(IBV_QPS_RTR.into()) =>
            {
                Some((
                    of("is in RTR: it sends in RTS only".into()),
                    "modify the peer's queue pair to RTS",
                ))
            }
            _ => None,
        }
    }
}

/// Requests that were built and not posted.
fn not_completed(qp: &Qp) -> Option<Reason> {
    let count = qp.building.len();
    (count > 0).then(|| {
        let number = qp.number;
        (
            format!(
                "{count} requests of queue pair {number:#x} were built since ibv_wr_start, and are \
                 posted only by ibv_wr_complete, which was not called"
            ),
            "call ibv_wr_complete after the requests of ibv_wr_start",
        )
    })
}

/// The advice about a queue pair that is connected to another one than this.
const NUMBERS: &str = "exchange the numbers anew: dest_qp_num of each side is qp_num of the other";

/// The advice if it is not known which of both the program waits for.
const EITHER: &str = "set IBV_SEND_SIGNALED in the request whose completion the program waits for; if it \
                      waits for a receive, let the peer send what consumes one";

/// Requests of which none causes a completion.
fn unsignaled(qp: &Qp) -> Option<Reason> {
    let count = qp.sends.len();
    (count > 0 && qp.sends.posted_signaled() == 0).then(|| {
        let number = qp.number;
        (
            format!(
                "{count} requests of queue pair {number:#x} are posted, and none is signaled, so that none \
                 causes a completion (sq_sig_all is 0)"
            ),
            "set IBV_SEND_SIGNALED in the last request, or create the queue pair with sq_sig_all = 1",
        )
    })
}

/// Why signaled requests do not complete.
fn sends_stay(qp: &Qp) -> Option<Reason> {
    let first = qp.sends.first()?;
    let (number, count) = (qp.number, qp.sends.len());
    if qp.sends.signaled() == 0 {
        return None;
    }
    if qp.state != IBV_QPS_RTS {
        let state = state_name(qp.state);
        return Some((
            format!("queue pair {number:#x} is in {state}: it sends in RTS only"),
            "modify the queue pair to RTS",
        ));
    }
    if qp.connection.receives && qp.connection.dest_qpn == 0 && qp.kind != IBV_QPT_UD {
        return Some((connection::NO_NUMBER.into(), connection::NUMBER));
    }
    if let Some(reason) = qp
        .evidence
        .peer
        .as_ref()
        .and_then(|peer| at_peer(qp, peer, first))
    {
        return Some(reason);
    }
    if let (Some(naming), None) = (&qp.evidence.naming, &qp.evidence.peer) {
        return Some((connection::other_number(qp, naming), NUMBERS));
    }
    let mut why = format!("{count} requests of queue pair {number:#x} are not acknowledged; ");
    if let Some(gone) = connection::fate(qp).filter(|_| qp.evidence.fate.is_some()) {
        let todo = "set timeout (14 for example) and retry_cnt, so that requests to a peer that is gone fail";
        return Some((why + &gone, todo));
    }
    if let Some(naks) = qp.evidence.counter("rcvd_rnr_err").filter(|naks| *naks > 0) {
        why.push_str(&format!(
            "the peer has answered with {naks} RNR NAKs: it has no receive posted, which rnr_retry {} waits \
             for",
            qp.connection.rnr_retry
        ));
        return Some((why, "post receives at the peer before this side sends"));
    }
    if qp.evidence.searched && qp.evidence.peer.is_none() {
        why.push_str(&connection::not_observed(qp.connection.dest_qpn));
        why.push_str("; ");
    }
    why.push_str("possible: ");
    if consumes_receive(first) && qp.connection.rnr_retry == 7 {
        why.push_str("the peer has no receive posted, which rnr_retry 7 waits for without end; ");
    }
    if qp.connection.timeout == 0 {
        why.push_str("a packet was lost or the peer is gone, which timeout 0 never notices; ");
    }
    why.push_str("the peer is not in RTR, is connected to another queue pair, or is slow");
    let todo = "look at both queue pairs with `uroce-ctl` or ibv_query_qp, and set timeout (14 for \
                example), retry_cnt and rnr_retry to values that are not infinite";
    Some((why, todo))
}

/// The beginning of a text about a peer's queue pair.
fn its_queue_pair(peer: &Peer) -> String {
    let number = peer.qpn.unwrap_or(0);
    format!("the peer's queue pair {number:#x}, {}, ", peer.place)
}

/// Explains a wait by the state of the peer that keeps requests.
fn at_peer(qp: &Qp, peer: &Peer, first: &SendRequest) -> Option<Reason> {
    let of = |text: String| {
        let forever = match qp.connection.timeout {
            0 => "; timeout 0 waits for its acknowledgment without end",
            _ => "",
        };
        format!("{}{text}{forever}", its_queue_pair(peer))
    };
    if !peer.receives() {
        let todo =
            "modify the peer's queue pair to RTR before sending, and set timeout to 14 for example";
        return Some((of(format!("is in {}", peer.state_name())), todo));
    }
    if let Some(other) = peer.dest_qpn.filter(|other| *other != u64::from(qp.number)) {
        return Some((of(format!("is connected to {other:#x}")), NUMBERS));
    }
    let none_posted = peer.posted.is_some() && peer.posted <= peer.consumed;
    if none_posted && consumes_receive(first) {
        let retries = match qp.connection.rnr_retry {
            7 => "with rnr_retry 7 the request is repeated without end".into(),
            n => format!("the request is repeated {n} times"),
        };
        let naks = qp.evidence.counter("rcvd_rnr_err").filter(|naks| *naks > 0);
        let naks = naks.map_or(String::new(), |naks| format!(" ({naks} RNR NAKs came)"));
        let where_ = match peer.has_srq {
            Some(1) => "has an SRQ without a receive",
            _ => "has no receive posted",
        };
        let why = format!("{where_}, and {retries}{naks}");
        if quiet::is_itself(qp, peer) {
            let itself = "; it is this queue pair itself: dest_qp_num and grh.dgid are its own";
            return Some((of(why + itself), NUMBERS));
        }
        return Some((
            of(why),
            "post receives before the peer sends; with rnr_retry less than 7 it fails instead",
        ));
    }
    if let Some(psn) = peer
        .first_rq_psn
        .filter(|psn| qp.answered == 0 && *psn != u64::from(qp.connection.sq_psn))
    {
        let sent = qp.connection.sq_psn;
        let why =
            format!("expects PSN {psn} first (rq_psn), and this one sends from {sent} (sq_psn)");
        return Some((of(why), "set rq_psn of each side to sq_psn of the other"));
    }
    None
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

#[cfg(test)]
mod tests;
