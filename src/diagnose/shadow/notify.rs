//! Events: arming of CQs, asynchronous events, and whether events are acknowledged.
//!
//! Not here: completion events, which concern their CQ only (`cq.rs`).

use ibverbs_abi::*;

use super::Shadow;
use crate::diagnose::check::reasons;
use crate::diagnose::finding::{Finding, Kind, Object, Outcome};
use crate::diagnose::rules::Rule;

impl Shadow {
    /// ibv_req_notify_cq has returned 0.
    pub fn armed(&mut self, address: usize, solicited_only: bool) -> Option<Finding> {
        let (sends, receives) = self.qps.outstanding_on(address);
        let has_outstanding = sends + receives > 0 || self.qps.receives_from_srq(address);
        self.cqs.armed(address, solicited_only, has_outstanding)
    }

    /// ibv_get_async_event has received an event.
    pub fn async_event(&mut self, kind: Kind, address: usize, event: u32) -> Option<Finding> {
        match kind {
            Kind::Qp => self.qps.change(address, |qp| qp.async_events += 1),
            Kind::Cq => self.cqs.change(address, |cq| cq.async_events += 1),
            Kind::Srq => self.srqs.change(address, |srq| {
                srq.async_events += 1;
                // The event disarms it, if it is that of the limit.
                srq.limit = 0;
            }),
            _ => {}
        }
        let object = self.object(kind, address);
        let finding = |rule| Finding::new(rule, object, "ibv_get_async_event", Outcome::Succeeded);
        if kind != Kind::Cq || event != IBV_EVENT_CQ_ERR {
            let finding = |(event, why, todo)| {
                finding(Rule::AsyncError)
                    .with("event", event)
                    .with("why", why)
                    .with("todo", todo)
            };
            return reasons::of_event(event).map(finding);
        }
        let entries = self.cqs.get(&address).map_or(0, |cq| cq.entries);
        let (sends, receives) = self.qps.outstanding_on(address);
        let found = finding(Rule::CqOverrun).with("cqe", entries);
        Some(found.with("outstanding", sends + receives))
    }

    /// How many completion and asynchronous events of an object the program has received.
    pub fn events_of(&self, kind: Kind, address: usize) -> (u64, u64) {
        match kind {
            Kind::Cq => self.cqs.get(&address).map(|cq| cq.events()),
            Kind::Qp => self.qps.get(&address).map(|qp| (0, qp.async_events)),
            Kind::Srq => self.srqs.get(&address).map(|srq| (0, srq.async_events)),
            _ => None,
        }
        .unwrap_or_default()
    }

    /// An object is being destroyed, of which events are not acknowledged.
    pub fn unacknowledged(
        &self,
        kind: Kind,
        address: usize,
        call: &'static str,
        (completion, asynchronous): (u64, u64),
    ) -> Vec<Finding> {
        let finding = |(count, events, verb): (u64, _, _)| {
            let object = self.object(kind, address);
            let found = Finding::new(Rule::EventsUnacked, object, call, Outcome::Called);
            let found = found.with("count", count).with("events", events);
            found.with("verb", verb)
        };
        let events = [
            (completion, "completion events", "ibv_ack_cq_events"),
            (asynchronous, "asynchronous events", "ibv_ack_async_event"),
        ];
        let missing = events.into_iter().filter(|(count, ..)| *count > 0);
        missing.map(finding).collect()
    }

    /// An object is being destroyed, of which more events are acknowledged than were received.
    pub fn acknowledged_too_often(
        &self,
        kind: Kind,
        address: usize,
        call: &'static str,
        excess: u32,
    ) -> Finding {
        let object = self.object(kind, address);
        let finding = Finding::new(Rule::EventsOveracked, object, call, Outcome::Called);
        finding.with("count", excess)
    }

    /// A queue pair is being destroyed whose CQ was never polled, although it has signaled requests.
    pub fn destroying_qp(&self, address: usize) -> Option<Finding> {
        let qp = self.qps.get(&address)?;
        let cq = self.cqs.get(&qp.send_cq)?;
        let signaled = qp.sends.signaled();
        (cq.polls == 0 && signaled > 0).then(|| {
            let (object, call) = (Object::at(Kind::Cq, qp.send_cq), "ibv_destroy_qp");
            Finding::new(Rule::CqNeverPolled, object, call, Outcome::Called)
                .with("outstanding", signaled)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{qp_mut, receive, request, rules, shadow_with_qp};
    use super::*;
    use crate::diagnose::shadow::Completion;

    fn shadow() -> Shadow {
        let mut shadow = shadow_with_qp(IBV_QPS_RTS);
        qp_mut(&mut shadow).receives.post([receive(1, 7)]);
        shadow
    }

    fn poll(shadow: &mut Shadow, asked: u32, count: usize) {
        let completions = vec![Completion::default(); count];
        shadow.polled(20, asked, &completions, "ibv_poll_cq");
    }

    fn event(shadow: &mut Shadow) -> Vec<Rule> {
        let found = shadow.cqs.completion_event(20);
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
        let established = shadow.async_event(Kind::Qp, 30, IBV_EVENT_COMM_EST);
        assert_eq!(established, None);
        assert_eq!(shadow.events_of(Kind::Qp, 30), (0, 1));
        let found = shadow.unacknowledged(Kind::Cq, 20, "ibv_destroy_cq", (2, 1));
        assert_eq!(rules(&found), [Rule::EventsUnacked, Rule::EventsUnacked]);
        assert!(shadow.unacknowledged(Kind::Qp, 30, "x", (0, 0)).is_empty());
        assert!(shadow.cqs.destroying(20, true).is_none());
        for _ in 0..super::super::cq::ARMED_WITHOUT_READING {
            shadow.armed(20, false);
            assert!(shadow.cqs.destroying(20, true).is_none());
        }
        shadow.armed(20, false);
        let unread = shadow.cqs.destroying(20, true);
        assert_eq!(rules(&unread), [Rule::ChannelUnread]);
        assert!(shadow.cqs.destroying(20, false).is_none());
    }

    #[test]
    fn a_cq_that_was_never_polled() {
        let mut shadow = shadow();
        assert!(shadow.destroying_qp(30).is_none());
        qp_mut(&mut shadow).sends.record([request(1, 7)]);
        assert_eq!(rules(&shadow.destroying_qp(30)), [Rule::CqNeverPolled]);
        poll(&mut shadow, 1, 0);
        assert!(shadow.destroying_qp(30).is_none());
    }
}
