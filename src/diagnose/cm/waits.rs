//! A thread that waits for an event of rdma_cm, and none comes.

use std::time::Duration;

use super::super::finding::{Finding, Object, Outcome};
use super::super::rules::Rule;
use super::super::shadow::CmIds;
use crate::provider::software;

/// Why no event comes to a channel with these ids; None if that may be right.
/// `alone`: the thread is the only one of the program; another may be about to answer a request.
pub fn no_event(
    known: &CmIds,
    ids: &[(u32, &'static str)],
    seconds: u64,
    alone: bool,
) -> Option<Finding> {
    let unanswered = known
        .unanswered(Duration::from_secs(seconds))
        .filter(|_| alone);
    let unconfirmed = known
        .unconfirmed(Duration::from_secs(seconds))
        .filter(|_| alone)
        .map(|id| not_established(id, seconds));
    let joins = |(id, _): &(u32, &str)| known.is_joining(*id);
    let by_state = || of_states(ids, seconds).filter(|_| !ids.iter().any(joins));
    held_up(unanswered, software::unread_cm_event(), seconds)
        .or(unconfirmed)
        .or_else(by_state)
}

/// The program has made the queue pair of a connection itself, and has not said that it is ready.
fn not_established(id: u32, seconds: u64) -> Finding {
    let why = format!(
        "the program has read the event RDMA_CM_EVENT_CONNECT_RESPONSE of the id {id}, and has not called \
         rdma_establish: until then the peer gets no RDMA_CM_EVENT_ESTABLISHED"
    );
    let todo = "move the queue pair to RTR and RTS, and then call rdma_establish with the id; or let \
                rdma_create_qp make the queue pair, and librdmacm does both";
    let call = "rdma_get_cm_event";
    Finding::new(Rule::NoCmEvent, Object::cm_id(id), call, Outcome::Called)
        .with("seconds", seconds)
        .with("why", why)
        .with("todo", todo)
}

/// A thread waits for an event, and something else of the program holds the connection up: a request that it
/// has not answered, or an event that it has not read.
fn held_up(unanswered: Option<u32>, unread: Option<(u32, u32)>, seconds: u64) -> Option<Finding> {
    let finding = |id, why: String, todo| {
        let object = Object::cm_id(id);
        let rule = Rule::NoCmEvent;
        Finding::new(rule, object, "rdma_get_cm_event", Outcome::Called)
            .with("seconds", seconds)
            .with("why", why)
            .with("todo", todo)
    };
    if let Some(id) = unanswered {
        let why = format!(
            "the program has read the event RDMA_CM_EVENT_CONNECT_REQUEST with the id {id}, and has neither \
             accepted nor rejected it: the peer waits for that"
        );
        let todo =
            "create its queue pair, and call rdma_accept with the id of the event, or rdma_reject";
        return Some(finding(id, why, todo));
    }
    let (id, kind) = unread?;
    let why = format!(
        "the event {} of the id {id} waits on another event channel of this program, which nobody reads; \
         a connection is established only when both sides read their events",
        event_name(kind)
    );
    let todo = "read the events of each channel with rdma_get_cm_event, in turn or in threads of their own";
    Some(finding(id, why, todo))
}

fn event_name(kind: u32) -> &'static str {
    const NAMES: [&str; 10] = [
        "RDMA_CM_EVENT_ADDR_RESOLVED",
        "RDMA_CM_EVENT_ADDR_ERROR",
        "RDMA_CM_EVENT_ROUTE_RESOLVED",
        "RDMA_CM_EVENT_ROUTE_ERROR",
        "RDMA_CM_EVENT_CONNECT_REQUEST",
        "RDMA_CM_EVENT_CONNECT_RESPONSE",
        "RDMA_CM_EVENT_CONNECT_ERROR",
        "RDMA_CM_EVENT_UNREACHABLE",
        "RDMA_CM_EVENT_REJECTED",
        "RDMA_CM_EVENT_ESTABLISHED",
    ];
    NAMES
        .get(kind as usize)
        .copied()
        .unwrap_or("RDMA_CM_EVENT_DISCONNECTED or later")
}

/// The same by the states of the ids.
pub(super) fn of_states(ids: &[(u32, &'static str)], seconds: u64) -> Option<Finding> {
    let unfinished = |state: &str| match state {
        "new" | "bound" => {
            Some("call rdma_resolve_addr to connect, or rdma_listen to wait for peers")
        }
        "address resolved" => Some("call rdma_resolve_route"),
        "route resolved" => Some("create the queue pair, and call rdma_connect"),
        _ => None,
    };
    let (id, state, todo) = match ids {
        [] => (None, "", "create an id with this channel (rdma_create_id)"),
        _ => {
            let steps: Option<Vec<_>> = ids
                .iter()
                .map(|(id, state)| Some((Some(*id), *state, unfinished(state)?)))
                .collect();
            *steps?.first()?
        }
    };
    let why = match id {
        Some(id) => {
            format!("the id {id} is {state}, and no call is under way that ends with an event")
        }
        None => "no id belongs to this event channel".into(),
    };
    let object = id.map_or_else(Object::process, Object::cm_id);
    Some(
        Finding::new(
            Rule::NoCmEvent,
            object,
            "rdma_get_cm_event",
            Outcome::Called,
        )
        .with("seconds", seconds)
        .with("why", why)
        .with("todo", todo),
    )
}
