//! Agents: who gets a MAD, and what programs read.

use core::time::Duration;

use ibverbs_abi::{Errno, Result};

use super::agents::{Agents, FileId};
use super::datagram::tests::request;
use super::datagram::{Mad, bytes, class, header_of, method, put};
use super::path::Path;
use super::user_mad::{Address, Layout, Message, Register, Registration};
use roce::engine::Time;

const PREFIX: u32 = 0x12_3456;
const EINVAL: Errno = Errno(libc::EINVAL);
/// Two descriptors of one port, and one of another port.
const FILES: [(FileId, u32); 3] = [(1, 0), (2, 0), (3, 1)];
const START: Time = Time(1_000_000_000);

fn agents() -> Agents<()> {
    let mut agents = Agents::new(PREFIX);
    for (file, port) in FILES {
        agents.open(file, port);
        agents.enable_pkey(file).unwrap();
    }
    agents
}

fn register(class: u8, methods: u128) -> Register {
    Register {
        qpn: u32::from(!matches!(class, 1 | 0x81)),
        rmpp_version: 0,
        user_rmpp: false,
        registration: Some(Registration {
            class,
            class_version: 1,
            oui: [0, 0x14, 5],
            methods,
        }),
    }
}

fn add(agents: &mut Agents<()>, file: FileId, request: &Register) -> Result<u32> {
    agents.register(file, (request, false), true, Some(()))
}

/// A message of an agent to the port with LID 9.
fn message(id: u32, timeout_ms: u32, retries: u32, mad: &Mad) -> Message {
    let layout = Layout::WithPkey;
    let mut written = vec![0; layout.len()];
    put(&mut written, 0, &id.to_ne_bytes());
    put(&mut written, 8, &timeout_ms.to_ne_bytes());
    put(&mut written, 12, &retries.to_ne_bytes());
    (written[23], written[29]) = (1, 9);
    written.extend_from_slice(mad);
    Message::parse(&written, layout).unwrap()
}

const PATH: Path = Path {
    port: 0,
    sgid_index: 0,
    dgid: [7; 16],
    traffic_class: 0,
};

/// Sends a request; returns it as it leaves.
fn send(agents: &mut Agents<()>, file: FileId, mut message: Message, now: Time) -> Result<Mad> {
    agents.prepare(file, &mut message)?;
    let mad = message.mad;
    agents.sent(file, message, Some(PATH), now)?;
    Ok(mad)
}

fn respond(agents: &mut Agents<()>, port: u32, request: &Mad) -> bool {
    let mut mad = *request;
    mad[3] |= method::RESPONSE;
    agents.deliver(port, &peer(), &mad, &mad)
}

fn peer() -> Address {
    Address {
        qpn: 1,
        lid: 9,
        ..Address::default()
    }
}

/// Reads the messages of a descriptor: number of the agent, status, length of the data.
fn read(agents: &mut Agents<()>, file: FileId) -> Vec<(u32, u32, usize)> {
    let mut all = Vec::new();
    let u32_at = |message: &[u8], at| u32::from_ne_bytes(bytes(message, at));
    agents.flush(file, |message| {
        all.push((u32_at(message, 0), u32_at(message, 4), message.len() - 64));
        true
    });
    all
}

fn milliseconds(count: u64) -> Time {
    START.after(Duration::from_millis(count))
}

#[test]
fn an_answer_goes_to_the_agent_that_has_asked() {
    let mut agents = agents();
    add(&mut agents, 1, &register(0x32, 0)).unwrap();
    add(&mut agents, 1, &register(class::PERF_MGMT, 0)).unwrap();
    add(&mut agents, 2, &register(class::PERF_MGMT, 0)).unwrap();
    let ask = request(class::PERF_MGMT, method::GET, 0x12, 0);
    let first = send(&mut agents, 1, message(1, 100, 0, &ask), START).unwrap();
    let second = send(&mut agents, 2, message(0, 100, 0, &ask), START).unwrap();
    assert_eq!(header_of(&first).tid >> 40, u64::from(PREFIX));
    assert_eq!(header_of(&first).tid as u32, 0x0506_0708);
    assert_ne!(first, second);
    assert!(respond(&mut agents, 0, &second));
    assert_eq!(read(&mut agents, 1), []);
    assert_eq!(read(&mut agents, 2), [(0, 0, 256)]);
    // The same answer once more, and one that has come to another port, are dropped.
    assert!(respond(&mut agents, 0, &second) && respond(&mut agents, 1, &first));
    assert!(agents.unread().is_empty());
    assert!(respond(&mut agents, 0, &first));
    assert_eq!(read(&mut agents, 1), [(1, 0, 256)]);
    assert_eq!(agents.deadline(), None);
    // That of another process.
    let mut other = first;
    other[8] ^= 1;
    assert!(!respond(&mut agents, 0, &other));
}

#[test]
fn requests_are_sent_again_and_time_out() {
    let mut agents = agents();
    add(&mut agents, 1, &register(0x32, 0)).unwrap();
    let ask = request(0x32, method::GET, 0, 0);
    let sent = send(&mut agents, 1, message(0, 100, 2, &ask), START).unwrap();
    assert_eq!(
        send(&mut agents, 1, message(0, 100, 2, &ask), START),
        Err(EINVAL)
    );
    assert_eq!(agents.deadline(), Some(milliseconds(100)));
    assert!(agents.handle_timeouts(milliseconds(99)).is_empty());
    for at in [100, 200] {
        let resent = agents.handle_timeouts(milliseconds(at));
        assert_eq!((resent[0].mad, resent[0].path), (sent, PATH));
        assert!(agents.unread().is_empty());
    }
    assert!(agents.handle_timeouts(milliseconds(300)).is_empty());
    assert_eq!(read(&mut agents, 1), [(0, libc::ETIMEDOUT as u32, 24)]);
    assert_eq!(agents.deadline(), None);
    // Nobody waits for the answer to a message without a timeout.
    let sent = send(&mut agents, 1, message(0, 0, 2, &ask), START).unwrap();
    assert_eq!(agents.deadline(), None);
    assert!(respond(&mut agents, 0, &sent) && agents.unread().is_empty());
}

#[test]
fn a_request_goes_to_the_agent_of_its_class_method_and_vendor() {
    let mut agents = agents();
    add(&mut agents, 1, &register(0x32, 1 << method::GET)).unwrap();
    add(&mut agents, 2, &register(0x32, 1 << method::SET)).unwrap();
    let mut set = request(0x32, method::SET, 0, 0);
    put(&mut set, 37, &[0, 0x14, 5]);
    assert!(agents.deliver(0, &peer(), &set, &set));
    assert_eq!(read(&mut agents, 2), [(0, 0, 256)]);
    assert!(!agents.deliver(1, &peer(), &set, &set), "another port");
    for (at, value) in [(39, 6), (2, 2), (1, 0x33), (3, 3)] {
        let mut other = set;
        other[at] = value;
        assert!(!agents.deliver(0, &peer(), &other, &other), "byte {at}");
    }
    agents.close(2);
    assert!(!agents.deliver(0, &peer(), &set, &set));
}

#[test]
fn two_agents_of_a_port_do_not_get_the_same_requests() {
    let mut agents = agents();
    let of = register(0x32, 6);
    assert_eq!(add(&mut agents, 1, &of), Ok(0));
    assert_eq!(add(&mut agents, 2, &of), Err(EINVAL));
    assert_eq!(add(&mut agents, 2, &register(0x32, 4)), Err(EINVAL));
    assert_eq!(add(&mut agents, 2, &register(0x32, 8)), Ok(0));
    assert_eq!(add(&mut agents, 3, &of), Ok(0));
    let mut other = of;
    other.registration.as_mut().unwrap().oui = [1; 3];
    assert_eq!(add(&mut agents, 2, &other), Ok(1));
    agents.unregister(1, 0).unwrap();
    assert_eq!(agents.unregister(1, 0), Err(EINVAL));
    assert_eq!(add(&mut agents, 1, &of), Ok(0));
}

#[test]
fn registrations_that_the_kernel_refuses() {
    let mut agents = agents();
    let refused = |agents: &mut Agents<()>, change: fn(&mut Register), errno| {
        let mut of = register(0x32, 2);
        change(&mut of);
        assert_eq!(add(agents, 1, &of), Err(Errno(errno)), "{of:?}");
    };
    fn of(register: &mut Register) -> &mut Registration {
        register.registration.as_mut().unwrap()
    }
    refused(&mut agents, |register| register.qpn = 2, libc::EINVAL);
    refused(&mut agents, |register| register.qpn = 0, libc::EINVAL);
    refused(
        &mut agents,
        |register| register.rmpp_version = 2,
        libc::EINVAL,
    );
    refused(
        &mut agents,
        |register| of(register).oui = [0; 3],
        libc::EINVAL,
    );
    refused(
        &mut agents,
        |register| of(register).class = 0x50,
        libc::EINVAL,
    );
    refused(&mut agents, |register| of(register).class = 1, libc::EINVAL);
    refused(
        &mut agents,
        |register| of(register).class_version = 0x83,
        libc::EINVAL,
    );
    let no_rmpp = |register: &mut Register| {
        of(register).class = class::PERF_MGMT;
        register.rmpp_version = 1;
    };
    refused(&mut agents, no_rmpp, libc::EINVAL);
    let only_asks = |register: &mut Register| {
        register.registration = None;
        register.user_rmpp = true;
    };
    refused(&mut agents, only_asks, libc::EINVAL);
    let smi = register(1, 0);
    let refused = agents.register(1, (&smi, false), false, None);
    assert_eq!(refused, Err(Errno(libc::EPROTONOSUPPORT)));
    for slot in 0..32 {
        assert_eq!(add(&mut agents, 1, &smi), Ok(slot));
    }
    assert_eq!(add(&mut agents, 1, &smi), Err(Errno(libc::ENOMEM)));
}

#[test]
fn messages_of_no_agent() {
    let mut agents = agents();
    let ask = request(0x32, method::GET, 0, 0);
    let errno = send(&mut agents, 1, message(0, 1, 0, &ask), START);
    assert_eq!(errno, Err(Errno(libc::EIO)));
    assert_eq!(
        send(&mut agents, 1, message(32, 1, 0, &ask), START),
        Err(EINVAL)
    );
}

#[test]
fn the_layout_is_fixed_by_the_first_agent() {
    let mut agents: Agents<()> = Agents::new(PREFIX);
    let of = register(0x32, 0);
    for (file, second) in [(1, false), (2, true)] {
        agents.open(file, 0);
        agents.register(file, (&of, second), true, None).unwrap();
        assert_eq!(agents.enable_pkey(file), Err(EINVAL));
    }
    assert_eq!(agents.layout_of(1), Some(Layout::Old));
    assert_eq!(agents.layout_of(2), Some(Layout::WithPkey));
}

#[test]
fn what_an_agent_waits_for_ends_with_it() {
    let mut agents = agents();
    add(&mut agents, 1, &register(0x32, 0)).unwrap();
    let ask = request(0x32, method::GET, 0, 0);
    let sent = send(&mut agents, 1, message(0, 100, 0, &ask), START).unwrap();
    agents.unregister(1, 0).unwrap();
    assert_eq!(agents.deadline(), None);
    // The next one has another number.
    add(&mut agents, 1, &register(0x32, 0)).unwrap();
    let next = send(&mut agents, 1, message(0, 100, 0, &ask), START).unwrap();
    assert_ne!(sent, next);
    assert!(respond(&mut agents, 0, &sent) && agents.unread().is_empty());
}

#[test]
fn a_full_descriptor_keeps_what_it_does_not_take() {
    let mut agents = agents();
    add(&mut agents, 1, &register(0x32, 2)).unwrap();
    let mut get = request(0x32, method::GET, 0, 0);
    put(&mut get, 37, &[0, 0x14, 5]);
    for _ in 0..3 {
        assert!(agents.deliver(0, &peer(), &get, &get));
    }
    let mut room = 2;
    let takes = |_: &[u8]| {
        room -= 1;
        room >= 0
    };
    assert!(!agents.flush(1, takes));
    assert_eq!(agents.unread(), [1]);
    assert_eq!(read(&mut agents, 1).len(), 1);
}
