//! The performance management agent (PMA): the counters of a port, for perfquery(8) (specification, 16.1).
//! Pure.
//!
//! The counters are those of the process that answers, since it opened the device. What Set has cleared is
//! subtracted from then on; sysfs goes on showing the whole.

use super::datagram::{
    CLASS_PORT_INFO, DATA, Mad, answer, bytes, class, header_of, method, put, status,
};

const PORT_COUNTERS: u16 = 0x12;
const PORT_COUNTERS_EXTENDED: u16 = 0x1d;

/// `ClassPortInfo.CapabilityMask`: port 255 means all ports; extended counters; PortXmitWait.
const CAPABILITIES: u16 = 1 << 8 | 1 << 9 | 1 << 12;
/// Port 255, which means all ports.
const ALL_PORTS: u8 = 0xff;

/// A counter of PortCounters: where it is, its bits, its bit in CounterSelect, its name in sysfs.
struct Field {
    at: usize,
    bits: u8,
    select: u8,
    name: &'static str,
}

const fn field(at: usize, bits: u8, select: u8, name: &'static str) -> Field {
    Field {
        at,
        bits,
        select,
        name,
    }
}

/// The bit of PortXmitWait, which is in a second field of bits.
const SELECT_WAIT: u8 = 16;

/// PortCounters (16.1.3.5). Counters that no file shows are 0.
const FIELDS: [Field; 15] = [
    field(4, 16, 0, "symbol_error"),
    field(6, 8, 1, "link_error_recovery"),
    field(7, 8, 2, "link_downed"),
    field(8, 16, 3, "port_rcv_errors"),
    field(10, 16, 4, "port_rcv_remote_physical_errors"),
    field(12, 16, 5, "port_rcv_switch_relay_errors"),
    field(14, 16, 6, "port_xmit_discards"),
    field(16, 8, 7, "port_xmit_constraint_errors"),
    field(17, 8, 8, "port_rcv_constraint_errors"),
    field(22, 16, 11, "VL15_dropped"),
    field(24, 32, 12, "port_xmit_data"),
    field(28, 32, 13, "port_rcv_data"),
    field(32, 32, 14, "port_xmit_packets"),
    field(36, 32, 15, "port_rcv_packets"),
    field(40, 32, SELECT_WAIT, "port_xmit_wait"),
];

/// PortCountersExtended (16.1.4.11): multicast packets are among the unicast ones.
const EXTENDED_FIELDS: [Field; 6] = [
    field(8, 64, 0, "port_xmit_data"),
    field(16, 64, 1, "port_rcv_data"),
    field(24, 64, 2, "port_xmit_packets"),
    field(32, 64, 3, "port_rcv_packets"),
    field(40, 64, 4, "port_xmit_packets"),
    field(48, 64, 5, "port_rcv_packets"),
];

/// The counters of a port, by their names in sysfs.
pub type Counters<'a> = &'a [(&'static str, u64)];

/// Values that a port's counters had when they were cleared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cleared {
    normal: [u64; FIELDS.len()],
    extended: [u64; EXTENDED_FIELDS.len()],
}

/// Answers a request to port `port` of `ports`. None if it is not one of this class.
pub fn respond(
    request: &Mad,
    (port, ports): (u8, u8),
    counters: Counters<'_>,
    cleared: &mut Cleared,
) -> Option<Mad> {
    let header = header_of(request);
    if header.class != class::PERF_MGMT || !header.wants_answer() {
        return None;
    }
    if header.class_version != 1 {
        return Some(answer(request, status::BAD_VERSION, None));
    }
    let (fields, values) = match (header.attribute, header.method) {
        (CLASS_PORT_INFO, method::GET) => {
            return Some(answer(request, 0, Some(&class_port_info())));
        }
        (PORT_COUNTERS, _) => (&FIELDS[..], &mut cleared.normal[..]),
        (PORT_COUNTERS_EXTENDED, _) => (&EXTENDED_FIELDS[..], &mut cleared.extended[..]),
        _ => return Some(answer(request, status::UNSUPPORTED, None)),
    };
    let number = request[DATA + 1];
    if number != ALL_PORTS && number > ports {
        return Some(answer(request, status::INVALID_VALUE, None));
    }
    // ConnectX answers for the port that the request has come to if it names none. The others have no cable.
    let is_this = [0, ALL_PORTS, port].contains(&number);
    let now = |name: &str| {
        let found = counters.iter().find(|(other, _)| *other == name);
        found.filter(|_| is_this).map_or(0, |(_, value)| *value)
    };
    if header.method == method::SET && is_this {
        let selected = selected_by(request, header.attribute);
        for (field, value) in fields.iter().zip(values.iter_mut()) {
            if selected >> field.select & 1 != 0 {
                *value = now(field.name);
            }
        }
    }
    let mut data = [0; 80];
    data[1] = number;
    for (field, before) in fields.iter().zip(values) {
        let value = now(field.name).saturating_sub(if is_this { *before } else { 0 });
        // A counter stays at its highest value.
        let value = value.min(u64::MAX >> (64 - field.bits));
        let len = usize::from(field.bits) / 8;
        put(&mut data, field.at, &value.to_be_bytes()[8 - len..]);
    }
    Some(answer(request, 0, Some(&data)))
}

/// The counters that a request selects, by their bits.
fn selected_by(request: &Mad, attribute: u16) -> u32 {
    let select = u16::from_be_bytes(bytes(request, DATA + 2)).into();
    match attribute {
        PORT_COUNTERS => select | u32::from(request[DATA + 18] & 1) << SELECT_WAIT,
        _ => select,
    }
}

fn class_port_info() -> [u8; 72] {
    /// Encoded time until an answer: 4.096 µs · 2^18 is a second.
    const RESPONSE_TIME: u8 = 18;
    let mut data = [0; 72];
    data[..2].copy_from_slice(&[1, 1]);
    put(&mut data, 2, &CAPABILITIES.to_be_bytes());
    data[7] = RESPONSE_TIME;
    data
}

#[cfg(test)]
mod tests {
    use super::super::datagram::tests::request;
    use super::*;

    const COUNTERS: Counters<'static> = &[
        ("port_xmit_data", 1 << 33),
        ("port_rcv_data", 77),
        ("port_xmit_packets", 5),
        ("port_rcv_packets", 6),
        ("link_downed", 300),
    ];

    fn ask(method: u8, attribute: u16, port: u8, select: u16, cleared: &mut Cleared) -> Mad {
        let mut mad = request(class::PERF_MGMT, method, attribute, 0);
        mad[DATA + 1] = port;
        put(&mut mad, DATA + 2, &select.to_be_bytes());
        respond(&mad, (1, 2), COUNTERS, cleared).unwrap()
    }

    fn u32_at(mad: &Mad, at: usize) -> u32 {
        u32::from_be_bytes(bytes(mad, DATA + at))
    }

    fn u64_at(mad: &Mad, at: usize) -> u64 {
        u64::from_be_bytes(bytes(mad, DATA + at))
    }

    #[test]
    fn counters_stay_at_their_highest_values() {
        let mut cleared = Cleared::default();
        for port in [0, 1, ALL_PORTS] {
            let mad = ask(method::GET, PORT_COUNTERS, port, 0, &mut cleared);
            assert_eq!((u32_at(&mad, 24), u32_at(&mad, 28)), (u32::MAX, 77));
            assert_eq!(
                (mad[DATA + 1], mad[DATA + 7], mad[4..6].to_vec()),
                (port, 255, vec![0; 2])
            );
            let mad = ask(method::GET, PORT_COUNTERS_EXTENDED, port, 0, &mut cleared);
            assert_eq!(
                (u64_at(&mad, 8), u64_at(&mad, 16), u64_at(&mad, 48)),
                (1 << 33, 77, 6)
            );
        }
        let other = ask(method::GET, PORT_COUNTERS, 2, 0, &mut cleared);
        assert_eq!(other[DATA + 4..DATA + 44], [0; 40]);
    }

    #[test]
    fn set_clears_what_is_selected() {
        let mut cleared = Cleared::default();
        let mad = ask(method::SET, PORT_COUNTERS, 1, 1 << 13, &mut cleared);
        assert_eq!((u32_at(&mad, 28), u32_at(&mad, 36)), (0, 6));
        // The extended counters are others.
        let mad = ask(method::SET, PORT_COUNTERS_EXTENDED, 1, 1 << 3, &mut cleared);
        assert_eq!((u64_at(&mad, 16), u64_at(&mad, 32)), (77, 0));
        let before = cleared.clone();
        ask(method::SET, PORT_COUNTERS, 2, 0xffff, &mut cleared);
        assert_eq!(cleared, before);
    }

    #[test]
    fn what_is_refused() {
        let mut cleared = Cleared::default();
        let status_of = |mad: Mad| u16::from_be_bytes(bytes(&mad, 4));
        let mad = ask(method::GET, PORT_COUNTERS, 3, 0, &mut cleared);
        assert_eq!(status_of(mad), status::INVALID_VALUE);
        let mad = ask(method::GET, 0x10, 1, 0, &mut cleared);
        assert_eq!(status_of(mad), status::UNSUPPORTED);
        let mad = ask(method::GET, CLASS_PORT_INFO, 0, 0, &mut cleared);
        assert_eq!(
            (status_of(mad), mad[DATA + 2..DATA + 4].to_vec()),
            (0, vec![0x13, 0])
        );
        let mut old = request(class::PERF_MGMT, method::GET, PORT_COUNTERS, 0);
        old[2] = 2;
        let refused = respond(&old, (1, 1), COUNTERS, &mut cleared).unwrap();
        assert_eq!(status_of(refused), status::BAD_VERSION);
        let vendor = request(0x32, method::GET, 0, 0);
        assert_eq!(respond(&vendor, (1, 1), COUNTERS, &mut cleared), None);
        let response = request(class::PERF_MGMT, method::GET_RESP, PORT_COUNTERS, 0);
        assert_eq!(respond(&response, (1, 1), COUNTERS, &mut cleared), None);
    }
}
