//! Objects that the tests of the state share: a device with a PD (10), a CQ (20) and a queue pair
//! (30, number 17).

use ibverbs_abi::*;

use super::*;
use crate::diagnose::finding::is_complete;
use crate::diagnose::rules::Rule;

pub fn new_qp(number: u32) -> NewQp {
    NewQp {
        context: 1,
        pd: 10,
        send_cq: 20,
        recv_cq: 20,
        srq: 0,
        number,
        kind: IBV_QPT_RC,
        cap: ibv_qp_cap {
            max_send_wr: 4,
            max_recv_wr: 4,
            max_send_sge: 4,
            max_recv_sge: 4,
            max_inline_data: 64,
        },
        sig_all: false,
        send_ops: 0,
    }
}

pub fn shadow_with_qp(state: ibv_qp_state) -> Shadow {
    let mut shadow = Shadow::new();
    shadow
        .devices
        .opened(1, "uroce0".into(), "uroce".into(), -1);
    shadow.pds.add(
        10,
        Pd {
            context: 1,
            parent: 0,
            single_threaded: false,
            had_windows: false,
        },
    );
    shadow.add_cq(20, Cq::new(1, 100, (0, -1), false));
    shadow.add_qp(30, new_qp(17));
    qp_mut(&mut shadow).state = state;
    shadow
}

/// The queue pair of [`shadow_with_qp`].
pub fn qp_mut(shadow: &mut Shadow) -> &mut Qp {
    shadow.qps.get_mut(&30).unwrap()
}

/// A queue pair that no shadow knows.
pub fn qp(number: u32) -> Qp {
    Qp::new(1, new_qp(number), false)
}

pub fn mr(lkey: u32, rkey: u32) -> Mr {
    Mr {
        context: 1,
        pd: 10,
        start: 0x1000,
        length: 0x1000,
        lkey,
        rkey,
        access: IBV_ACCESS_LOCAL_WRITE,
        stack_of: 0,
        is_memory: false,
    }
}

/// A signaled SEND of 16 bytes.
pub fn request(wr_id: u64, lkey: u32) -> SendRequest {
    SendRequest {
        wr_id,
        opcode: IBV_WR_SEND,
        signaled: true,
        sges: receive(wr_id, lkey).sges,
        ..SendRequest::default()
    }
}

pub fn receive(wr_id: u64, lkey: u32) -> Receive {
    Receive {
        wr_id,
        sges: smallvec::smallvec![Sge {
            addr: 0x1000,
            length: 16,
            lkey,
        }],
        ..Receive::default()
    }
}

/// The rules of findings, whose texts have all values.
pub fn rules<'a>(found: impl IntoIterator<Item = &'a Finding>) -> Vec<Rule> {
    let rule = |finding: &Finding| {
        assert!(is_complete(finding), "{}", finding.line());
        finding.rule
    };
    found.into_iter().map(rule).collect()
}
