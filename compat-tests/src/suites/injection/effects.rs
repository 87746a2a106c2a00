//! The table of actions and selectors, and the effect of each.

/// Rules, and what they do to a scene of c/inject.
pub struct Effect {
    /// The name of the case.
    pub name: &'static str,
    pub rules: &'static str,
    pub scene: &'static str,
    /// How many faults are logged.
    pub logged: usize,
    pub printed: Vec<Printed>,
}

/// A value that a scene must print under a name.
pub enum Printed {
    Is(&'static str, u64),
    AtLeast(&'static str, u64),
}

/// The rows of the table.
pub fn effects() -> impl Iterator<Item = Effect> {
    EFFECTS.iter().map(|row| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [name, rules, scene, logged, printed] = cells[..] else {
            panic!("{row:?} has not five cells");
        };
        let number = |text: &str| text.parse().unwrap_or_else(|_| panic!("{row:?}: {text:?}"));
        let value = |value: &'static str| match value.split_once(">=") {
            Some((name, least)) => Printed::AtLeast(name, number(least)),
            None => {
                let (name, wanted) = value.split_once('=').unwrap_or((value, ""));
                Printed::Is(name, number(wanted))
            }
        };
        Effect {
            name,
            rules,
            scene,
            logged: number(logged) as usize,
            printed: printed.split_whitespace().map(value).collect(),
        }
    })
}

/// Name, rules, scene, number of faults that are logged, and the values that the scene prints. Packets are
/// lost, corrupted, duplicated or delayed, or find no receive WR, and all messages arrive.
const EFFECTS: &[&str] = &[
    "drop | drop:opcode=send,count=3 | send 8 64 | 3 | completer_retry_err>=1",
    "drop-ack | drop:opcode=ack,count=1 | send 1 64 | 1 | duplicate_request>=1",
    "corrupt | corrupt:opcode=send,count=2 | send 8 64 | 2 | rx_icrc_encapsulated=2",
    "duplicate | duplicate:opcode=send,count=4 | send 8 64 | 4 | duplicate_request>=4",
    "delay | delay:time=8ms,opcode=send,count=4 | send 4 64 | 4 | ms>=32",
    "rnr | rnr:count=2 | send 8 64 | 2 | send_rnr_err=2 rcvd_rnr_err=2",
    "ecn | ecn:opcode=send,count=2 | \
     send 8 64 | 2 | np_ecn_marked_roce_packets=2 np_cnp_sent>=1 rp_cnp_handled>=1",
    // The same of packets that the device sends.
    "drop-tx | drop:opcode=send,count=3,direction=tx | send 8 64 | 3 | completer_retry_err>=1",
    "drop-ack-tx | drop:opcode=ack,count=1,direction=tx | send 1 64 | 1 | duplicate_request>=1",
    "corrupt-tx | corrupt:opcode=send,count=2,direction=tx | \
     send 8 64 | 2 | rx_icrc_encapsulated=2",
    "duplicate-tx | duplicate:opcode=send,count=4,direction=tx | \
     send-copies 8 64 | 4 | duplicate_request>=1",
    "delay-tx | delay:time=8ms,opcode=send,count=4,direction=tx | send 4 64 | 4 | ms>=32",
    // A packet is sent by one queue pair and received by the other: each rule counts it once.
    "both-directions | duplicate:opcode=send,count=8,direction=tx; \
     delay:time=1us,opcode=send,count=8,direction=rx | send 8 64 | 16 |",
    "direction-other | duplicate:opcode=send,direction=tx,size=1 | send 8 64 | 0 |",
    "slow-cq | slow-cq:time=50ms,count=3 | polls 5 | 3 | ms>=150",
    "none | seed=1 | send 8 64 | 0 | rx_icrc_encapsulated=0 send_rnr_err=0",
    // Selectors, each with what it selects and with what it does not.
    "p-0 | duplicate:opcode=send,p=0 | send 8 64 | 0 |",
    "p-1 | duplicate:opcode=send,p=100%,count=8 | send 8 64 | 8 |",
    "count | duplicate:opcode=send,count=5 | send 8 64 | 5 |",
    "after | fail:call=reg_mr,errno=EIO,after=3 | calls 8 | 6 |",
    "from | fail:call=reg_mr,errno=EIO,from=60m | calls 8 | 0 |",
    "from-past | slow-cq:time=1ms,from=1ns | polls 4 | 4 |",
    "to | fail:call=reg_mr,errno=EIO,to=1ns | calls 8 | 0 |",
    "to-future | slow-cq:time=1ms,to=60m | polls 4 | 4 |",
    "device | slow-cq:time=1ms,device=uroce0 | polls 4 | 4 |",
    "device-other | slow-cq:time=1ms,device=uroce1 | polls 4 | 0 |",
    "qpn-other | duplicate:qpn=2 | send 8 64 | 0 |",
    "opcode-prefix | duplicate:opcode=se*,count=2 | send 8 64 | 2 |",
    "opcode-other | duplicate:opcode=write | send 8 64 | 0 |",
    // A packet has 12 bytes of headers and 4 of ICRC.
    "size | duplicate:size=116,opcode=send,count=2 | send 8 100 | 2 |",
    "size-range | duplicate:size=100-120,opcode=send,count=2 | send 8 100 | 2 |",
    "size-less | duplicate:size=-115,opcode=send | send 8 100 | 0 |",
    "size-more | duplicate:size=117-,opcode=send | send 8 100 | 0 |",
    "size-of-memory | fail:call=reg_mr,errno=EIO,size=66 | calls 8 | 1 |",
    // Three events (13: IBV_EVENT_SM_CHANGE) with two intervals between them.
    "every | event:type=sm-change,count=3,every=40ms | events 13 3 | 3 | ms>=80",
    // The first rule that applies counts.
    "order | slow-cq:time=1ms,count=1; slow-cq:time=40ms,count=1 | polls 3 | 2 | ms>=41",
];
