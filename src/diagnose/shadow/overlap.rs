//! Objects that are for one thread at a time, and two threads that use one at the same time.

use crate::diagnose::finding::{Finding, Object, Outcome};
use crate::diagnose::rules::Rule;

/// The use of an object that may be for one thread at a time.
#[derive(Clone, Copy, Debug, Default)]
pub struct OneThread {
    is_required: bool,
    /// The thread that uses the object, or 0; only if it is for one.
    by: i32,
}

impl OneThread {
    pub fn required(is_required: bool) -> OneThread {
        OneThread { is_required, by: 0 }
    }

    pub fn is_required(&self) -> bool {
        self.is_required
    }

    /// A use by `thread` begins. Returns the other thread whose use has not ended.
    pub fn enter(&mut self, thread: i32) -> Option<i32> {
        if !self.is_required {
            return None;
        }
        let other = core::mem::replace(&mut self.by, thread);
        (other != 0 && other != thread).then_some(other)
    }

    /// The use by `thread` has ended.
    pub fn leave(&mut self, thread: i32) {
        if self.by == thread {
            self.by = 0;
        }
    }

    /// The use has ended, whichever thread's it was.
    pub fn end(&mut self) {
        self.by = 0;
    }
}

/// Two threads in an object that is for one.
pub(super) fn overlap(
    object: Object,
    verb: &'static str,
    first: i32,
    second: i32,
    what: &'static str,
    flag: &'static str,
) -> Finding {
    Finding::new(Rule::ThreadDomain, object, verb, Outcome::Called)
        .with("first", first)
        .with("second", second)
        .with("verb", verb)
        .with("what", what)
        .with("flag", flag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uses_by_two_threads() {
        let mut any = OneThread::default();
        assert_eq!((any.enter(1), any.enter(2)), (None, None));
        let mut one = OneThread::required(true);
        assert_eq!((one.enter(1), one.enter(1)), (None, None));
        assert_eq!(one.enter(2), Some(1));
        one.leave(1);
        assert_eq!(one.enter(3), Some(2), "thread 2 is still in it");
        one.leave(3);
        assert_eq!(one.enter(4), None);
        one.end();
        assert_eq!(one.enter(5), None);
    }
}
