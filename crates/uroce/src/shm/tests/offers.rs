//! Offers of channels that wait, and listeners that pause.

use std::os::fd::OwnedFd;
use std::thread;
use std::time::Duration;

use super::*;
use crate::descriptors;

/// The thread that reads the answer is not the one that waits for it.
#[test]
fn an_answer_that_another_thread_reads_ends_the_wait() {
    const NEVER: Duration = Duration::from_secs(600);
    let flow = flow(16);
    let (initiator, acceptor) = (channels(), channels());
    initiator.await_answer(&flow, NEVER);
    acceptor.listen(flow.dst, flow.dst_port);
    initiator.offer(ends(&flow));
    initiator.await_answer(&flow, Duration::ZERO);
    thread::scope(|scope| {
        let waits = scope.spawn(|| initiator.await_answer(&flow, NEVER));
        acceptor.serve(&any_ends);
        acceptor.serve(&any_ends);
        assert!(!waits.is_finished());
        initiator.serve(&any_ends);
        waits.join().unwrap();
    });
    assert!(initiator.find(&flow).is_some());
}

/// A connection that waits at a listener that cannot accept does not make the thread spin that
/// serves it.
#[test]
fn a_listener_that_cannot_accept_pauses() {
    let flow = flow(36);
    let channels = channels();
    channels.listen(flow.dst, flow.dst_port);
    // accept(2) fails on it, as it does without a free descriptor, and it stays readable.
    let (no_listener, other) = std::os::unix::net::UnixDatagram::pair().unwrap();
    let fd = descriptors::open(|| Ok(OwnedFd::from(no_listener))).unwrap();
    channels.watch(&fd).unwrap();
    channels.state.lock().listeners[0].set_fd(fd);
    other.send(b"x").unwrap();
    assert!(is_readable(&channels));
    channels.serve(&any_ends);
    assert!(!is_readable(&channels));
    channels.offer(ends(&flow));
    assert!(!is_readable(&channels), "too early");
    thread::sleep(Duration::from_millis(110));
    channels.offer(ends(&flow));
    assert!(is_readable(&channels));
}

/// Connections that send nothing keep no other peer from getting a channel.
#[test]
fn silent_connections_make_room() {
    let flow = flow(37);
    let (a, b) = (channels(), channels());
    b.listen(flow.dst, flow.dst_port);
    let connect = || handshake::connect(flow.dst, flow.dst_port, 1, Peers::SameUser).unwrap();
    let _silent: Vec<_> = (0..64)
        .map(|_| {
            let fd = connect();
            b.serve(&any_ends);
            fd
        })
        .collect();
    assert_eq!(b.state.lock().pending.len(), 64);
    b.state.lock().age_pending(Duration::from_secs(1));
    a.offer(ends(&flow));
    b.serve(&any_ends);
    b.serve(&any_ends);
    a.serve(&any_ends);
    assert!(a.find(&flow).is_some());
}

/// A peer that does not hear that its offer is accepted would not receive.
#[test]
fn an_acceptor_that_cannot_answer_has_no_channel() {
    let flow = flow(43);
    let (a, b) = (channels(), channels());
    b.listen(flow.dst, flow.dst_port);
    a.offer(ends(&flow));
    b.serve(&any_ends);
    b.state.lock().fill_pending();
    assert!(!b.serve(&any_ends) && !b.is_used());
    a.serve(&any_ends);
    assert!(a.state.lock().pending.is_empty() && !a.is_used());
}

/// Peers that are stopped keep no other peer from getting a channel, whoever offers it.
#[test]
fn unanswered_offers_make_room() {
    let [silent, first, second] = [40, 41, 42].map(flow);
    let _stopped = handshake::listen(silent.dst, silent.dst_port, 1).unwrap();
    let (a, b) = (channels(), channels());
    for src_port in 0..64 {
        a.offer(ends(&Flow { src_port, ..silent }));
    }
    assert_eq!(a.state.lock().pending.len(), 64);
    for (flow, [initiator, acceptor]) in [(first, [&a, &b]), (second, [&b, &a])] {
        acceptor.listen(flow.dst, flow.dst_port);
        initiator.offer(ends(&flow));
        acceptor.serve(&any_ends);
        acceptor.serve(&any_ends);
        initiator.serve(&any_ends);
        assert!(initiator.find(&flow).is_some());
    }
}

/// A process of another user has to own the port that it speaks for.
#[test]
fn a_port_has_an_owner() {
    let mut offers = offers::Offers::default();
    let own = ibverbs_os::unix::own_user();
    let ip: std::net::IpAddr = std::net::Ipv4Addr::new(127, 88, 39, 1).into();
    assert!(!offers.owns(own, ip, 1));
    let socket = std::net::UdpSocket::bind((ip, 0)).unwrap();
    let port = socket.local_addr().unwrap().port();
    thread::sleep(Duration::from_millis(11));
    assert!(offers.owns(own, ip, port));
    assert!(!offers.owns(own + 1, ip, port) && !offers.owns(own, ip, port ^ 1));
    let other = std::net::Ipv4Addr::new(127, 88, 39, 2).into();
    assert!(!offers.owns(own, other, port));
}
