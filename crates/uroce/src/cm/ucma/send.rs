//! Sending the messages of a process, and passing those for this host on to its processes.

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::forward;
use super::names::Blocking;
use super::state::{INCOMING_MAX, ProcessState, QUEUE, WANTS_PORT};
use crate::device::Device;
use roce::cm::agent::{Incoming, Outgoing, prefix_of};
use roce::cm::mad::{CmMad, Recipient};
use roce::engine::Gid;
use roce::wire::ip_of;

/// A message to send.
pub(super) struct Send {
    device: Arc<Device>,
    sgid_index: u8,
    message: Outgoing,
    recipient: Option<Recipient>,
    /// The message is for a connection of this process.
    is_own: bool,
}

impl ProcessState {
    /// The messages to send, and their devices.
    pub(super) fn take_sends(&mut self) -> Vec<Send> {
        let messages = self.manager.take_outgoing();
        if !messages.is_empty() && WANTS_PORT.load(Ordering::Relaxed) {
            // Answers come to port 4791.
            WANTS_PORT.store(!self.manager.os().claim_ports(), Ordering::Relaxed);
        }
        let sends = messages.into_iter();
        sends.filter_map(|message| self.send_of(message)).collect()
    }

    fn send_of(&mut self, message: Outgoing) -> Option<Send> {
        let (device, sgid_index) = self.manager.os().sender(&message)?;
        let recipient = CmMad::parse(&message.mad).map(|mad| mad.recipient());
        let is_own = match recipient {
            Some(Recipient::Id(id)) => self.manager.has_prefix(prefix_of(id)),
            _ => false,
        };
        Some(Send {
            device,
            sgid_index,
            message,
            recipient,
            is_own,
        })
    }
}

/// Sends messages. The caller has [`super::state::SENDING`] locked, or is the thread of the command that
/// they come from, which may block.
pub(super) fn send_all(sends: &[Send], blocking: Blocking) {
    for send in sends {
        if !deliver_on_host(send, blocking) {
            let Outgoing { route, mad } = &send.message;
            let (dgid, traffic_class) = (route.dgid, route.traffic_class);
            send.device
                .send_mad(send.sgid_index, dgid, traffic_class, mad);
        }
    }
}

/// Delivers a message to a process of this host without the network. Returns false if it is for another
/// host, or cannot be delivered so.
fn deliver_on_host(send: &Send, blocking: Blocking) -> bool {
    let Outgoing { route, mad } = &send.message;
    let Some(recipient) = send.recipient else {
        return false;
    };
    if !is_on_this_host(&route.dgid) {
        return false;
    }
    let message = Incoming {
        src: route.sgid,
        dst: route.dgid,
        mad: *mad,
    };
    if send.is_own {
        enqueue(message)
    } else {
        forward::deliver(&message, recipient, blocking)
    }
}

/// Whether an address is this host's own: only these can be bound to.
pub(super) fn is_on_this_host(gid: &Gid) -> bool {
    UdpSocket::bind((ip_of(gid), 0)).is_ok()
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
