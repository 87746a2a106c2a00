//! Events: arming of CQs, completion events, asynchronous events, and whether they are acknowledged.

use ibverbs_abi::*;

use super::{Armed, Notify, Shadow};
use crate::diagnose::check::reasons;
use crate::diagnose::finding::{Finding, Kind, Object, Outcome};
use crate::diagnose::rules::Rule;

/// A program may find all its completions by polling, and arm a CQ at its creation, before it would have had
/// to wait, and at the end to wake up another thread (rsockets do). Who arms it more often, and never reads
/// the channel, does not wait for events.
const ARMED_WITHOUT_READING: u64 = 3;

impl Shadow {
    /// ibv_req_notify_cq has returned 0.
    pub fn armed(&mut self, address: usize, solicited_only: bool) -> Vec<Finding> {
        let (sends, receives) = self.outstanding_on(address);
        let from_srqs = self
            .qps
            .values()
            .any(|qp| qp.recv_cq == address && qp.srq != 0);
        if let Some(cq) = self.cqs.get_mut(&address) {
            cq.armed += 1;
            cq.is_armed = match (solicited_only, cq.is_armed) {
                (true, Armed::No | Armed::Solicited) => Armed::Solicited,
                _ => Armed::Any,
            };
            if cq.polled_before() {
                cq.notify.armed_after_poll = true;
                cq.notify.at_risk = sends + receives > 0 || from_srqs;
                cq.notify.posted_since = false;
            }
            if cq.channel == 0 {
                return vec![without_channel(address)];
            }
        }
        Vec::new()
    }

    /// ibv_get_cq_event has received an event of this CQ.
    pub fn completion_event(&mut self, address: usize) -> Vec<Finding> {
        let Some(cq) = self.cqs.get_mut(&address) else {
            return Vec::new();
        };
        cq.events += 1;
        cq.is_armed = Armed::No;
        let before = core::mem::replace(
            &mut cq.notify,
            Notify {
                had_event: true,
                ..Notify::default()
            },
        );
        let Some((count, asked)) = before.last_poll else {
            return Vec::new();
        };
        if !before.armed_after_poll || !before.at_risk || before.posted_since {
            return Vec::new();
        }
        let rule = match count == asked && count > 0 {
            true => Rule::EventsCoalesced,
            false => Rule::NotifyNoPoll,
        };
        let object = Object::at(Kind::Cq, address);
        let finding = Finding::new(rule, object, "ibv_get_cq_event", Outcome::Succeeded);
        vec![finding.with("count", count)]
    }

    /// ibv_get_async_event has received an event.
    pub fn async_event(&mut self, kind: Kind, address: usize, event: u32) -> Vec<Finding> {
        match kind {
            Kind::Qp => {
                if let Some(qp) = self.qps.get_mut(&address) {
                    qp.async_events += 1;
                }
            }
            Kind::Srq => {
                if let Some(srq) = self.srqs.get_mut(&address) {
                    srq.async_events += 1;
                    // The event disarms it, if it is that of the limit.
                    srq.limit = 0;
                }
            }
            Kind::Cq => {
                if let Some(cq) = self.cqs.get_mut(&address) {
                    cq.async_events += 1;
                }
            }
            _ => {}
        }
        if kind != Kind::Cq || event != IBV_EVENT_CQ_ERR {
            let object = match kind {
                Kind::Qp => self.qp_object(address),
                Kind::Context => Object {
                    kind,
                    address,
                    label: self.device_of(address).into(),
                },
                _ => Object::at(kind, address),
            };
            let call = "ibv_get_async_event";
            let finding = |(event, why, todo)| {
                Finding::new(Rule::AsyncError, object, call, Outcome::Succeeded)
                    .with("event", event)
                    .with("why", why)
                    .with("todo", todo)
            };
            return reasons::of_event(event).map(finding).into_iter().collect();
        }
        let entries = self.cqs.get(&address).map_or(0, |cq| cq.entries);
        let (sends, receives) = self.outstanding_on(address);
        let object = Object::at(Kind::Cq, address);
        let finding = Finding::new(
            Rule::CqOverrun,
            object,
            "ibv_get_async_event",
            Outcome::Succeeded,
        );
        vec![
            finding
                .with("cqe", entries)
                .with("outstanding", sends + receives),
        ]
    }

    /// How many completion and asynchronous events of an object the program has received.
    pub fn events_of(&self, kind: Kind, address: usize) -> (u64, u64) {
        match kind {
            Kind::Cq => self
                .cqs
                .get(&address)
                .map_or((0, 0), |cq| (cq.events, cq.async_events)),
            Kind::Qp => (0, self.qps.get(&address).map_or(0, |qp| qp.async_events)),
            Kind::Srq => (0, self.srqs.get(&address).map_or(0, |srq| srq.async_events)),
            _ => (0, 0),
        }
    }

    /// An object is being destroyed, of which events are not acknowledged.
    pub fn unacknowledged(
        &self,
        kind: Kind,
        address: usize,
        call: &'static str,
        completion: u64,
        asynchronous: u64,
    ) -> Vec<Finding> {
        let object = match kind {
            Kind::Qp => self.qp_object(address),
            _ => Object::at(kind, address),
        };
        let finding = |count, events, verb| {
            Finding::new(Rule::EventsUnacked, object.clone(), call, Outcome::Called)
                .with("count", count)
                .with("events", events)
                .with("verb", verb)
        };
        let mut found = Vec::new();
        if completion > 0 {
            found.push(finding(
                completion,
                "completion events",
                "ibv_ack_cq_events",
            ));
        }
        if asynchronous > 0 {
            found.push(finding(
                asynchronous,
                "asynchronous events",
                "ibv_ack_async_event",
            ));
        }
        found
    }

    /// An object is being destroyed, of which more events are acknowledged than were received.
    pub fn acknowledged_too_often(
        &self,
        kind: Kind,
        address: usize,
        call: &'static str,
        excess: u32,
    ) -> Vec<Finding> {
        let object = match kind {
            Kind::Qp => self.qp_object(address),
            _ => Object::at(kind, address),
        };
        let finding = Finding::new(Rule::EventsOveracked, object, call, Outcome::Called);
        vec![finding.with("count", excess)]
    }

    /// A CQ is being destroyed; `readable`: its channel has an event that was not read.
    pub fn destroying_cq(&self, address: usize, readable: bool) -> Vec<Finding> {
        const CALL: &str = "ibv_destroy_cq";
        let Some(cq) = self.cqs.get(&address) else {
            return Vec::new();
        };
        let object = Object::at(Kind::Cq, address);
        let finding = |rule| Finding::new(rule, object.clone(), CALL, Outcome::Called);
        let mut found = Vec::new();
        if readable && cq.armed > ARMED_WITHOUT_READING && cq.events == 0 {
            found.push(finding(Rule::ChannelUnread).with("armed", cq.armed));
        }
        found
    }

    /// A queue pair is being destroyed whose CQ was never polled, although it has signaled requests.
    pub fn destroying_qp(&self, address: usize) -> Vec<Finding> {
        let Some(qp) = self.qps.get(&address) else {
            return Vec::new();
        };
        let signaled = qp.sends.iter().filter(|request| request.signaled).count();
        match self.cqs.get(&qp.send_cq) {
            Some(cq) if cq.polls == 0 && signaled > 0 => {
                let object = Object::at(Kind::Cq, qp.send_cq);
                let finding = Finding::new(
                    Rule::CqNeverPolled,
                    object,
                    "ibv_destroy_qp",
                    Outcome::Called,
                );
                vec![finding.with("outstanding", signaled)]
            }
            _ => Vec::new(),
        }
    }
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
    .with(
        "what",
        "the CQ was created without a completion channel (channel = NULL)",
    )
    .with(
        "why",
        "its events have no place to go, so that none ever comes",
    )
    .with(
        "todo",
        "create the CQ with a channel of ibv_create_comp_channel, or poll it without arming it",
    )
}

#[cfg(test)]
mod tests {
    use super::super::tests::{receive, request, rules, shadow_with_qp};
    use super::*;
    use crate::diagnose::shadow::Completion;

    fn shadow() -> Shadow {
        let mut shadow = shadow_with_qp(IBV_QPS_RTS);
        shadow
            .qps
            .get_mut(&30)
            .unwrap()
            .receives
            .list
            .push_back(receive(1, 7));
        shadow
    }

    fn poll(shadow: &mut Shadow, asked: u32, count: usize) {
        let completions = vec![Completion::default(); count];
        shadow.polled(20, asked, &completions, "ibv_poll_cq");
    }

    fn event(shadow: &mut Shadow) -> Vec<Rule> {
        let found = shadow.completion_event(20);
        rules(&found)
    }

    #[test]
    fn polling_after_arming_is_right() {
        let mut shadow = shadow();
        shadow.armed(20, false);
        assert_eq!(event(&mut shadow), []);
        shadow.armed(20, false);
        poll(&mut shadow, 2, 1);
        assert_eq!(event(&mut shadow), []);
        poll(&mut shadow, 2, 0);
        shadow.armed(20, false);
        poll(&mut shadow, 2, 0);
        assert_eq!(event(&mut shadow), []);
    }

    #[test]
    fn not_polling_after_arming_is_wrong() {
        let mut shadow = shadow();
        poll(&mut shadow, 2, 0);
        shadow.armed(20, false);
        assert_eq!(event(&mut shadow), [Rule::NotifyNoPoll]);
        poll(&mut shadow, 1, 1);
        shadow.armed(20, false);
        assert_eq!(event(&mut shadow), [Rule::EventsCoalesced]);
    }

    #[test]
    fn a_request_that_is_posted_after_arming_causes_the_event() {
        let mut shadow = shadow();
        poll(&mut shadow, 1, 1);
        shadow.armed(20, false);
        shadow.posting(30, vec![request(1, 7)], 1, "ibv_post_send");
        assert_eq!(event(&mut shadow), []);
        // Nothing is outstanding when the CQ is armed: nothing can be missed.
        let mut idle = shadow_with_qp(IBV_QPS_RTS);
        poll(&mut idle, 1, 1);
        idle.armed(20, false);
        assert_eq!(event(&mut idle), []);
    }

    #[test]
    fn overrun_and_events_at_the_end() {
        let mut shadow = shadow();
        let found = shadow.async_event(Kind::Cq, 20, IBV_EVENT_CQ_ERR);
        assert_eq!(rules(&found), [Rule::CqOverrun]);
        assert_eq!(shadow.events_of(Kind::Cq, 20), (0, 1));
        assert!(
            shadow
                .async_event(Kind::Qp, 30, IBV_EVENT_COMM_EST)
                .is_empty()
        );
        assert_eq!(shadow.events_of(Kind::Qp, 30), (0, 1));
        let found = shadow.unacknowledged(Kind::Cq, 20, "ibv_destroy_cq", 2, 1);
        assert_eq!(rules(&found), [Rule::EventsUnacked, Rule::EventsUnacked]);
        assert!(shadow.unacknowledged(Kind::Qp, 30, "x", 0, 0).is_empty());
        assert!(shadow.destroying_cq(20, true).is_empty());
        for _ in 0..ARMED_WITHOUT_READING {
            shadow.armed(20, false);
            assert!(shadow.destroying_cq(20, true).is_empty());
        }
        shadow.armed(20, false);
        assert_eq!(
            rules(&shadow.destroying_cq(20, true)),
            [Rule::ChannelUnread]
        );
        assert!(shadow.destroying_cq(20, false).is_empty());
    }

    #[test]
    fn a_cq_that_was_never_polled() {
        let mut shadow = shadow();
        assert!(shadow.destroying_qp(30).is_empty());
        shadow
            .qps
            .get_mut(&30)
            .unwrap()
            .sends
            .push_back(request(1, 7));
        assert_eq!(rules(&shadow.destroying_qp(30)), [Rule::CqNeverPolled]);
        poll(&mut shadow, 1, 0);
        assert!(shadow.destroying_qp(30).is_empty());
    }
}
