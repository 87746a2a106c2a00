//! Objects that come and go: who uses whom, what is left, what is still in use.
//!
//! Not here: what objects do; each kind of call has a file beside this one.
//!
//! Invariant: an object leaves the state before the provider frees it, because another thread may
//! get its address at once. If the provider refuses, it is put back.

use ibverbs_abi::*;

use super::{Connection, Context, Cq, MAX_DEREGISTERED, Mr, Pd, Qp, Shadow, Srq};
use crate::diagnose::check::key;
use crate::diagnose::facts;
use crate::diagnose::finding::{Finding, Kind, Object, Outcome};
use crate::diagnose::peer::Evidence;
use crate::diagnose::rules::Rule;

/// More objects than this are counted, not named.
const MAX_NAMED: usize = 8;
/// More destroyed objects than this are forgotten.
const MAX_GONE: usize = 4096;

/// The arguments with which a program creates a queue pair.
#[derive(Clone, Copy)]
pub struct NewQp {
    pub context: usize,
    pub pd: usize,
    pub send_cq: usize,
    pub recv_cq: usize,
    pub srq: usize,
    pub number: u32,
    pub kind: ibv_qp_type,
    pub cap: ibv_qp_cap,
    pub sig_all: bool,
    /// IBV_QP_EX_WITH_* of an extended queue pair; else 0.
    pub send_ops: u64,
}

/// A list for messages: the first names, and how many more there are.
fn list(names: Vec<String>) -> String {
    let more = names.len().saturating_sub(MAX_NAMED);
    let mut text = names[..names.len() - more].join(", ");
    if more > 0 {
        text += &format!(" and {more} more");
    }
    text
}

impl Shadow {
    pub fn opened(&mut self, context: usize, device: String, driver: String, async_fd: i32) {
        let pid = facts::pid();
        self.opened_by = match self.contexts.is_empty() || self.opened_by == pid {
            true => pid,
            false => 0,
        };
        let opened = Context {
            device,
            pid,
            async_fd,
            driver,
        };
        self.contexts.insert(context, opened);
    }

    /// The device is closed: its objects are gone.
    pub fn closed(&mut self, context: usize) -> Vec<Finding> {
        let mut left = Vec::new();
        let mut count = |kind: Kind, number: usize| {
            if number > 0 {
                left.push(format!("{number} {}", kind.name()));
            }
        };
        macro_rules! drop_all {
            ($($map:ident $kind:ident: |$value:ident| $of:expr;)+) => { $(
                let gone: Vec<usize> = self.$map.iter()
                    .filter(|(_, $value)| $of == context)
                    .map(|(at, _)| *at)
                    .collect();
                count(Kind::$kind, gone.len());
                for at in gone {
                    self.$map.remove(&at);
                    self.destroyed(Kind::$kind, at);
                    self.closed.insert((Kind::$kind, at));
                }
            )+ };
        }
        let pds: Vec<usize> = self.pds_of(context);
        drop_all! {
            qps Qp: |qp| qp.context;
            cqs Cq: |cq| cq.context;
            srqs Srq: |srq| srq.context;
            mrs Mr: |mr| mr.context;
            pds Pd: |pd| pd.context;
        }
        for kind in [Kind::Ah, Kind::Mw] {
            let map = match kind {
                Kind::Ah => &mut self.ahs,
                _ => &mut self.mws,
            };
            let of = map.iter().filter(|(_, pd)| pds.contains(pd));
            let gone: Vec<usize> = of.map(|(at, _)| *at).collect();
            map.retain(|_, pd| !pds.contains(pd));
            count(kind, gone.len());
            for at in gone {
                self.destroyed(kind, at);
                self.closed.insert((kind, at));
            }
        }
        count(Kind::Dm, self.close_device_memories(context));
        self.numbers.retain(|(of, _), _| *of != context);
        self.deregistered.retain(|mr| mr.context != context);
        let opened = self.contexts.remove(&context).unwrap_or_default();
        self.reported.forget(Kind::Context, context);
        // A child that closes the device of its parent has not leaked anything.
        if left.is_empty() || opened.pid != facts::pid() {
            return Vec::new();
        }
        let object = Object {
            kind: Kind::Context,
            address: context,
            label: opened.device.into(),
        };
        let finding = Finding::new(Rule::Leak, object, "ibv_close_device", Outcome::Called);
        vec![finding.with("objects", list(left))]
    }

    fn pds_of(&self, context: usize) -> Vec<usize> {
        let of = self.pds.iter().filter(|(_, pd)| pd.context == context);
        of.map(|(at, _)| *at).collect()
    }

    /// A child of fork that uses an object of its parent.
    #[inline]
    pub fn check_process(&self, context: usize, verb: &'static str) -> Vec<Finding> {
        match self.opened_by == facts::pid() {
            true => Vec::new(),
            false => self.is_of_child(context, verb),
        }
    }

    fn is_of_child(&self, context: usize, verb: &'static str) -> Vec<Finding> {
        let pid = facts::pid();
        match self.contexts.get(&context) {
            Some(opened) if opened.pid != pid => {
                let object = Object {
                    kind: Kind::Context,
                    address: context,
                    label: opened.device.clone().into(),
                };
                let finding = Finding::new(Rule::ChildVerb, object, verb, Outcome::Called);
                vec![
                    finding
                        .with("pid", pid)
                        .with("parent", opened.pid)
                        .with("verb", verb),
                ]
            }
            _ => Vec::new(),
        }
    }

    /// The domain itself, or the one that a parent domain was made from.
    pub fn base_pd(&self, pd: usize) -> usize {
        match self.pds.get(&pd) {
            Some(found) if found.parent != 0 => found.parent,
            _ => pd,
        }
    }

    /// Explains why IBV_EVENT_SRQ_LIMIT_REACHED does not come, if a context has an SRQ without a
    /// limit.
    pub fn unarmed_srq(&self, context: usize) -> Option<String> {
        let of = |srq: &&Srq| srq.context == context && srq.limit == 0;
        self.srqs.values().find(of).map(|_| {
            "an SRQ has no limit that is armed: IBV_EVENT_SRQ_LIMIT_REACHED comes once after each \
             ibv_modify_srq with IBV_SRQ_LIMIT, and srq_limit of ibv_create_srq does not count"
                .into()
        })
    }

    pub fn add_mw(&mut self, address: usize, pd: usize) {
        self.mws.insert(address, pd);
        let base = self.base_pd(pd);
        if let Some(pd) = self.pds.get_mut(&base) {
            pd.had_windows = true;
        }
    }

    /// Whether a context has a queue pair of this number.
    pub fn has_number(&self, context: usize, number: u32) -> bool {
        self.numbers.contains_key(&(context, number))
    }

    /// A queue pair of this process that names `number` as its peer.
    pub fn naming(&self, number: u32) -> Option<&Qp> {
        let mut all = self.qps.values();
        all.find(|qp| qp.connection.receives && qp.connection.dest_qpn == number)
    }

    /// An object was destroyed. [`Shadow::is_gone`] is true until another one gets its address.
    pub fn remember_gone(&mut self, kind: Kind, address: usize) {
        if self.gone.len() == MAX_GONE {
            self.gone.clear();
            self.closed.clear();
        }
        self.closed.remove(&(kind, address));
        self.gone.insert((kind, address));
    }

    /// How a destroyed object went, if that was not by a call of its own.
    pub fn how_gone(&self, kind: Kind, address: usize) -> Option<String> {
        let closed = self.closed.contains(&(kind, address));
        closed
            .then(|| "ibv_close_device has closed its device, and all that was left with it".into())
    }

    pub fn is_gone(&self, kind: Kind, address: usize) -> bool {
        self.gone.contains(&(kind, address)) && self.context_of(kind, address).is_none()
    }

    /// The context of an object; None if it is not known.
    pub fn context_of(&self, kind: Kind, address: usize) -> Option<usize> {
        let of_pd = |pd: usize| self.pds.get(&pd).map(|pd| pd.context);
        match kind {
            Kind::Pd => of_pd(address),
            Kind::Mr => self.mrs.get(&address).map(|mr| mr.context),
            Kind::Cq => self.cqs.get(&address).map(|cq| cq.context),
            Kind::Qp => self.qps.get(&address).map(|qp| qp.context),
            Kind::Srq => self.srqs.get(&address).map(|srq| srq.context),
            Kind::Ah => of_pd(*self.ahs.get(&address)?),
            Kind::Mw => of_pd(*self.mws.get(&address)?),
            Kind::Dm => self.device_memories.get(address).map(|of| of.context),
            _ => None,
        }
    }

    pub fn add_pd(&mut self, address: usize, pd: Pd) {
        self.pds.insert(address, pd);
    }

    pub fn add_mr(&mut self, address: usize, mr: Mr) {
        self.had_stack_regions |= mr.stack_of != 0;
        self.mrs.insert(address, mr);
    }

    pub fn add_cq(&mut self, address: usize, cq: Cq) {
        if cq.single_threaded {
            super::watch_polls();
        }
        self.cqs.insert(address, cq);
    }

    pub fn add_srq(&mut self, address: usize, srq: Srq) {
        self.srqs.insert(address, srq);
    }

    pub fn add_qp(&mut self, address: usize, new: NewQp) {
        let single_threaded = self.pds.get(&new.pd).is_some_and(|pd| pd.single_threaded);
        self.numbers.insert((new.context, new.number), address);
        self.sends_on(&new, true);
        let qp = Qp {
            created: new,
            single_threaded,
            state: IBV_QPS_RESET,
            access: 0,
            port_mtu: 0,
            connection: Connection::default(),
            sends: Default::default(),
            receives: Default::default(),
            building: Vec::new(),
            built_by: 0,
            binds: Vec::new(),
            sends_posted: 0,
            sends_consuming: 0,
            ever_signaled: false,
            last_remote_qpn: 0,
            last_ah: 0,
            groups: Vec::new(),
            first_message: 0,
            messages_vary: false,
            same_buffer: None,
            answered: 0,
            ended: None,
            is_of_cm: false,
            is_disconnected: false,
            reconnects: false,
            peer_was_reset: false,
            connected_at: 0,
            last_posted: 0,
            error_serial: 0,
            first_error: None,
            evidence: Evidence::default(),
            async_events: 0,
            thread: 0,
        };
        self.qps.insert(address, qp);
    }

    /// Takes a queue pair out, before it is destroyed.
    pub fn take_qp(&mut self, address: usize) -> Option<Qp> {
        let qp = self.qps.remove(&address)?;
        self.numbers.remove(&(qp.context, qp.number));
        self.sends_on(&qp, false);
        Some(qp)
    }

    /// A queue pair that sends on a CQ has come, or goes.
    fn sends_on(&mut self, qp: &NewQp, comes: bool) {
        if let Some(cq) = self.cqs.get_mut(&qp.send_cq) {
            let count = u64::from(qp.cap.max_send_wr);
            cq.sends_at_most = match comes {
                true => cq.sends_at_most + count,
                false => cq.sends_at_most.saturating_sub(count),
            };
        }
    }

    /// A queue pair was destroyed: its peer may miss it.
    pub fn forget_qp(&mut self, address: usize, qp: &Qp) {
        if self.gone_qps.len() == MAX_DEREGISTERED {
            self.gone_qps.pop_front();
        }
        let device = self.device_of(qp.context);
        self.gone_qps.push_back((device, qp.number));
        self.destroyed(Kind::Qp, address);
    }

    /// A queue pair without functions that build requests was asked for them.
    pub fn not_extended(&self, address: usize) -> Vec<Finding> {
        if !self.qps.contains_key(&address) {
            return Vec::new();
        }
        let object = self.qp_object(address);
        let what =
            "the queue pair was created without send_ops_flags: ibv_qp_to_qp_ex returns NULL";
        let why = "only an extended queue pair has the functions ibv_wr_*";
        let todo = "create it with ibv_create_qp_ex, IBV_QP_INIT_ATTR_SEND_OPS_FLAGS in comp_mask and the \
                    operations in send_ops_flags";
        let found = Finding::new(Rule::Argument, object, "ibv_qp_to_qp_ex", Outcome::Called);
        vec![found.with("what", what).with("why", why).with("todo", todo)]
    }

    /// Where in the program an object was created.
    pub fn created_from(&mut self, address: usize, from: String) {
        self.destroyed_last = self.destroyed_last.filter(|last| *last != address);
        self.created.insert(address, from);
    }

    /// An object was destroyed, as the call that does it says.
    pub fn destroyed(&mut self, kind: Kind, address: usize) {
        // Findings of the call that destroys it are shown after this, with the place.
        if let Some(before) = self.destroyed_last.replace(address) {
            self.created.remove(&before);
        }
        self.reported.forget(kind, address);
        self.remember_gone(kind, address);
    }

    /// Puts it back, because it was not destroyed.
    pub fn put_qp_back(&mut self, address: usize, qp: Qp) {
        self.numbers.insert((qp.context, qp.number), address);
        self.sends_on(&qp, true);
        self.qps.insert(address, qp);
    }

    /// The objects that use another one, as messages name them.
    fn dependents(&self, kind: Kind, address: usize) -> Vec<String> {
        let mut names = Vec::new();
        for (at, qp) in &self.qps {
            let uses = match kind {
                Kind::Pd => qp.pd == address,
                Kind::Cq => qp.send_cq == address || qp.recv_cq == address,
                Kind::Srq => qp.srq == address,
                _ => false,
            };
            if uses {
                let object = self.qp_object(*at);
                names.push(format!("QP {}{}", object.label, self.names.behind(&object)));
            }
        }
        match kind {
            Kind::Pd => names.extend(self.of_pd(address)),
            Kind::Channel => {
                let cqs = self.cqs.iter().filter(|(_, cq)| cq.channel == address);
                names.extend(cqs.map(|(at, _)| self.shown(Kind::Cq, *at)));
            }
            Kind::Dm => names.extend(self.in_device_memory(address)),
            Kind::Mr => {
                let pd = self.mrs.get(&address).map_or(0, |mr| mr.pd);
                let windows = self.mws.iter().filter(|(_, of)| **of == pd && pd != 0);
                names.extend(windows.map(|(at, _)| format!("one of the windows: MW {at:#x}")));
            }
            _ => {}
        }
        names
    }

    /// The objects of a protection domain but its queue pairs, as messages name them.
    fn of_pd(&self, address: usize) -> Vec<String> {
        let mrs = self.mrs.iter().filter(|(_, mr)| mr.pd == address);
        let mrs = mrs.map(|(at, mr)| {
            let name = self.names.behind(&Object::at(Kind::Mr, *at));
            format!("MR {} (lkey {:#x}){name}", key::region(mr), mr.lkey)
        });
        let srqs = self.srqs.iter().map(|(at, srq)| (Kind::Srq, at, srq.pd));
        let ahs = self.ahs.iter().map(|(at, pd)| (Kind::Ah, at, *pd));
        let mws = self.mws.iter().map(|(at, pd)| (Kind::Mw, at, *pd));
        let pds = self.pds.iter().map(|(at, pd)| (Kind::Pd, at, pd.parent));
        let others = srqs.chain(ahs).chain(mws).chain(pds);
        let users = others.filter(|(_, _, pd)| *pd == address);
        mrs.chain(users.map(|(kind, at, _)| self.shown(kind, *at)))
            .collect()
    }

    /// An object without a number as messages name it.
    fn shown(&self, kind: Kind, address: usize) -> String {
        let name = self.names.behind(&Object::at(kind, address));
        format!("{} {address:#x}{name}", kind.name())
    }

    /// An object that could not be destroyed.
    pub fn busy(
        &self,
        kind: Kind,
        address: usize,
        call: &'static str,
        outcome: Outcome,
    ) -> Vec<Finding> {
        if !outcome.is(libc::EBUSY) {
            return Vec::new();
        }
        let dependents = self.dependents(kind, address);
        if dependents.is_empty() {
            return Vec::new();
        }
        let object = match kind {
            Kind::Qp => self.qp_object(address),
            _ => Object::at(kind, address),
        };
        vec![Finding::new(Rule::Busy, object, call, outcome).with("users", list(dependents))]
    }

    /// Takes a region out, before it is deregistered. Returns it, and what is wrong if that succeeds.
    pub fn take_mr(&mut self, address: usize) -> (Option<Mr>, Vec<Finding>) {
        let Some(mr) = self.mrs.remove(&address) else {
            return (None, Vec::new());
        };
        let mut found = Vec::new();
        for (at, qp) in &self.qps {
            if qp.context != mr.context || !matches!(qp.state, IBV_QPS_RTS | IBV_QPS_SQD) {
                continue;
            }
            let mut using = qp.sends.iter().filter(|request| {
                !request.inline && request.sges.iter().any(|sge| sge.lkey == mr.lkey)
            });
            let count = using.clone().count();
            if let Some(first) = using.next() {
                let object = Object::at(Kind::Mr, address);
                let finding =
                    Finding::new(Rule::MrInUse, object, "ibv_dereg_mr", Outcome::Succeeded)
                        .with("region", key::region(&mr))
                        .with("count", count)
                        .with("qpn", &self.qp_object(*at).label)
                        .with("wr_id", first.wr_id);
                found.push(finding);
            }
        }
        (Some(mr), found)
    }

    /// Remembers a deregistered region.
    pub fn remember_mr(&mut self, address: usize, mr: Mr) {
        if self.deregistered.len() == MAX_DEREGISTERED {
            self.deregistered.pop_front();
        }
        self.deregistered.push_back(mr);
        self.device_memories.remove_region(address);
        self.destroyed(Kind::Mr, address);
    }

    /// Finds the outstanding requests that use an address handle that is destroyed now.
    pub fn ah_in_use(&self, address: usize) -> Vec<Finding> {
        let mut found = Vec::new();
        for (at, qp) in &self.qps {
            let mut using = qp.sends.iter().filter(|request| request.ah == address);
            let count = using.clone().count();
            if let Some(first) = using.next() {
                let object = Object::at(Kind::Ah, address);
                let finding =
                    Finding::new(Rule::AhInUse, object, "ibv_destroy_ah", Outcome::Succeeded)
                        .with("count", count)
                        .with("qpn", &self.qp_object(*at).label)
                        .with("wr_id", first.wr_id);
                found.push(finding);
            }
        }
        found
    }
}

#[cfg(test)]
mod tests;
