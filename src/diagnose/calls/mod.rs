//! The wrappers. Each calls the provider's function with the arguments that it got, returns the result, and
//! preserves errno; what it observes are copies.
//!
//! Safety, for all functions here: they have the requirements of the op that they wrap, which the program's
//! call meets. The objects are alive, and their context is open and wrapped, because only wrapped contexts
//! have these functions.

use ibverbs_abi::*;

use super::finding::Finding;
use super::peer;
use super::preserving_errno;
use super::shadow::{self, Completion, Shadow};

mod argument;
mod arguments;
mod attributes;
mod build;
mod data;
mod device_memory;
mod failed;
mod forgetting;
mod memory;
mod poll_ex;
mod qp;
mod queues;
mod requests;
mod show;
mod unrecorded;
mod unsupported;

pub use failed::{query_failed, reporting};
pub use forgetting::{forgetting, is_wrapper};

/// The provider's ops with wrappers in place of those that are observed.
pub fn wrapped(original: &verbs_context_ops) -> verbs_context_ops {
    verbs_context_ops {
        alloc_dm: device_memory::alloc_dm,
        alloc_mw: memory::alloc_mw,
        alloc_parent_domain: memory::alloc_parent_domain,
        alloc_pd: memory::alloc_pd,
        async_event: queues::async_event,
        attach_mcast: qp::attach_mcast,
        cq_event: queues::cq_event,
        create_ah: memory::create_ah,
        create_cq: queues::create_cq,
        create_cq_ex: queues::create_cq_ex,
        create_qp: qp::create_qp,
        create_qp_ex: qp::create_qp_ex,
        create_srq: queues::create_srq,
        create_srq_ex: queues::create_srq_ex,
        dealloc_mw: memory::dealloc_mw,
        dealloc_pd: memory::dealloc_pd,
        dereg_mr: memory::dereg_mr,
        destroy_ah: memory::destroy_ah,
        destroy_cq: queues::destroy_cq,
        destroy_qp: qp::destroy_qp,
        destroy_srq: queues::destroy_srq,
        detach_mcast: qp::detach_mcast,
        free_context: queues::free_context,
        free_dm: device_memory::free_dm,
        import_dm: unrecorded::import_dm,
        import_mr: unrecorded::import_mr,
        import_pd: unrecorded::import_pd,
        modify_cq: queues::modify_cq,
        modify_qp: qp::modify_qp,
        modify_srq: queues::modify_srq,
        open_qp: unrecorded::open_qp,
        poll_cq: data::poll_cq,
        post_recv: data::post_recv,
        post_send: data::post_send,
        post_srq_recv: data::post_srq_recv,
        reg_dm_mr: device_memory::reg_dm_mr,
        reg_dmabuf_mr: memory::reg_dmabuf_mr,
        reg_mr: memory::reg_mr,
        reg_mr_ex: memory::reg_mr_ex,
        req_notify_cq: queues::req_notify_cq,
        rereg_mr: memory::rereg_mr,
        resize_cq: queues::resize_cq,
        ..*original
    }
}

/// Before a fork, in the parent.
pub fn before_fork() {
    build::BUILD_OPS.before_fork();
    poll_ex::POLL_OPS.before_fork();
}

/// After a fork, in the parent and in the child.
pub fn after_fork() {
    poll_ex::POLL_OPS.after_fork();
    build::BUILD_OPS.after_fork();
}

/// Observes something; errno stays.
fn observe<F: IntoIterator<Item = Finding>>(work: impl FnOnce(&mut Shadow) -> F) {
    preserving_errno(|| shadow::observe(work));
}

/// Changes or reads the state; errno stays. None in a signal handler that interrupted this thread in here.
fn with<R>(work: impl FnOnce(&mut Shadow) -> R) -> Option<R> {
    preserving_errno(|| shadow::with(work))
}

/// Finds out about the peers of completions with errors.
fn look_up(cq: usize, completions: &[Completion]) {
    if completions.iter().all(|of| of.status == IBV_WC_SUCCESS) {
        return;
    }
    let flushed = with(|shadow| shadow.flushed_by_unknown(cq, completions));
    for address in flushed.unwrap_or_default() {
        qp::report_unread(address, "ibv_poll_cq");
    }
    let found = with(|shadow| shadow.to_look_up(cq, completions)).unwrap_or_default();
    for (address, rkey, misplaced) in found {
        let evidence = preserving_errno(|| {
            let mut evidence = peer::look(address, rkey, misplaced);
            peer::look_for_naming(address, &mut evidence);
            evidence
        });
        with(|shadow| shadow.qps.change(address, |qp| qp.evidence = evidence));
    }
}

/// A poll has found nothing: says why, if that has been so for long.
fn polled_empty(cq: usize, call: &'static str) {
    let overdue = with(|shadow| shadow.overdue(cq)).flatten();
    if let Some(addresses) = overdue {
        empty_for_long(cq, &addresses, call);
    }
}

/// A CQ has been empty for too long: says why. `addresses`: of the queue pairs that are to be examined.
#[cold]
fn empty_for_long(cq: usize, addresses: &[usize], call: &'static str) {
    preserving_errno(|| peer::examine(addresses));
    observe(|shadow| shadow.polled_too_long(cq, call, peer::unread));
}

/// Reports a child of fork that calls `verb` on an object of its parent.
fn check_process(context: *mut ibv_context, verb: &'static str) {
    observe(|shadow| shadow.devices.check_process(context as usize, verb));
}
