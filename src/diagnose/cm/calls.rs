//! Calls of librdmacm's functions by the program: what is wrong with them before they are made, and those
//! that fail without a command to the kernel or to uroce.
//!
//! Safety, for all functions here: the arguments are the program's for the function that is named, whose
//! requirements they meet: a pointer is NULL or readable as librdmacm will read it.

use ibverbs_abi::*;

use super::super::crash_notes;
use super::super::finding::{Finding, Outcome};
use super::super::rules::Rule;
use super::super::shadow;
use super::current::{self, finding, object, takes_id};
use super::layout::{Id, Param, RDMA_PS_IPOIB, RDMA_PS_UDP};
use super::order;

/// An explanation: what is wrong, why, and what to do.
type Wrong = (String, &'static str, String);

/// A call is about to be made.
pub fn calling(call: &CmCall) {
    current::begin(call);
    // SAFETY: the arguments are the program's for this function; an id that is gone is not read.
    let found = unsafe {
        order::wrong(call).or_else(|| {
            let (what, why, todo) = wrong(call)?;
            Some(finding(call, Rule::Argument).with_texts(what, why, todo))
        })
    };
    if let Some(found) = found {
        shadow::observe(|_| vec![found]);
    }
    // SAFETY: the same.
    unsafe { leave_channel(call) };
}

/// Calls after which the id has not the channel that it had.
///
/// # Safety
/// See the module above.
unsafe fn leave_channel(call: &CmCall) {
    let leaves = ["rdma_destroy_id", "rdma_destroy_ep", super::MIGRATE];
    let uid = call.arguments[0];
    if !leaves.contains(&call.name) {
        return;
    }
    shadow::with(|shadow| {
        if uid == 0 || shadow.cm_ids.made.is_gone(uid) {
            return;
        }
        // SAFETY: the id is the program's, and exists.
        let channel = unsafe { (*(uid as *const Id)).channel };
        shadow.cm_ids.forget_synchronous(channel as u64);
    });
}

/// The reason for EACCES of commands, and what to do.
pub const FORKED: (&str, &str) = (
    "another process created the event channel: this one was forked later, or has changed its user since",
    "create the event channel and its ids in the process that uses them, after fork",
);

/// A call has failed.
pub fn failed(call: &CmCall) {
    current::end();
    let errno = Errno::last();
    let is_probe = matches!(
        errno.0,
        libc::EAGAIN | libc::EINTR | libc::EOPNOTSUPP | libc::ENOSYS
    );
    if is_probe || current::has_findings() {
        return;
    }
    let id = match takes_id(call.name) {
        // SAFETY: the id is the program's, and a call that fails has not destroyed it.
        true => unsafe { (call.arguments[0] as *const Id).as_ref() },
        false => None,
    };
    let state = id.map_or("there is none yet".into(), describe);
    let (why, todo) = match errno.0 {
        libc::EACCES if call.name != "rdma_bind_addr" => FORKED,
        libc::EADDRNOTAVAIL if call.name == "rdma_leave_multicast" => (
            "the id has not joined a group of this address, or joining it has failed",
            "leave a group once, after the event RDMA_CM_EVENT_MULTICAST_JOIN",
        ),
        libc::EINVAL => (
            "librdmacm refuses the arguments, or the id is not in the state for this call",
            "compare the arguments with the manual page, and the order of calls with rdma_cm(7)",
        ),
        libc::EBADF => (
            "the event channel of the id is closed",
            "call rdma_destroy_event_channel, or close its descriptor, only after rdma_destroy_id of all ids",
        ),
        libc::ENODEV => (
            "no RDMA device has the address, or the id has no device",
            "check the address (`rdma link`, `ibv_devinfo`), and resolve or bind the id first",
        ),
        libc::ENOMEM => (
            "there is no memory, or a limit of the device is exceeded",
            "compare the sizes with what ibv_query_device reports",
        ),
        _ => (
            "librdmacm has refused it, or the kernel's rdma_cm",
            "see the manual page of the call",
        ),
    };
    let found = Finding::new(
        Rule::CmFailed,
        object(call),
        call.name,
        Outcome::Failed(errno),
    )
    .with("state", state)
    .with("why", why)
    .with("todo", todo);
    shadow::observe(|_| vec![found]);
}

/// An id by its members.
fn describe(id: &Id) -> String {
    let space = match id.space {
        RDMA_PS_IPOIB => "RDMA_PS_IPOIB".into(),
        RDMA_PS_UDP => "RDMA_PS_UDP".into(),
        0x0106 => "RDMA_PS_TCP".into(),
        0x013f => "RDMA_PS_IB".into(),
        other => format!("{other:#x}"),
    };
    let has = |what: bool, text: &'static str| if what { text } else { "none" };
    format!(
        "port space {space}, device {}, queue pair {}",
        has(!id.verbs.is_null(), "bound"),
        has(!id.qp.is_null(), "created")
    )
}

/// # Safety
/// See the module above.
unsafe fn wrong(call: &CmCall) -> Option<Wrong> {
    let [first, second, third, _] = call.arguments;
    if first == 0 {
        let (member, creates) = match call.name {
            "rdma_get_cm_event" | "rdma_destroy_event_channel" => {
                ("channel", "rdma_create_event_channel")
            }
            "rdma_create_id" | "rdma_create_ep" => return None,
            _ => ("id", "rdma_create_id"),
        };
        return Some((
            format!("{member} is NULL"),
            "the call reads it: it was never set, or the call that creates it has failed before",
            format!("check what {creates} returned"),
        ));
    }
    // SAFETY: the id is the program's, and not NULL.
    let id = || unsafe { &*(first as *const Id) };
    // SAFETY: the structures are the program's, if they are not NULL.
    unsafe {
        match call.name {
            "rdma_create_qp" => {
                let attr = (third as *const ibv_qp_init_attr).as_ref()?;
                create_qp(id(), second as *const ibv_pd, attr)
            }
            "rdma_create_qp_ex" => {
                let attr = (second as *const ibv_qp_init_attr_ex).as_ref()?;
                let pd = match attr.comp_mask & IBV_QP_INIT_ATTR_PD {
                    0 => core::ptr::null(),
                    _ => attr.pd,
                };
                create_qp(id(), pd, &*(second as *const ibv_qp_init_attr))
            }
            "rdma_connect" | "rdma_accept" => {
                let param = (second as *const Param).as_ref();
                let is_accept = call.name == "rdma_accept";
                let wrong = is_accept.then(|| without_peer(id())).flatten();
                wrong
                    .or_else(|| connected(id()))
                    .or_else(|| private_data(param?))
            }
            "rdma_destroy_qp" => without_qp(id()),
            "rdma_resolve_route" => unresolved(id()),
            "rdma_get_cm_event" => synchronous(first),
            "rdma_join_multicast" => join(id()),
            "rdma_get_request" => get_request(id()),
            _ => None,
        }
    }
}

/// librdmacm passes id->qp to ibv_destroy_qp.
fn without_qp(id: &Id) -> Option<Wrong> {
    id.qp.is_null().then(|| {
        (
            "the id has no queue pair".into(),
            "rdma_create_qp was not called for it, or has failed, or its queue pair was destroyed before",
            "call rdma_destroy_qp once for each rdma_create_qp that has succeeded".into(),
        )
    })
}

/// librdmacm reads the device of the id, which is NULL before its address is resolved.
fn unresolved(id: &Id) -> Option<Wrong> {
    id.verbs.is_null().then(|| {
        (
            "the id has no device yet".into(),
            "an id gets its device when its address is resolved: rdma_resolve_addr only begins that",
            "wait for the event RDMA_CM_EVENT_ADDR_RESOLVED with rdma_get_cm_event, and acknowledge it, \
             before rdma_resolve_route"
                .into(),
        )
    })
}

/// # Safety
/// The domain and the CQs of `attr` are NULL or alive.
unsafe fn create_qp(id: &Id, pd: *const ibv_pd, attr: &ibv_qp_init_attr) -> Option<Wrong> {
    if id.verbs.is_null() {
        return Some((
            "the id has no device yet".into(),
            "an id gets its device when its address is resolved, or with a request for a connection; a \
             listening one may have none",
            "create the queue pair after the event RDMA_CM_EVENT_ADDR_RESOLVED; a server passes the id of \
             RDMA_CM_EVENT_CONNECT_REQUEST, and not the listening one"
                .into(),
        ));
    }
    if !id.qp.is_null() {
        return Some((
            "the id has a queue pair already".into(),
            "an id has one queue pair",
            "call rdma_destroy_qp before, or create another id".into(),
        ));
    }
    // SAFETY: the objects are NULL or alive, as the caller promises.
    let others = unsafe {
        [
            ("pd", pd.as_ref().map(|pd| pd.context)),
            ("send_cq", attr.send_cq.as_ref().map(|cq| cq.context)),
            ("recv_cq", attr.recv_cq.as_ref().map(|cq| cq.context)),
        ]
    };
    let other = others
        .into_iter()
        .find(|(_, context)| context.is_some_and(|context| context != id.verbs));
    if let Some((member, context)) = other {
        let context = context.unwrap_or(core::ptr::null_mut());
        return Some((
            format!(
                "{member} belongs to the device context {context:p}, and the id to {:p} (id->verbs)",
                id.verbs
            ),
            "librdmacm opens the device itself: a context of the program's own ibv_open_device is another \
             one, whose objects do not fit",
            "create PD, CQs and regions with id->verbs, after the address is resolved".into(),
        ));
    }
    let is_datagram = matches!(id.space, RDMA_PS_UDP | RDMA_PS_IPOIB);
    let asks_datagram = attr.qp_type == IBV_QPT_UD;
    (is_datagram != asks_datagram && id.space != 0x013f).then(|| {
        let (space, fits) = match is_datagram {
            true => ("RDMA_PS_UDP or RDMA_PS_IPOIB", "IBV_QPT_UD"),
            false => ("RDMA_PS_TCP", "IBV_QPT_RC"),
        };
        (
            format!("qp_type does not fit the port space of the id, {space}"),
            "the port space says whether an id is for connections or for datagrams",
            format!("set qp_type to {fits}, or create the id in the other port space"),
        )
    })
}

/// Whether a connection is to be made without a queue pair.
fn lacks_qp(id: &Id, param: Option<&Param>) -> bool {
    let is_datagram = matches!(id.space, RDMA_PS_UDP | RDMA_PS_IPOIB);
    id.qp.is_null() && !is_datagram && param.is_none_or(|param| param.qp_num == 0)
}

fn report_lack(call: &CmCall) {
    let found = Finding::new(Rule::Argument, object(call), call.name, Outcome::Succeeded)
        .with_texts(
            "the id has no queue pair, and conn_param names none (qp_num is 0)",
            "the number of the queue pair is sent to the peer, which connects to queue pair 0",
            format!("call rdma_create_qp with this id before {}", call.name),
        );
    shadow::observe(|_| vec![found]);
}

fn private_data(param: &Param) -> Option<Wrong> {
    (param.private_data == 0 && param.private_data_len > 0).then(|| {
        (
            format!(
                "private_data is NULL, and private_data_len is {}",
                param.private_data_len
            ),
            "the structure was not set to zero at first, perhaps",
            "set the whole rdma_conn_param to zero before its members".into(),
        )
    })
}

/// Events of a channel that the program has not created.
fn synchronous(channel: usize) -> Option<Wrong> {
    shadow::with(|shadow| shadow.cm_ids.is_synchronous(channel as u64))?.then(|| {
        (
            "the channel is that of an id which was created without one (rdma_create_id with NULL, or \
             rdma_create_ep)"
                .into(),
            "such an id is synchronous: its calls wait until they are done, and take their events",
            "call no rdma_get_cm_event with it, and rdma_get_request to accept; or create the id with an \
             event channel"
                .into(),
        )
    })
}

/// librdmacm fills in the destination of the id of a request, and of none that listens.
fn without_peer(id: &Id) -> Option<Wrong> {
    id.route.destination.is_empty().then(|| {
        (
            "the id has no peer: it listens, or is not the id of a request".into(),
            "an id that listens stays one: each request for a connection comes with an id of its own",
            "pass the id of the event RDMA_CM_EVENT_CONNECT_REQUEST (event->id), or the one that \
             rdma_get_request returns, to rdma_create_qp and rdma_accept"
                .into(),
        )
    })
}

/// The connection of the id is there already. A queue pair for datagrams is in RTS from its creation on.
fn connected(id: &Id) -> Option<Wrong> {
    let is_connected =
        |qp: &shadow::Qp| matches!(qp.state, IBV_QPS_RTR | IBV_QPS_RTS) && qp.kind != IBV_QPT_UD;
    let found = shadow::with(|shadow| shadow.qps.get(&(id.qp as usize)).is_some_and(is_connected));
    found?.then(|| {
        (
            "the queue pair of the id is in RTR or RTS: the id is connected already, or the program has \
             called ibv_modify_qp itself"
                .into(),
            "an id makes one connection, a request is accepted once, and these calls move the queue pair \
             that rdma_create_qp has made to RTS",
            "call rdma_accept once, with the id of each event RDMA_CM_EVENT_CONNECT_REQUEST, and \
             rdma_connect once with an id; leave the states of its queue pair to them"
                .into(),
        )
    })
}

/// Groups have datagrams only.
fn join(id: &Id) -> Option<Wrong> {
    let is_connected = !matches!(id.space, RDMA_PS_UDP | RDMA_PS_IPOIB);
    is_connected.then(|| {
        (
            "the port space of the id is that of connections".into(),
            "a multicast group is for datagrams, of UD queue pairs",
            "create the id with RDMA_PS_UDP, and its queue pair with IBV_QPT_UD".into(),
        )
    })
}

fn get_request(id: &Id) -> Option<Wrong> {
    let is_synchronous = shadow::with(|shadow| shadow.cm_ids.is_synchronous(id.channel as u64))?;
    (!is_synchronous).then(|| {
        (
            "the listening id has an event channel of the program".into(),
            "rdma_get_request is for synchronous ids; of others the requests come as events",
            "read RDMA_CM_EVENT_CONNECT_REQUEST with rdma_get_cm_event, or create the id with \
             rdma_create_ep or without a channel"
                .into(),
        )
    })
}

/// A call has succeeded: what it means for later ones.
pub fn succeeded(call: &CmCall) {
    current::end();
    let [first, second, ..] = call.arguments;
    if matches!(call.name, "rdma_connect" | "rdma_accept") {
        // SAFETY: the id is the program's, and exists; the parameters are NULL or readable.
        let lacks = unsafe { lacks_qp(&*(first as *const Id), (second as *const Param).as_ref()) };
        if lacks {
            report_lack(call);
        }
        return;
    }
    if call.name == "rdma_bind_addr" {
        // SAFETY: the id is the program's, and exists.
        let id = unsafe { (first as *const Id).as_ref() };
        crash_notes::last_id(id.is_none_or(|id| id.verbs.is_null()));
        return;
    }
    if call.name == "rdma_join_multicast" {
        shadow::with(|shadow| shadow.cm_ids.joins(first as u64));
        return;
    }
    if matches!(
        call.name,
        "rdma_disconnect" | "rdma_create_qp" | "rdma_create_qp_ex"
    ) {
        // SAFETY: the id is the program's, and exists.
        let id = unsafe { (first as *const Id).as_ref() };
        if let Some(id) = id.filter(|_| call.name != "rdma_disconnect") {
            order::created(id, first);
        }
        let qp = id.map_or(0, |id| id.qp as usize);
        shadow::with(|shadow| {
            shadow.qps.change(qp, |qp| {
                qp.is_of_cm = true;
                qp.is_disconnected |= call.name == "rdma_disconnect";
            });
        });
        return;
    }
    let place = match call.name {
        "rdma_create_id" | "rdma_get_request" => second,
        "rdma_create_ep" => first,
        "rdma_get_cm_event" => {
            // SAFETY: the call has written the event's address to this place. The id is its first member.
            let event = unsafe { (second as *const usize).as_ref() };
            event.map_or(0, |event| *event)
        }
        _ => return,
    };
    // SAFETY: the call has written the id to this place, and returned.
    let id = unsafe {
        (place as *const *const Id)
            .as_ref()
            .and_then(|id| id.as_ref())
    };
    let Some(id) = id else { return };
    let is_synchronous = match call.name {
        "rdma_create_id" => first == 0,
        name => name == "rdma_create_ep",
    };
    shadow::with(|shadow| {
        shadow.cm_ids.made.exists(core::ptr::from_ref(id).addr());
        if is_synchronous {
            shadow.cm_ids.add_synchronous(id.channel as u64);
        }
    });
}
