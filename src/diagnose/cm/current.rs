//! The call of librdmacm that a thread makes.
//!
//! Safety, for all functions here: as for those of `calls.rs`.

use core::cell::Cell;

use ibverbs_abi::CmCall;

use super::super::finding::{Finding, Kind, Object, Outcome};
use super::super::rules::Rule;
use super::super::{report, shadow};
use super::layout::Id;

thread_local! {
    /// [`report::count`] when the call began that this thread makes.
    static COUNT: Cell<u32> = const { Cell::new(0) };
    /// The id that this call gets (`takes_id`), or 0.
    static CURRENT: Cell<usize> = const { Cell::new(0) };
    /// The function's name; empty outside of a call.
    static NAME: Cell<&'static str> = const { Cell::new("") };
}

/// A call begins.
pub fn begin(call: &CmCall) {
    COUNT.set(report::count());
    NAME.set(call.name);
    CURRENT.set(match takes_id(call.name) {
        true => call.arguments[0],
        false => 0,
    });
}

/// The call is over.
pub fn end() {
    NAME.set("");
    CURRENT.set(0);
}

/// Whether something was reported since the call began.
pub fn has_findings() -> bool {
    report::count() != COUNT.get()
}

/// An event was read: if that was not by the program, its id is synchronous.
pub fn event_read() {
    // SAFETY: the id is the program's, for a call that has not returned.
    if let Some(id) = unsafe { (CURRENT.get() as *const Id).as_ref() } {
        let channel = id.channel as u64;
        shadow::with(|shadow| shadow.cm_ids.add_synchronous(channel));
    }
}

/// Whether this thread is in a call of librdmacm that gets an id.
pub fn is_inside() -> bool {
    CURRENT.get() != 0
}

/// Whether something was reported of the call of librdmacm that this thread makes.
pub fn is_explained() -> bool {
    CURRENT.get() != 0 && has_findings()
}

/// The call of librdmacm that this thread makes, and the address of its id, or 0.
pub fn current() -> Option<(&'static str, usize)> {
    let name = NAME.get();
    (!name.is_empty()).then(|| (name, CURRENT.get()))
}

/// Whether the first argument of a function is an id.
pub fn takes_id(name: &str) -> bool {
    let others = [
        "rdma_get_cm_event",
        "rdma_create_id",
        "rdma_create_ep",
        "rdma_destroy_event_channel",
    ];
    !others.contains(&name)
}

pub fn object(call: &CmCall) -> Object {
    let uid = call.arguments[0];
    let number = shadow::with(|shadow| shadow.cm_ids.number(uid as u64)).flatten();
    match (call.name, number) {
        (name, _) if !takes_id(name) => Object::process(),
        (_, Some(number)) => Object::cm_id(number),
        _ => Object::at(Kind::CmId, uid),
    }
}

/// A finding about a call that is about to be made.
pub fn finding(call: &CmCall, rule: Rule) -> Finding {
    Finding::new(rule, object(call), call.name, Outcome::Called)
}
