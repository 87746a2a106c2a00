//! Rules about events and completions that do not come, or that nobody reads (class `Events`).

macro_rules! events {
    ($($before:tt)*) => { collect! { $($before)*

    NotifyNoPoll "notify-no-poll" Events Warning:
        "the CQ was found empty, then armed, and not polled again before the next event",
        "a completion that arrives between the last poll and ibv_req_notify_cq causes no event, so the \
         program may wait indefinitely",
        "poll the CQ once more after ibv_req_notify_cq, before waiting";
    EventsCoalesced "events-coalesced" Events Warning:
        "an event was answered with a poll that returned as many completions as requested ({count}), and \
         the CQ was armed and waited on without another",
        "one event may stand for many completions, and those that remain cause no further event",
        "after each event poll until ibv_poll_cq returns 0";
    NoCompletion "no-completion" Events Warning:
        "the CQ has been polled for {seconds} s, and is empty",
        "{why}",
        "{todo}";
    NoEvent "no-event" Events Warning:
        "a thread has waited for an event of the channel for {seconds} s, and none has come",
        "{why}",
        "{todo}";
    NoCmEvent "no-cm-event" Events Warning:
        "a thread has waited for an event of rdma_cm for {seconds} s, and none has come",
        "{why}",
        "{todo}";
    NoAsyncEvent "no-async-event" Events Hint:
        "the only thread of the program has waited for an asynchronous event for {seconds} s, and none has \
         come",
        "{why}",
        "{todo}";
    UnreadError "unread-error" Events Warning:
        "the queue pair is destroyed, and nobody has polled that the request (wr_id {wr_id}) completed with \
         status {status} ({text})",
        "a request that was posted may fail, and only its completion says so",
        "poll the CQ until the completions of all requests have come, and examine status of each";
    AsyncError "async-error" Events Error:
        "the asynchronous event {event} was reported",
        "{why}",
        "{todo}";

    } };
}
