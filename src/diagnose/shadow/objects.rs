//! Objects that come and go: who uses whom, what is left, what is still in use.
//!
//! Not here: what objects do; each kind of call has a file beside this one.
//!
//! Invariant: an object leaves the state before the provider frees it, because another thread may
//! get its address at once. If the provider refuses, it is put back.

use ibverbs_abi::*;

use super::cq::Dropped;
use super::{Cq, Mr, NewQp, Qp, SendRequest, Shadow};
use crate::diagnose::check::key;
use crate::diagnose::facts;
use crate::diagnose::finding::{Finding, Kind, Object, Outcome};
use crate::diagnose::rules::Rule;

/// More objects than this are counted, not named.
const MAX_NAMED: usize = 8;

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
    /// The device is closed: its objects are gone.
    pub fn closed(&mut self, context: usize) -> Vec<Finding> {
        let pds = self.pds.take_all(|pd| pd.context == context);
        let (ahs, mws) = (self.ahs.close(&pds), self.mws.close(context, &pds));
        let taken = [
            (Kind::Qp, self.qps.close(context)),
            (Kind::Cq, self.cqs.take_all(|cq| cq.context == context)),
            (Kind::Srq, self.srqs.take_all(|srq| srq.context == context)),
            (Kind::Mr, self.mrs.close(context)),
            (Kind::Pd, pds),
            (Kind::Ah, ahs),
            (Kind::Mw, mws),
            (Kind::Dm, self.device_memories.close(context)),
        ];
        let mut left = Vec::new();
        for (kind, addresses) in taken {
            if !addresses.is_empty() {
                left.push(format!("{} {}", addresses.len(), kind.name()));
            }
            for at in addresses {
                self.destroyed(kind, at);
                self.gone.went_with_device(kind, at);
            }
        }
        let opened = self.devices.close(context);
        self.reported.forget(Kind::Context, context);
        // A child that closes the device of its parent has not leaked anything.
        if left.is_empty() || opened.pid != facts::pid() {
            return Vec::new();
        }
        let object = Object::device(context, &opened.device);
        let finding = Finding::new(Rule::Leak, object, "ibv_close_device", Outcome::Called);
        vec![finding.with("objects", list(left))]
    }

    pub fn add_cq(&mut self, address: usize, cq: Cq) {
        if cq.one_thread.is_required() {
            super::watch_polls();
        }
        self.cqs.add(address, cq);
    }

    /// A window was allocated, with this key in this context.
    pub fn add_mw(&mut self, address: usize, pd: usize, key: (usize, u32)) {
        self.mws.allocate(address, pd, key);
        self.pds.window_added(pd);
    }

    pub fn add_qp(&mut self, address: usize, new: NewQp) {
        let single_threaded = self.pds.get(&new.pd).is_some_and(|pd| pd.single_threaded);
        self.put_qp_back(address, Qp::new(address, new, single_threaded));
    }

    /// Puts a queue pair back, because it was not destroyed.
    pub fn put_qp_back(&mut self, address: usize, qp: Qp) {
        self.sends_on(&qp, true);
        self.qps.add(address, qp);
    }

    /// Takes a queue pair out, before it is destroyed.
    pub fn take_qp(&mut self, address: usize) -> Option<Qp> {
        let qp = self.qps.take(address)?;
        self.sends_on(&qp, false);
        Some(qp)
    }

    /// A queue pair that sends on a CQ has come, or goes.
    fn sends_on(&mut self, qp: &NewQp, comes: bool) {
        let count = qp.cap.max_send_wr.into();
        self.cqs
            .change(qp.send_cq, |cq| cq.sends_change(count, comes));
    }

    /// A queue pair was destroyed: its peer may miss it.
    pub fn forget_qp(&mut self, address: usize, qp: &Qp) {
        let dropped = Dropped {
            number: qp.number,
            sends: qp.sends.signaled(),
            receives: qp.receives.len(),
        };
        for (cq, count) in [(qp.send_cq, dropped.sends), (qp.recv_cq, dropped.receives)] {
            if count > 0 {
                self.cqs.change(cq, |cq| cq.dropped = Some(dropped));
            }
        }
        self.qps.remember(self.devices.name(qp.context), qp);
        self.destroyed(Kind::Qp, address);
    }

    /// A region was deregistered.
    pub fn forget_mr(&mut self, address: usize, mr: Mr) {
        self.mrs.remember(mr);
        self.device_memories.remove_region(address);
        self.destroyed(Kind::Mr, address);
    }

    /// An object was destroyed, as the call that does it says. [`Shadow::is_gone`] is true until another one
    /// gets its address.
    pub fn destroyed(&mut self, kind: Kind, address: usize) {
        self.places.destroyed(address);
        self.reported.forget(kind, address);
        self.gone.remember(kind, address);
    }

    pub fn is_gone(&self, kind: Kind, address: usize) -> bool {
        self.gone.contains(kind, address) && self.context_of(kind, address).is_none()
    }

    /// The context of an object; None if it is not known.
    pub fn context_of(&self, kind: Kind, address: usize) -> Option<usize> {
        let of_pd = |pd: usize| self.pds.get(&pd).map(|pd| pd.context);
        match kind {
            Kind::Pd => of_pd(address),
            Kind::Mr => self.mrs.get(address).map(|mr| mr.context),
            Kind::Cq => self.cqs.get(&address).map(|cq| cq.context),
            Kind::Qp => self.qps.get(&address).map(|qp| qp.context),
            Kind::Srq => self.srqs.get(&address).map(|srq| srq.context),
            Kind::Ah => of_pd(self.ahs.pd_of(address)?),
            Kind::Mw => of_pd(self.mws.pd_of(address)?),
            Kind::Dm => self.device_memories.get(address).map(|of| of.context),
            _ => None,
        }
    }

    /// The object as messages name it.
    pub fn object(&self, kind: Kind, address: usize) -> Object {
        match kind {
            Kind::Qp => self.qps.object(address),
            Kind::Context => self.devices.object(address),
            _ => Object::at(kind, address),
        }
    }

    /// An object that could not be destroyed.
    pub fn busy(
        &self,
        kind: Kind,
        address: usize,
        call: &'static str,
        outcome: Outcome,
    ) -> Option<Finding> {
        if !outcome.is(libc::EBUSY) {
            return None;
        }
        let dependents = dependents(self, kind, address);
        (!dependents.is_empty()).then(|| {
            let object = self.object(kind, address);
            Finding::new(Rule::Busy, object, call, outcome).with("users", list(dependents))
        })
    }

    /// Takes a region out, before it is deregistered. Returns it, and what is wrong if that succeeds.
    pub fn take_mr(&mut self, address: usize) -> (Option<Mr>, Vec<Finding>) {
        let Some(mr) = self.mrs.take(address) else {
            return (None, Vec::new());
        };
        let uses = |qp: &Qp, request: &SendRequest| {
            qp.context == mr.context
                && matches!(qp.state, IBV_QPS_RTS | IBV_QPS_SQD)
                && !request.inline
                && request.sges.iter().any(|sge| sge.lkey == mr.lkey)
        };
        let object = Object::at(Kind::Mr, address);
        let finding = Finding::new(Rule::MrInUse, object, "ibv_dereg_mr", Outcome::Succeeded);
        let finding = finding.with("region", key::region(&mr));
        (Some(mr), self.in_use(&finding, uses))
    }

    /// Finds the outstanding requests that use an address handle that is destroyed now.
    pub fn ah_in_use(&self, address: usize) -> Vec<Finding> {
        let object = Object::at(Kind::Ah, address);
        let finding = Finding::new(Rule::AhInUse, object, "ibv_destroy_ah", Outcome::Succeeded);
        self.in_use(&finding, |_, request| request.ah == address)
    }

    /// Completes a finding for each queue pair with outstanding requests to which `uses` applies.
    fn in_use(&self, finding: &Finding, uses: impl Fn(&Qp, &SendRequest) -> bool) -> Vec<Finding> {
        let of_qp = |qp: &Qp| {
            let mut using = qp.sends.iter().filter(|request| uses(qp, request));
            let count = using.clone().count();
            let first = using.next()?;
            let finding = finding.clone().with("count", count);
            let finding = finding.with("qpn", qp.object().label);
            Some(finding.with("wr_id", first.wr_id))
        };
        self.qps.values().filter_map(of_qp).collect()
    }
}

/// The objects that use another one, as messages name them.
fn dependents(of: &Shadow, kind: Kind, address: usize) -> Vec<String> {
    let uses = |qp: &&Qp| match kind {
        Kind::Pd => qp.pd == address,
        Kind::Cq => qp.send_cq == address || qp.recv_cq == address,
        Kind::Srq => qp.srq == address,
        _ => false,
    };
    let named = |qp: &Qp| {
        let object = qp.object();
        format!("QP {}{}", object.label, of.names.behind(&object))
    };
    let mut names: Vec<String> = of.qps.values().filter(uses).map(named).collect();
    match kind {
        Kind::Pd => names.extend(of_pd(of, address)),
        Kind::Channel => {
            let cqs = of.cqs.of_channel(address);
            names.extend(cqs.map(|(at, _)| shown(of, Kind::Cq, *at)));
        }
        Kind::Dm => names.extend(in_device_memory(of, address)),
        Kind::Mr => {
            let pd = of.mrs.get(address).map_or(0, |mr| mr.pd);
            let windows = of.mws.of_domain(pd).filter(|_| pd != 0);
            names.extend(windows.map(|at| format!("one of the windows: MW {at:#x}")));
        }
        _ => {}
    }
    names
}

/// The objects of a protection domain but its queue pairs, as messages name them.
fn of_pd(of: &Shadow, address: usize) -> Vec<String> {
    let mrs = of.mrs.of_domain(address).map(|(at, mr)| {
        let name = of.names.behind(&Object::at(Kind::Mr, at));
        format!("MR {} (lkey {:#x}){name}", key::region(mr), mr.lkey)
    });
    let srqs = of.srqs.iter().filter(|(_, srq)| srq.pd == address);
    let srqs = srqs.map(|(at, _)| (Kind::Srq, *at));
    let ahs = of.ahs.of_domain(address).map(|at| (Kind::Ah, at));
    let mws = of.mws.of_domain(address).map(|at| (Kind::Mw, at));
    let pds = of.pds.iter().filter(|(_, pd)| pd.parent == address);
    let pds = pds.map(|(at, _)| (Kind::Pd, *at));
    let others = srqs.chain(ahs).chain(mws).chain(pds);
    mrs.chain(others.map(|(kind, at)| shown(of, kind, at)))
        .collect()
}

/// The regions in an allocation of device memory, as messages name them.
fn in_device_memory(of: &Shadow, address: usize) -> impl Iterator<Item = String> {
    let mrs = of.device_memories.regions_of(address);
    mrs.filter_map(|at| {
        let lkey = of.mrs.get(at)?.lkey;
        let name = of.names.behind(&Object::at(Kind::Mr, at));
        Some(format!("MR {at:#x} (lkey {lkey:#x}){name}"))
    })
}

/// An object without a number as messages name it.
fn shown(of: &Shadow, kind: Kind, address: usize) -> String {
    let name = of.names.behind(&Object::at(kind, address));
    format!("{} {address:#x}{name}", kind.name())
}

#[cfg(test)]
mod tests;
