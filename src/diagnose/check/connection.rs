//! The two ends of a connection: what differs between them, and why one does not answer.

use ibverbs_abi::*;

use super::gid::address;
use super::state::state_name;
use crate::diagnose::finding::{Finding, Object, Outcome};
use crate::diagnose::rules::Rule;
use crate::diagnose::shadow::{Qp, Srq};

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

/// Differences between this end, which has just been modified, and its peer.
pub fn pair(object: &Object, qp: &Qp, peer_object: &Object, peer: &Qp) -> Vec<Finding> {
    const CALL: &str = "ibv_modify_qp";
    let (mine, theirs) = (&qp.connection, &peer.connection);
    let mut found = Vec::new();
    if !(mine.receives && theirs.receives) {
        return found;
    }
    let finding = |rule| Finding::new(rule, object.clone(), CALL, Outcome::Succeeded);
    if theirs.dest_qpn != qp.number {
        return vec![
            finding(Rule::PairQpn)
                .with("qpn", format!("{:#x}", qp.number))
                .with("dest_qpn", format!("{:#x}", mine.dest_qpn))
                .with("other", format!("{:#x}", theirs.dest_qpn)),
        ];
    }
    if mine.mtu != theirs.mtu {
        found.push(
            finding(Rule::MtuDiffers)
                .with("mtu", mine.mtu)
                .with("peer_mtu", theirs.mtu)
                .with("peer_qpn", &peer_object.label),
        );
    }
    let both = [
        (qp, mine, object, theirs, peer_object),
        (peer, theirs, peer_object, mine, object),
    ];
    for (sender, sends, from, receives, to) in both {
        if sender.kind != IBV_QPT_UD && sends.sends && sends.sq_psn != receives.rq_psn {
            found.push(
                finding(Rule::PsnDiffers)
                    .with("sender", format!("QP {}", from.label))
                    .with("sq_psn", sends.sq_psn)
                    .with("receiver", format!("QP {}", to.label))
                    .with("rq_psn", receives.rq_psn),
            );
        }
    }
    found
}

/// Why the peer may not have acknowledged.
fn peer_text(qp: &Qp, peer: Option<&Qp>) -> String {
    let Some(peer) = peer else {
        return "no packet or no ACK arrived: the peer's queue pair is gone, is not connected to this one, \
                or the network dropped the packets"
            .into();
    };
    let (mine, theirs) = (&qp.connection, &peer.connection);
    let state = state_name(peer.state);
    if !matches!(peer.state, IBV_QPS_RTR | IBV_QPS_RTS | IBV_QPS_SQD) {
        return format!(
            "the peer's queue pair, in this process, is in {state}, and receives nothing"
        );
    }
    if theirs.dest_qpn != qp.number {
        return format!(
            "the peer's queue pair, in this process, is connected to {:#x}",
            theirs.dest_qpn
        );
    }
    if theirs.rq_psn != mine.sq_psn {
        return format!(
            "the peer's queue pair, in this process, expects PSN {} first, and this one sends from {}",
            theirs.rq_psn, mine.sq_psn
        );
    }
    if theirs.mtu != mine.mtu {
        return format!(
            "the peer's queue pair, in this process, has path MTU {}",
            theirs.mtu
        );
    }
    format!(
        "the peer's queue pair, in this process, is in {state}: the network dropped packets or ACKs"
    )
}

/// Status RETRY_EXC_ERR.
pub fn retry_exceeded(object: &Object, call: &'static str, qp: &Qp, peer: Option<&Qp>) -> Finding {
    let connection = &qp.connection;
    let outcome = Outcome::Completion(IBV_WC_RETRY_EXC_ERR);
    let answered = match qp.answered {
        0 => "it has never answered".into(),
        n => format!("it had answered {n} requests or messages before"),
    };
    Finding::new(Rule::RetryExceeded, object.clone(), call, outcome)
        .with("qpn", format!("{:#x}", qp.number))
        .with("dgid", address(&connection.dgid))
        .with("dest_qpn", format!("{:#x}", connection.dest_qpn))
        .with("timeout", connection.timeout)
        .with("timeout_ms", timeout_ms(connection.timeout))
        .with("retry_cnt", connection.retry_cnt)
        .with("mtu", connection.mtu)
        .with("answered", answered)
        .with("peer", peer_text(qp, peer))
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

/// Status RNR_RETRY_EXC_ERR.
pub fn rnr_exceeded(
    object: &Object,
    call: &'static str,
    qp: &Qp,
    peer: Option<(&Qp, Option<&Srq>)>,
) -> Finding {
    let text = match peer {
        None => "a message arrived when the peer's receive queue was empty".into(),
        Some((peer, srq)) => {
            let (posted, completed, last) = match srq {
                Some(srq) => (srq.posted, srq.completed, srq.last_posted),
                None => (
                    peer.receives_posted,
                    peer.receives_completed,
                    peer.last_receive_posted,
                ),
            };
            let when = match last {
                Some(time) => format!(", the last {} ms ago", time.elapsed().as_millis()),
                None => String::new(),
            };
            let timer = peer.connection.min_rnr_timer;
            format!(
                "the peer's queue pair, in this process, has posted {posted} receives{when}, of which \
                 {completed} are consumed; its min_rnr_timer is {timer} ({} ms)",
                rnr_ms(timer)
            )
        }
    };
    let connection = &qp.connection;
    let outcome = Outcome::Completion(IBV_WC_RNR_RETRY_EXC_ERR);
    Finding::new(Rule::RnrExceeded, object.clone(), call, outcome)
        .with("dgid", address(&connection.dgid))
        .with("dest_qpn", format!("{:#x}", connection.dest_qpn))
        .with("rnr_retry", connection.rnr_retry)
        .with("peer", text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnose::finding::is_complete;
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

    fn differences(a: &Qp, b: &Qp) -> Vec<Rule> {
        let found = pair(&Object::qp(1, a.number), a, &Object::qp(2, b.number), b);
        assert!(found.iter().all(is_complete));
        found.iter().map(|finding| finding.rule).collect()
    }

    #[test]
    fn pairs() {
        let (a, b) = connected();
        assert_eq!(differences(&a, &b), []);
        let mut other = b.clone();
        other.connection.mtu = 4096;
        assert_eq!(differences(&a, &other), [Rule::MtuDiffers]);
        other = b.clone();
        other.connection.rq_psn = 6;
        assert_eq!(differences(&a, &other), [Rule::PsnDiffers]);
        other.connection.sq_psn = 6;
        assert_eq!(
            differences(&a, &other),
            [Rule::PsnDiffers, Rule::PsnDiffers]
        );
        other = b.clone();
        other.connection.dest_qpn = 99;
        assert_eq!(differences(&a, &other), [Rule::PairQpn]);
        other.connection.receives = false;
        assert_eq!(differences(&a, &other), []);
        // An end that is not yet in RTS has no PSN to send from.
        other = b.clone();
        other.connection.sends = false;
        other.connection.sq_psn = 0;
        assert_eq!(differences(&a, &other), []);
    }

    #[test]
    fn a_peer_that_does_not_answer() {
        let (mut a, mut b) = connected();
        let line = |a: &Qp, b: Option<&Qp>| {
            let found = retry_exceeded(&Object::qp(1, 17), "ibv_poll_cq", a, b);
            assert!(is_complete(&found));
            found.line()
        };
        assert!(line(&a, None).contains("timeout 14 (67.109 ms)"));
        assert!(line(&a, None).contains("never answered"));
        a.answered = 3;
        assert!(line(&a, Some(&b)).contains("had answered 3"));
        assert!(line(&a, Some(&b)).contains("the network dropped"));
        b.state = IBV_QPS_INIT;
        assert!(line(&a, Some(&b)).contains("is in INIT"));
        assert_eq!(wrong_type(&Object::qp(1, 17), "x", &a), None);
        a.answered = 0;
        a.connection.better_index = Some(3);
        let found = wrong_type(&Object::qp(1, 17), "x", &a).unwrap();
        assert!(is_complete(&found));
    }

    #[test]
    fn receiver_not_ready() {
        let (a, mut b) = connected();
        b.receives_posted = 4;
        b.receives_completed = 4;
        let found = rnr_exceeded(&Object::qp(1, 17), "ibv_poll_cq", &a, Some((&b, None)));
        assert!(is_complete(&found));
        assert!(
            found
                .line()
                .contains("posted 4 receives, of which 4 are consumed")
        );
        assert!(found.line().contains("min_rnr_timer is 0 (655.36 ms)"));
        assert!(is_complete(&rnr_exceeded(
            &Object::qp(1, 17),
            "x",
            &a,
            None
        )));
    }

    #[test]
    fn times() {
        assert_eq!(timeout_ms(0), "infinite");
        assert_eq!(timeout_ms(1), "0.008");
        assert_eq!((rnr_ms(1), rnr_ms(12), rnr_ms(31)), (0.01, 0.64, 491.52));
    }
}
