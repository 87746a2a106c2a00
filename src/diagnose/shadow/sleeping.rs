//! A thread that sleeps until an event of a completion channel, and none comes.

use std::collections::BTreeMap;

use super::Shadow;
use super::cq::Armed;
use super::limit::limit;
use super::wait::{Reason, Unread, Wait};
use crate::diagnose::facts;
use crate::diagnose::finding::{Finding, Kind, Object, Outcome};
use crate::diagnose::rules::Rule;

/// The object that a thread waits for, by the descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Awaited {
    Channel(usize),
    /// The context.
    Async(usize),
    /// The descriptor of an event channel of rdma_cm.
    Cm(i32),
}

impl Shadow {
    /// Why no event comes to a completion channel on which a thread sleeps. `alone`: it is the only thread
    /// of the program.
    pub fn slept_too_long(&self, channel: usize, alone: bool, unread: Unread) -> Option<Finding> {
        let (why, todo) = self.wait(unread).no_event(channel, alone)?;
        let object = Object::at(Kind::Channel, channel);
        Some(
            Finding::new(Rule::NoEvent, object, "ibv_get_cq_event", Outcome::Called)
                .with("seconds", limit()?.as_secs())
                .with("why", why)
                .with("todo", todo),
        )
    }

    /// The descriptors on which a thread may sleep, what for, and a number that changes whenever something
    /// happens to that.
    pub fn awaited(&self) -> BTreeMap<i32, (Awaited, u64)> {
        let mut all = BTreeMap::new();
        for (at, context) in self.devices.iter() {
            if context.async_fd >= 0 && context.pid == facts::pid() {
                all.insert(context.async_fd, (Awaited::Async(*at), 0));
            }
        }
        for cq in self.cqs.values().filter(|cq| cq.channel_fd >= 0) {
            let what = (Awaited::Channel(cq.channel), self.qps.requests());
            let (_, activity) = all.entry(cq.channel_fd).or_insert(what);
            *activity += cq.activity();
        }
        all
    }
}

impl Wait<'_> {
    /// Why no event comes to a completion channel.
    pub(super) fn no_event(&self, channel: usize, alone: bool) -> Option<Reason> {
        let of_channel = || self.cqs.of_channel(channel);
        if let Some(reason) = self.other_channel(channel) {
            return Some(reason);
        }
        for (at, cq) in of_channel() {
            let waiting = (self.unread)(*at).unwrap_or(0);
            let held = match waiting {
                0 => String::new(),
                _ => format!(", and {waiting} completions wait in it"),
            };
            let nobody = of_channel().all(|(_, cq)| cq.is_armed == Armed::No);
            match cq.is_armed {
                Armed::No if nobody || waiting > 0 => {
                    let when = match cq.armed {
                        0 => "was never armed",
                        _ => "was not armed again after its last event",
                    };
                    return Some((
                        format!(
                            "the CQ {at:#x} {when}{held}: only an armed CQ causes an event, and only one"
                        ),
                        "call ibv_req_notify_cq before each wait, then poll the CQ once more",
                    ));
                }
                Armed::Solicited if waiting > 0 => {
                    return Some((
                        format!(
                            "the CQ {at:#x} was armed for solicited completions only{held}, which are not \
                             solicited or came before"
                        ),
                        "set IBV_SEND_SOLICITED in the peer's request, or arm with solicited_only = 0",
                    ));
                }
                Armed::Any if (1..cq.moderation.0.into()).contains(&waiting) => {
                    let (count, period) = cq.moderation;
                    return Some((
                        format!(
                            "the CQ {at:#x} is armed{held}, and ibv_modify_cq has moderated its events: one \
                             comes with {count} completions (cq_count), or after cq_period, which is \
                             {period} us"
                        ),
                        "set a smaller cq_count, or a cq_period that is not 0",
                    ));
                }
                Armed::Any if waiting > 0 => {
                    return Some((
                        format!(
                            "the CQ {at:#x} is armed{held} that came before it was armed: they cause no event"
                        ),
                        "poll the CQ until it is empty after ibv_req_notify_cq, before the wait",
                    ));
                }
                _ => {}
            }
        }
        of_channel()
            .find_map(|(at, _)| self.no_completion(*at))
            .or_else(|| self.nothing_outstanding(channel, alone))
    }

    /// A channel that has what this one's thread waits for.
    fn other_channel(&self, channel: usize) -> Option<Reason> {
        let of_channel = || self.cqs.of_channel(channel);
        let is_used = |at: usize| {
            let mut qps = self.qps.values();
            qps.any(|qp| qp.send_cq == at || qp.recv_cq == at)
        };
        if of_channel().any(|(at, _)| is_used(*at)) {
            return None;
        }
        let mut others = self.cqs.iter().filter(|(_, cq)| cq.channel != channel);
        let (at, other) = others.find(|(at, _)| (self.unread)(**at).unwrap_or(0) > 0)?;
        let whose = match other.channel {
            0 => "which has no channel".into(),
            other => format!("whose channel is {other:#x}"),
        };
        Some((
            format!(
                "no queue pair uses a CQ of this channel; completions wait in the CQ {at:#x}, {whose}"
            ),
            "wait on the channel that the CQ was created with, or create the CQ with this one",
        ))
    }

    fn nothing_outstanding(&self, channel: usize, alone: bool) -> Option<Reason> {
        let of_channel = || self.cqs.of_channel(channel);
        let outstanding = of_channel().any(|(at, _)| self.qps.outstanding_on(*at) != (0, 0));
        if !alone || outstanding || of_channel().any(|(at, _)| self.qps.receives_from_srq(*at)) {
            return None;
        }
        let why = "neither a signaled request nor a receive is outstanding on the CQs of this channel, and \
                   no other thread of the program can post one";
        Some((
            why.into(),
            "post receives, or set IBV_SEND_SIGNALED, before the wait",
        ))
    }
}
