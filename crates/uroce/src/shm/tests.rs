use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;
use std::thread;
use std::time::Duration;

use super::handshake;
use super::offers::reversed;
use super::ring::Room;
use super::*;
use crate::cancellation;
use roce::engine::FragmentWriter;
use roce::wire::{Opcode, Operation, Part, Psn, gid_of};

mod offers;

/// Each test has an address of its own, as the names are those of the network namespace.
fn flow(last: u8) -> Flow {
    let ip = |host| Ipv4Addr::new(127, 88, last, host).into();
    Flow {
        src: ip(1),
        dst: ip(2),
        src_port: 4791,
        dst_port: 61440,
    }
}

fn ends(flow: &Flow) -> Ends {
    Ends {
        flow: *flow,
        gid: gid_of(flow.src),
        peer_gid: gid_of(flow.dst),
        in_grh: [flow.src, flow.dst],
    }
}

fn any_ends(flow: &Flow) -> Option<Ends> {
    Some(ends(flow))
}

fn channels() -> Channels {
    Channels::new(1, Peers::SameUser, None).unwrap()
}

/// Sends an ACK for queue pair 5 with this PSN.
fn push(sender: &mut Sender<'_>, room: Room, psn: u8) {
    sender.write_fragment(room, |buffer| {
        let to = (5, Psn::new(psn.into()));
        let fragment = FragmentWriter::new(Operation::Ack, Part::Only, to, 0, buffer);
        fragment.map(|fragment| fragment.len(0))
    });
}

fn send(channel: &Channel, psn: u8) -> bool {
    let mut sender = channel.sender(Duration::ZERO).unwrap();
    let room = sender.room().unwrap();
    push(&mut sender, room, psn);
    sender.finish().peer_sleeps
}

fn has_packet(channels: &Channels) -> bool {
    channels.has_packet(&mut SeenChannels::default())
}

fn take_first_receive(channels: &Channels) -> bool {
    let mut seen = SeenChannels::default();
    channels.has_packet(&mut seen);
    seen.take_first_receive()
}

/// The PSNs of all packets that wait.
fn received(channels: &Channels, from: &Flow) -> Vec<u32> {
    let mut psns = Vec::new();
    let mut seen = SeenChannels::default();
    channels.has_packet(&mut seen);
    seen.take_first_receive();
    seen.receive(&mut |fragment: &Fragment<'_>, addresses: &Addresses| {
        assert_eq!(addresses.src, gid_of(from.src));
        assert_eq!(addresses.dst, gid_of(from.dst));
        assert_eq!(addresses.src_port, from.src_port);
        assert_eq!(fragment.dest_qpn(), 5);
        psns.push(fragment.psn().get());
    });
    psns
}

impl<F: FnMut(&Fragment<'_>, &Addresses)> Receiver for F {
    fn packet(&mut self, _: &Packet<'_>, _: &Addresses) {
        panic!("a datagram, which nobody has sent");
    }

    fn fragment(&mut self, fragment: &Fragment<'_>, from: &Addresses) {
        self(fragment, from);
    }
}

/// Two devices with a channel between them, and the channels that each sends through.
fn connected(flow: &Flow) -> ([Channels; 2], [Arc<Channel>; 2]) {
    let (initiator, acceptor) = (channels(), channels());
    acceptor.listen(flow.dst, flow.dst_port);
    initiator.offer(ends(flow));
    assert!(initiator.find(flow).is_none());
    // Accepts the connection, then takes the offer.
    acceptor.serve(&any_ends);
    acceptor.serve(&any_ends);
    initiator.serve(&any_ends);
    let channels = [
        initiator.find(flow).unwrap(),
        acceptor.find(&reversed(flow)).unwrap(),
    ];
    ([initiator, acceptor], channels)
}

/// Takes all channels whose peer is gone.
fn all_dead(channels: &Channels) -> Vec<Arc<Channel>> {
    std::iter::from_fn(|| channels.take_dead()).collect()
}

#[test]
fn packets_pass_in_both_directions() {
    let flow = flow(1);
    let ([a, b], [to_b, to_a]) = connected(&flow);
    assert!(!take_first_receive(&a) && !has_packet(&b));
    for psn in 0..100 {
        assert!(!send(&to_b, psn) && !send(&to_a, psn));
    }
    assert!(has_packet(&a) && has_packet(&b));
    for (channels, flow) in [(&a, reversed(&flow)), (&b, flow)] {
        assert_eq!(received(channels, &flow), (0..64).collect::<Vec<_>>());
        assert_eq!(received(channels, &flow), (64..100).collect::<Vec<_>>());
        assert_eq!(channels.counts(), (100, 100));
        assert!(!has_packet(channels));
    }
}

#[test]
fn a_sleeping_peer_is_woken_once() {
    let flow = flow(2);
    let ([_a, b], [to_b, _]) = connected(&flow);
    assert!(!b.prepare_sleep());
    assert!(send(&to_b, 0) && !send(&to_b, 1));
    assert!(b.prepare_sleep(), "must not sleep");
    b.end_sleep();
    assert!(!send(&to_b, 2));
    let readable = || {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 4];
        cancellation::epoll_poll(b.fd(), &mut events) > 0
    };
    assert!(!readable());
    to_b.wake_peer();
    assert!(readable());
    // A thread that polls leaves the wakeup to the thread that sleeps.
    assert!(!b.serve(&any_ends));
    assert!(readable());
    b.read_wakeups();
    assert!(!readable());
}

/// A packet that comes when the channels have been asked for fresh ones is not received before the datagrams.
#[test]
fn a_fresh_channel_waits() {
    let flow = flow(15);
    let ([_a, b], [to_b, _]) = connected(&flow);
    assert!(!take_first_receive(&b) && !send(&to_b, 1));
    let mut seen = SeenChannels::default();
    assert!(b.has_packet(&mut seen));
    let receive = |seen: &mut SeenChannels| {
        let received = seen.receive(&mut |_: &Fragment<'_>, _: &Addresses| ());
        (received.packets, received.any_fresh)
    };
    assert_eq!(receive(&mut seen), (0, true));
    assert!(seen.take_first_receive());
    assert_eq!(receive(&mut seen), (1, false));
}

/// Packets that the peer has sent by UDP are received before the first packets of each channel.
#[test]
fn each_channel_is_fresh_once() {
    let [first, second] = [flow(13), flow(14)];
    let ([_a, b], [to_b, _]) = connected(&first);
    let c = channels();
    b.listen(second.dst, second.dst_port);
    c.offer(ends(&second));
    assert!(!b.serve(&any_ends) && b.serve(&any_ends) && c.serve(&any_ends));
    assert!(!take_first_receive(&b));
    for fresh in [true, false] {
        assert!(!send(&to_b, 1));
        assert_eq!(take_first_receive(&b), fresh);
        assert_eq!(received(&b, &first), [1]);
    }
    let to_b = c.find(&second).unwrap();
    for fresh in [true, false] {
        assert!(!send(&to_b, 2));
        assert_eq!(take_first_receive(&b), fresh);
        assert_eq!(received(&b, &second), [2]);
    }
}

#[test]
fn what_a_dead_peer_has_sent_is_received_before_its_end() {
    let flow = flow(3);
    let ([a, b], [to_b, _to_a]) = connected(&flow);
    let generation = b.generation();
    send(&to_b, 7);
    a.close();
    b.serve(&any_ends);
    assert!(b.take_dead().is_none());
    assert_eq!(received(&b, &flow), [7]);
    let dead = all_dead(&b);
    assert_eq!(dead.len(), 1);
    assert!(dead[0].is_dead() && b.find(&reversed(&flow)).is_none());
    assert!(b.generation() != generation && !b.is_used());
    assert_eq!(b.counts(), (0, 1));
}

#[test]
fn who_is_no_end_of_the_flow_gets_no_channel() {
    let flow = flow(4);
    let (a, b) = (channels(), channels());
    b.listen(flow.dst, flow.dst_port);
    a.offer(ends(&flow));
    // The process has the address, or it would not listen; it has no such flow.
    let other = |flow: &Flow| (flow.src == flow.dst).then(|| ends(flow));
    b.serve(&other);
    b.serve(&other);
    a.serve(&any_ends);
    assert!(a.find(&flow).is_none() && !a.is_used() && !b.is_used());
    // It is left alone for a while.
    a.offer(ends(&flow));
    assert!(a.state.lock().pending.is_empty());
    // A process that has lost the address gives its name up.
    b.serve(&|_| None);
    a.state.lock().unanswered.clear();
    a.offer(ends(&flow));
    b.serve(&|_| None);
    assert!(b.state.lock().listeners.is_empty());
    let c = channels();
    c.listen(flow.dst, flow.dst_port);
    assert_eq!(c.state.lock().listeners.len(), 1);
}

#[test]
fn an_interrupted_offer_leaves_nothing() {
    let flow = flow(5);
    let (a, b) = (channels(), channels());
    b.listen(flow.dst, flow.dst_port);
    a.offer(ends(&flow));
    b.serve(&any_ends);
    drop(a);
    b.serve(&any_ends);
    // The offer was complete: the channel exists, and ends at once.
    b.serve(&any_ends);
    assert_eq!(all_dead(&b).len(), 1);
    // A connection without an offer.
    let fd = handshake::connect(flow.dst, flow.dst_port, 1, Peers::SameUser).unwrap();
    b.serve(&any_ends);
    assert_eq!(b.state.lock().pending.len(), 1);
    drop(fd);
    b.serve(&any_ends);
    assert!(b.state.lock().pending.is_empty() && !b.is_used());
}

/// The export table that a peer got for the offer is withdrawn when it refuses.
#[test]
fn a_peer_that_refuses_has_no_access() {
    let flow = flow(38);
    let listener = handshake::listen(flow.dst, flow.dst_port, 1).unwrap();
    let exports = Arc::new(Exports::create().unwrap());
    let a = Channels::new(1, Peers::SameUser, Some(Arc::clone(&exports))).unwrap();
    a.offer(ends(&flow));
    let accepted = handshake::accept(listener.as_raw_fd(), Peers::SameUser).unwrap();
    a.serve(&any_ends);
    assert_eq!(exports.accessor_count(), 1);
    drop(accepted);
    a.serve(&any_ends);
    assert_eq!(exports.accessor_count(), 0);
    assert!(a.state.lock().pending.is_empty() && !a.is_used());
}

/// A peer that accepts, sends and ends before this process looks: its packets are received.
#[test]
fn what_came_with_the_answer_is_received() {
    let flow = flow(9);
    let (a, b) = (channels(), channels());
    b.listen(flow.dst, flow.dst_port);
    a.offer(ends(&flow));
    b.serve(&any_ends);
    b.serve(&any_ends);
    send(&b.find(&reversed(&flow)).unwrap(), 3);
    b.close();
    a.serve(&any_ends);
    a.serve(&any_ends);
    assert!(a.take_dead().is_none());
    assert_eq!(received(&a, &reversed(&flow)), [3]);
    assert_eq!(all_dead(&a).len(), 1);
}

/// A peer that is gone has another channel, from which packets are still to be received: only then has it
/// ended. A peer that keeps the other channel has not ended.
#[test]
fn a_peer_ends_when_its_last_channel_is_empty() {
    for both in [true, false] {
        let flow = flow(if both { 11 } else { 12 });
        let ([a, b], [first, to_a]) = connected(&flow);
        let (mine, theirs) = connect_again(&a, &b, &flow);
        send(&theirs, 7);
        send(&to_a, 6);
        to_a.hang_up();
        if both {
            theirs.hang_up();
        }
        a.serve(&any_ends);
        assert!(a.has_dead() && a.take_dead().is_none());
        let mut psns = received(&a, &reversed(&flow));
        psns.sort();
        assert_eq!(psns, [6, 7]);
        let removed = all_dead(&a);
        assert_eq!(removed.len(), if both { 2 } else { 1 });
        assert_eq!((first.has_ended(), mine.has_ended()), (both, both));
        assert_eq!(a.find(&flow).is_none(), both);
    }
}

/// One more channel between two devices, as if both had offered one at the same time: both ends of it.
fn connect_again(a: &Channels, b: &Channels, flow: &Flow) -> (Arc<Channel>, Arc<Channel>) {
    let mut state = a.state.lock();
    let pending = a.connect(&mut state, ends(flow)).unwrap();
    state.pending.push(pending);
    drop(state);
    b.serve(&any_ends);
    b.serve(&any_ends);
    a.serve(&any_ends);
    let last = |channels: &Channels| Arc::clone(channels.table.read().all.last().unwrap());
    (last(a), last(b))
}

/// A queue pair may keep the channel of a peer that has ended: nothing reports the hang-up again.
#[test]
fn a_hang_up_is_reported_once() {
    let flow = flow(17);
    let ([a, b], [to_b, to_a]) = connected(&flow);
    to_a.hang_up();
    assert!(is_readable(&a) && a.serve(&any_ends));
    assert!(!is_readable(&a));
    let ended = all_dead(&a);
    assert!(ended.len() == 1 && to_b.is_dead() && !is_readable(&a));
    // A thread that sleeps may notice it, too.
    assert!(is_readable(&b));
    b.read_wakeups();
    assert!(b.has_dead() && !is_readable(&b));
}

fn is_readable(channels: &Channels) -> bool {
    let mut events = [libc::epoll_event { events: 0, u64: 0 }];
    cancellation::epoll_poll(channels.fd(), &mut events) > 0
}

/// A queue pair that is connected now belongs to the process that has the port now.
#[test]
fn a_channel_is_not_found_once_its_peer_has_hung_up() {
    let flow = flow(39);
    let ([a, b], [to_b, _]) = connected(&flow);
    let generation = a.generation();
    b.close();
    assert!(a.find(&flow).is_some() && !to_b.is_dead());
    // Before its hang-up is served.
    a.offer(ends(&flow));
    assert!(a.find(&flow).is_none() && to_b.is_dead());
    assert_ne!(a.generation(), generation);
    assert!(!to_b.has_ended());
    assert!(a.prepare_sleep(), "its packets are to be received first");
    assert_eq!(all_dead(&a).len(), 1);
    assert!(to_b.has_ended());
}

/// A sender that waits for room is woken up by the receiver, if it sleeps.
#[test]
fn room_wakes_a_sleeping_sender() {
    let flow = flow(6);
    let ([a, b], [to_b, _]) = connected(&flow);
    let mut sent = 0;
    let mut sender = to_b.sender(Duration::ZERO).unwrap();
    while let Some(room) = sender.room() {
        push(&mut sender, room, sent as u8);
        sent += 1;
    }
    assert!(!sender.finish().peer_sleeps);
    assert!(!a.prepare_sleep());
    let mut count = 0;
    while count < sent / 4 {
        count += received(&b, &flow).len();
    }
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; 4];
    assert_eq!(cancellation::epoll_poll(a.fd(), &mut events), 1);
    assert!(to_b.sender(Duration::ZERO).unwrap().room().is_some());
}

/// A datagram that is none, or that is for a queue pair that gets its packets by UDP, is dropped. So are
/// packets of connections, and fragments without a header.
#[test]
fn other_packets_are_dropped() {
    let flow = flow(7);
    let ([a, b], [to_b, _]) = connected(&flow);
    let mut sender = to_b.sender(Duration::ZERO).unwrap();
    let mut push = |packet: &[u8]| {
        let room = sender.room().unwrap();
        sender.push(room, packet, 0);
    };
    let datagram = |qpn: [u8; 3]| {
        let mut bytes = [0; 20];
        bytes[0] = Opcode::UD_SEND_ONLY.0;
        bytes[5..8].copy_from_slice(&qpn);
        bytes
    };
    for qpn in [[0, 0, 1], [0xff, 0xff, 0xff]] {
        push(&datagram(qpn));
    }
    push(&datagram([0, 0, 5])[..19]);
    push(&[]);
    let ack = Opcode::RC_ACK.0;
    push(&[ack, 0, 0xff, 0xff, 0, 0, 0, 5, 0, 0, 0, 1, 31, 0, 0, 0]);
    for len in [0, 1, 23] {
        let room = sender.room().unwrap();
        sender.write_fragment(room, |_| Some(len));
    }
    drop(sender);
    assert!(has_packet(&b));
    assert_eq!(received(&b, &flow), [0_u32; 0]);
    assert!(!has_packet(&b));
    drop(a);
}

#[test]
fn both_sides_may_work_at_once() {
    const PACKETS: usize = 50_000;
    let flow = flow(8);
    let ([a, b], [to_b, to_a]) = connected(&flow);
    let run = |channels: &Channels, channel: &Channel, from: &Flow| {
        let (mut sent, mut got) = (0, 0);
        while sent < PACKETS || got < PACKETS {
            let mut sender = channel.sender(Duration::ZERO).unwrap();
            while sent < PACKETS {
                let Some(room) = sender.room() else { break };
                push(&mut sender, room, sent as u8);
                sent += 1;
            }
            let _ = sender.finish();
            for psn in received(channels, from) {
                assert_eq!(psn, got as u32 & 0xff);
                got += 1;
            }
            thread::yield_now();
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| run(&a, &to_b, &reversed(&flow)));
        run(&b, &to_a, &flow);
    });
}
