use std::os::fd::RawFd;

use super::super::polled::PolledCompletions;
use super::super::wait::Waker;
use super::*;

struct Files {
    channel: RawFd,
    events: RawFd,
}

fn queue(capacity: usize, ignore_overrun: bool) -> (CompletionQueue, Files) {
    let waker = Arc::new(Waker::new().unwrap());
    let (channel, channel_fd) = CompletionEvents::new(waker.clone()).unwrap();
    let (events, events_fd) = AsyncEvents::new(waker).unwrap();
    let queue = CompletionQueue::new(CompletionQueueConfig {
        handle: 77,
        capacity,
        channel: Some(Arc::new(channel)),
        events: Arc::new(events),
        timestamps: true,
        ignore_overrun,
    });
    let files = Files {
        channel: channel_fd,
        events: events_fd,
    };
    (queue, files)
}

impl Drop for Files {
    fn drop(&mut self) {
        // SAFETY: `queue` has opened both for this test.
        unsafe {
            libc::close(self.channel);
            libc::close(self.events);
        }
    }
}

/// How many records of `len` bytes can be read.
fn count(fd: RawFd, len: usize) -> usize {
    let mut record = [0u8; 16];
    // SAFETY: `record` has 16 bytes; the tests pass 8 or 16 for `len`.
    let read = || unsafe {
        libc::recv(fd, record.as_mut_ptr().cast(), len, libc::MSG_DONTWAIT) == len as isize
    };
    core::iter::repeat_with(read)
        .take_while(|more| *more)
        .count()
}

fn done(wr_id: u64, status: ibv_wc_status, solicited: bool) -> Completion {
    Completion {
        solicited,
        ..Completion::new(wr_id, status, IBV_WC_RECV)
    }
}

fn counts(completion: u32, asynchronous: u32) -> EventCounts {
    EventCounts {
        completion,
        asynchronous,
    }
}

fn ids(queue: &CompletionQueue, max: usize) -> Vec<u64> {
    let mut ids = Vec::new();
    queue.poll(max, |_, entry| ids.push(entry.completion.wr_id));
    ids
}

#[test]
fn completions_come_in_order_with_timestamps() {
    let (queue, _files) = queue(8, false);
    let before = clock::now().0;
    for id in 0..5 {
        queue.push(done(id, IBV_WC_SUCCESS, false), 9, 0).unwrap();
    }
    let mut stamps = Vec::new();
    queue.poll(2, |_, entry| {
        stamps.push((entry.timestamp_ns, entry.wallclock_ns, entry.qpn))
    });
    assert!(stamps[0].0 >= before && stamps[1].0 >= stamps[0].0);
    assert!(stamps[0].1 > 1_600_000_000_000_000_000 && stamps[0].2 == 9);
    assert_eq!(ids(&queue, 100), [2, 3, 4]);
    assert_eq!(ids(&queue, 100), []);
}

#[test]
fn an_armed_queue_raises_one_event() {
    let (queue, files) = queue(64, false);
    let push = |status, solicited| queue.push(done(0, status, solicited), 1, 0).unwrap();
    push(IBV_WC_SUCCESS, true);
    assert_eq!(count(files.channel, 8), 0);
    queue.arm(false);
    push(IBV_WC_SUCCESS, false);
    push(IBV_WC_SUCCESS, false);
    assert_eq!(count(files.channel, 8), 1);
    // Only for a solicited completion, or an error.
    queue.arm(true);
    push(IBV_WC_SUCCESS, false);
    assert_eq!(count(files.channel, 8), 0);
    push(IBV_WC_SUCCESS, true);
    queue.arm(true);
    push(IBV_WC_WR_FLUSH_ERR, false);
    assert_eq!(count(files.channel, 8), 2);
    // Arming for solicited completions does not narrow arming for all.
    queue.arm(false);
    queue.arm(true);
    push(IBV_WC_SUCCESS, false);
    assert_eq!(queue.close_events(), counts(3, 0));
    assert_eq!(count(files.channel, 8), 0);
}

#[test]
fn a_moderated_event_waits_for_completions_or_its_period() {
    let (queue, files) = queue(64, false);
    queue.ring.lock().moderation = Moderation {
        count: 3,
        period: Duration::from_micros(100),
    };
    let push = || queue.push(done(0, IBV_WC_SUCCESS, false), 1, 0).unwrap();
    queue.arm(false);
    (0..2).for_each(|_| push());
    assert_eq!(count(files.channel, 8), 0);
    push();
    assert_eq!(count(files.channel, 8), 1);
    // Not armed: nothing waits.
    push();
    assert_eq!(queue.ring.lock().moderated, 0);
    queue.arm(false);
    push();
    let due = queue.ring.lock().due.unwrap();
    queue.end_wait(Time(due.0 - 1));
    assert_eq!(count(files.channel, 8), 0);
    queue.end_wait(due);
    assert_eq!(count(files.channel, 8), 1);
    queue.end_wait(due);
    // The queue is not moderated any more.
    queue.ring.lock().moderation = Moderation::default();
    queue.arm(false);
    push();
    assert_eq!(count(files.channel, 8), 1);
}

#[test]
fn an_overrun_raises_one_event_and_ends_the_queue() {
    let (queue, files) = queue(2, false);
    let push = |id| queue.push(done(id, IBV_WC_SUCCESS, false), 1, 0);
    assert_eq!((push(1), push(2)), (Ok(()), Ok(())));
    assert_eq!((push(3), push(4)), (Err(Overrun), Err(Overrun)));
    assert_eq!(count(files.events, 16), 1);
    assert_eq!(ids(&queue, 10), [1, 2]);
    assert_eq!(push(5), Err(Overrun));
    assert_eq!(queue.close_events(), counts(0, 1));
}

#[test]
fn an_overrun_can_be_ignored() {
    let (queue, files) = queue(2, true);
    for id in 0..10 {
        assert_eq!(queue.push(done(id, IBV_WC_SUCCESS, false), 1, 0), Ok(()));
    }
    assert_eq!(count(files.events, 16), 0);
    assert_eq!(ids(&queue, 10), [8, 9]);
}

#[test]
fn completions_of_one_queue_pair_are_removed() {
    let (queue, _files) = queue(8, false);
    for id in 0..6 {
        queue
            .push(done(id, IBV_WC_SUCCESS, false), id as u32 % 2, 0)
            .unwrap();
    }
    queue.remove_of(1);
    assert_eq!(ids(&queue, 10), [0, 2, 4]);
}

#[test]
fn a_queue_is_not_resized_below_what_it_holds() {
    let (queue, _files) = queue(4, false);
    for id in 0..3 {
        queue.push(done(id, IBV_WC_SUCCESS, false), 1, 0).unwrap();
    }
    assert!(!queue.resize(2));
    assert!(queue.resize(3));
    assert_eq!(
        queue.push(done(3, IBV_WC_SUCCESS, false), 1, 0),
        Err(Overrun)
    );
    assert_eq!(ids(&queue, 10), [0, 1, 2]);
}

/// Completions take the fast path only where that changes nothing that a program can see.
#[test]
fn completions_bypass_an_empty_queue_that_is_not_armed() {
    let (other, _files) = queue(2, false);
    let success = |id| done(id, IBV_WC_SUCCESS, false);
    for (case, expected) in [("empty", 2), ("armed", 0), ("filled", 0), ("overrun", 0)] {
        let (mut queue, files) = queue(2, false);
        // The tests' queues have timestamps.
        queue.timestamps = false;
        queue.needs_ring = AtomicBool::new(false);
        match case {
            "armed" => queue.arm(false),
            "filled" => queue.push(success(8), 1, 0).unwrap(),
            "overrun" => {
                let pushed: Vec<_> = (0..3).map(|id| queue.push(success(id), 1, 0)).collect();
                assert_eq!(pushed, [Ok(()), Ok(()), Err(Overrun)]);
                assert_eq!(ids(&queue, 10).len(), 2);
            }
            _ => {}
        }
        let before = queue.has_unread();
        let mut polled = PolledCompletions::new(&queue, 2);
        assert!(!polled.put(&other, success(0), 1), "{case}: another queue");
        let taken = (0..3)
            .filter(|id| polled.put(&queue, success(*id), 1))
            .count();
        assert_eq!(taken, expected, "{case}");
        assert_eq!(queue.has_unread(), before || taken > 0, "{case}");
        let mut passed = Vec::new();
        let total = polled.pass_on(&queue, |i, cqe| passed.push((i, cqe.completion.wr_id)));
        assert_eq!((total, passed.len()), (expected, expected));
        assert!(
            passed
                .iter()
                .enumerate()
                .all(|(i, of)| *of == (i, i as u64))
        );
        assert_eq!(queue.has_unread(), before, "{case}");
        if case == "armed" {
            queue.push(success(9), 1, 0).unwrap();
            assert_eq!(count(files.channel, 8), 1);
            assert_eq!(ids(&queue, 1), [9]);
            assert!(queue.can_skip_ring(), "it is not armed any more");
        }
    }
}
