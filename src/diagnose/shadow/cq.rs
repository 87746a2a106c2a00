//! Completion queues: how each is polled, armed and waited for, by which thread.
//!
//! Not here: what a completion finishes (`completion.rs`), and why none comes (`waiting.rs`, `sleeping.rs`).

use std::time::Instant;

use super::limit::limit;
use super::overlap::{OneThread, overlap};
use super::pollers::Pollers;
use super::registry::Registry;
use crate::diagnose::finding::{Finding, Kind, Object, Outcome};
use crate::diagnose::rules::Rule;

/// A program may find all its completions by polling, and arm a CQ at its creation, before it would have had
/// to wait, and at the end to wake up another thread (rsockets do). Who arms it more often, and never reads
/// the channel, does not wait for events.
pub(super) const ARMED_WITHOUT_READING: u64 = 3;

/// A completion queue.
#[derive(Clone, Debug, Default)]
pub struct Cq {
    pub context: usize,
    pub entries: u32,
    pub channel: usize,
    /// Descriptor of the channel, or -1.
    pub channel_fd: i32,
    pub(super) one_thread: OneThread,
    pub(super) pollers: Pollers,
    /// The most requests that all queue pairs which send on it can have outstanding.
    sends_at_most: u64,
    /// How often it was polled.
    pub(super) polls: u64,
    pub(super) armed: u64,
    events: u64,
    pub(super) async_events: u64,
    pub(super) notify: Notify,
    /// The completions that cause the next event.
    pub(super) is_armed: Armed,
    /// cq_count and cq_period of ibv_modify_cq.
    pub(in crate::diagnose) moderation: (u16, u16),
    last_poll: Option<Instant>,
    /// The thread that is between ibv_start_poll and ibv_end_poll, or 0.
    open_by: i32,
    /// The last queue pair of the CQ that was destroyed with something outstanding.
    pub(super) dropped: Option<Dropped>,
    /// How long polls have found nothing, and whether that was reported.
    empty_since: Option<Instant>,
    is_reported: bool,
}

/// A queue pair that was destroyed, and what it had outstanding, which then has no completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Dropped {
    pub number: u32,
    pub sends: usize,
    pub receives: usize,
}

/// The completion that causes the next event of a CQ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Armed {
    #[default]
    No,
    Solicited,
    Any,
}

/// The history of a CQ since its last event, in the order that matters for lost events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Notify {
    /// The last poll returned this many completions, of as many as were asked for.
    pub last_poll: Option<(u32, u32)>,
    /// The CQ was armed after `last_poll`, and not polled since.
    pub armed_after_poll: bool,
    /// Receives or signaled requests were outstanding when it was armed, so a completion could be missed.
    pub at_risk: bool,
    /// A request was posted since it was armed, whose completion causes the event.
    pub posted_since: bool,
}

impl Cq {
    /// A new CQ; `channel` is the address of its channel, and the descriptor or -1.
    pub fn new(context: usize, entries: u32, channel: (usize, i32), single_threaded: bool) -> Cq {
        Cq {
            context,
            entries,
            channel: channel.0,
            channel_fd: channel.1,
            one_thread: OneThread::required(single_threaded),
            ..Cq::default()
        }
    }

    /// The completion and asynchronous events that the program has received.
    pub fn events(&self) -> (u64, u64) {
        (self.events, self.async_events)
    }

    /// A number that changes whenever the program does something with the CQ.
    pub fn activity(&self) -> u64 {
        self.polls + self.events + self.armed
    }

    /// A queue pair that has room for `count` requests, and sends on the CQ, has come or goes.
    pub fn sends_change(&mut self, count: u64, comes: bool) {
        self.sends_at_most = match comes {
            true => self.sends_at_most + count,
            false => self.sends_at_most.saturating_sub(count),
        };
    }

    /// Whether the CQ has room for all requests that can be outstanding, signaled or not.
    pub fn has_room_for_sends(&self) -> bool {
        self.sends_at_most <= self.entries.into()
    }

    /// Whether the program has polled it within the time of a wait.
    pub fn is_polled(&self) -> bool {
        let recently = |last: Instant| limit().is_some_and(|limit| last.elapsed() < limit);
        self.last_poll.is_some_and(recently)
    }
}

impl Registry<Cq> {
    /// A poll of a thread has returned `count` completions, of as many as `asked`. Returns the context.
    pub fn polled(
        &mut self,
        address: usize,
        asked: u32,
        count: usize,
        thread: i32,
    ) -> Option<usize> {
        let cq = self.get_mut(&address)?;
        let now = Instant::now();
        cq.polls += 1;
        cq.last_poll = Some(now);
        cq.pollers.polled(thread, now, count);
        cq.notify.last_poll = Some((count as u32, asked));
        cq.notify.armed_after_poll = false;
        if count > 0 {
            (cq.empty_since, cq.is_reported) = (None, false);
        }
        Some(cq.context)
    }

    /// The last poll of a CQ has returned nothing. Whether that has been so for too long; true once.
    pub fn empty_for_long(&mut self, address: usize) -> bool {
        let (Some(limit), Some(cq)) = (limit(), self.get_mut(&address)) else {
            return false;
        };
        let Some(now) = cq.last_poll else {
            return false;
        };
        let elapsed = now.duration_since(*cq.empty_since.get_or_insert(now));
        if cq.is_reported || elapsed < limit {
            return false;
        }
        cq.is_reported = true;
        true
    }

    /// For how many milliseconds polls of a CQ have found nothing; None if it is not polled.
    pub fn waits_ms(&self, address: usize) -> Option<u64> {
        let cq = self.get(&address).filter(|cq| cq.is_polled())?;
        Some(cq.empty_since?.elapsed().as_millis() as u64)
    }

    /// The other CQs of this one's device, as far as the program does not poll them.
    pub fn neglected(&self, address: usize) -> impl Iterator<Item = (&usize, &Cq)> {
        let context = self.get(&address).map(|cq| cq.context);
        self.iter().filter(move |(at, other)| {
            **at != address && Some(other.context) == context && !other.is_polled()
        })
    }

    /// Whether the program polls no other CQ of the device.
    pub fn is_only_polled(&self, address: usize) -> bool {
        let Some(this) = self.get(&address).filter(|_| limit().is_some()) else {
            return false;
        };
        let is_polled = |other: &Cq| other.context == this.context && other.is_polled();
        !self
            .iter()
            .any(|(at, other)| *at != address && is_polled(other))
    }

    /// The CQs of a completion channel.
    pub fn of_channel(&self, channel: usize) -> impl Iterator<Item = (&usize, &Cq)> + Clone {
        self.iter().filter(move |(_, cq)| cq.channel == channel)
    }

    /// A poll begins; `thread` polls. Reports another thread that is polling a CQ for one thread.
    pub fn polling(&mut self, address: usize, thread: i32, call: &'static str) -> Option<Finding> {
        let cq = self.get_mut(&address)?;
        if call == "ibv_start_poll" && cq.open_by == thread {
            return Some(not_ended(address, call));
        }
        if call == "ibv_poll_cq" && cq.open_by == thread {
            return Some(poll_inside(address, call));
        }
        let other = cq.one_thread.enter(thread)?;
        let object = Object::at(Kind::Cq, address);
        let flag = "IBV_CREATE_CQ_ATTR_SINGLE_THREADED";
        Some(overlap(object, call, other, thread, "CQ", flag))
    }

    /// ibv_start_poll has returned 0: the thread has the queue until ibv_end_poll.
    pub fn poll_begun(&mut self, address: usize, thread: i32) {
        super::watch_polls();
        self.change(address, |cq| cq.open_by = thread);
    }

    /// ibv_end_poll without a poll that has begun.
    pub fn not_begun(&self, address: usize, thread: i32) -> Option<Finding> {
        let cq = self.get(&address)?;
        (cq.open_by != thread).then(|| {
            let object = Object::at(Kind::Cq, address);
            Finding::new(Rule::Argument, object, "ibv_end_poll", Outcome::Called).with_texts(
                "no poll of this thread has begun: ibv_start_poll returned an error, or was \
                 not called",
                "it unlocks the CQ, which is locked only if ibv_start_poll returned 0",
                "call ibv_end_poll only after an ibv_start_poll that returned 0, once",
            )
        })
    }

    /// The thread's call of ibv_poll_cq has ended.
    pub fn left(&mut self, address: usize, thread: i32) {
        self.change(address, |cq| cq.one_thread.leave(thread));
    }

    /// The thread's poll, which ibv_start_poll has begun or not, has ended.
    pub fn poll_ended(&mut self, address: usize, thread: i32) {
        self.left(address, thread);
        if let Some(cq) = self.get_mut(&address).filter(|cq| cq.open_by == thread) {
            cq.open_by = 0;
        }
    }

    /// ibv_req_notify_cq has returned 0. `has_outstanding`: something may complete on the CQ.
    pub fn armed(
        &mut self,
        address: usize,
        solicited_only: bool,
        has_outstanding: bool,
    ) -> Option<Finding> {
        let cq = self.get_mut(&address)?;
        cq.armed += 1;
        cq.is_armed = match (solicited_only, cq.is_armed) {
            (true, Armed::No | Armed::Solicited) => Armed::Solicited,
            _ => Armed::Any,
        };
        // A completion could be lost between the last poll and arming.
        if cq.notify.last_poll.is_some() {
            cq.notify.armed_after_poll = true;
            cq.notify.at_risk = has_outstanding;
            cq.notify.posted_since = false;
        }
        (cq.channel == 0).then(|| without_channel(address))
    }

    /// ibv_get_cq_event has received an event of this CQ.
    pub fn completion_event(&mut self, address: usize) -> Option<Finding> {
        let cq = self.get_mut(&address)?;
        cq.events += 1;
        cq.is_armed = Armed::No;
        let before = core::mem::take(&mut cq.notify);
        let (count, asked) = before.last_poll?;
        if !before.armed_after_poll || !before.at_risk || before.posted_since {
            return None;
        }
        let rule = match count == asked && count > 0 {
            true => Rule::EventsCoalesced,
            false => Rule::NotifyNoPoll,
        };
        let object = Object::at(Kind::Cq, address);
        let finding = Finding::new(rule, object, "ibv_get_cq_event", Outcome::Succeeded);
        Some(finding.with("count", count))
    }

    /// A CQ is being destroyed; `readable`: its channel has an event that was not read.
    pub fn destroying(&self, address: usize, readable: bool) -> Option<Finding> {
        let cq = self.get(&address)?;
        (readable && cq.armed > ARMED_WITHOUT_READING && cq.events == 0).then(|| {
            let object = Object::at(Kind::Cq, address);
            Finding::new(
                Rule::ChannelUnread,
                object,
                "ibv_destroy_cq",
                Outcome::Called,
            )
            .with("armed", cq.armed)
        })
    }
}

/// A thread begins to poll a CQ whose last poll it has not ended.
fn not_ended(address: usize, call: &'static str) -> Finding {
    let object = Object::at(Kind::Cq, address);
    Finding::new(Rule::Argument, object, call, Outcome::Called)
        .with_texts(
            "this thread has begun to poll the CQ before, and has not called ibv_end_poll since",
            "ibv_start_poll locks the CQ until ibv_end_poll, so the call waits without end",
            "call ibv_end_poll after each ibv_start_poll that returned 0, and ibv_next_poll between them",
        )
}

/// A thread calls ibv_poll_cq, and has the CQ open since ibv_start_poll.
fn poll_inside(address: usize, call: &'static str) -> Finding {
    let object = Object::at(Kind::Cq, address);
    Finding::new(Rule::Argument, object, call, Outcome::Called).with_texts(
        "this thread has begun to poll the CQ with ibv_start_poll, and has not called ibv_end_poll since",
        "ibv_start_poll locks the CQ until ibv_end_poll: on many devices the call waits without end",
        "use ibv_next_poll until ibv_end_poll, and ibv_poll_cq only before and after",
    )
}

/// A CQ is armed that has no completion channel.
fn without_channel(address: usize) -> Finding {
    let object = Object::at(Kind::Cq, address);
    Finding::new(
        Rule::Argument,
        object,
        "ibv_req_notify_cq",
        Outcome::Succeeded,
    )
    .with_texts(
        "the CQ was created without a completion channel (channel = NULL)",
        "its events have no place to go, so that none ever comes",
        "create the CQ with a channel of ibv_create_comp_channel, or poll it without arming it",
    )
}

#[cfg(test)]
mod tests {
    use super::super::tests::rules;
    use super::*;

    const AT: usize = 20;
    const START: &str = "ibv_start_poll";

    fn cqs(single_threaded: bool) -> Registry<Cq> {
        let mut cqs = Registry::new();
        cqs.add(AT, Cq::new(1, 100, (50, 3), single_threaded));
        cqs
    }

    #[test]
    fn a_poll_that_has_begun_is_to_be_ended() {
        let mut cqs = cqs(false);
        let early = cqs.not_begun(AT, 5);
        assert_eq!(rules(&early), [Rule::Argument]);
        assert_eq!(cqs.polling(AT, 5, START), None);
        cqs.poll_begun(AT, 5);
        assert_eq!(cqs.not_begun(AT, 5), None);
        assert!(cqs.not_begun(AT, 6).is_some(), "of another thread");
        assert_eq!(cqs.polling(AT, 6, START), None, "it waits for the lock");
        let again = cqs.polling(AT, 5, START);
        assert_eq!(rules(&again), [Rule::Argument]);
        let inside = cqs.polling(AT, 5, "ibv_poll_cq");
        assert_eq!(rules(&inside), [Rule::Argument]);
        assert_eq!(cqs.polling(AT, 6, "ibv_poll_cq"), None);
        cqs.poll_ended(AT, 6);
        assert_eq!(cqs.not_begun(AT, 5), None, "not that thread's");
        cqs.poll_ended(AT, 5);
        assert!(cqs.not_begun(AT, 5).is_some());
    }

    #[test]
    fn one_thread_polls() {
        let mut cqs = cqs(true);
        assert_eq!(cqs.polling(AT, 5, START), None);
        let other = cqs.polling(AT, 6, START);
        assert_eq!(rules(&other), [Rule::ThreadDomain]);
        cqs.left(AT, 6);
        assert_eq!(cqs.polling(AT, 7, START), None);
    }

    #[test]
    fn an_event_that_may_come_too_late() {
        let mut cqs = cqs(false);
        let event = |cqs: &mut Registry<Cq>, has_outstanding| {
            assert_eq!(cqs.armed(AT, false, has_outstanding), None);
            rules(&cqs.completion_event(AT))
        };
        assert_eq!(event(&mut cqs, true), [], "it was never polled");
        cqs.polled(AT, 2, 0, 5);
        assert_eq!(event(&mut cqs, true), [Rule::NotifyNoPoll]);
        cqs.polled(AT, 2, 2, 5);
        assert_eq!(event(&mut cqs, true), [Rule::EventsCoalesced]);
        cqs.polled(AT, 2, 1, 5);
        assert_eq!(event(&mut cqs, false), [], "nothing could be missed");
        assert_eq!(cqs.get(&AT).map(Cq::events), Some((4, 0)));
    }

    #[test]
    fn arming_without_a_channel() {
        let mut cqs = cqs(false);
        cqs.add(21, Cq::new(1, 100, (0, -1), false));
        let found = cqs.armed(21, false, false);
        assert_eq!(rules(&found), [Rule::Argument]);
        assert_eq!(cqs.armed(22, false, false), None, "it is not known");
        let of_channel = cqs.of_channel(50).map(|(at, _)| *at);
        assert_eq!(of_channel.collect::<Vec<_>>(), [AT]);
    }

    #[test]
    fn room_for_the_requests_of_queue_pairs() {
        let mut cq = Cq::new(1, 100, (0, -1), false);
        cq.sends_change(100, true);
        assert!(cq.has_room_for_sends());
        cq.sends_change(1, true);
        assert!(!cq.has_room_for_sends());
        cq.sends_change(100, false);
        assert!(cq.has_room_for_sends());
    }
}
