//! librdmacm on software devices: its functions come to the library as commands to the file of rdma_cm. Those
//! that fail, and events that report an error, are explained.
//!
//! | file | responsible for |
//! |---|---|
//! | `calls.rs`, `current.rs` | calls of its functions; the one that a thread makes now |
//! | `layout.rs` | the structures of librdmacm that these read |
//! | `order.rs` | what is destroyed too early, or by the wrong call |
//! | `events.rs` | what events that report an error mean |
//! | `waits.rs` | why no event comes to a thread that waits for one |
//!
//! Not here: the ids, and what librdmacm has made for them (`shadow/cm_ids.rs`).

mod calls;
pub mod current;
mod events;
pub mod layout;
pub mod order;
pub mod waits;

use std::time::Instant;

use ibverbs_abi::{CmFailure, CmNotice, Errno};

use super::finding::{Finding, Object, Outcome};
use super::rules::Rule;
use super::{crash_notes, facts, shadow};
use crate::provider::software;

/// Begins to observe.
pub fn initialize() {
    software::set_cm_hook(notice);
}

/// Whether the program has librdmacm, and may use it on a software device.
pub fn is_used() -> bool {
    // SAFETY: the name is NUL-terminated.
    let used = unsafe { !libc::dlsym(libc::RTLD_DEFAULT, c"rdma_create_id".as_ptr()).is_null() };
    used && software::is_requested()
}

const MIGRATE: &str = "rdma_migrate_id";
/// RDMA_CM_EVENT_ADDR_RESOLVED.
const ADDR_RESOLVED: u32 = 0;
/// RDMA_CM_EVENT_CONNECT_REQUEST.
const CONNECT_REQUEST: u32 = 4;
/// RDMA_CM_EVENT_CONNECT_RESPONSE. librdmacm confirms it itself if it has made the queue pair.
const CONNECT_RESPONSE: u32 = 5;
/// RDMA_CM_EVENT_CONNECT_ERROR, RDMA_CM_EVENT_UNREACHABLE, RDMA_CM_EVENT_REJECTED.
const REFUSED: [u32; 3] = [6, 7, 8];

fn notice(notice: &CmNotice) {
    let kept = Errno::last();
    let found = match notice {
        // The same call, if its arguments are wrong.
        CmNotice::Failed(_) if current::is_explained() => None,
        CmNotice::Failed(failure) => Some(failed(failure)),
        CmNotice::Calling(call) => {
            if call.name == MIGRATE {
                let (uid, thread) = (call.arguments[0] as u64, facts::thread());
                shadow::with(|shadow| shadow.cm_ids.migrating(uid, thread, call.name));
            }
            calls::calling(call);
            None
        }
        CmNotice::Returned { call, failed } => {
            let thread = facts::thread();
            shadow::with(|shadow| shadow.cm_ids.returned(thread));
            kept.set();
            match failed {
                true => calls::failed(call),
                false => calls::succeeded(call),
            }
            None
        }
        CmNotice::Event { event, status, id } => {
            current::event_read();
            if [ADDR_RESOLVED, CONNECT_REQUEST].contains(event) {
                crash_notes::last_id(false);
            }
            if *event == CONNECT_REQUEST {
                let now = Instant::now();
                shadow::with(|shadow| shadow.cm_ids.requests.insert(*id, now));
            }
            if *event == CONNECT_RESPONSE {
                let now = Instant::now();
                shadow::with(|shadow| shadow.cm_ids.replies.insert(*id, now));
            }
            if REFUSED.contains(event) {
                shadow::with(|shadow| shadow.cm_ids.refused.insert(*id));
            }
            of_event(*event, *status, *id)
        }
        CmNotice::Rejected { id } => {
            shadow::with(|shadow| shadow.cm_ids.requests.remove(id));
            None
        }
        CmNotice::Confirmed { id } => {
            shadow::with(|shadow| shadow.cm_ids.replies.remove(id));
            None
        }
        CmNotice::Known { id, uid } => {
            // The id of a request, which its accept makes known, is bound.
            crash_notes::last_id(!current::is_inside());
            shadow::with(|shadow| shadow.cm_ids.known(*id, *uid));
            None
        }
        CmNotice::Destroyed { id, events } => {
            let (thread, is_observed) = (facts::thread(), current::is_inside());
            shadow::with(|shadow| shadow.cm_ids.destroyed(*id, *events, thread, is_observed));
            None
        }
    };
    if let Some(found) = found {
        shadow::observe(|_| vec![found]);
    }
    kept.set();
}

/// The bytes of private data that a message has room for.
fn private_room(call: &str, is_datagram: bool) -> Option<u8> {
    Some(match (call, is_datagram) {
        ("rdma_connect", false) => 56,
        ("rdma_accept", false) => 196,
        ("rdma_reject", false) => 148,
        ("rdma_connect", true) => 180,
        ("rdma_accept" | "rdma_reject", true) => 136,
        _ => return None,
    })
}

/// The states in which an id can be used for a call.
fn needed(call: &str) -> Option<(&'static [&'static str], &'static str)> {
    Some(match call {
        "rdma_bind_addr" => (
            &["new"],
            "it is the first call with an id, and binds it once",
        ),
        "rdma_resolve_addr" => (
            &["new", "bound"],
            "it follows rdma_create_id or rdma_bind_addr, and is called once",
        ),
        "rdma_resolve_route" => (
            &["address resolved"],
            "it follows the event RDMA_CM_EVENT_ADDR_RESOLVED of rdma_resolve_addr",
        ),
        "rdma_connect" => (
            &["route resolved"],
            "it follows the event RDMA_CM_EVENT_ROUTE_RESOLVED of rdma_resolve_route",
        ),
        "rdma_listen" => (
            &["new", "bound"],
            "it follows rdma_bind_addr; an id of rdma_create_ep listens if the hints of rdma_getaddrinfo had \
             RAI_PASSIVE",
        ),
        "rdma_join_multicast" => (
            &["bound", "address resolved"],
            "it follows the event RDMA_CM_EVENT_ADDR_RESOLVED, without rdma_resolve_route",
        ),
        "rdma_accept" | "rdma_reject" => (
            &["connected or connecting"],
            "it takes the id of an event RDMA_CM_EVENT_CONNECT_REQUEST, and not the listening one",
        ),
        "rdma_disconnect" => (
            &["connected or connecting"],
            "only a connection can be ended",
        ),
        _ => return None,
    })
}

fn failed(failure: &CmFailure) -> Finding {
    let errno = Errno(failure.errno);
    let finding = Finding::new(
        Rule::CmFailed,
        Object::cm_id(failure.id),
        failure.call,
        Outcome::Failed(errno),
    );
    let was_refused = shadow::with(|shadow| shadow.cm_ids.refused.contains(&failure.id));
    let (state, why, todo) = match (failure.call, was_refused) {
        ("rdma_connect", Some(true)) => (
            "refused, as an event has reported".into(),
            "an id connects once: after RDMA_CM_EVENT_REJECTED, RDMA_CM_EVENT_UNREACHABLE or \
             RDMA_CM_EVENT_CONNECT_ERROR it makes no other connection"
                .into(),
            "destroy its queue pair and the id, and begin with rdma_create_id",
        ),
        _ => reason(failure),
    };
    finding
        .with("state", state)
        .with("why", why)
        .with("todo", todo)
}

/// The state of the id, why the call fails, and what to do.
fn reason(failure: &CmFailure) -> (String, String, &'static str) {
    const ORDER: &str = "follow the order: rdma_create_id, rdma_resolve_addr, rdma_resolve_route, \
    rdma_create_qp, rdma_connect; \
         or rdma_bind_addr, rdma_listen, and rdma_create_qp and rdma_accept with the id of the event; after \
         each call that resolves or connects, wait for its event";
    if failure.state.is_none() && failure.errno == libc::EACCES {
        let (why, todo) = calls::FORKED;
        return ("of another process".into(), why.into(), todo);
    }
    let Some(state) = failure.state else {
        let why = "there is no such id: it was destroyed, or never created".into();
        return (
            "unknown".into(),
            why,
            "use an id between rdma_create_id and rdma_destroy_id",
        );
    };
    let state_text = state.to_string();
    let wrong = needed(failure.call).filter(|(states, _)| !states.contains(&state));
    if let Some((_, why)) = wrong.filter(|_| failure.errno == libc::EINVAL) {
        return (state_text, why.into(), ORDER);
    }
    let room = private_room(failure.call, failure.is_datagram);
    let lengths = failure.private_data_len.zip(room);
    if let Some((length, room)) = lengths.filter(|(length, room)| length > room) {
        let why =
            format!("private_data_len is {length}, and the message has room for {room} bytes");
        let todo = "pass less private data, and exchange the rest when the connection is there";
        return (state_text, why, todo);
    }
    let (why, todo) = match failure.errno {
        libc::EADDRINUSE => (
            "another id or program has the port",
            "end the other program, bind another port, or set RDMA_OPTION_ID_REUSEADDR",
        ),
        libc::EADDRNOTAVAIL => (
            "no RDMA device has this address, or another id or program has the port",
            "bind an address of an interface with an RDMA device (`ibv_devinfo -v`, `rdma link`) or \
             the wildcard \
             address, and a port that is free",
        ),
        libc::EACCES => (
            "a port number below 1024 is for privileged programs (CAP_NET_BIND_SERVICE)",
            "bind a port from 1024 on, or give the program the capability",
        ),
        libc::ENODEV => (
            "the id is bound to no device, or no RDMA device has the address or the route to it",
            "check the address, and `ip route get` for it; bind the id or resolve an address first",
        ),
        libc::ENETUNREACH | libc::EHOSTUNREACH => (
            "there is no route to the destination through an interface with an RDMA device",
            "check `ip route get` for the destination, and which devices IBV_UROCE names",
        ),
        libc::EINVAL => (
            "an argument is invalid: the family of the address, the port space, or a member of \
             rdma_conn_param",
            "set the whole rdma_conn_param to zero at first, and compare it with rdma_connect(3)",
        ),
        _ => (
            "the connection manager refused it",
            "see the manual page of the call, and the events of the id",
        ),
    };
    (state_text, why.into(), todo)
}

/// Events that report an error.
fn of_event(event: u32, status: i32, id: u32) -> Option<Finding> {
    let (name, why, todo) = events::meaning(event, status)?;
    let alike = match events::is_nobody(event, status) {
        true => software::listener_alike(id),
        false => None,
    };
    let seen = alike.map(events::listens_alike);
    let (why, todo) = seen.unwrap_or((why.into(), todo));
    Some(
        Finding::new(
            Rule::CmEvent,
            Object::cm_id(id),
            "rdma_get_cm_event",
            Outcome::Succeeded,
        )
        .with("event", name)
        .with("status", status)
        .with("why", why)
        .with("todo", todo),
    )
}

#[cfg(test)]
mod tests {
    use super::waits::of_states;
    use super::*;
    use crate::diagnose::finding::is_complete;

    fn line(call: &'static str, errno: i32, state: Option<&'static str>, length: u8) -> String {
        let found = failed(&CmFailure {
            call,
            errno,
            id: 3,
            state,
            private_data_len: Some(length),
            is_datagram: false,
        });
        assert!(is_complete(&found));
        found.line()
    }

    #[test]
    fn calls() {
        let early = line("rdma_connect", libc::EINVAL, Some("address resolved"), 0);
        assert!(early.contains("ROUTE_RESOLVED"), "{early}");
        let long = line("rdma_connect", libc::EINVAL, Some("route resolved"), 57);
        assert!(long.contains("private_data_len is 57"), "{long}");
        let inherited = line("rdma_listen", libc::EACCES, None, 0);
        assert!(inherited.contains("forked later"), "{inherited}");
        let low = line("rdma_bind_addr", libc::EACCES, Some("new"), 0);
        assert!(low.contains("below 1024"), "{low}");
        let gone = line("rdma_listen", libc::ENOENT, None, 0);
        assert!(gone.contains("there is no such id"), "{gone}");
        let used = line("rdma_bind_addr", libc::EADDRINUSE, Some("new"), 0);
        assert!(used.contains("has the port"), "{used}");
    }

    #[test]
    fn events() {
        assert!(of_event(8, 28, 1).is_some());
        assert!(of_event(0, 0, 1).is_none());
        let found = of_event(8, 8, 1).unwrap();
        assert!(is_complete(&found) && found.line().contains("nobody listens"));
        assert!(of_states(&[(1, "listening"), (2, "bound")], 5).is_none());
        let found = of_states(&[(1, "route resolved")], 5).unwrap();
        assert!(is_complete(&found) && found.line().contains("rdma_connect"));
        assert!(of_states(&[], 5).is_some());
    }
}
