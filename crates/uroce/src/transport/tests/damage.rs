//! Damaged packets over IPv4: every bit on its own, and random pairs of bits.

use std::net::Ipv4Addr;

use super::super::ip_id::{LAST_LOW_ID, Millis, Senders, is_low};
use roce::wire::{Flow, Fragmentation, PORT};

const SRC: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const DST: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
const FLOW: Flow = Flow {
    src: std::net::IpAddr::V4(SRC),
    dst: std::net::IpAddr::V4(DST),
    src_port: PORT,
    dst_port: PORT,
};

/// Packets with their ICRC: the shortest, an ACK, some with short payloads, and the longest of each path MTU,
/// with and without a RETH.
const LENS: [usize; 13] = [
    16, 20, 32, 96, 180, 272, 528, 1040, 1056, 1300, 2064, 4112, 4128,
];
const PAIRS: usize = 10_000;

fn packet(len: usize, sent: Fragmentation) -> Vec<u8> {
    let mut packet: Vec<u8> = (0..len - 4).map(|i| (i * 7 + len) as u8).collect();
    packet.extend(FLOW.icrc(&packet, sent));
    packet
}

fn flip(packet: &mut [u8], bits: &[usize]) {
    for bit in bits {
        packet[bit / 8] ^= 1 << (bit % 8);
    }
}

/// Calls with each pattern of damage. The ICRC does not cover byte 4: FECN, BECN and reserved bits.
fn each_damage(len: usize, mut call: impl FnMut(&[usize])) {
    let covered: Vec<_> = (0..8 * len).filter(|bit| bit / 8 != 4).collect();
    for bit in &covered {
        call(&[*bit]);
    }
    let mut state = len as u64;
    let mut random = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        covered[(state >> 33) as usize % covered.len()]
    };
    for _ in 0..PAIRS {
        let pair = [random(), random()];
        if pair[0] != pair[1] {
            call(&pair);
        }
    }
}

/// The damage is found whatever the identification of the packet and of the damaged one.
#[test]
fn no_damage_to_packets_of_uroce_passes() {
    let low = |id, len| {
        let dont_fragment = true;
        is_low(Fragmentation { id, dont_fragment }, len)
    };
    let mut looked_valid = 0;
    for len in LENS {
        let mut packet = packet(len, Fragmentation::SENT);
        each_damage(len, |bits| {
            flip(&mut packet, bits);
            if let Some(found) = FLOW.check(&packet) {
                looked_valid += 1;
                // The difference is the same for every identification of the packet.
                let passes = (0..=LAST_LOW_ID)
                    .any(|id| low(id, len) && found.dont_fragment && low(id ^ found.id, len));
                assert!(!passes, "{len} bytes, bits {bits:?}: {found:?}");
            }
            flip(&mut packet, bits);
        });
    }
    // Without regard to the identification some pass.
    assert!(looked_valid > 3, "{looked_valid}");
}

/// The damage is found in a sender's stream of packets, as kernel rxe's, after its first two.
#[test]
fn no_damage_to_packets_of_a_sender_that_numbers_them_passes() {
    let numbered = |id| Fragmentation {
        id,
        dont_fragment: true,
    };
    let path = (SRC, DST);
    let mut looked_valid = 0;
    for len in LENS {
        let mut senders = Senders::new();
        let mut id = 0xfff0_u16.wrapping_add(len as u16);
        senders.accepts(path, numbered(id), Millis(0), false);
        let mut now = Millis(0);
        let mut packet = packet(len, numbered(id));
        each_damage(len, |bits| {
            flip(&mut packet, bits);
            if let Some(found) = FLOW.check(&packet) {
                looked_valid += 1;
                let change = found.id ^ id;
                // A packet passes, the next one is damaged, up to 20 ms later.
                for (pause, unreliable) in [(0, false), (0, true), (1, false), (20, true)] {
                    id = id.wrapping_add(1);
                    assert!(senders.accepts(path, numbered(id), now, false));
                    now.0 += pause;
                    let damaged = Fragmentation {
                        id: id.wrapping_add(1) ^ change,
                        ..found
                    };
                    assert!(
                        !senders.accepts(path, damaged, now, unreliable),
                        "{len} bytes, bits {bits:?}: {found:?}"
                    );
                    id = id.wrapping_add(1);
                    assert!(senders.accepts(path, numbered(id), now, false));
                }
                flip(&mut packet, bits);
                packet = self::packet(len, numbered(id));
                return;
            }
            flip(&mut packet, bits);
        });
    }
    assert!(looked_valid > 3, "{looked_valid}");
}
