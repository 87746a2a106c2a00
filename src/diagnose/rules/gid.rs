//! Rules about GIDs and address vectors (class `Gid`).

macro_rules! gid {
    ($($before:tt)*) => { collect! { $($before)*

    GidEmpty "gid-empty" Gid Error:
        "GID index {index} of port {port} is empty",
        "the table has no address at this index, so packets would have no source",
        "use index {right}";
    GidFamily "gid-family" Gid Error:
        "GID index {index} is {sgid} ({sgid_kind}), the destination is {dgid} ({dgid_kind})",
        "packets from an address of one kind cannot reach one of another",
        "use index {right}, or exchange a GID of the same kind with the peer";
    GidNoGrh "gid-no-grh" Gid Error:
        "the address vector has is_global = 0, and port {port} is Ethernet",
        "RoCE addresses its packets by GIDs, which the GRH has; LIDs do not exist there",
        "set is_global = 1, grh.dgid to the peer's GID and grh.sgid_index (here {right})";
    GidZero "gid-zero" Gid Error:
        "the destination GID is zero",
        "no port has this address: the peer's GID was not exchanged, or was not filled in",
        "have the peer send the GID at its sgid_index (ibv_query_gid), and put it into grh.dgid";
    GidUnreachable "gid-unreachable" Gid Error:
        "the destination {dgid} cannot be reached from {interface}: {error}",
        "the kernel's routing table has no route to it through the interface of GID index {index}",
        "check `ip route get {dgid}`; use a GID of the interface that it names, or add the route";
    GidType "gid-type" Gid Error:
        "GID index {index} is of type RoCE v1, and the peer does not answer",
        "RoCE v1 is not routed, and a peer that uses RoCE v2 drops its packets",
        "use index {right}, which has the same address with RoCE v2, on both sides";

    } };
}
