//! The events that a program has not read, in a queue for each descriptor. Pure: a change
//! returns whether there is something to read, which the caller shows on the descriptor.

use std::collections::VecDeque;

use ibverbs_abi::Errno;
use rustc_hash::FxHashMap;

use super::os::FileId;

/// Bytes of `rdma_ucm_event_resp`.
pub const EVENT_LEN: usize = 336;

/// An event that the program has not read.
pub struct PendingEvent {
    /// Whose event it is.
    pub id: u32,
    /// The membership that it is about.
    pub multicast: Option<u32>,
    /// The id of the requested connection.
    pub request: Option<u32>,
    pub bytes: Box<[u8; EVENT_LEN]>,
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

    /// Whether a descriptor has nothing to read.
    pub fn is_empty(&self, file: FileId) -> bool {
        self.files.get(&file).is_none_or(VecDeque::is_empty)
    }

    /// Adds an event. Returns whether it is the only one; an event of a closed descriptor is dropped.
    pub fn push(&mut self, file: FileId, event: PendingEvent) -> bool {
        let Some(events) = self.files.get_mut(&file) else {
            return false;
        };
        events.push_back(event);
        events.len() == 1
    }

    /// The event to read next. EINVAL if the descriptor is closed.
    pub fn first(&self, file: FileId) -> Result<Option<&PendingEvent>, Errno> {
        let events = self.files.get(&file).ok_or(Errno(libc::EINVAL))?;
        Ok(events.front())
    }

    /// Removes the event to read next.
    pub fn pop(&mut self, file: FileId) -> Option<PendingEvent> {
        self.files.get_mut(&file)?.pop_front()
    }

    /// Removes and returns the events that `which` selects, in their order.
    pub fn take(
        &mut self,
        file: FileId,
        which: impl Fn(&PendingEvent) -> bool,
    ) -> Vec<PendingEvent> {
        let Some(events) = self.files.get_mut(&file) else {
            return Vec::new();
        };
        let all = std::mem::take(events).into_iter();
        let (taken, kept) = all.partition(which);
        *events = kept;
        Vec::from(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(id: u32) -> PendingEvent {
        PendingEvent {
            id,
            multicast: None,
            request: None,
            bytes: Box::new([0; EVENT_LEN]),
        }
    }

    #[test]
    fn events_are_read_in_their_order() {
        let (file, mut queues) = (7, EventQueues::default());
        assert!(!queues.push(file, event(1)));
        assert_eq!(queues.first(file).err(), Some(Errno(libc::EINVAL)));
        queues.open(file);
        assert!(queues.push(file, event(1)));
        assert!(!queues.push(file, event(2)));
        assert!(!queues.push(file, event(1)));
        assert_eq!(queues.first(file).unwrap().unwrap().id, 1);
        let taken = queues.take(file, |event| event.id == 1);
        assert_eq!((taken.len(), queues.is_empty(file)), (2, false));
        assert_eq!(queues.pop(file).unwrap().id, 2);
        assert!(queues.is_empty(file) && !queues.are_closed());
        queues.close(file);
        assert!(queues.are_closed());
    }
}
