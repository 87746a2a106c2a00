//! The table of actions and selectors, and the effect of each.

use Printed::{AtLeast, Is};

/// Rules, and what they do to a scene of c/inject.
pub struct Effect {
    /// The name of the case.
    pub name: &'static str,
    pub rules: &'static str,
    pub scene: &'static str,
    /// How many faults are logged.
    pub logged: usize,
    pub printed: &'static [Printed],
}

/// A value that a scene must print under a name.
pub enum Printed {
    Is(&'static str, u64),
    AtLeast(&'static str, u64),
}

const fn effect(
    name: &'static str,
    rules: &'static str,
    scene: &'static str,
    logged: usize,
    printed: &'static [Printed],
) -> Effect {
    Effect {
        name,
        rules,
        scene,
        logged,
        printed,
    }
}

/// Packets are lost, corrupted, duplicated or delayed, or find no receive WR, and all messages arrive.
pub const EFFECTS: &[Effect] = &[
    effect(
        "drop",
        "drop:opcode=send,count=3",
        "send 8 64",
        3,
        &[AtLeast("completer_retry_err", 1)],
    ),
    effect(
        "drop-ack",
        "drop:opcode=ack,count=1",
        "send 1 64",
        1,
        &[AtLeast("duplicate_request", 1)],
    ),
    effect(
        "corrupt",
        "corrupt:opcode=send,count=2",
        "send 8 64",
        2,
        &[Is("rx_icrc_encapsulated", 2)],
    ),
    effect(
        "duplicate",
        "duplicate:opcode=send,count=4",
        "send 8 64",
        4,
        &[AtLeast("duplicate_request", 4)],
    ),
    effect(
        "delay",
        "delay:time=8ms,opcode=send,count=4",
        "send 4 64",
        4,
        &[AtLeast("ms", 32)],
    ),
    effect(
        "rnr",
        "rnr:count=2",
        "send 8 64",
        2,
        &[Is("send_rnr_err", 2), Is("rcvd_rnr_err", 2)],
    ),
    effect(
        "ecn",
        "ecn:opcode=send,count=2",
        "send 8 64",
        2,
        &[
            Is("np_ecn_marked_roce_packets", 2),
            AtLeast("np_cnp_sent", 1),
            AtLeast("rp_cnp_handled", 1),
        ],
    ),
    // The same of packets that the device sends.
    effect(
        "drop-tx",
        "drop:opcode=send,count=3,direction=tx",
        "send 8 64",
        3,
        &[AtLeast("completer_retry_err", 1)],
    ),
    effect(
        "drop-ack-tx",
        "drop:opcode=ack,count=1,direction=tx",
        "send 1 64",
        1,
        &[AtLeast("duplicate_request", 1)],
    ),
    effect(
        "corrupt-tx",
        "corrupt:opcode=send,count=2,direction=tx",
        "send 8 64",
        2,
        &[Is("rx_icrc_encapsulated", 2)],
    ),
    effect(
        "duplicate-tx",
        "duplicate:opcode=send,count=4,direction=tx",
        "send-copies 8 64",
        4,
        &[AtLeast("duplicate_request", 1)],
    ),
    effect(
        "delay-tx",
        "delay:time=8ms,opcode=send,count=4,direction=tx",
        "send 4 64",
        4,
        &[AtLeast("ms", 32)],
    ),
    // A packet is sent by one queue pair and received by the other: each rule counts it once.
    effect(
        "both-directions",
        "duplicate:opcode=send,count=8,direction=tx; delay:time=1us,opcode=send,count=8,direction=rx",
        "send 8 64",
        16,
        &[],
    ),
    effect(
        "direction-other",
        "duplicate:opcode=send,direction=tx,size=1",
        "send 8 64",
        0,
        &[],
    ),
    effect(
        "slow-cq",
        "slow-cq:time=50ms,count=3",
        "polls 5",
        3,
        &[AtLeast("ms", 150)],
    ),
    effect(
        "none",
        "seed=1",
        "send 8 64",
        0,
        &[Is("rx_icrc_encapsulated", 0), Is("send_rnr_err", 0)],
    ),
    // Selectors, each with what it selects and with what it does not.
    effect("p-0", "duplicate:opcode=send,p=0", "send 8 64", 0, &[]),
    effect(
        "p-1",
        "duplicate:opcode=send,p=100%,count=8",
        "send 8 64",
        8,
        &[],
    ),
    effect(
        "count",
        "duplicate:opcode=send,count=5",
        "send 8 64",
        5,
        &[],
    ),
    effect(
        "after",
        "fail:call=reg_mr,errno=EIO,after=3",
        "calls 8",
        6,
        &[],
    ),
    effect(
        "from",
        "fail:call=reg_mr,errno=EIO,from=60m",
        "calls 8",
        0,
        &[],
    ),
    effect("from-past", "slow-cq:time=1ms,from=1ns", "polls 4", 4, &[]),
    effect("to", "fail:call=reg_mr,errno=EIO,to=1ns", "calls 8", 0, &[]),
    effect("to-future", "slow-cq:time=1ms,to=60m", "polls 4", 4, &[]),
    effect(
        "device",
        "slow-cq:time=1ms,device=uroce0",
        "polls 4",
        4,
        &[],
    ),
    effect(
        "device-other",
        "slow-cq:time=1ms,device=uroce1",
        "polls 4",
        0,
        &[],
    ),
    effect("qpn-other", "duplicate:qpn=2", "send 8 64", 0, &[]),
    effect(
        "opcode-prefix",
        "duplicate:opcode=se*,count=2",
        "send 8 64",
        2,
        &[],
    ),
    effect(
        "opcode-other",
        "duplicate:opcode=write",
        "send 8 64",
        0,
        &[],
    ),
    // A packet has 12 bytes of headers and 4 of ICRC.
    effect(
        "size",
        "duplicate:size=116,opcode=send,count=2",
        "send 8 100",
        2,
        &[],
    ),
    effect(
        "size-range",
        "duplicate:size=100-120,opcode=send,count=2",
        "send 8 100",
        2,
        &[],
    ),
    effect(
        "size-less",
        "duplicate:size=-115,opcode=send",
        "send 8 100",
        0,
        &[],
    ),
    effect(
        "size-more",
        "duplicate:size=117-,opcode=send",
        "send 8 100",
        0,
        &[],
    ),
    effect(
        "size-of-memory",
        "fail:call=reg_mr,errno=EIO,size=66",
        "calls 8",
        1,
        &[],
    ),
    // Three events (13: IBV_EVENT_SM_CHANGE) with two intervals between them.
    effect(
        "every",
        "event:type=sm-change,count=3,every=40ms",
        "events 13 3",
        3,
        &[AtLeast("ms", 80)],
    ),
    // The first rule that applies counts.
    effect(
        "order",
        "slow-cq:time=1ms,count=1; slow-cq:time=40ms,count=1",
        "polls 3",
        2,
        &[AtLeast("ms", 41)],
    ),
];
