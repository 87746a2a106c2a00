//! Sending the messages of a process, and passing those for this host on to its processes.

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::forward;
use super::names::Blocking;
use super::process::{INCOMING_MAX, PREFIX, ProcessState, QUEUE, WANTS_PORT};
use crate::cm::agent::{Incoming, Outgoing, prefix_of};
use crate::cm::mad::{CmMad, Recipient};
use crate::device::Device;
use crate::wire::ip_of;

/// A message, and the device that sends it.
pub(super) type Send = (Arc<Device>, u8, Outgoing);

impl ProcessState {
    /// The messages to send, and their devices.
    pub(super) fn take_sends(&mut self) -> Vec<Send> {
        let messages = self.manager.take_outgoing();
        let system = self.manager.host();
        if !messages.is_empty() && WANTS_PORT.load(Ordering::Relaxed) {
            // Answers come to port 4791.
            WANTS_PORT.store(!system.claim_ports(), Ordering::Relaxed);
        }
        messages
            .into_iter()
            .filter_map(|message| {
                let (device, index) = system.sender(&message)?;
                Some((device, index, message))
            })
            .collect()
    }
}

/// Sends messages. The caller has [`super::process::SENDING`] locked, or is the thread of the command that
/// they come from, which may block.
pub(super) fn send_all(sends: &[Send], blocking: Blocking) {
    for (device, sgid_index, message) in sends {
        let Outgoing { route, mad } = message;
        if !deliver_on_host(message, blocking) {
            device.send_mad(*sgid_index, route.dgid, route.traffic_class, mad);
        }
    }
}

/// Delivers a message to a process of this host without the network. Returns false if it is for another
/// host, or cannot be delivered so.
fn deliver_on_host(outgoing: &Outgoing, blocking: Blocking) -> bool {
    let Outgoing { route, mad } = outgoing;
    let Some(recipient) = CmMad::parse(mad).map(|mad| mad.recipient()) else {
        return false;
    };
    // Only this host's own addresses can be bound to.
    if UdpSocket::bind((ip_of(&route.dgid), 0)).is_err() {
        return false;
    }
    let message = Incoming {
        src: route.sgid,
        dst: route.dgid,
        mad: *mad,
    };
    match recipient {
        Recipient::Id(id) if prefix_of(id) == PREFIX.load(Ordering::Relaxed) => enqueue(message),
        _ => forward::deliver(&message, recipient, blocking),
    }
}

/// Leaves a message to the thread. Returns false if there is none.
pub(super) fn enqueue(message: Incoming) -> bool {
    let mut queue = QUEUE.lock();
    let Some(epoll) = queue.epoll.clone() else {
        return false;
    };
    if queue.messages.len() < INCOMING_MAX {
        queue.messages.push_back(message);
    }
    drop(queue);
    epoll.wake();
    true
}
