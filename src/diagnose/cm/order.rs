//! librdmacm: what is destroyed too early, or by another call than the one that is for it.
//!
//! Safety, for all functions here: the arguments are the program's for the function that is named. An id of
//! [`CmIds`](crate::diagnose::shadow::CmIds) is readable: librdmacm frees it after the command that takes it
//! out there.

use ibverbs_abi::CmCall;

use super::super::finding::{Finding, Kind, Object, Outcome};
use super::super::rules::Rule;
use super::super::shadow::{self, Shadow};
use super::current::{finding, is_inside, takes_id};
use super::layout::Id;

/// rdma_create_qp has made a queue pair, and CQs if the program has named none.
pub fn created(id: &Id, address: usize) {
    let made = [id.qp as usize, id.send_cq as usize, id.recv_cq as usize];
    shadow::with(|shadow| {
        let made = made.into_iter().filter(|at| *at != 0);
        let objects = &mut shadow.cm_ids.made.objects;
        objects.extend(made.map(|at| (at, address)));
    });
}

/// ibv_destroy_qp or ibv_destroy_cq was called, by the program or by librdmacm.
pub fn destroying(
    shadow: &mut Shadow,
    kind: Kind,
    address: usize,
    call: &'static str,
) -> Vec<Finding> {
    let id = shadow.cm_ids.made.objects.remove(&address);
    if id.is_none() || is_inside() {
        return Vec::new();
    }
    let object = shadow.object(kind, address);
    let (why, todo) = match kind {
        Kind::Qp => (
            "id->qp still points to it, so that rdma_destroy_qp, rdma_destroy_ep and rdma_disconnect use it \
             after it was freed",
            "call rdma_destroy_qp with the id instead, or set id->qp to NULL afterwards",
        ),
        _ => (
            "id->send_cq or id->recv_cq still points to it, so that rdma_destroy_qp and rdma_destroy_ep use \
             it after it was freed",
            "call rdma_destroy_qp with the id, which destroys the CQs, too",
        ),
    };
    let what = "rdma_create_qp has made it for an rdma_cm_id that exists still";
    let found = Finding::new(Rule::CmQp, object, call, Outcome::Called);
    vec![found.with_texts(what, why, todo)]
}

/// A call of librdmacm that uses an id which is gone, or that destroys something too early.
///
/// # Safety
/// See the module above; an id that is not gone is readable.
pub unsafe fn wrong(call: &CmCall) -> Option<Finding> {
    let first = call.arguments[0];
    if first == 0 {
        return None;
    }
    if takes_id(call.name) && shadow::with(|shadow| shadow.cm_ids.made.is_gone(first))? {
        let found = finding(call, Rule::DeadObject);
        return Some(found.with_object("id", Kind::CmId, first));
    }
    let (rule, (what, why, todo)) = match call.name {
        "rdma_destroy_id" => {
            shadow::with(|shadow| shadow.cm_ids.made.leaves(first));
            // SAFETY: the id is the program's, and exists.
            (Rule::CmQp, unsafe { with_qp(&*(first as *const Id)) }?)
        }
        "rdma_destroy_event_channel" => (Rule::CmOrder, with_ids(first)?),
        _ => return None,
    };
    Some(finding(call, rule).with_texts(what, why, todo))
}

type Reason = (String, &'static str, &'static str);

/// An id that is destroyed before its queue pair.
fn with_qp(id: &Id) -> Option<Reason> {
    let number = shadow::with(|shadow| Some(shadow.qps.get(&(id.qp as usize))?.number))??;
    Some((
        format!("the id is destroyed, and its queue pair {number:#x} exists still"),
        "rdma_destroy_id destroys no queue pair: it stays, with the CQs that rdma_create_qp has made and the \
         PD that it uses, until the program destroys each of them itself",
        "call rdma_destroy_qp before rdma_destroy_id, or rdma_destroy_ep, which does both",
    ))
}

/// An event channel that is destroyed before its ids.
fn with_ids(channel: usize) -> Option<Reason> {
    let ids = shadow::with(|shadow| {
        let all = shadow.cm_ids.all();
        // SAFETY: the id exists (see the module above).
        let of = all.filter(|(_, uid)| unsafe { (*(*uid as *const Id)).channel } == channel);
        let names: Vec<String> = of
            .map(|(number, _)| Object::cm_id(number).label.to_string())
            .collect();
        names
    })?;
    let count = ids.len();
    (count > 0).then(|| {
        (
            format!("the event channel is destroyed, and {count} ids have it: {}", ids.join(", ")),
            "librdmacm reaches the ids by its descriptor, which is closed: each later call with one of them, \
             also rdma_destroy_id, fails, or reaches the file that has the descriptor's number then",
            "call rdma_destroy_id for each id of the channel before rdma_destroy_event_channel",
        )
    })
}
