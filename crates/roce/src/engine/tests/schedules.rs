//! Two engines over a network that loses, duplicates, delays and reorders packets. After any schedule each
//! message has been delivered exactly once and in order, or the queue pair is in ERR with the right
//! completion.
//!
//! `PROPTEST_CASES=20000 cargo test --release schedules` runs many more cases than the default.

mod check;

use std::cell::Cell;
use std::time::Duration;

use ibverbs_abi::*;
use proptest::prelude::*;

use super::hca::Direct;
use super::network::*;
use crate::engine::*;
use crate::wire::Psn;

/// The operation of a message.
#[derive(Clone, Copy, Debug)]
enum MessageKind {
    Send { imm: bool },
    Write { imm: bool },
    Read,
    Add,
    Swap,
    AtomicWrite,
    Flush,
}

#[derive(Clone, Debug)]
struct Transfer {
    kind: MessageKind,
    len: u32,
    fence: bool,
    signaled: bool,
    inline: bool,
    /// When it is posted, and when its receive is.
    at: Duration,
    receive_at: Duration,
}

/// The impairments of packets by the network.
#[derive(Clone, Copy, Debug)]
struct Impairment {
    seed: u64,
    /// Packets of 1000 that are lost, duplicated, and overtaken by others.
    loss: u64,
    duplication: u64,
    reordering: u64,
    delay: Duration,
    /// The most that is added to the delay of any packet, and to that of an overtaken one.
    jitter: Duration,
    extra_delay: Duration,
}

#[derive(Clone, Debug)]
struct Case {
    mtu: u32,
    psns: [u32; 2],
    reads: [u8; 2],
    timeout: u8,
    shared: bool,
    /// WRITEs and READs are executed by the HCA, at times.
    direct: bool,
    /// From when on the sides share memory.
    shared_from: Option<Duration>,
    /// The longest part of a message there, in bytes.
    fragment_len: usize,
    transmit_delay: Duration,
    impairment: Impairment,
    messages: [Vec<Transfer>; 2],
}

fn kind() -> impl Strategy<Value = MessageKind> {
    prop_oneof![
        4 => any::<bool>().prop_map(|imm| MessageKind::Send { imm }),
        4 => any::<bool>().prop_map(|imm| MessageKind::Write { imm }),
        3 => Just(MessageKind::Read),
        1 => Just(MessageKind::Add),
        1 => Just(MessageKind::Swap),
        1 => Just(MessageKind::AtomicWrite),
        1 => Just(MessageKind::Flush),
    ]
}

/// Lengths around multiples of the MTU are more likely than others.
fn len() -> impl Strategy<Value = u32> {
    prop_oneof![
        0..64u32,
        (1..5u32, 0..3u32).prop_map(|(packets, more)| packets * 1024 + more - 1),
        (1..5u32, 0..3u32).prop_map(|(packets, more)| packets * 256 + more - 1),
        (1..3u32, 0..3u32).prop_map(|(packets, more)| packets * 4096 + more - 1),
        0..20_000u32,
        0..SLOT,
    ]
}

fn message() -> impl Strategy<Value = Transfer> {
    let moment = prop_oneof![3 => up_to(us(0)), 2 => up_to(ms(2)), 1 => up_to(ms(50))];
    let flags = (any::<bool>(), any::<bool>(), any::<bool>());
    (kind(), len(), flags, moment.clone(), moment).prop_map(
        |(kind, len, (fence, signaled, inline), at, receive_at)| Transfer {
            kind,
            len: len.min(SLOT),
            fence,
            signaled,
            inline,
            at,
            receive_at,
        },
    )
}

fn up_to(limit: Duration) -> BoxedStrategy<Duration> {
    let limit = limit.as_nanos() as u64;
    (0..limit.max(1)).prop_map(Duration::from_nanos).boxed()
}

fn impairment() -> impl Strategy<Value = Impairment> {
    let rate = |limit: u64| prop_oneof![2 => Just(0), 3 => 0..limit / 10, 1 => 0..limit];
    let rates = (rate(400), rate(300), rate(200));
    let delay = (1000..200_000u64).prop_map(Duration::from_nanos);
    let jitter = prop_oneof![up_to(us(1)), up_to(us(500))];
    let extra_delay = prop_oneof![up_to(ms(1)), up_to(ms(200))];
    (any::<u64>(), rates, delay, jitter, extra_delay).prop_map(
        |(seed, (loss, duplication, reordering), delay, jitter, extra_delay)| Impairment {
            seed,
            loss,
            duplication,
            reordering,
            delay,
            jitter,
            extra_delay,
        },
    )
}

fn case() -> impl Strategy<Value = Case> {
    let psn = prop_oneof![Just(0u32), 0xff_ff80..=0xff_ffffu32, 0..=0xff_ffffu32];
    let messages = || proptest::collection::vec(message(), 0..SLOTS as usize);
    (
        prop_oneof![Just(256u32), Just(1024), Just(4096)],
        [psn.clone(), psn],
        [1..5u8, 1..5u8],
        prop_oneof![2 => Just(0u8), 1 => 10..16u8],
        any::<[bool; 2]>(),
        prop_oneof![
            2 => Just(None),
            1 => Just(Some(us(0))),
            1 => up_to(ms(20)).prop_map(Some),
        ],
        prop_oneof![Just(100usize), Just(4096), Just(20 << 10)],
        prop_oneof![2 => up_to(us(0)), 1 => up_to(us(50)), 1 => up_to(ms(6))],
        impairment(),
        [messages(), messages()],
    )
        .prop_map(
            |(
                mtu,
                psns,
                reads,
                timeout,
                [shared, direct],
                shared_from,
                fragment_len,
                transmit_delay,
                impairment,
                messages,
            )| Case {
                mtu,
                psns,
                reads,
                timeout,
                shared,
                direct,
                shared_from,
                fragment_len,
                transmit_delay,
                impairment,
                messages,
            },
        )
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ value >> 31
    }

    fn below(&mut self, end: u64) -> u64 {
        if end == 0 { 0 } else { self.next() % end }
    }

    fn up_to(&mut self, limit: Duration) -> Duration {
        Duration::from_nanos(self.below(limit.as_nanos() as u64))
    }
}

fn impair(impairment: Impairment) -> Box<Impair> {
    let mut random = Random(impairment.seed);
    Box::new(move |_, _| {
        let mut copies = Vec::new();
        if random.below(1000) >= impairment.loss {
            let count = 1 + u64::from(random.below(1000) < impairment.duplication);
            for _ in 0..count {
                let mut delay = impairment.delay + random.up_to(impairment.jitter);
                if random.below(1000) < impairment.reordering {
                    delay += random.up_to(impairment.extra_delay);
                }
                copies.push(delay);
            }
        }
        copies
    })
}

/// Drops parts of messages in shared memory, as a receiver without memory does: fewer than a network loses,
/// as they are longer, and no more than two of a message on average. A message of which a part is missing is
/// sent again as a whole, which would hardly ever arrive otherwise.
fn take(case: &Case) -> Box<Takes> {
    let mut random = Random(case.impairment.seed);
    let longest = case.messages.iter().flatten().map(|message| message.len);
    let parts = longest.max().unwrap_or(0) as usize / case.fragment_len + 1;
    let dropped = (case.impairment.loss / 4).min(2000 / parts as u64);
    Box::new(move |_, _| random.below(1000) >= dropped)
}

/// The registered memory: areas of `SLOTS` slots, a slot for each message; after them the words that atomics
/// change.
const SLOTS: u64 = 12;
const SLOT: u32 = 17_000;
const fn place(area: u64, index: u64) -> u64 {
    (area * SLOTS + index) * SLOT as u64
}
/// The areas: payloads of requests, payloads of responses, receive buffers, what the peer reads.
const SENT: u64 = 0;
const RESPONSE: u64 = 1;
const RECEIVED: u64 = 2;
const READ: u64 = 3;
/// The slots that the peer writes: fewer, so that later messages overwrite earlier ones.
const WRITTEN: u64 = 4;
const WRITTEN_SLOTS: u64 = 3;
const COUNTER: u64 = place(5, 0).next_multiple_of(8);
const CHAIN: u64 = COUNTER + 8;
const WORD: u64 = COUNTER + 16;
const _: () = assert!((COUNTER as usize) + 24 < LEN);

fn pattern(side: usize, area: u64, index: u64, at: usize) -> u8 {
    let value = (side as u64 + 1) * 31 + area * 57 + index * 101 + at as u64 * 7 + (at as u64 >> 8);
    (value ^ value >> 5) as u8
}

fn bytes(network: &mut Network, side: usize, offset: u64, len: u32) -> Vec<u8> {
    network.sides[side].hca.region(KEY).bytes[offset as usize..][..len as usize].to_vec()
}

fn expected(side: usize, area: u64, index: u64, len: u32) -> Vec<u8> {
    (0..len as usize)
        .map(|at| pattern(side, area, index, at))
        .collect()
}

impl Transfer {
    fn consumes_recv_wqe(&self) -> bool {
        matches!(
            self.kind,
            MessageKind::Send { .. } | MessageKind::Write { imm: true }
        )
    }

    /// The WR of the message. `swaps`: compare-and-swaps before it.
    fn request(&self, side: usize, index: u64, swaps: u64) -> SendWr {
        let rkey = KEY;
        let imm = 0x1000 + index as u32;
        let va = BASE + place(WRITTEN, index % WRITTEN_SLOTS);
        let sent = sge(place(SENT, index), self.len);
        let word = sge(place(RESPONSE, index), 8);
        let (kind, sge) = match self.kind {
            MessageKind::Send { imm: true } => (SendOp::SendImm { imm }, sent),
            MessageKind::Send { imm: false } => (SendOp::Send, sent),
            MessageKind::Write { imm: true } => (SendOp::WriteImm { va, rkey, imm }, sent),
            MessageKind::Write { imm: false } => (SendOp::Write { va, rkey }, sent),
            MessageKind::Read => {
                let va = BASE + place(READ, index);
                (
                    SendOp::Read { va, rkey },
                    sge(place(RESPONSE, index), self.len),
                )
            }
            MessageKind::Add => {
                let va = BASE + COUNTER;
                (SendOp::FetchAdd { va, rkey, add: 1 }, word)
            }
            MessageKind::Swap => {
                let va = BASE + CHAIN;
                let (compare, swap) = (swaps, swaps + 1);
                (cmp_swap(va, rkey, compare, swap), word)
            }
            MessageKind::AtomicWrite => {
                let data = (index + 1).to_ne_bytes();
                let va = BASE + WORD;
                (SendOp::AtomicWrite { va, rkey, data }, word)
            }
            MessageKind::Flush => (
                SendOp::Flush {
                    va,
                    rkey,
                    len: self.len,
                    placement: 1,
                    selectivity: (index % 2) as u8,
                },
                word,
            ),
        };
        let inline = self.inline && self.len < 300 && matches!(self.kind, MessageKind::Send { .. });
        let half = sge.len / 2;
        let sges = match self.kind {
            _ if inline => vec![],
            MessageKind::Send { .. } | MessageKind::Write { .. } | MessageKind::Read
                if sge.len > 3 =>
            {
                vec![
                    Sge { len: half, ..sge },
                    Sge {
                        addr: sge.addr + u64::from(half),
                        len: sge.len - half,
                        ..sge
                    },
                ]
            }
            _ => vec![sge],
        };
        let mut request = send_wr(index, kind, &sges);
        if inline {
            request.data = Data::Inline(expected(side, SENT, index, self.len).into());
        }
        request.flags = SendFlags {
            signaled: self.signaled,
            solicited: false,
            fence: self.fence,
        };
        request
    }
}

/// A step of a program: it posts a message's send WR or receive WR. Side and index.
enum Act {
    Send(usize, usize),
    Recv(usize, usize),
}

fn start(case: &Case) -> Network {
    let psns = case.psns.map(Psn::new);
    let change = |side: usize| QpChange {
        max_rd_atomic: Some(case.reads[side]),
        max_dest_rd_atomic: Some(case.reads[1 - side]),
        timeout: Some(case.timeout),
        min_rnr_timer: Some(4),
        ..attributes(side, psns, case.mtu)
    };
    let config = |side: usize| QpConfig {
        sq_sig_all: false,
        has_srq: case.shared,
        ..config(Service::Rc, side)
    };
    let mut network = Network::new(
        [config(0), config(1)],
        [change(0), change(1)],
        impair(case.impairment),
    );
    network.transmit_delay = case.transmit_delay;
    network.shared_from = case.shared_from.map(|at| network.now.after(at));
    network.fragment_len = case.fragment_len;
    network.takes_fragment = take(case);
    network.reuses = Some(|index| {
        let start = place(SENT, index) as usize;
        start..start + SLOT as usize
    });
    for (side, of) in network.sides.iter_mut().enumerate() {
        if case.direct {
            let seed = case.impairment.seed ^ side as u64;
            of.hca.direct = Direct::Random(Cell::new(seed));
        }
        let bytes = &mut of.hca.region(KEY).bytes;
        for (area, index) in [SENT, READ]
            .into_iter()
            .flat_map(|a| (0..SLOTS).map(move |i| (a, i)))
        {
            let place = place(area, index) as usize;
            for (at, byte) in bytes[place..][..SLOT as usize].iter_mut().enumerate() {
                *byte = pattern(side, area, index, at);
            }
        }
    }
    network
}

fn play(case: &Case) -> Network {
    let mut network = start(case);
    let mut acts = Vec::new();
    for (side, messages) in case.messages.iter().enumerate() {
        let (mut sent, mut ready) = (Duration::ZERO, Duration::ZERO);
        let mut receives = 0;
        for (index, message) in messages.iter().enumerate() {
            sent = sent.max(message.at);
            acts.push((sent, Act::Send(side, index)));
            if message.consumes_recv_wqe() {
                ready = ready.max(message.receive_at);
                acts.push((ready, Act::Recv(1 - side, receives)));
                receives += 1;
            }
        }
    }
    acts.sort_by_key(|act| act.0);
    let begin = network.now;
    for (at, act) in acts {
        let wait = begin.after(at).since(network.now);
        if !wait.is_zero() {
            network.run_for(wait);
        }
        match act {
            Act::Send(side, index) => {
                let messages = &case.messages[side];
                let swaps = messages[..index].iter();
                let swaps = swaps
                    .filter(|m| matches!(m.kind, MessageKind::Swap))
                    .count();
                let request = messages[index].request(side, index as u64, swaps as u64);
                network.post_send(side, request);
            }
            Act::Recv(side, index) => {
                let receive = recv_wr(index as u64, &[sge(place(RECEIVED, index as u64), SLOT)]);
                if case.shared {
                    network.sides[side].hca.shared.push_back(receive);
                } else {
                    network.post_recv(side, receive);
                }
            }
        }
    }
    network.run();
    network
}

/// Fewer in a debug build.
fn cases() -> ProptestConfig {
    let mut config = ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = if cfg!(debug_assertions) { 60 } else { 3000 };
    }
    config
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn every_message_arrives_once_and_in_order(case in case()) {
        let mut network = play(&case);
        check::check(&case, &mut network)?;
    }
}
