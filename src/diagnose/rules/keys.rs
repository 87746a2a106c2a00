//! Rules about keys and access rights, here and at the peer (class `Keys`).

macro_rules! keys {
    ($($before:tt)*) => { collect! { $($before)*

    KeyUnknown "key-unknown" Keys Error:
        "the {side} key {key} belongs to no memory region that is known here",
        "it is no key of this {place}: {origin}",
        "use {member} of the region of this {place} that contains {addr}";
    KeySwapped "key-swapped" Keys Error:
        "{key} was given as {side} key, and is the {other} of the memory region {region}",
        "a region has two keys, which differ on this device: lkey for this side, rkey for the peer",
        "use {member} of the region";
    KeyDeregistered "key-deregistered" Keys Error:
        "the {side} key {key} was that of a memory region {region} that has been deregistered",
        "a key is valid until ibv_dereg_mr returns, and requests use it until they complete",
        "deregister memory only after all requests that use it have completed";
    KeyPd "key-pd" Keys Error:
        "the {side} key {key} belongs to a memory region of PD {mr_pd}, the queue pair has PD {qp_pd}",
        "a queue pair can use only the memory regions of its own protection domain",
        "register the memory in the queue pair's PD";
    KeyRange "key-range" Keys Error:
        "the access of {length} bytes at {addr} leaves the memory region {region} by {excess} bytes {end}",
        "the {side} key {key} is valid only within its region",
        "check address and length against the region's";
    KeyAccess "key-access" Keys Error:
        "the memory region {region} of the {side} key {key} lacks {right}",
        "an operation needs the right in the access flags of the region that it reads or writes",
        "register the region with {right}";
    KeyRemote "key-remote" Keys Error:
        "the peer refused a {operation} of {length} bytes at {addr} with rkey {key}",
        "{known}; possible: the rkey is unknown there or deregistered, the range leaves its region, the \
         region or the queue pair lacks {right}, or the region is of another PD",
        "compare address, rkey and access flags with what the peer registered and sent{hint}";
    QpAccess "qp-access" Keys Error:
        "the peer's queue pair {dest_qpn}, {place}, lacks {right} in its qp_access_flags",
        "an operation of a peer needs the right in the queue pair too, not only in the region",
        "set {right} with IBV_QP_ACCESS_FLAGS, at the transition to INIT for example";
    DestRdAtomic "dest-rd-atomic" Keys Error:
        "the {operation} (wr_id {wr_id}) was refused: max_dest_rd_atomic of the peer's queue pair \
         {dest_qpn}, \
         {place}, is {there}, and max_rd_atomic here is {here}",
        "the peer executes no more READs and atomic operations at once than its max_dest_rd_atomic",
        "set max_dest_rd_atomic of the peer (to RTR) to max_rd_atomic of this side at least";
    AtomicUnaligned "atomic-unaligned" Keys Error:
        "an atomic operation (wr_id {wr_id}) is at the peer's address {addr}, which is not a multiple of 8",
        "an atomic operation works on eight aligned bytes: the peer refuses it",
        "align the peer's variable, and check the offset that is added to its address";
    ReceiveTooSmall "receive-too-small" Keys Error:
        "a message of {length} bytes did not fit the receive that it consumed, of {room} bytes",
        "a message needs one receive with room for all of it{grh}",
        "post receives as large as the largest message";
    AhPd "ah-pd" Keys Error:
        "the address handle of the request (wr_id {wr_id}) belongs to the PD {ah_pd}, the queue \
         pair to {qp_pd}",
        "a queue pair can use only the address handles of its own protection domain",
        "create the address handle in the queue pair's PD";

    } };
}
