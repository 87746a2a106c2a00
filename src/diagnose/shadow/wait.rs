//! The parts of the state that say why nothing comes to a program that waits.

use super::handles::Handles;
use super::qps::Qps;
use super::registry::Registry;
use super::{Cq, Shadow, Srq};

/// A reason, and what to do.
pub type Reason = (String, &'static str);

/// The function that asks a device how many completions of a CQ were not polled.
pub type Unread = fn(cq: usize) -> Option<usize>;

/// A wait for a completion or an event.
pub(super) struct Wait<'a> {
    pub cqs: &'a Registry<Cq>,
    pub qps: &'a Qps,
    pub srqs: &'a Registry<Srq>,
    pub ahs: &'a Handles,
    pub unread: Unread,
}

impl Shadow {
    pub(super) fn wait(&self, unread: Unread) -> Wait<'_> {
        Wait {
            cqs: &self.cqs,
            qps: &self.qps,
            srqs: &self.srqs,
            ahs: &self.ahs,
            unread,
        }
    }
}
