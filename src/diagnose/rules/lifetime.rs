//! Rules about the order of destruction, and about threads and forked processes (classes `Lifetime` and
//! `Threads`).

macro_rules! lifetime {
    ($($before:tt)*) => { collect! { $($before)*

    Busy "busy" Lifetime Error:
        "it is still used by {users}",
        "an object can be destroyed only after all objects that use it",
        "destroy these first";
    MrInUse "mr-in-use" Lifetime Warning:
        "the memory region {region} was deregistered while {count} requests of queue pair {qpn} that \
         use it were outstanding, the first with wr_id {wr_id}",
        "the device may still read or write the memory, and fails the requests",
        "wait for the completions first";
    AhInUse "ah-in-use" Lifetime Warning:
        "the address handle was destroyed while {count} requests of queue pair {qpn} that use it were \
         outstanding, the first with wr_id {wr_id}",
        "the device may still need the address",
        "wait for the completions first; unsignaled requests complete with a later signaled one";
    EventsUnacked "events-unacked" Lifetime Error:
        "{count} {events} were received and not acknowledged",
        "the call blocks until all events of the object are acknowledged, so it does not return",
        "call {verb} for each event before";
    EventsOveracked "events-overacked" Lifetime Error:
        "{count} events more were acknowledged than were received",
        "destroying the object waits until both numbers are equal, so the call does not return",
        "acknowledge each event once: pass the number of events received since to ibv_ack_cq_events";
    ChannelUnread "channel-unread" Lifetime Hint:
        "the CQ was armed (times: {armed}), and its completion channel has an event that was never read",
        "each event stays in the channel until ibv_get_cq_event reads it",
        "wait with ibv_get_cq_event, or do not arm the CQ";
    CmOrder "cm-order" Lifetime Warning:
        "{what}",
        "{why}",
        "{todo}";
    CmQp "cm-qp" Lifetime Hint:
        "{what}",
        "{why}",
        "{todo}";
    Leak "leak" Lifetime Warning:
        "the device is closed with {objects} left",
        "the kernel releases them, but their memory in this process is lost",
        "destroy all objects before ibv_close_device";
    ThreadDomain "thread-domain" Threads Error:
        "two threads, {first} and {second}, were in {verb} at the same time",
        "the {what} was created for one thread at a time, so it has no lock",
        "serialise the calls, or create it without {flag}";
    CompletionTaken "completion-taken" Threads Warning:
        "{thread} has polled the CQ for {seconds} s, and found nothing: the completion of its {what} (wr_id \
         {wr_id}) was polled by {by} {ago} s ago",
        "threads that poll one CQ get each completion once, whoever has posted the request: if the other \
         thread drops what is not its own, this one waits without end",
        "give each thread a CQ of its own, or let the thread that polls a completion hand it, by wr_id or \
         qp_num, to the one that waits for it";
    ChildVerb "child-verb" Threads Error:
        "process {pid} called {verb} on an object that process {parent} created",
        "after fork a child does not own the device's queues: they belong to its parent",
        "open the device in the child, or exec; or use the objects in the parent only";
    ForkInitLate "fork-init-late" Threads Error:
        "ibv_fork_init was called after memory had been registered",
        "regions registered before are not protected from copy-on-write",
        "call ibv_fork_init before any other verb, or set IBV_FORK_SAFE=1";
    DeadObject "dead-object" Lifetime Error:
        "{member}, the {kind} {address}, has been destroyed",
        "an object can be used until its destroy or dealloc call, and destroyed once",
        "use objects only while they exist, and set pointers to NULL when their object is destroyed";

    } };
}
