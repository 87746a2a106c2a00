//! Protocol cases as text: `cases/README.md` has the language.

use super::network::*;
use super::peer::{Peer, psn};
use crate::engine::*;
use crate::wire::{
    AethKind, AtomicEth, Bth, Feth, Headers, ICRC_LEN, NakCode, Opcode, Operation, Packet, Part,
    Psn, Reth, Transport,
};

const CASES: [(&str, &str); 2] = [
    ("memory.txt", include_str!("cases/memory.txt")),
    ("requests.txt", include_str!("cases/requests.txt")),
];

/// The values of a line, `KEY=VALUE`.
struct Values<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Values<'a> {
    fn new(words: &[&'a str]) -> Values<'a> {
        Values(
            words
                .iter()
                .map(|word| word.split_once('=').unwrap())
                .collect(),
        )
    }

    fn number(&self, key: &str) -> Option<u64> {
        let (_, text) = self.0.iter().find(|(name, _)| *name == key)?;
        Some(match text.strip_prefix("BASE+") {
            Some(offset) => BASE + offset.parse::<u64>().unwrap(),
            None => match text.strip_prefix("0x") {
                Some(digits) => u64::from_str_radix(digits, 16).unwrap(),
                None => text.parse().unwrap(),
            },
        })
    }
}

/// An operation by its name in the cases.
fn operation(name: &str) -> (Operation, Part) {
    let (name, part) = match name.split_once('.') {
        Some((name, "first")) => (name, Part::First),
        Some((name, "middle")) => (name, Part::Middle),
        Some((name, "last")) => (name, Part::Last),
        _ => (name, Part::Only),
    };
    let operation = match name {
        "send" => Operation::Send,
        "write" => Operation::Write,
        "read" => Operation::ReadRequest,
        "fetch-add" => Operation::FetchAdd,
        "cmp-swap" => Operation::CmpSwap,
        "flush" => Operation::Flush,
        "atomic-write" => Operation::AtomicWrite,
        other => panic!("no operation {other}"),
    };
    (operation, part)
}

/// A packet that arrives. Its payload are ones. Returns what happens: the responses, or that it is malformed.
fn arrive(peer: &mut Peer, name: &str, values: &Values<'_>) -> Vec<String> {
    let at = values.number("psn").unwrap() as u32;
    let payload = vec![1; values.number("data").unwrap_or(0) as usize];
    let mut headers = match name.strip_prefix("opcode=0x") {
        Some(code) => {
            let mut bth: Bth = Peer::headers(Operation::Send, Part::Only, at).bth;
            bth.opcode = Opcode(u8::from_str_radix(code, 16).unwrap());
            Headers::new(bth)
        }
        None => {
            let (operation, part) = operation(name);
            headers(operation, part, at, values)
        }
    };
    headers.bth.pad = (payload.len().wrapping_neg() & 3) as u8;
    let mut datagram = vec![0; headers.encoded_len()];
    headers.write(&mut datagram);
    datagram.extend(&payload);
    datagram.resize(datagram.len() + usize::from(headers.bth.pad) + ICRC_LEN, 0);
    arrive_raw(peer, &datagram)
}

/// Bytes that may be no packet at all.
fn arrive_raw(peer: &mut Peer, datagram: &[u8]) -> Vec<String> {
    let Ok(packet) = Packet::parse(datagram) else {
        return vec!["malformed".into()];
    };
    let (now, hca) = (peer.now, &mut peer.hca);
    peer.qp.receive(&packet, &addresses(1), now, hca);
    responses(peer)
}

fn headers(operation: Operation, part: Part, at: u32, values: &Values<'_>) -> Headers {
    let va = values.number("va").unwrap_or(BASE);
    let rkey = values.number("rkey").map_or(KEY, |key| key as u32);
    let len = values.number("len").unwrap_or(0) as u32;
    let mut headers = Peer::headers(operation, part, at);
    let has_reth = matches!(part, Part::First | Part::Only) && operation != Operation::Send;
    match operation {
        Operation::FetchAdd | Operation::CmpSwap => {
            headers.atomic = Some(AtomicEth {
                va,
                rkey,
                swap_add: values.number("add").unwrap_or(0),
                compare: 0,
            });
        }
        _ if has_reth => headers.reth = Some(Reth { va, rkey, len }),
        _ => {}
    }
    if operation == Operation::Flush {
        headers.feth = Some(Feth {
            placement: 1,
            selectivity: 0,
        });
    }
    headers
}

/// The responses that are to be sent, as the cases write them.
fn responses(peer: &mut Peer) -> Vec<String> {
    let name = |operation, kind| match (operation, kind) {
        (Operation::Ack, Some(AethKind::Ack { .. })) => "ack",
        (Operation::Ack, Some(AethKind::RnrNak { .. })) => "rnr",
        (Operation::Ack, Some(AethKind::Nak(NakCode::PsnSequence))) => "nak-sequence",
        (Operation::Ack, Some(AethKind::Nak(NakCode::InvalidRequest))) => "nak-invalid",
        (Operation::Ack, Some(AethKind::Nak(NakCode::RemoteAccess))) => "nak-access",
        (Operation::Ack, Some(AethKind::Nak(NakCode::RemoteOperational))) => "nak-operational",
        (Operation::ReadResponse, _) => "read",
        (Operation::AtomicAck, _) => "atomic",
        other => panic!("{other:?}"),
    };
    let sent = peer.responses().into_iter();
    sent.map(|(operation, _, at, kind)| format!("{} psn={at}", name(operation, kind)))
        .collect()
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(digits).collect()
}

fn check(peer: &mut Peer, words: &[&str], place: &str) {
    match words {
        ["state", name] => {
            let states = [
                ("rtr", QpState::Rtr),
                ("err", QpState::Err),
                ("rts", QpState::Rts),
            ];
            let expected = states.iter().find(|(other, _)| other == name).unwrap().1;
            assert_eq!(peer.qp.state(), expected, "{place}");
        }
        ["memory", "unchanged"] => {
            let bytes = &peer.hca.region(KEY).bytes;
            assert!(bytes.iter().all(|byte| *byte == 0), "{place}");
        }
        ["memory", byte] => {
            let (at, value) = byte.split_once('=').unwrap();
            let found = peer.hca.region(KEY).bytes[at.parse::<usize>().unwrap()];
            assert_eq!(found, value.parse::<u8>().unwrap(), "{place}");
        }
        ["recv", count] => {
            let count: u64 = count.parse().unwrap();
            (0..count).for_each(|id| peer.post_recv(id));
        }
        other => panic!("{place}: {other:?}"),
    }
}

#[test]
fn protocol_cases() {
    let mut count = 0;
    for (file, text) in CASES {
        let mut peer: Option<Peer> = None;
        // The responses to the last packet that no line has named yet.
        let mut pending: Vec<String> = Vec::new();
        let mut place = String::new();
        for line in text.lines().chain(["case end"]) {
            let words: Vec<&str> = line.split_whitespace().collect();
            if words.is_empty() || words[0].starts_with('#') {
                continue;
            }
            if words[0] != ">" {
                assert_eq!(pending, [""; 0], "{place}: more than the case says");
            }
            if words[0] == "case" {
                place = format!("{file}, {}", words[1]);
                peer = Some(Peer::in_rtr(QpChange::default()));
                count += 1;
                continue;
            }
            let place = format!("{place}: {line}");
            let peer = peer.as_mut().unwrap();
            match &words[..] {
                ["<", "raw", hex] => pending = arrive_raw(peer, &bytes(hex)),
                ["<", name, values @ ..] => pending = arrive(peer, name, &Values::new(values)),
                [">", expected @ ..] => {
                    assert!(!pending.is_empty(), "{place}: there is no response");
                    assert_eq!(pending.remove(0), expected.join(" "), "{place}");
                }
                other => check(peer, other, &place),
            }
        }
    }
    // With the two ends of the files.
    assert!(count > 25, "{count}");
    let first = Psn::new(0xff_fffe);
    assert_eq!(
        (
            psn(0),
            Opcode::new(Transport::Rc, Operation::Send, Part::Only).0
        ),
        (first, 4)
    );
}
