//! Rules about the sizes of queues, lists and messages (class `Queues`).

macro_rules! queues {
    ($($before:tt)*) => { collect! { $($before)*

    SendQueueFull "send-queue-full" Queues Error:
        "the send queue is full: {outstanding} of {max} requests are outstanding, {signaled} of them \
         signaled; its CQ was {polled}",
        "a slot is free only after the completion of its request, or of a later one, was polled",
        "poll the CQ before posting more, or create the queue pair with a larger max_send_wr";
    NeverSignaled "never-signaled" Queues Error:
        "the send queue is full with {outstanding} of {max} requests, and none of them is signaled",
        "unsignaled requests free their slots only when a later signaled one completes, so the queue \
         stays full",
        "set IBV_SEND_SIGNALED at least once per max_send_wr requests, and poll its completion";
    RecvQueueFull "recv-queue-full" Queues Error:
        "the receive queue is full: of {max} receives, {outstanding} have no polled completion",
        "a slot is free only after the completion of its receive was polled, not when the message arrives",
        "poll the CQ before posting more, or create the queue with a larger size";
    CqOverrunForeseen "cq-overrun-foreseen" Queues Hint:
        "{outstanding} signaled requests are outstanding on the CQ, whose capacity is {cqe}",
        "if all complete before the CQ is polled, it overruns, and its queue pairs fail",
        "create the CQ with as many entries as requests can be outstanding, or poll it earlier";
    CqOverrun "cq-overrun" Queues Error:
        "the CQ, whose capacity is {cqe}, overran; {outstanding} requests and receives were outstanding \
         on it",
        "completions came faster than the program polled them",
        "create the CQ with max_send_wr + max_recv_wr entries of all its queue pairs";
    CqNeverPolled "cq-never-polled" Queues Warning:
        "the CQ was never polled, and {outstanding} signaled requests are outstanding",
        "whether the requests have succeeded is not known, and their slots were never free",
        "poll the CQ until the last completion, or send unsignaled";
    InlineLimit "inline-limit" Queues Error:
        "{length} bytes of inline data, and max_inline_data is {max}",
        "inline data is copied into the queue when it is posted, which has no room for more",
        "send it without IBV_SEND_INLINE, or create the queue pair with a larger max_inline_data";
    SgeLimit "sge-limit" Queues Error:
        "{count} scatter/gather elements, and {member} is {max}",
        "a request has at most as many elements as its queue was created with",
        "create the queue with a larger {member}, up to max_sge (of an SRQ max_srq_sge) of ibv_query_device";
    NoData "no-data" Queues Hint:
        "the {operation} (wr_id {wr_id}) has no data: {how}",
        "the message is empty, which is allowed, and completes without an error",
        "{todo}, unless an empty message is meant";
    ChainLoop "chain-loop" Queues Error:
        "the list contains itself: behind {count} requests or receives it continues with an earlier one",
        "the call posts request after request until next is NULL, so until the queue is full",
        "set next of the last request to NULL, and each request to zero at first";
    DatagramTooLong "datagram-too-long" Queues Error:
        "a datagram of {length} bytes (wr_id {wr_id}) is posted, and the MTU of the port is {mtu}",
        "a datagram is one packet: a device drops a longer one, or fails it",
        "send at most active_mtu of ibv_query_port, or use RC, which divides messages";
    ToItself "to-itself" Queues Warning:
        "the datagram (wr_id {wr_id}) is for this queue pair itself ({qpn}, at an address of this device), \
         which has no receive",
        "remote_qpn is this queue pair's own number: in a completion, qp_num is the receiver's number and \
         src_qp the sender's; without a receive the datagram is dropped",
        "set wr.ud.remote_qpn to the peer's number: a reply goes to src_qp of the completion; or post a \
         receive before, if the datagram is meant for itself";
    SendQueueRnic "send-queue-rnic" Queues Warning:
        "{outstanding} requests are posted without a polled completion to a send queue of {max}",
        "this device took them because the work was done; an RNIC frees slots only when a completion of a \
         later signaled request was polled, and would have refused them with ENOMEM",
        "set IBV_SEND_SIGNALED at least once per max_send_wr requests, and poll its completion before more";
    ReadLimitRnic "read-limit-rnic" Queues Warning:
        "{outstanding} READs and atomic operations are posted without a polled completion, of which \
         max_rd_atomic lets {here} go out at once; the peer's queue pair {dest_qpn} accepts {there} \
         (max_dest_rd_atomic)",
        "this device may execute one after the other; an RNIC at the peer may refuse those beyond its limit, \
         which end with IBV_WC_REM_INV_REQ_ERR",
        "set max_rd_atomic to the peer's max_dest_rd_atomic at most: exchange both with the numbers, or let \
         librdmacm negotiate them (initiator_depth, responder_resources)";
    GrhRoom "grh-room" Queues Warning:
        "a receive of {room} bytes is posted to a UD queue pair",
        "40 bytes for the GRH precede the data of a datagram, so that none fits",
        "post receives of 40 bytes more than the largest datagram, whose data begin at byte 40";

    } };
}
