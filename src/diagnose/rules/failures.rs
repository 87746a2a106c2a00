//! Rules about arguments of any call, and failures that no other rule explains (class `Failures`).

macro_rules! failures {
    ($($before:tt)*) => { collect! { $($before)*

    NullObject "null-object" Failures Error:
        "{member} is NULL",
        "the call needs this object ({kind}): it was never set, or the call that creates it has \
         failed before",
        "check what the call that creates it returned, and set {member}";
    OtherContext "other-context" Failures Error:
        "{member}, the {kind} {address}, belongs to the device context {other}, and the call to {context}",
        "each ibv_open_device makes a context of its own, and objects of two contexts do not fit together",
        "create all objects that belong together in one context";
    UnknownBits "unknown-bits" Failures Error:
        "{member} is {value}, of which the bits {bits} mean nothing in this call",
        "neither verbs.h nor this library has such flags: the member may not have been initialised",
        "set the whole structure to zero at first, and then only flags of verbs.h";
    Crash "crash" Failures Error:
        "the program is about to end: {what} was read at {addr}, called from {from}",
        "a call of this library was given an object, or a list of requests or elements (next, sg_list), \
         that is NULL, was never set, was destroyed, or whose memory was freed",
        "check what the calls that create objects returned, use no object after it is destroyed, and set \
         each request to zero at first";
    CrashInline "crash-inline" Failures Error:
        "the program is about to end: its own code has read a NULL pointer, at {addr}, called from {from}",
        "possible: an object or a member of an rdma_cm_id was NULL, and the program, or ibv_post_send, \
         ibv_poll_cq, ibv_wr_* and others, which are inline functions, read what it points to",
        "check what the calls that create objects returned; qp and the CQs of an rdma_cm_id are NULL before \
         rdma_create_qp, and those of a listening id always";
    Argument "argument" Failures Error:
        "{what}",
        "{why}",
        "{todo}";
    CallFailed "call-failed" Failures Error:
        "the arguments were {arguments}",
        "{why}",
        "{todo}";
    RequestFailed "request-failed" Failures Error:
        "{operation} (wr_id {wr_id}) completed with status {status} ({text})",
        "{why}",
        "{todo}";

    } };
}
