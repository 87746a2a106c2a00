//! Rules about the states of queue pairs, and their attributes (class `States`).

macro_rules! states {
    ($($before:tt)*) => { collect! { $($before)*

    QpTransition "qp-transition" States Error:
        "there is no transition from {from} to {to}",
        "a queue pair goes from RESET to INIT, RTR and RTS, one after the other, and from any to ERR \
         or RESET",
        "modify it to {next} first";
    QpAttrMissing "qp-attr-missing" States Error:
        "the attribute mask for {from} to {to} of a {type} queue pair lacks {bits}",
        "the transition requires these attributes (specification 11.2.4.2)",
        "set the members of ibv_qp_attr, and the bits in the mask";
    QpAttrInvalid "qp-attr-invalid" States Error:
        "the attribute mask for {from} to {to} of a {type} queue pair has {bits}",
        "these attributes cannot change in this transition (specification 11.2.4.2)",
        "remove the bits from the mask";
    PostState "post-state" States Error:
        "the queue pair is in {state}",
        "{verb} needs {needed}",
        "modify the queue pair to {needed} first, and check what ibv_modify_qp returned{hint}";
    PostInError "post-in-error" States Error:
        "the queue pair is in {state} since a request (wr_id {wr_id}, {operation}) completed with status \
         {status} ({text})",
        "requests posted in this state complete with WR_FLUSH_ERR at once",
        "remove the cause of that first error, then {recovery}";
    PostAfterErr "post-after-err" States Hint:
        "the {operation} (wr_id {wr_id}) of {length} bytes is posted to a queue pair that the program has \
         modified to ERR",
        "requests posted in this state complete with WR_FLUSH_ERR, and nothing of them is sent",
        "post them before the queue pair is modified to ERR; a drain posts a request without data, whose \
         completion shows that all before it are done";
    MtuDiffers "mtu-differs" States Warning:
        "path MTU is {mtu} here and {peer_mtu} at the peer's queue pair {peer_qpn}",
        "packets of the larger MTU are refused by the side with the smaller one",
        "set the smaller of the two on both sides";
    PsnDiffers "psn-differs" States Warning:
        "{sender} sends from PSN {sq_psn}, {receiver} expects {rq_psn}",
        "a receiver drops packets whose PSN it does not expect, so nothing arrives",
        "exchange the PSNs: rq_psn of each side is sq_psn of the other";
    PairQpn "pair-qpn" States Warning:
        "this queue pair ({qpn}) names {dest_qpn} as its peer, which names {other}",
        "packets of a connection are accepted only from the queue pair that dest_qp_num names",
        "exchange the numbers anew: dest_qp_num of each side is qp_num of the other";
    RdAtomicZero "rd-atomic-zero" States Error:
        "the {operation} (wr_id {wr_id}) is posted, and max_rd_atomic of the queue pair is 0",
        "the queue pair may have no READ or atomic operation outstanding: many devices refuse it",
        "set max_rd_atomic (to RTS) here, and max_dest_rd_atomic (to RTR) at the peer, to 1 at least; with \
         librdmacm: initiator_depth of rdma_conn_param here, responder_resources at the peer";
    OpcodeType "opcode-type" States Error:
        "the {operation} (wr_id {wr_id}) is posted to a {type} queue pair",
        "{type} has {has} (specification, table 44)",
        "use a queue pair of type RC for RDMA READ and atomic operations, and RC or UC for RDMA WRITE";
    AttrRange "attr-range" States Error:
        "{member} is {value}, and valid values are {min} to {max}",
        "{meaning}{hint}",
        "set {member} to one of them before the call, and the whole structure to zero at first";

    } };
}
