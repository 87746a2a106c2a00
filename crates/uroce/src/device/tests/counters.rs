//! A device's counters: sums, and what no queue pair counts.

use std::sync::atomic::Ordering;

use super::{loopback, queue_pair};
use crate::device::Device;
use crate::device::counters::DeviceCounters;
use crate::transport::{NetChange, Outbox};
use roce::engine::{AddressVector, Transmit};

fn device(name: &str) -> Device {
    Device::new(&loopback(name)).unwrap()
}

fn value(files: &[(&str, u64)], name: &str) -> u64 {
    let found = files.iter().find(|(file, _)| *file == name);
    found.unwrap_or_else(|| panic!("no counter {name}")).1
}

/// Queue pairs that are destroyed take no counter with them.
#[test]
fn destroyed_queue_pairs_stay_in_the_sum() {
    let device = device("retire");
    let pairs = [queue_pair(&device), queue_pair(&device)];
    for (i, qp) in pairs.iter().enumerate() {
        for _ in 0..=i {
            qp.inner.lock().count_deferred_ack();
        }
    }
    let deferred = || value(&device.counters().hw_counters(), "ack_deferred");
    assert_eq!(deferred(), 3);
    device.remove_queue_pair(&pairs[1]);
    assert_eq!(deferred(), 3);
    pairs[0].inner.lock().count_deferred_ack();
    assert_eq!(deferred(), 4);
    device.remove_queue_pair(&pairs[0]);
    assert_eq!(deferred(), 4);
}

#[test]
fn the_link_going_down_is_counted() {
    let device = device("link");
    for (became_active, became_inactive) in [(false, true), (true, false), (false, true)] {
        device.report_change(NetChange {
            became_active,
            became_inactive,
            gids: false,
        });
    }
    let counters = device.counters();
    assert_eq!(value(&counters.hw_counters(), "link_downed"), 2);
    assert_eq!(value(&counters.port_counters(), "link_downed"), 2);
}

/// A packet that cannot be sent is a send error, and not among the packets sent.
#[test]
fn packets_that_cannot_be_sent() {
    let device = device("unsent");
    let mut outbox = Outbox::try_new().unwrap();
    let packet = Transmit {
        av: AddressVector {
            dgid: [0; 16],
            sgid_index: 200,
            traffic_class: 0,
            hop_limit: 0,
            flow_label: 0,
        },
        dest_qpn: 2,
        len: 12,
    };
    device.net.push(&mut outbox, 2, &packet);
    device.net.flush(&mut outbox);
    let counters = device.counters();
    assert_eq!(value(&counters.hw_counters(), "send_err"), 1);
    assert_eq!(value(&counters.port_counters(), "port_xmit_discards"), 1);
}

#[test]
fn dropped_packets_are_port_errors() {
    let device = device("dropped");
    let dropped = &device.net.ingress.dropped;
    for (counter, count) in [
        (&dropped.malformed, 1),
        (&dropped.icrc, 2),
        (&dropped.pkey, 4),
        (&dropped.interface, 8),
    ] {
        counter.store(count, Ordering::Relaxed);
    }
    let counters = device.counters();
    assert_eq!(value(&counters.hw_counters(), "rx_icrc_encapsulated"), 2);
    let port = counters.port_counters();
    assert_eq!(value(&port, "port_rcv_errors"), 3);
    assert_eq!(value(&port, "port_rcv_constraint_errors"), 12);
}

/// Data in units of four bytes; packets sent less those that could not be.
#[test]
fn units() {
    let mut counters = DeviceCounters {
        send_err: 1,
        ..DeviceCounters::default()
    };
    counters.queue_pairs.sent_pkts = 3;
    counters.queue_pairs.sent_bytes = 4096;
    counters.queue_pairs.rcvd_bytes = 400;
    counters.queue_pairs.rcvd_pkts = 5;
    let port = counters.port_counters();
    assert_eq!(value(&port, "port_xmit_data"), 1024);
    assert_eq!(value(&port, "port_rcv_data"), 100);
    assert_eq!(value(&port, "port_xmit_packets"), 2);
    assert_eq!(value(&port, "port_rcv_packets"), 5);
    let hw = counters.hw_counters();
    assert_eq!((value(&hw, "sent_pkts"), value(&hw, "rcvd_pkts")), (2, 5));
}
