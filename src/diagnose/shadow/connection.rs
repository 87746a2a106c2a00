//! The two ends of a connection: explains what differs between them, and why one does not answer.
//!
//! It judges what is known, and asks nobody: `peer.rs` asks the other process.

use ibverbs_abi::*;

use super::{IN_THIS_PROCESS, Qp};
use crate::diagnose::check::gid::address;
use crate::diagnose::check::state::type_name;
use crate::diagnose::finding::{Finding, Object, Outcome};
use crate::diagnose::peer_facts::Peer;
use crate::diagnose::rules::Rule;

/// The ack timeout in milliseconds: 4.096 us * 2^n.
pub fn timeout_ms(timeout: u8) -> String {
    match timeout & 0x1f {
        0 => "infinite".into(),
        n => format!("{:.3}", 0.004096 * f64::from(1_u32 << n)),
    }
}

/// The RNR NAK timer of each code in milliseconds (specification, table 45).
pub fn rnr_ms(code: u8) -> f64 {
    const HUNDREDTHS: [u32; 32] = [
        65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024,
        1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
    ];
    f64::from(HUNDREDTHS[usize::from(code & 0x1f)]) / 100.0
}

/// Differences between this end, which has just been modified, and its peer. A peer in another process must
/// be connected to this end: it may be another queue pair of the same number.
pub fn pair(object: &Object, qp: &Qp, peer: &Peer) -> Vec<Finding> {
    let mine = &qp.connection;
    let (Some(number), Some(theirs), true) = (peer.qpn, peer.dest_qpn, mine.receives) else {
        return Vec::new();
    };
    let finding = |rule| Finding::new(rule, object.clone(), "ibv_modify_qp", Outcome::Succeeded);
    let is_here = peer.place == IN_THIS_PROCESS;
    let there = match is_here {
        true => format!("{number:#x}"),
        false => format!("{number:#x}, {}", peer.place),
    };
    let mut found = Vec::new();
    if theirs != u64::from(qp.number) {
        found.extend(is_here.then(|| {
            finding(Rule::PairQpn)
                .with("qpn", format!("{:#x}", qp.number))
                .with("dest_qpn", format!("{:#x}", mine.dest_qpn))
                .with("other", format!("{theirs:#x}"))
        }));
        return found;
    }
    let mtu = peer.path_mtu.filter(|mtu| *mtu != u64::from(mine.mtu));
    found.extend(mtu.map(|mtu| {
        finding(Rule::MtuDiffers)
            .with("mtu", mine.mtu)
            .with("peer_mtu", mtu)
            .with("peer_qpn", &there)
    }));
    let (here, there) = (format!("QP {}", object.label), format!("QP {there}"));
    let sends = mine.sends.then_some(mine.sq_psn.into());
    let both = [
        (&here, sends, &there, peer.first_rq_psn),
        (&there, peer.first_sq_psn, &here, Some(mine.rq_psn.into())),
    ];
    for (sender, sends, receiver, expects) in both {
        let (Some(sends), Some(expects)) = (sends, expects) else {
            continue;
        };
        if sends != expects {
            found.push(
                finding(Rule::PsnDiffers)
                    .with("sender", sender)
                    .with("sq_psn", sends)
                    .with("receiver", receiver)
                    .with("rq_psn", expects),
            );
        }
    }
    found
}

/// Why nothing comes from a peer without a number, and what to do.
pub const NO_NUMBER: &str = "dest_qp_num is 0, which is no queue pair of a program: the peer's number was \
                             not exchanged, or, with librdmacm, the peer called rdma_accept or rdma_connect \
                             without a queue pair";
pub const NUMBER: &str = "set dest_qp_num to qp_num of the peer's queue pair; with librdmacm, call \
                          rdma_create_qp before rdma_accept";

/// A peer that was searched on this host, and not found.
pub fn not_observed(dest_qpn: u32) -> String {
    format!(
        "no process of this user on this host that is observed (IBV_EXPLAIN, or IBV_CONTROL=1) has a queue \
         pair {dest_qpn:#x}"
    )
}

/// Says what has become of the peer that was in another process, and is there no more.
pub fn fate(qp: &Qp) -> Option<String> {
    let seen = qp.peer_seen.as_ref().filter(|_| qp.evidence.searched)?;
    let fate = match (qp.evidence.fate, &seen.process) {
        (Some(fate), _) => fate.text(),
        (None, None) => "it was destroyed, or its process has ended",
        // It has answered in between.
        (None, Some(_)) => return None,
    };
    Some(format!(
        "the peer's queue pair {:#x}, which was {} when this one was connected, is there no more: {fate}",
        qp.connection.dest_qpn, seen.place
    ))
}

/// The peer's type, if it does not fit this one's.
fn other_type(qp: &Qp, peer: &Peer) -> Option<&'static str> {
    let kind = peer.kind? as u32;
    let fits = match qp.kind {
        IBV_QPT_XRC_SEND => kind == IBV_QPT_XRC_RECV,
        IBV_QPT_XRC_RECV => kind == IBV_QPT_XRC_SEND,
        own => kind == own,
    };
    (!fits).then(|| type_name(kind))
}

const CONNECT: &str = "exchange the values anew: the attributes of each side come from the other";
const SEARCH: &str = "check the peer's program and log, that it is in RTR before this side \
sends, that UDP port 4791 \
     is not filtered on RoCE v2, and that the path carries packets of the path MTU";

/// Why the peer may not have acknowledged, and what to do.
fn peer_text(qp: &Qp, gone: bool, other: Option<&Qp>) -> (String, &'static str) {
    let evidence = &qp.evidence;
    if let (Some(other), None) = (other, &evidence.peer) {
        return (not_meant(qp, other), CONNECT);
    }
    if qp.connection.receives && qp.connection.dest_qpn == 0 {
        return (NO_NUMBER.into(), NUMBER);
    }
    if let (Some(naming), None) = (&evidence.naming, &evidence.peer) {
        return (other_number(qp, naming), CONNECT);
    }
    let Some(peer) = &evidence.peer else {
        let why = match (gone, evidence.searched) {
            (true, _) => "the peer's queue pair was in this process, and has been destroyed".into(),
            (_, true) => format!(
                "{}; possible: it was destroyed or its process has ended, dest_qp_num is wrong, the peer is \
                 not in RTR yet, or it is elsewhere and the network dropped the packets",
                not_observed(qp.connection.dest_qpn)
            ),
            _ => "possible: the peer's queue pair is not in RTR yet, is gone, or is connected to another one \
                  (dest_qp_num, rq_psn); or the network dropped packets or ACKs"
                .into(),
        };
        let seen = fate(qp).filter(|_| evidence.fate.is_some() && !gone);
        let todo = match gone || seen.is_some() {
            true => "destroy a queue pair only after the peer has completed its requests",
            false => SEARCH,
        };
        return (seen.unwrap_or(why), todo);
    };
    at_peer(qp, peer)
}

/// The state of the peer that keeps it from acknowledging, and what to do.
fn at_peer(qp: &Qp, peer: &Peer) -> (String, &'static str) {
    let mine = &qp.connection;
    let of = |text: String| format!("the peer's queue pair, {}, {text}", peer.place);
    let state = peer.state_name();
    if let (Some(status), false) = (peer.error_status, peer.receives()) {
        let why = format!("is in {state} since its own completion with status {status}");
        return (
            of(why),
            "remove the cause of the peer's error: read its completions",
        );
    }
    if !peer.receives() {
        let todo = "move the peer's queue pair to RTR before this side sends";
        return (of(format!("is in {state}, and receives nothing")), todo);
    }
    if let Some(other) = peer.dest_qpn.filter(|other| *other != u64::from(qp.number)) {
        return (of(format!("is connected to {other:#x}")), CONNECT);
    }
    if let Some(other) = other_type(qp, peer) {
        let why = format!(
            "is of type {other}, and this one of type {}",
            type_name(qp.kind)
        );
        return (of(why), "create both queue pairs with the same qp_type");
    }
    let psn = peer.first_rq_psn.filter(|_| qp.answered == 0);
    if let Some(psn) = psn.filter(|psn| *psn != u64::from(mine.sq_psn)) {
        let sent = mine.sq_psn;
        let why =
            format!("expects PSN {psn} first (rq_psn), and this one sends from {sent} (sq_psn)");
        return (of(why), "set rq_psn of each side to sq_psn of the other");
    }
    if let Some(mtu) = peer.path_mtu.filter(|mtu| *mtu != u64::from(mine.mtu)) {
        return (
            of(format!("has path MTU {mtu}")),
            "set the same path_mtu on both sides",
        );
    }
    let why = format!(
        "is in {state} and connected to this one: packets or ACKs were lost on the way, or its process does \
         not run"
    );
    (of(why), SEARCH)
}

/// The peer has another number than the one that is used.
pub fn other_number(qp: &Qp, naming: &Peer) -> String {
    let (used, right) = (
        u64::from(qp.connection.dest_qpn),
        naming.qpn.unwrap_or_default(),
    );
    let hint = match used == right & 0xffff {
        true => ": its lower 16 bits are the same, so it went through a 16-bit integer, perhaps",
        false => "",
    };
    format!(
        "dest_qp_num is {used:#x}, which no observed process has; the queue pair {right:#x}, {}, names this \
         one as its peer{hint}",
        naming.place
    )
}

/// Says how the named peer differs from a queue pair that names this one as its peer.
fn not_meant(qp: &Qp, other: &Qp) -> String {
    let (number, gid) = (other.number, &other.connection.sgid);
    match qp.connection.dest_qpn == number {
        true => format!(
            "the destination GID is {}, and the queue pair {number:#x}, in this process, has the GID {} and \
             names this one as its peer",
            address(&qp.connection.dgid),
            address(gid)
        ),
        false => format!(
            "dest_qp_num is {:#x}, and the queue pair {number:#x}, in this process, names this one \
             as its peer",
            qp.connection.dest_qpn
        ),
    }
}

/// Describes what has come from the peer before: packets and NAKs as a software device counts them,
/// else completions.
fn answered(qp: &Qp) -> String {
    let counter = |name| qp.evidence.counter(name);
    if let Some(naks) = counter("rcvd_rnr_err").filter(|naks| *naks > 0) {
        return format!("{naks} RNR NAKs have come from it, so that it had no receive posted");
    }
    match (counter("rcvd_pkts"), counter("rcvd_seq_err"), qp.answered) {
        (Some(0), ..) => "no packet has come from it".into(),
        (Some(n), Some(naks @ 1..), _) => {
            format!("{n} packets have come from it, {naks} of them NAKs for a PSN sequence error")
        }
        (Some(n), ..) => format!("{n} packets have come from it"),
        (None, _, 0) => "no request or receive has completed before".into(),
        (None, _, n) => format!("{n} requests and receives had completed before"),
    }
}

/// Status RETRY_EXC_ERR. `gone`: the peer was in this process, and was destroyed. `other`: a queue
/// pair of this process that is not the peer, and names this one as its own.
pub fn retry_exceeded(
    object: &Object,
    call: &'static str,
    qp: &Qp,
    gone: bool,
    other: Option<&Qp>,
) -> Finding {
    let connection = &qp.connection;
    let outcome = Outcome::Completion(IBV_WC_RETRY_EXC_ERR);
    let (why, todo) = peer_text(qp, gone, other);
    Finding::new(Rule::RetryExceeded, object.clone(), call, outcome)
        .with("dgid", address(&connection.dgid))
        .with("dest_qpn", format!("{:#x}", connection.dest_qpn))
        .with("timeout", connection.timeout)
        .with("timeout_ms", timeout_ms(connection.timeout))
        .with("retry_cnt", connection.retry_cnt)
        .with("mtu", connection.mtu)
        .with("answered", answered(qp))
        .with("peer", why)
        .with("todo", todo)
}

/// The same, if the source GID is of RoCE v1 and the peer has never answered.
pub fn wrong_type(object: &Object, call: &'static str, qp: &Qp) -> Option<Finding> {
    let right = qp.connection.better_index.filter(|_| qp.answered == 0)?;
    let outcome = Outcome::Completion(IBV_WC_RETRY_EXC_ERR);
    Some(
        Finding::new(Rule::GidType, object.clone(), call, outcome)
            .with("index", qp.connection.sgid_index)
            .with("right", right),
    )
}

/// Describes the receives that the peer has posted, as far as they are known.
fn receives_text(qp: &Qp) -> String {
    let Some(peer) = &qp.evidence.peer else {
        return "the receive queue there was empty each time that the message arrived".into();
    };
    let queue = match peer.has_srq {
        Some(1) => "'s SRQ",
        _ => "",
    };
    let timer = peer.min_rnr_timer.map_or(String::new(), |timer| {
        format!(
            "; its min_rnr_timer is {timer} ({} ms)",
            rnr_ms(timer as u8)
        )
    });
    let posted = match (peer.posted, peer.consumed) {
        (Some(0), _) => "has had no receive posted at all".into(),
        (Some(posted), Some(consumed)) if consumed >= posted => {
            format!("has had {posted} receives posted in all, and each is consumed")
        }
        (Some(posted), Some(consumed)) => {
            let ago = peer
                .posted_ms_ago
                .map_or(String::new(), |ago| format!(" ({ago} ms ago)"));
            format!(
                "has had {posted} receives posted in all, {consumed} consumed: the last was posted{ago} too \
                 late for this message"
            )
        }
        _ => "had no receive for it".into(),
    };
    format!(
        "the peer's queue pair{queue}, {}, {posted}{timer}",
        peer.place
    )
}

/// Status RNR_RETRY_EXC_ERR.
pub fn rnr_exceeded(object: &Object, call: &'static str, qp: &Qp) -> Finding {
    let connection = &qp.connection;
    let outcome = Outcome::Completion(IBV_WC_RNR_RETRY_EXC_ERR);
    let mut found = Finding::new(Rule::RnrExceeded, object.clone(), call, outcome)
        .with("dgid", address(&connection.dgid))
        .with("dest_qpn", format!("{:#x}", connection.dest_qpn))
        .with("rnr_retry", connection.rnr_retry)
        .with("peer", receives_text(qp));
    if connection.dest_qpn == qp.number && connection.dgid == connection.sgid {
        let note = "the queue pair is connected to itself: dest_qp_num and grh.dgid are its own";
        found.notes.push(note.into());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnose::finding::is_complete;
    use crate::diagnose::shadow::Receive;
    use crate::diagnose::shadow::tests::qp;

    fn connected() -> (Qp, Qp) {
        let (mut a, mut b) = (qp(17), qp(18));
        for (one, other) in [(&mut a, 18), (&mut b, 17)] {
            one.state = IBV_QPS_RTS;
            one.connection.receives = true;
            one.connection.sends = true;
            one.connection.dest_qpn = other;
            one.connection.mtu = 1024;
            one.connection.sq_psn = 5;
            one.connection.rq_psn = 5;
            one.connection.timeout = 14;
        }
        (a, b)
    }

    fn differences(a: &Qp, b: &Peer) -> Vec<Rule> {
        let found = pair(&Object::qp(1, a.number), a, b);
        assert!(found.iter().all(is_complete));
        found.iter().map(|finding| finding.rule).collect()
    }

    #[test]
    fn pairs() {
        let (mut a, b) = connected();
        let b = known(&b);
        assert_eq!(differences(&a, &b), []);
        let with = |change: fn(&mut Peer)| {
            let mut b = b.clone();
            change(&mut b);
            b
        };
        let mtu = with(|b| b.path_mtu = Some(4096));
        assert_eq!(differences(&a, &mtu), [Rule::MtuDiffers]);
        let psn = with(|b| b.first_rq_psn = Some(6));
        assert_eq!(differences(&a, &psn), [Rule::PsnDiffers]);
        let both = with(|b| (b.first_rq_psn, b.first_sq_psn) = (Some(6), Some(6)));
        assert_eq!(differences(&a, &both), [Rule::PsnDiffers; 2]);
        // An end that is not yet in RTS has no PSN to send from, and one that is not in RTR no peer.
        let unknown = with(|b| (b.path_mtu, b.first_sq_psn) = (None, None));
        assert_eq!(differences(&a, &unknown), []);
        assert_eq!(differences(&a, &with(|b| b.dest_qpn = None)), []);
        assert_eq!(
            differences(&a, &with(|b| b.dest_qpn = Some(99))),
            [Rule::PairQpn]
        );
        let elsewhere = with(|b| (b.dest_qpn, b.place) = (Some(99), "in process 7 (x)".into()));
        assert_eq!(differences(&a, &elsewhere), []);
        a.connection.sends = false;
        assert_eq!(differences(&a, &psn), []);
        a.connection.receives = false;
        assert_eq!(differences(&a, &mtu), []);
    }

    /// The facts about a peer in this process.
    fn known(qp: &Qp) -> Peer {
        Peer {
            place: "in this process".into(),
            qpn: Some(qp.number.into()),
            state: Some(qp.state.into()),
            dest_qpn: Some(qp.connection.dest_qpn.into()),
            path_mtu: Some(qp.connection.mtu.into()),
            first_rq_psn: Some(qp.connection.rq_psn.into()),
            first_sq_psn: Some(qp.connection.sq_psn.into()),
            posted: Some(qp.receives.posted()),
            consumed: Some(qp.receives.completed()),
            min_rnr_timer: Some(0),
            ..Peer::default()
        }
    }

    #[test]
    fn a_peer_that_does_not_answer() {
        let (mut a, b) = connected();
        let line = |a: &Qp, gone| {
            let found = retry_exceeded(&Object::qp(1, 17), "ibv_poll_cq", a, gone, None);
            assert!(is_complete(&found));
            found.line()
        };
        assert!(line(&a, false).contains("timeout 14 (67.109 ms)"));
        assert!(line(&a, false).contains("possible: "));
        assert!(line(&a, true).contains("has been destroyed"));
        a.evidence.searched = true;
        a.evidence.own = vec![("rcvd_pkts", 0)];
        assert!(line(&a, false).contains("no packet has come from it"));
        assert!(line(&a, false).contains("has a queue pair 0x12"));
        let mut peer = known(&b);
        let with = |a: &Qp, peer: &Peer| {
            let mut a = a.clone();
            a.evidence.peer = Some(peer.clone());
            line(&a, false)
        };
        assert!(with(&a, &peer).contains("lost on the way"));
        peer.path_mtu = Some(256);
        assert!(with(&a, &peer).contains("has path MTU 256"));
        peer.first_rq_psn = Some(9);
        assert!(with(&a, &peer).contains("expects PSN 9 first"));
        peer.dest_qpn = Some(99);
        assert!(with(&a, &peer).contains("is connected to 0x63"));
        peer.state = Some(IBV_QPS_INIT.into());
        assert!(with(&a, &peer).contains("is in INIT"));
        assert_eq!(wrong_type(&Object::qp(1, 17), "x", &a), None);
        a.connection.better_index = Some(3);
        let found = wrong_type(&Object::qp(1, 17), "x", &a).unwrap();
        assert!(is_complete(&found));
    }

    #[test]
    fn receiver_not_ready() {
        let (mut a, mut b) = connected();
        let line = |a: &Qp| {
            let found = rnr_exceeded(&Object::qp(1, 17), "ibv_poll_cq", a);
            assert!(is_complete(&found));
            found.line()
        };
        assert!(line(&a).contains("was empty each time"));
        for (posted, completed, text) in [
            (0, 0, "no receive posted at all"),
            (4, 4, "4 receives posted in all, and each is consumed"),
            (5, 4, "too late for this message"),
        ] {
            b.receives = Default::default();
            b.receives.post(vec![Receive::default(); posted]);
            for _ in 0..completed {
                b.receives.finish(None);
            }
            a.evidence.peer = Some(known(&b));
            assert!(line(&a).contains(text), "{}", line(&a));
            assert!(line(&a).contains("min_rnr_timer is 0 (655.36 ms)"));
        }
    }

    #[test]
    fn times() {
        assert_eq!(timeout_ms(0), "infinite");
        assert_eq!(timeout_ms(1), "0.008");
        assert_eq!((rnr_ms(1), rnr_ms(12), rnr_ms(31)), (0.01, 0.64, 491.52));
    }
}
