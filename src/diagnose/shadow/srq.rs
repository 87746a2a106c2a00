//! Shared receive queues.

use super::receives::ReceiveQueue;
use super::registry::Registry;
use super::request::Receives;
use crate::diagnose::check::list;
use crate::diagnose::finding::{Finding, Kind, Object, Outcome};
use crate::diagnose::rules::Rule;

/// A shared receive queue.
#[derive(Clone, Debug, Default)]
pub struct Srq {
    pub context: usize,
    pub pd: usize,
    pub max: u32,
    pub max_sge: u32,
    pub receives: ReceiveQueue,
    /// The limit that is armed; 0 if none is.
    pub limit: u32,
    pub async_events: u64,
}

impl Registry<Srq> {
    /// Receives are about to be posted: they are recorded before.
    pub fn posting(&mut self, address: usize, receives: Receives) {
        self.change(address, |srq| srq.receives.post(receives));
    }

    /// The provider has refused the last `refused` receives, of which the first has `sges` elements.
    pub fn refused(
        &mut self,
        address: usize,
        refused: usize,
        sges: i32,
        outcome: Outcome,
    ) -> Vec<Finding> {
        let Some(srq) = self.get_mut(&address) else {
            return Vec::new();
        };
        srq.receives.take_back(refused);
        let object = Object::at(Kind::Srq, address);
        let finding = |rule| Finding::new(rule, object, "ibv_post_srq_recv", outcome.clone());
        if list::is_over(sges, srq.max_sge) {
            let finding = finding(Rule::SgeLimit);
            return vec![list::sge_limit(finding, sges, "max_sge", srq.max_sge)];
        }
        if outcome.is(libc::ENOMEM) {
            return vec![
                finding(Rule::RecvQueueFull)
                    .with("outstanding", srq.receives.outstanding())
                    .with("max", srq.max),
            ];
        }
        Vec::new()
    }

    /// Explains why IBV_EVENT_SRQ_LIMIT_REACHED does not come, if a context has an SRQ without a
    /// limit.
    pub fn without_limit(&self, context: usize) -> Option<String> {
        let of = |srq: &&Srq| srq.context == context && srq.limit == 0;
        self.values().find(of).map(|_| {
            "an SRQ has no limit that is armed: IBV_EVENT_SRQ_LIMIT_REACHED comes once after each \
             ibv_modify_srq with IBV_SRQ_LIMIT, and srq_limit of ibv_create_srq does not count"
                .into()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{receive, rules};
    use super::*;

    #[test]
    fn refused_receives_and_limits() {
        let mut srqs = Registry::new();
        let srq = Srq {
            context: 1,
            max: 2,
            max_sge: 1,
            ..Srq::default()
        };
        srqs.add(60, srq);
        let three = [1, 2, 3].map(|id| receive(id, 7));
        srqs.posting(60, three.into_iter().collect());
        let full = srqs.refused(60, 1, 1, Outcome::of(libc::ENOMEM));
        assert_eq!(rules(&full), [Rule::RecvQueueFull]);
        assert!(full[0].line().contains('2'), "two are left");
        let many = srqs.refused(60, 0, 2, Outcome::of(libc::EINVAL));
        assert_eq!(rules(&many), [Rule::SgeLimit]);
        assert_eq!(
            rules(&srqs.refused(61, 1, 1, Outcome::of(libc::ENOMEM))),
            []
        );
        assert!(srqs.without_limit(1).is_some() && srqs.without_limit(2).is_none());
        srqs.change(60, |srq| srq.limit = 1);
        assert_eq!(srqs.without_limit(1), None);
    }
}
