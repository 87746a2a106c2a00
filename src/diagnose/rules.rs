//! The rules of IBV_EXPLAIN: their names, classes and texts. A rule may stand anywhere in the list.
//! libibverbs-rs-explain(7) lists the same; the test case `man/explain` compares both.
//!
//! Not here: when a rule applies (`check/`, `shadow/`). CONTRIBUTING.md lists the files of a rule.
//!
//! A text has `{name}` where a finding's value of that name goes ([`Finding`](super::finding::Finding)).

mod classes;

pub use classes::{Class, Severity};

/// A rule's name and texts.
#[derive(Debug)]
pub struct Text {
    /// The name in messages, which does not change between releases.
    pub name: &'static str,
    pub class: Class,
    /// The event, with values: what happened.
    pub what: &'static str,
    /// Why that is an error, or what caused it.
    pub why: &'static str,
    /// The advice: what to do.
    pub advice: &'static str,
}

macro_rules! rules {
    ($($rule:ident $name:literal $class:ident: $what:literal, $why:literal, $advice:literal;)+) => {
        /// A rule. The number of a variant is its index in [`RULES`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Rule { $($rule),+ }

        /// All rules, in their order.
        const ALL: &[Rule] = &[$(Rule::$rule),+];

        /// The texts of all rules, in the order of [`Rule`].
        pub static RULES: &[Text] = &[$(Text {
            name: $name,
            class: Class::$class,
            what: $what,
            why: $why,
            advice: $advice,
        }),+];
    };
}

rules! {
    GidEmpty "gid-empty" Gid:
        "GID index {index} of port {port} is empty",
        "the table has no address at this index, so packets would have no source",
        "use index {right}";
    GidFamily "gid-family" Gid:
        "GID index {index} is {sgid} ({sgid_kind}), the destination is {dgid} ({dgid_kind})",
        "packets from an address of one kind cannot reach one of another",
        "use index {right}, or exchange a GID of the same kind with the peer";
    GidNoGrh "gid-no-grh" Gid:
        "the address vector has is_global = 0, and port {port} is Ethernet",
        "RoCE addresses its packets by GIDs, which the GRH has; LIDs do not exist there",
        "set is_global = 1, grh.dgid to the peer's GID and grh.sgid_index (here {right})";
    GidZero "gid-zero" Gid:
        "the destination GID is zero",
        "no port has this address: the peer's GID was not exchanged, or was not filled in",
        "have the peer send the GID at its sgid_index (ibv_query_gid), and put it into grh.dgid";
    GidUnreachable "gid-unreachable" Gid:
        "the destination {dgid} cannot be reached from {interface}: {error}",
        "the kernel's routing table has no route to it through the interface of GID index {index}",
        "check `ip route get {dgid}`; use a GID of the interface that it names, or add the route";
    GidType "gid-type" Gid:
        "GID index {index} is of type RoCE v1, and the peer does not answer",
        "RoCE v1 is not routed, and a peer that uses RoCE v2 drops its packets",
        "use index {right}, which has the same address with RoCE v2, on both sides";
    RtrTimeout "rtr-timeout" Connection:
        "no MAC address was found for {dgid} from GID index {index} ({sgid})",
        "neighbour resolution (ARP or NDP) got no answer: the peer is down, or not on this network",
        "check `ping {dgid}` and `ip neigh`; check that the peer's GID is current";
    RetryExceeded "retry-exceeded" Connection:
        "the peer {dgid}, QP {dest_qpn}, did not acknowledge: timeout {timeout} ({timeout_ms} ms), \
         retry_cnt {retry_cnt}, path MTU {mtu}; {answered}",
        "{peer}",
        "{todo}";
    RnrExceeded "rnr-exceeded" Rnr:
        "a message to the peer {dgid}, QP {dest_qpn}, found no receive posted there, after {rnr_retry} \
         retries",
        "{peer}",
        "post receives before the peer sends, and again for each that is consumed; a larger rnr_retry here \
         (7: without end) or min_rnr_timer there (0: the longest, 655.36 ms) only gives it more time";
    Memlock "memlock" Memory:
        "{length} bytes cannot be locked: RLIMIT_MEMLOCK is {limit} bytes, {pinned} are in use",
        "a device pins registered memory, and the kernel counts it against this limit",
        "raise it: `ulimit -l unlimited`, memlock in limits.conf(5), LimitMEMLOCK= of a systemd unit, \
         --ulimit memlock=-1 of a container";
    RegNoMemory "reg-no-memory" Memory:
        "{length} bytes were not registered, although RLIMIT_MEMLOCK ({limit}) allows them",
        "the kernel or the device is out of memory or of memory regions ({regions} are registered)",
        "register fewer or larger regions, and check `rdma resource show` and `dmesg`";
    RegUnmapped "reg-unmapped" Memory:
        "{length} bytes at {addr} are not all mapped: nothing is mapped at {hole}",
        "only memory that the process has mapped can be registered",
        "check address and length; memory must stay mapped until it is deregistered";
    RegReadOnly "reg-read-only" Memory:
        "the memory at {hole} is mapped {rights} ({file}), and the access flags ask for {access}",
        "a device may write only to memory that the process may write to",
        "map it with PROT_READ | PROT_WRITE, or register it with access 0 or IBV_ACCESS_REMOTE_READ";
    RegFile "reg-file" Memory:
        "the memory at {hole} is a mapping of {file}, which has no pages that can be pinned",
        "the kernel cannot pin memory of a device, or of a file system that may move it",
        "copy it to ordinary memory, or register device memory through a dma-buf (ibv_reg_dmabuf_mr)";
    RegAccess "reg-access" Memory:
        "the access flags {access} lack IBV_ACCESS_LOCAL_WRITE",
        "remote write and remote atomic access need local write access (specification 11.2.8.2)",
        "add IBV_ACCESS_LOCAL_WRITE";
    RegLength "reg-length" Memory:
        "a region of {length} bytes at {addr} was requested",
        "the range is empty or wraps around the end of the address space",
        "check the length: a negative one becomes a huge unsigned number";
    CreateLimit "create-limit" Memory:
        "{member} = {asked}, and the device has at most {limit}",
        "the device cannot create such a large object",
        "request at most what ibv_query_device reports";
    KeyUnknown "key-unknown" Keys:
        "the {side} key {key} belongs to no memory region that is known here",
        "it was never a key of this {place}, or it was damaged on its way to this program",
        "use {member} of the region that contains {addr}";
    KeySwapped "key-swapped" Keys:
        "{key} was given as {side} key, and is the {other} of the memory region {region}",
        "a region has two keys, which differ on this device: lkey for this side, rkey for the peer",
        "use {member} of the region";
    KeyDeregistered "key-deregistered" Keys:
        "the {side} key {key} was that of a memory region {region} that has been deregistered",
        "a key is valid until ibv_dereg_mr returns, and requests use it until they complete",
        "deregister memory only after all requests that use it have completed";
    KeyPd "key-pd" Keys:
        "the {side} key {key} belongs to a memory region of PD {mr_pd}, the queue pair has PD {qp_pd}",
        "a queue pair can use only the memory regions of its own protection domain",
        "register the memory in the queue pair's PD";
    KeyRange "key-range" Keys:
        "the access of {length} bytes at {addr} leaves the memory region {region} by {excess} bytes {end}",
        "the {side} key {key} is valid only within its region",
        "check address and length against the region's";
    KeyAccess "key-access" Keys:
        "the memory region {region} of the {side} key {key} lacks {right}",
        "an operation needs the right in the access flags of the region that it reads or writes",
        "register the region with {right}";
    KeyRemote "key-remote" Keys:
        "the peer refused a {operation} of {length} bytes at {addr} with rkey {key}",
        "{known}; possible: the rkey is unknown there or deregistered, the range leaves its region, the \
         region or the queue pair lacks {right}, or the region is of another PD",
        "compare address, rkey and access flags with what the peer registered and sent{hint}";
    QpAccess "qp-access" Keys:
        "the peer's queue pair {dest_qpn}, {place}, lacks {right} in its qp_access_flags",
        "an operation of a peer needs the right in the queue pair too, not only in the region",
        "set {right} with IBV_QP_ACCESS_FLAGS, at the transition to INIT for example";
    DestRdAtomic "dest-rd-atomic" Keys:
        "the {operation} (wr_id {wr_id}) was refused: max_dest_rd_atomic of the peer's queue pair \
         {dest_qpn}, \
         {place}, is {there}, and max_rd_atomic here is {here}",
        "the peer executes no more READs and atomic operations at once than its max_dest_rd_atomic",
        "set max_dest_rd_atomic of the peer (to RTR) to max_rd_atomic of this side at least";
    AtomicUnaligned "atomic-unaligned" Keys:
        "an atomic operation (wr_id {wr_id}) is at the peer's address {addr}, which is not a multiple of 8",
        "an atomic operation works on eight aligned bytes: the peer refuses it",
        "align the peer's variable, and check the offset that is added to its address";
    ReceiveTooSmall "receive-too-small" Keys:
        "a message of {length} bytes did not fit the receive that it consumed, of {room} bytes",
        "a message needs one receive with room for all of it{grh}",
        "post receives as large as the largest message";
    SendQueueFull "send-queue-full" Queues:
        "the send queue is full: {outstanding} of {max} requests are outstanding, {signaled} of them \
         signaled; its CQ was {polled}",
        "a slot is free only after the completion of its request, or of a later one, was polled",
        "poll the CQ before posting more, or create the queue pair with a larger max_send_wr";
    NeverSignaled "never-signaled" Queues:
        "the send queue is full with {outstanding} of {max} requests, and none of them is signaled",
        "unsignaled requests free their slots only when a later signaled one completes, so the queue \
         stays full",
        "set IBV_SEND_SIGNALED at least once per max_send_wr requests, and poll its completion";
    RecvQueueFull "recv-queue-full" Queues:
        "the receive queue is full: of {max} receives, {outstanding} have no polled completion",
        "a slot is free only after the completion of its receive was polled, not when the message arrives",
        "poll the CQ before posting more, or create the queue with a larger size";
    CqOverrunForeseen "cq-overrun-foreseen" Queues:
        "{outstanding} signaled requests are outstanding on the CQ, whose capacity is {cqe}",
        "if all complete before the CQ is polled, it overruns, and its queue pairs fail",
        "create the CQ with as many entries as requests can be outstanding, or poll it earlier";
    CqOverrun "cq-overrun" Queues:
        "the CQ, whose capacity is {cqe}, overran; {outstanding} requests and receives were outstanding \
         on it",
        "completions came faster than the program polled them",
        "create the CQ with max_send_wr + max_recv_wr entries of all its queue pairs";
    CqNeverPolled "cq-never-polled" Queues:
        "the CQ was never polled, and {outstanding} signaled requests are outstanding",
        "whether the requests have succeeded is not known, and their slots were never free",
        "poll the CQ until the last completion, or send unsignaled";
    InlineLimit "inline-limit" Queues:
        "{length} bytes of inline data, and max_inline_data is {max}",
        "inline data is copied into the queue when it is posted, which has no room for more",
        "send it without IBV_SEND_INLINE, or create the queue pair with a larger max_inline_data";
    SgeLimit "sge-limit" Queues:
        "{count} scatter/gather elements, and {member} is {max}",
        "a request has at most as many elements as its queue was created with",
        "create the queue with a larger {member}, up to max_sge (of an SRQ max_srq_sge) of ibv_query_device";
    NoData "no-data" Queues:
        "the {operation} (wr_id {wr_id}) has no data: {how}",
        "the message is empty, which is allowed, and completes without an error",
        "{todo}, unless an empty message is meant";
    QpTransition "qp-transition" States:
        "there is no transition from {from} to {to}",
        "a queue pair goes from RESET to INIT, RTR and RTS, one after the other, and from any to ERR \
         or RESET",
        "modify it to {next} first";
    QpAttrMissing "qp-attr-missing" States:
        "the attribute mask for {from} to {to} of a {type} queue pair lacks {bits}",
        "the transition requires these attributes (specification 11.2.4.2)",
        "set the members of ibv_qp_attr, and the bits in the mask";
    QpAttrInvalid "qp-attr-invalid" States:
        "the attribute mask for {from} to {to} of a {type} queue pair has {bits}",
        "these attributes cannot change in this transition (specification 11.2.4.2)",
        "remove the bits from the mask";
    PostState "post-state" States:
        "the queue pair is in {state}",
        "{verb} needs {needed}",
        "modify the queue pair to {needed} first, and check what ibv_modify_qp returned";
    PostInError "post-in-error" States:
        "the queue pair is in {state} since a request (wr_id {wr_id}, {operation}) completed with status \
         {status} ({text})",
        "requests posted in this state complete with WR_FLUSH_ERR at once",
        "remove the cause of that first error, then {recovery}";
    MtuDiffers "mtu-differs" States:
        "path MTU is {mtu} here and {peer_mtu} at the peer's queue pair {peer_qpn}",
        "packets of the larger MTU are refused by the side with the smaller one",
        "set the smaller of the two on both sides";
    PsnDiffers "psn-differs" States:
        "{sender} sends from PSN {sq_psn}, {receiver} expects {rq_psn}",
        "a receiver drops packets whose PSN it does not expect, so nothing arrives",
        "exchange the PSNs: rq_psn of each side is sq_psn of the other";
    PairQpn "pair-qpn" States:
        "this queue pair ({qpn}) names {dest_qpn} as its peer, which names {other}",
        "packets of a connection are accepted only from the queue pair that dest_qp_num names",
        "exchange the numbers anew: dest_qp_num of each side is qp_num of the other";
    Busy "busy" Lifetime:
        "it is still used by {users}",
        "an object can be destroyed only after all objects that use it",
        "destroy these first";
    MrInUse "mr-in-use" Lifetime:
        "the memory region {region} was deregistered while {count} requests of queue pair {qpn} that \
         use it were outstanding, the first with wr_id {wr_id}",
        "the device may still read or write the memory, and fails the requests",
        "wait for the completions first";
    AhInUse "ah-in-use" Lifetime:
        "the address handle was destroyed while {count} requests of queue pair {qpn} that use it were \
         outstanding, the first with wr_id {wr_id}",
        "the device may still need the address",
        "wait for the completions first; unsignaled requests complete with a later signaled one";
    EventsUnacked "events-unacked" Lifetime:
        "{count} {events} were received and not acknowledged",
        "destroying the object blocks until all its events are acknowledged, so the call does not return",
        "call {verb} for each event before";
    EventsOveracked "events-overacked" Lifetime:
        "{count} events more were acknowledged than were received",
        "destroying the object waits until both numbers are equal, so the call does not return",
        "acknowledge each event once: pass the number of events received since to ibv_ack_cq_events";
    ChannelUnread "channel-unread" Lifetime:
        "the CQ was armed (times: {armed}), and its completion channel has an event that was never read",
        "each event stays in the channel until ibv_get_cq_event reads it",
        "wait with ibv_get_cq_event, or do not arm the CQ";
    Leak "leak" Lifetime:
        "the device is closed with {objects} left",
        "the kernel releases them, but their memory in this process is lost",
        "destroy all objects before ibv_close_device";
    ThreadDomain "thread-domain" Threads:
        "two threads, {first} and {second}, were in {verb} at the same time",
        "the {what} was created for one thread at a time, so it has no lock",
        "serialise the calls, or create it without {flag}";
    ChildVerb "child-verb" Threads:
        "process {pid} called {verb} on an object that process {parent} created",
        "after fork a child does not own the device's queues: they belong to its parent",
        "open the device in the child, or exec; or use the objects in the parent only";
    ForkInitLate "fork-init-late" Threads:
        "ibv_fork_init was called after memory had been registered",
        "regions registered before are not protected from copy-on-write",
        "call ibv_fork_init before any other verb, or set IBV_FORK_SAFE=1";
    NotifyNoPoll "notify-no-poll" Events:
        "the CQ was found empty, then armed, and not polled again before the next event",
        "a completion that arrives between the last poll and ibv_req_notify_cq causes no event, so the \
         program may wait indefinitely",
        "poll the CQ once more after ibv_req_notify_cq, before waiting";
    EventsCoalesced "events-coalesced" Events:
        "an event was answered with a poll that returned as many completions as requested ({count}), and \
         the CQ was armed and waited on without another",
        "one event may stand for many completions, and those that remain cause no further event",
        "after each event poll until ibv_poll_cq returns 0";
    DriverMissing "driver-missing" Drivers:
        "the kernel has the device {device} (driver {driver}), and no provider supports it; {tried}",
        "the library needs a provider, a shared object, for each kind of device",
        "install the provider ({package}), or name it in IBV_DRIVERS";
    DriverRefused "driver-refused" Drivers:
        "the provider {file} was not loaded: {reason}",
        "a provider is built for one ABI of libibverbs, and needs a library that has it",
        "install the provider of a release that this library supports (libibverbs-rs(7))";
    DriverTwice "driver-twice" Drivers:
        "{count} providers have the name {provider}",
        "the first in the order of configuration drives the devices, the others are not used",
        "remove the others from /etc/libibverbs.d, or from IBV_DRIVERS";
    NoDevice "no-device" Environment:
        "there is no RDMA device",
        "{why}",
        "{todo}";
    NoDeviceFile "no-device-file" Environment:
        "the kernel has {device}, and {path} does not exist{container}",
        "a program opens the device by this file",
        "{todo}";
    NoPermission "no-permission" Environment:
        "{path} cannot be opened: {error}; its owner is {owner}, its mode {mode}",
        "opening a device needs read and write permission for this file",
        "add the user to the file's group, or change its mode by a udev rule; in a container, allow the \
         device (--device={path})";
    NoRdmaUcm "no-rdma-ucm" Environment:
        "there are RDMA devices, and no /dev/infiniband/rdma_cm",
        "librdmacm needs the kernel module rdma_ucm",
        "load it (`modprobe rdma_ucm`); in a container, allow the file";
    NoCompletion "no-completion" Events:
        "the CQ has been polled for {seconds} s, and is empty",
        "{why}",
        "{todo}";
    NoEvent "no-event" Events:
        "a thread has waited for an event of the channel for {seconds} s, and none has come",
        "{why}",
        "{todo}";
    CmFailed "cm-failed" Connection:
        "the id is in the state: {state}",
        "{why}",
        "{todo}";
    CmEvent "cm-event" Connection:
        "the event {event} was reported, status {status}",
        "{why}",
        "{todo}";
    NoCmEvent "no-cm-event" Events:
        "a thread has waited for an event of rdma_cm for {seconds} s, and none has come",
        "{why}",
        "{todo}";
    NoAsyncEvent "no-async-event" Events:
        "the only thread of the program has waited for an asynchronous event for {seconds} s, and none has \
         come",
        "asynchronous events tell of ports, errors and limits, and never of requests and receives",
        "poll the CQs, or wait for completions with ibv_get_cq_event; read asynchronous events in a thread \
         of their own";
    RdAtomicZero "rd-atomic-zero" States:
        "the {operation} (wr_id {wr_id}) is posted, and max_rd_atomic of the queue pair is 0",
        "the queue pair may have no READ or atomic operation outstanding: many devices refuse it",
        "set max_rd_atomic (to RTS) here, and max_dest_rd_atomic (to RTR) at the peer, to 1 at least; with \
         librdmacm: initiator_depth of rdma_conn_param here, responder_resources at the peer";
    OpcodeType "opcode-type" States:
        "the {operation} (wr_id {wr_id}) is posted to a {type} queue pair",
        "{type} has {has} (specification, table 44)",
        "use a queue pair of type RC for RDMA READ and atomic operations, and RC or UC for RDMA WRITE";
    ChainLoop "chain-loop" Queues:
        "the list of requests contains itself: behind {count} requests it continues with an earlier one",
        "the call posts request after request until next is NULL, so until the queue is full",
        "set next of the last request to NULL, and each request to zero at first";
    AhPd "ah-pd" Keys:
        "the address handle of the request (wr_id {wr_id}) belongs to the PD {ah_pd}, the queue \
         pair to {qp_pd}",
        "a queue pair can use only the address handles of its own protection domain",
        "create the address handle in the queue pair's PD";
    DatagramTooLong "datagram-too-long" Queues:
        "a datagram of {length} bytes (wr_id {wr_id}) is posted, and the MTU of the port is {mtu}",
        "a datagram is one packet: a device drops a longer one, or fails it",
        "send at most active_mtu of ibv_query_port, or use RC, which divides messages";
    ReceivesOverlap "receives-overlap" Memory:
        "two receives (wr_id {first} and {second}) are posted that have {common} bytes at {addr} in common",
        "the second message overwrites the first, perhaps before the program has read it",
        "give each receive that is posted memory of its own";
    StackRegion "stack-region" Memory:
        "the region {region} is memory of the stack, of a function that has returned",
        "other functions use that memory now, and the device reads or overwrites their data",
        "register memory that lives longer: static, or from malloc";
    BufferChanged "buffer-changed" Memory:
        "the data of the {operation} (wr_id {wr_id}), {length} bytes at {addr}, changed between the post and \
         the completion",
        "the device reads the data at any time until then, and again to repeat a packet: which data the peer \
         has got is not certain",
        "change or free a buffer only when the completion of its request was polled";
    MemoryGone "memory-gone" Memory:
        "the memory at {addr} of the {operation} (wr_id {wr_id}) is not mapped any more",
        "it was freed or unmapped while it is registered",
        "deregister memory before it is freed, and free it only after all its requests have completed";
    SendQueueRnic "send-queue-rnic" Queues:
        "{outstanding} requests are posted without a polled completion to a send queue of {max}",
        "this device took them because the work was done; an RNIC frees slots only when a completion of a \
         later signaled request was polled, and would have refused them with ENOMEM",
        "set IBV_SEND_SIGNALED at least once per max_send_wr requests, and poll its completion before more";
    UnreadError "unread-error" Events:
        "the queue pair is destroyed, and nobody has polled that the request (wr_id {wr_id}) completed with \
         status {status} ({text})",
        "a request that was posted may fail, and only its completion says so",
        "poll the CQ until the completions of all requests have come, and examine status of each";
    AsyncError "async-error" Events:
        "the asynchronous event {event} was reported",
        "{why}",
        "{todo}";
    GrhRoom "grh-room" Queues:
        "a receive of {room} bytes is posted to a UD queue pair",
        "40 bytes for the GRH precede the data of a datagram, so that none fits",
        "post receives of 40 bytes more than the largest datagram, whose data begin at byte 40";
    AttrRange "attr-range" States:
        "{member} is {value}, and valid values are {min} to {max}",
        "{meaning}{hint}",
        "set {member} to one of them before the call, and the whole structure to zero at first";
    NullObject "null-object" Failures:
        "{member} is NULL",
        "the call needs this object ({kind}): it was never set, or the call that creates it has \
         failed before",
        "check what the call that creates it returned, and set {member}";
    DeadObject "dead-object" Lifetime:
        "{member}, the {kind} {address}, has been destroyed",
        "an object can be used until its destroy or dealloc call, and destroyed once",
        "use objects only while they exist, and set pointers to NULL when their object is destroyed";
    OtherContext "other-context" Failures:
        "{member}, the {kind} {address}, belongs to the device context {other}, and the call to {context}",
        "each ibv_open_device makes a context of its own, and objects of two contexts do not fit together",
        "create all objects that belong together in one context";
    UnknownBits "unknown-bits" Failures:
        "{member} is {value}, of which the bits {bits} mean nothing in this call",
        "neither verbs.h nor this library has such flags: the member may not have been initialised",
        "set the whole structure to zero at first, and then only flags of verbs.h";
    Crash "crash" Failures:
        "the program is about to end: {what} was read at {addr}, called from {from}",
        "a call of this library was given an object, or a list of requests or elements (next, sg_list), \
         that is NULL, was never set, was destroyed, or whose memory was freed",
        "check what the calls that create objects returned, use no object after it is destroyed, and set \
         each request to zero at first";
    Argument "argument" Failures:
        "{what}",
        "{why}",
        "{todo}";
    CallFailed "call-failed" Failures:
        "the arguments were {arguments}",
        "{why}",
        "{todo}";
    RequestFailed "request-failed" Failures:
        "{operation} (wr_id {wr_id}) completed with status {status} ({text})",
        "{why}",
        "{todo}";
}

impl Rule {
    /// The rule's name and texts.
    pub fn text(self) -> &'static Text {
        &RULES[self as usize]
    }

    /// The rule of this name.
    pub fn of_name(name: &str) -> Option<Rule> {
        let at = RULES.iter().position(|rule| rule.name == name)?;
        ALL.get(at).copied()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_texts_well_formed() {
        let names: BTreeSet<&str> = RULES.iter().map(|rule| rule.name).collect();
        assert_eq!(names.len(), RULES.len());
        for rule in RULES {
            for text in [rule.what, rule.why, rule.advice] {
                assert_eq!(
                    text.matches('{').count(),
                    text.matches('}').count(),
                    "{text}"
                );
                assert!(!text.ends_with('.') && !text.contains('\n'), "{text}");
            }
        }
    }

    #[test]
    fn a_rule_has_the_text_of_its_place() {
        assert_eq!(Rule::GidEmpty.text().name, "gid-empty");
        assert!(
            RULES
                .iter()
                .zip(ALL)
                .all(|(text, rule)| Rule::of_name(text.name) == Some(*rule))
        );
        assert!(Severity::Error > Severity::Warning && Severity::Warning > Severity::Hint);
    }
}
