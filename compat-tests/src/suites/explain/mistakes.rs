//! Mistakes as people make them (c/mistakes, c/cm-mistakes): each is named by the right rule with the right
//! values, and the same program without the mistake is not commented on.

use std::collections::BTreeSet;

use crate::case::{Case, Place, Tier};
use crate::compare;
use crate::context::{Context, Library};
use crate::place::as_ordinary_user;
use crate::process::{Exit, Program, read};
use crate::verdict::{Failure, Verdict, ensure};

use super::{explained, file};

/// A mistake, the rule that names it, and a part of the explanation.
type Row = (&'static str, &'static str, &'static str);

#[rustfmt::skip]
const MISTAKES: [Row; 177] = [
    ("qp-null-cq", "null-object", "send_cq is NULL"),
    ("qp-inline-huge", "argument", "cap.max_inline_data is 1048576"),
    ("qp-many-sge", "create-limit", "cap.max_send_sge = 4096"),
    ("qp-no-type", "argument", "qp_type is 0"),
    ("qp-xrc-no-domain", "argument", "ibv_create_qp cannot pass an XRC domain"),
    ("qp-other-context", "other-context", "send_cq, the CQ"),
    ("cq-vector", "attr-range", "comp_vector is"),
    ("cq-zero", "attr-range", "cqe is 0"),
    ("cq-ex-mask", "unknown-bits", "comp_mask is 0x100000"),
    ("cq-channel-other", "argument", "belongs to another device context than the CQ"),
    ("srq-large", "create-limit", "attr.max_wr = 1073741824"),
    ("srq-limit", "attr-range", "srq_limit is 9"),
    ("srq-xrc-fields", "argument", "comp_mask lacks IBV_SRQ_INIT_ATTR_XRCD"),
    ("ah-port", "attr-range", "attr.port_num is 0"),
    ("query-port", "attr-range", "port_num is 0"),
    ("query-gid", "attr-range", "index is 5000"),
    ("query-pkey", "attr-range", "index is 500"),
    ("reg-null", "reg-unmapped", "nothing is mapped at 0x0"),
    ("reg-atomic", "reg-access", "IBV_ACCESS_REMOTE_ATOMIC lack IBV_ACCESS_LOCAL_WRITE"),
    ("reg-unknown-flag", "unknown-bits", "the bits 0x8000"),
    ("reg-dead-pd", "dead-object", "pd, the PD"),
    ("dereg-twice", "dead-object", "mr, the MR"),
    ("destroy-qp-twice", "dead-object", "qp, the QP"),
    ("destroy-order", "busy", "it is still used by QP"),
    ("bind-without-right", "argument", "was registered without IBV_ACCESS_MW_BIND"),
    ("null-context", "crash", "a NULL pointer was read"),
    ("attach-rc", "argument", "the queue pair is not of type UD"),
    ("qpn-swapped", "attr-range", "ntohl() may be missing"),
    ("psn-long", "attr-range", "rq_psn is 305419896"),
    ("no-grh", "gid-no-grh", "is_global = 0"),
    ("mtu-bytes", "attr-range", "path_mtu is 4096"),
    ("av-port", "attr-range", "ah_attr.port_num is 0"),
    ("rd-atomic-huge", "attr-range", "max_dest_rd_atomic is 255"),
    ("gid-byte-order", "gid-family", "the destination is"),
    ("pkey-index", "attr-range", "pkey_index is 200"),
    ("init-port", "attr-range", "port_num is 0"),
    ("ud-no-qkey", "qp-attr-missing", "lacks IBV_QP_QKEY"),
    ("rts-from-init", "qp-transition", "from INIT to RTS"),
    ("uc-with-rc-mask", "qp-attr-invalid", "IBV_QP_RETRY_CNT"),
    ("post-in-rtr", "post-state", "is in RTR"),
    ("read-on-uc", "opcode-type", "is posted to a UC queue pair"),
    ("atomic-length", "argument", "has 4 bytes"),
    ("atomic-unaligned", "atomic-unaligned", "which is not a multiple of 8"),
    ("read-inline", "argument", "has IBV_SEND_INLINE"),
    ("inline-too-big", "inline-limit", "2000 bytes of inline data"),
    ("ud-no-ah", "null-object", "wr.ud.ah is NULL"),
    ("ud-too-long", "datagram-too-long", "a datagram of 6000 bytes"),
    ("ud-qkey", "no-completion", "with a Q_Key that is not its own"),
    ("ud-wrong-qpn", "no-completion", "which is no queue pair of this process"),
    ("ud-no-grh-room", "no-completion", "with 40 bytes for the GRH, do not fit"),
    ("ud-ah-pd", "ah-pd", "belongs to the PD"),
    ("chain-loop", "chain-loop", "behind 2 requests"),
    ("recv-on-srq-qp", "argument", "was created with an SRQ"),
    ("lkey-zero", "key-unknown", "the local key 0x0"),
    ("recv-read-only", "key-access", "lacks IBV_ACCESS_LOCAL_WRITE"),
    ("read-into-read-only", "key-access", "lacks IBV_ACCESS_LOCAL_WRITE"),
    ("qp-no-remote-read", "qp-access", "lacks IBV_ACCESS_REMOTE_READ in its qp_access_flags"),
    ("dest-rd-atomic-zero", "dest-rd-atomic", "is 0, and max_rd_atomic here is 4"),
    ("rd-atomic-zero", "rd-atomic-zero", "max_rd_atomic of the queue pair is 0"),
    ("remote-addr-zero", "key-range", "at 0x0 leaves the memory region"),
    ("recv-too-small", "receive-too-small", "a message of 64 bytes"),
    ("imm-without-recv", "rnr-exceeded", "has had no receive posted at all"),
    ("recv-not-reposted", "rnr-exceeded", "1 receives posted in all, and each is consumed"),
    ("no-recv-queue", "argument", "max_recv_wr = 0"),
    ("mtu-mismatch", "mtu-differs", "path MTU is 1024 here and 256"),
    ("psn-mismatch", "retry-exceeded", "expects PSN 5000 first (rq_psn)"),
    ("dest-qpn-wrong", "retry-exceeded", "names this one as its peer"),
    ("peer-gone", "retry-exceeded", "was in this process, and has been destroyed"),
    ("not-armed", "no-event", "was never armed, and 1 completions wait in it"),
    ("solicited-only", "no-event", "was armed for solicited completions only"),
    ("armed-late", "no-event", "that came before it was armed"),
    ("other-channel", "no-event", "no queue pair uses a CQ of this channel"),
    ("unsignaled-wait", "no-completion", "none is signaled"),
    ("unsignaled-event", "no-event", "none is signaled"),
    ("polls-other-cq", "no-completion", "1 completions wait on the CQ"),
    ("rnr-forever", "no-completion", "with rnr_retry 7 the request is repeated without end"),
    ("timeout-zero", "no-completion", "is in INIT; timeout 0 waits"),
    ("recv-in-init", "no-completion", "is in INIT: it receives in RTR and later"),
    ("write-is-silent", "no-completion", "none of which consumes a receive"),
    ("recv-on-sender", "no-completion", "has no receive posted"),
    ("wr-not-completed", "no-completion", "ibv_wr_complete, which was not called"),
    ("cq-unacked", "events-unacked", "1 completion events"),
    ("polls-none", "no-completion", "was called with num_entries 0"),
    ("acked-twice", "events-overacked", "1 events more were acknowledged"),
    ("flushed-by-send", "qp-access", "lacks IBV_ACCESS_REMOTE_WRITE in its qp_access_flags"),
    ("in-error-since", "post-in-error", "is in ERR since a request (wr_id 77, RDMA WRITE)"),
    ("async-wait", "no-async-event", "never of requests and receives"),
    ("access-event", "async-error", "IBV_EVENT_QP_ACCESS_ERR"),
    ("unsignaled-many", "never-signaled", "16 of 16 requests, and none of them is signaled"),
    ("reposted-early", "recv-queue-full", "of 16 receives, 16 have no polled completion"),
    ("buffer-changed", "buffer-changed", "64 bytes at"),
    ("receives-overlap", "receives-overlap", "64 bytes at"),
    ("stack-region", "stack-region", "of a function that has returned"),
    ("unmapped", "memory-gone", "is not mapped any more"),
    ("mr-dropped-early", "key-deregistered", "has been deregistered"),
    ("unread-error", "unread-error", "nobody has polled"),
    ("leak", "leak", "1 PD left"),
    ("post-to-dead-qp", "dead-object", "qp, the QP"),
    ("far-access", "qp-access", "in process"),
    ("far-region", "key-access", "lacks IBV_ACCESS_REMOTE_WRITE"),
    ("far-no-recv", "rnr-exceeded", "has had no receive posted at all"),
    ("far-rnr-forever", "no-completion", "has no receive posted"),
    ("far-small", "receive-too-small", "a message of 64 bytes"),
    ("far-init", "retry-exceeded", "is in INIT, and receives nothing"),
    ("far-psn", "retry-exceeded", "expects PSN 7777 first"),
    ("far-read-limit", "dest-rd-atomic", "is 0, and max_rd_atomic here is 4"),
    ("sizeof-pointer", "key-range", "sizeof of a pointer"),
    ("address-in-int", "key-range", "where uint64_t is needed"),
    ("address-swapped", "key-range", "htobe64 or be64toh is missing"),
    ("rkey-swapped", "key-unknown", "htonl or ntohl is missing"),
    ("armed-once", "no-event", "was not armed again after its last event"),
    ("channel-busy", "busy", "it is still used by CQ"),
    ("both-receive", "no-completion", "both sides wait for the first message"),
    ("recv-on-other-qp", "rnr-exceeded", "1 receives are posted to another queue pair"),
    ("retry-cnt-large", "attr-range", "retry_cnt is 10"),
    ("rts-after-error", "qp-transition", "from ERR to INIT"),
    ("state-not-in-mask", "qp-attr-missing", "lacks IBV_QP_STATE"),
    ("closed-early", "dead-object", "ibv_close_device has closed its device"),
    ("not-extended", "argument", "created without send_ops_flags"),
    ("op-not-asked", "argument", "lacks IBV_QP_EX_WITH_RDMA_WRITE"),
    ("srq-empty", "rnr-exceeded", "the peer's queue pair's SRQ"),
    ("no-send-queue", "argument", "created with max_send_wr = 0"),
    ("mcast-address", "argument", "is not that of a group"),
    ("stale-rkey", "key-deregistered", "has been deregistered"),
    ("epoll-unarmed", "no-event", "was never armed, and 1 completions wait in it"),
    ("num-sge-garbage", "sge-limit", "21853 scatter/gather elements"),
    ("opcode-unset", "argument", "is 99, which verbs.h does not have"),
    ("mr-without-remote-write", "key-access", "lacks IBV_ACCESS_REMOTE_WRITE"),
    ("poll-not-ended", "argument", "has not called ibv_end_poll"),
    ("region-of-other-context", "key-unknown", "of another context, that of uroce0"),
    ("port-of-none", "attr-range", "port_num is 2"),
    ("two-sge", "sge-limit", "max_recv_sge is 4"),
    ("resize-small", "attr-range", "cqe is 0"),
    ("send-to-reset-peer", "retry-exceeded", "is in RESET, and receives nothing"),
    ("building-at-once", "thread-domain", "were in ibv_wr_start at the same time"),
    ("armed-without-channel", "argument", "created without a completion channel"),
    ("uc-small", "no-completion", "UC drops a message"),
    ("uc-late", "no-completion", "UC drops a message"),
    ("local-range", "key-range", "1792 bytes behind its end"),
    ("address-of-pointer", "key-range", "that of a pointer (&buffer)"),
    ("recv-no-sge", "receive-too-small", "of 0 bytes"),
    ("atomic-no-right", "key-access", "lacks IBV_ACCESS_REMOTE_ATOMIC"),
    ("zero-based", "key-range", "leaves the memory region 0x0..0x1000"),
    ("rereg-moved", "key-range", "4096 bytes before its start"),
    ("invalidates-region", "argument", "is that of the memory region"),
    ("srq-full", "recv-queue-full", "of 8 receives"),
    ("srq-sges", "sge-limit", "40 scatter/gather elements"),
    ("srq-limit-wait", "no-async-event", "an SRQ has no limit that is armed"),
    ("mw-type-1", "argument", "binds a memory window of type 1"),
    ("mw-old-rkey", "argument", "before it was bound again"),
    ("mw-range", "key-range", "64 bytes behind its end"),
    ("mw-beyond-region", "argument", "is not within the region"),
    ("mr-with-window", "busy", "one of the windows"),
    ("xrc-no-srqn", "argument", "names the SRQ number 0x0: it was not set"),
    ("xrc-recv-post", "argument", "is the receiving end of XRC"),
    ("ah-from-wc-offset", "argument", "its data begin 40 bytes later"),
    ("mcast-not-attached", "no-completion", "attached to the multicast group 239.1.2.3"),
    ("wr-no-start", "argument", "built without ibv_wr_start"),
    ("wr-setter-first", "argument", "no request that it can be set in"),
    ("wr-no-address", "argument", "ibv_wr_set_ud_addr was not called"),
    ("wr-start-twice", "argument", "neither ibv_wr_complete nor ibv_wr_abort"),
    ("wr-inline-large", "inline-limit", "2000 bytes of inline data"),
    ("cq-ex-field", "argument", "without IBV_WC_EX_WITH_BYTE_LEN"),
    ("end-poll-empty", "argument", "no poll of this thread has begun"),
    ("acks-wrong-cq", "events-unacked", "1 events more were acknowledged than came"),
    ("channel-fd-closed", "argument", "cannot be read"),
    ("cq-overrun", "cq-overrun-foreseen", "whose capacity is 1"),
    ("fork-child", "child-verb", "called ibv_post_send on an object that process"),
    ("sgid-index", "gid-empty", "GID index 77 of port 1"),
    ("null-qp", "create-limit", "cap.max_send_wr = 10000000"),
    ("drain-nothing", "no-completion", "so that nothing is flushed"),
    ("reset-drops", "no-completion", "dropped 0 requests and 1 receives"),
    ("sqd-post", "no-completion", "is in SQD"),
    ("type-mismatch", "retry-exceeded", "is of type UC, and this one of type RC"),
    ("own-number", "no-completion", "which is not polled"),
    ("next-garbage", "crash", "a pointer to memory that is not mapped was read"),
    ("field-too-wide", "attr-range", "min_rnr_timer is 100"),
];

/// The same with librdmacm.
#[rustfmt::skip]
const WITH_CM: [Row; 29] = [
    ("route-before-address", "cm-failed", "RDMA_CM_EVENT_ADDR_RESOLVED"),
    ("connect-before-route", "cm-failed", "RDMA_CM_EVENT_ROUTE_RESOLVED"),
    ("private-data-long", "cm-failed", "private_data_len is 100"),
    ("no-listener", "cm-event", "nobody listens"),
    ("bind-elsewhere", "cm-failed", "no RDMA device has this address"),
    ("port-in-use", "cm-failed", "has the port"),
    ("waits-unresolved", "no-cm-event", "no call is under way"),
    ("destroy-unacked", "events-unacked", "rdma_ack_cm_event"),
    ("accept-listener", "cm-failed", "and not the listening one"),
    ("no-route", "cm-failed", "ip route get"),
    ("disconnect-early", "cm-failed", "only a connection can be ended"),
    ("create-qp-early", "argument", "the id has no device yet"),
    ("pd-of-own-context", "argument", "pd belongs to the device context"),
    ("space-of-other-type", "argument", "qp_type does not fit the port space"),
    ("never-accepted", "no-cm-event", "has neither accepted nor rejected it"),
    ("client-deaf", "no-cm-event", "RDMA_CM_EVENT_CONNECT_RESPONSE of the id"),
    ("post-after-disconnect", "argument", "is posted after rdma_disconnect"),
    ("events-of-synchronous-id", "argument", "such an id is synchronous"),
    ("region-for-messages", "key-access", "lacks IBV_ACCESS_REMOTE_WRITE"),
    ("post-without-region", "key-unknown", "the mr of an rdma_post_* function was NULL"),
    ("connect-twice", "cm-failed", "connected or connecting"),
    ("accept-without-qp", "argument", "the id has no queue pair"),
    ("server-rejects", "cm-event", "has called rdma_reject"),
    ("send-before-established", "post-state", "is in INIT"),
    ("read-depth-zero", "qp-access", "initiator_depth of this side's rdma_conn_param"),
    ("receive-too-late", "rnr-exceeded", "has had no receive posted at all"),
    ("listen-unbound", "cm-event", "nobody listens"),
    ("destroyed-behind", "dead-object", "has been destroyed"),
    ("recv-comp-without-recv", "no-event", "neither a signaled request nor a receive is outstanding"),
];

/// The rules that these cases provoke.
pub fn rules() -> impl Iterator<Item = &'static str> {
    MISTAKES.iter().chain(&WITH_CM).map(|row| row.1)
}

pub fn cases() -> Vec<Case> {
    let place = |case: Case| case.place(Place::Namespace).tier(Tier::Check);
    let mut cases = Vec::new();
    for (program, rows) in [("mistakes", &MISTAKES[..]), ("cm-mistakes", &WITH_CM)] {
        for row in rows {
            let name = format!("explain/{program}/{}", row.0);
            let run = move |cx: &Context| is_named(cx, program, row);
            cases.push(place(Case::new(name, run)).programs(&[program]));
        }
        let listed = move |cx: &Context| all_are_cases(cx, program, rows);
        cases.push(place(Case::new(format!("explain/{program}-all"), listed)).programs(&[program]));
    }
    for (name, run) in [
        (
            "slots-completed",
            slots_completed as fn(&Context) -> Verdict,
        ),
        ("backtrace", backtrace),
    ] {
        let case = Case::new(format!("explain/{name}"), run);
        cases.push(place(case).programs(&["mistakes"]));
    }
    cases
}

/// The rule of a device that frees slots by itself.
pub const SLOTS_COMPLETED: &str = "send-queue-rnic";

/// A device that frees slots by itself takes more requests than an RNIC: that is named.
fn slots_completed(cx: &Context) -> Verdict {
    let output = format!("json:{}", file(cx).display());
    let ended = program(cx, "mistakes", &["unsignaled-many", "wrong"])?
        .env("IBV_UROCE", "uroce0=lo,slots=completed")
        .env("IBV_EXPLAIN", output)
        .run()?;
    ensure(
        ended.exit == Exit::Code(0),
        format!("it ended with {}", ended.exit),
    )
    .map_err(|failure| failure.with(ended.transcript()))?;
    let found = explained(cx)?;
    ensure(
        found.rules.contains(SLOTS_COMPLETED),
        format!("explained: {:?}", found.rules),
    )
}

/// Lines say where the call came from, and where the object was created.
fn backtrace(cx: &Context) -> Verdict {
    let output = format!("backtrace,json:{}", file(cx).display());
    let ended = program(cx, "mistakes", &["inline-too-big", "wrong"])?
        .env("IBV_EXPLAIN", output)
        .run()?;
    ensure(
        ended.exit == Exit::Code(0),
        format!("it ended with {}", ended.exit),
    )
    .map_err(|failure| failure.with(ended.transcript()))?;
    let lines = read(&file(cx));
    let line = lines.lines().find(|line| line.contains("\"inline-limit\""));
    let json: serde_json::Value = serde_json::from_str(line.ok_or("no inline-limit")?)
        .map_err(|error| Failure::new(error.to_string()))?;
    for (member, function) in [("from", "inline_too_big"), ("created", "link_qp")] {
        let text = json[member].as_str().unwrap_or_default();
        ensure(text.contains(function), format!("{member}: {text:?}"))?;
    }
    Ok(())
}

fn program(cx: &Context, program: &str, words: &[&str]) -> Result<Program, Failure> {
    let mut command = vec![cx.built(program)?];
    command.extend(words.iter().map(ToString::to_string));
    Ok(cx
        .program(command)
        .under(as_ordinary_user())
        .library(&cx.library_dir(Library::Ours))
        .env("IBV_UROCE", "uroce0=lo")
        .env("DEVICE", "uroce0")
        .env("IBV_EXPLAIN_WAIT", "1"))
}

fn run(cx: &Context, name: &str, row: &Row, how: &str) -> Verdict {
    let output = format!("json:{}", file(cx).display());
    let ended = program(cx, name, &[row.0, how])?
        .env("IBV_EXPLAIN", output)
        .run()?;
    ensure(
        ended.exit == Exit::Code(0),
        format!("{how}: it ended with {}", ended.exit),
    )
    .map_err(|failure| failure.with(ended.transcript()).with(read(&file(cx))))
}

/// The program without the mistake is run first: there must be no output.
fn is_named(cx: &Context, name: &str, row: &Row) -> Verdict {
    run(cx, name, row, "right")?;
    compare::same(("expected", ""), ("explained", &read(&file(cx))))?;
    run(cx, name, row, "wrong")?;
    let found = explained(cx)?;
    let all = found.texts.join("\n");
    ensure(
        found.rules.contains(row.1),
        format!("explained: {:?}", found.rules),
    )
    .map_err(|failure| failure.with(all.clone()))?;
    ensure(all.contains(row.2), format!("«{}» is not in it", row.2))
        .map_err(|failure| failure.with(all))
}

/// The program has no mistake that is not a case here.
fn all_are_cases(cx: &Context, name: &str, rows: &[Row]) -> Verdict {
    let listed = program(cx, name, &["list"])?.run()?;
    let sorted = |names: BTreeSet<&str>| names.into_iter().collect::<Vec<_>>().join("\n");
    let here = rows.iter().map(|row| row.0).collect();
    let there = listed.out.lines().collect();
    compare::same(("cases", &sorted(here)), ("the program", &sorted(there)))
}
