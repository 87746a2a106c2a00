//! [`EventQueues`]: the events that a program has not read, in a queue for each descriptor. Pure.
//!
//! Invariant: a descriptor of the program is readable while its queue has an event.

use std::collections::VecDeque;

use ibverbs_abi::Result;
use rustc_hash::FxHashMap;

use super::Failure;
use super::os::{CmOs, FileId};

/// Bytes of `rdma_ucm_event_resp`.
pub const EVENT_LEN: usize = 336;

/// An event that the program has not read.
pub struct PendingEvent {
    /// The id that the event belongs to.
    pub id: u32,
    /// The membership that it is about.
    pub multicast: Option<u32>,
    /// The id of the requested connection.
    pub request: Option<u32>,
    pub bytes: Box<[u8; EVENT_LEN]>,
}

impl PendingEvent {
    /// An event of an id that is about no other one.
    pub fn of(id: u32, bytes: Box<[u8; EVENT_LEN]>) -> PendingEvent {
        PendingEvent {
            id,
            multicast: None,
            request: None,
            bytes,
        }
    }
}

/// The queues of all descriptors of a process.
#[derive(Default)]
pub(super) struct EventQueues {
    files: FxHashMap<FileId, VecDeque<PendingEvent>>,
}

impl EventQueues {
    /// Adds the queue of a new descriptor.
    pub fn open(&mut self, file: FileId) {
        self.files.insert(file, VecDeque::new());
    }

    /// Removes the queue of a descriptor, with its events.
    pub fn close(&mut self, file: FileId) {
        self.files.remove(&file);
    }

    /// Whether no descriptor is open.
    pub fn are_closed(&self) -> bool {
        self.files.is_empty()
    }

    /// The id and the type of an event that was not read, of any descriptor.
    pub fn any_unread(&self) -> Option<(u32, u32)> {
        let event = self.files.values().find_map(VecDeque::front)?;
        let kind = event.bytes.get(12..16)?;
        Some((event.id, u32::from_ne_bytes(kind.try_into().ok()?)))
    }

    /// Adds an event. An event of a closed descriptor is dropped.
    pub fn push(&mut self, os: &mut impl CmOs, file: FileId, event: PendingEvent) {
        let Some(events) = self.files.get_mut(&file) else {
            return;
        };
        events.push_back(event);
        if events.len() == 1 {
            os.set_readable(file, true);
        }
    }

    /// GET_EVENT: passes the bytes of the next event to `read`, and removes it unless that fails.
    pub fn read(
        &mut self,
        os: &mut impl CmOs,
        file: FileId,
        read: impl FnOnce(&[u8; EVENT_LEN]) -> Result<()>,
    ) -> Result<PendingEvent, Failure> {
        let events = self.files.get_mut(&file).ok_or(Failure::Closed)?;
        let next = events.front().ok_or(Failure::NoEvent);
        let got = next.and_then(|event| Ok(read(&event.bytes)?));
        let got = got.and_then(|()| events.pop_front().ok_or(Failure::NoEvent));
        if events.is_empty() {
            os.set_readable(file, false);
        }
        got
    }

    /// Removes and returns the events that `which` selects, in their order.
    pub fn take(
        &mut self,
        os: &mut impl CmOs,
        file: FileId,
        which: impl Fn(&PendingEvent) -> bool,
    ) -> Vec<PendingEvent> {
        let Some(events) = self.files.get_mut(&file) else {
            return Vec::new();
        };
        let all = std::mem::take(events).into_iter();
        let (taken, kept): (VecDeque<_>, VecDeque<_>) = all.partition(which);
        *events = kept;
        if !taken.is_empty() && events.is_empty() {
            os.set_readable(file, false);
        }
        Vec::from(taken)
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use ibverbs_abi::Errno;

    use super::super::fake::Fake;
    use super::*;

    fn event(id: u32) -> PendingEvent {
        PendingEvent::of(id, Box::new([0; EVENT_LEN]))
    }

    #[test]
    fn a_descriptor_is_readable_while_it_has_events() {
        let (file, mut queues) = (7, EventQueues::default());
        let mut os = Fake::new(IpAddr::from([10, 0, 0, 1]), &Default::default(), 1);
        let pass = |_: &[u8; EVENT_LEN]| Ok(());
        queues.push(&mut os, file, event(1));
        let read = queues.read(&mut os, file, pass);
        assert_eq!(read.err(), Some(Failure::Closed));
        queues.open(file);
        for id in [1, 2, 1] {
            queues.push(&mut os, file, event(id));
        }
        assert!(os.readable[&file]);
        let fault = queues.read(&mut os, file, |_| Err(Errno(libc::EFAULT)));
        assert_eq!(fault.err(), Some(Errno(libc::EFAULT).into()));
        let taken = queues.take(&mut os, file, |event| event.id == 1);
        assert!(taken.len() == 2 && os.readable[&file]);
        assert_eq!(queues.read(&mut os, file, pass).unwrap().id, 2);
        assert!(!os.readable[&file] && !queues.are_closed());
        let none = queues.read(&mut os, file, pass);
        assert_eq!(none.err(), Some(Failure::NoEvent));
        queues.close(file);
        assert!(queues.are_closed());
    }
}
