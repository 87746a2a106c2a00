//! Rules about the way to the peer: acknowledgments, RNR NAKs, connections of librdmacm (classes `Connection`
//! and `Rnr`).

macro_rules! connection {
    ($($before:tt)*) => { collect! { $($before)*

    RtrTimeout "rtr-timeout" Connection Error:
        "no MAC address was found for {dgid} from GID index {index} ({sgid})",
        "neighbour resolution (ARP or NDP) got no answer: the peer is down, or not on this network",
        "check `ping {dgid}` and `ip neigh`; check that the peer's GID is current";
    RetryExceeded "retry-exceeded" Connection Error:
        "the peer {dgid}, QP {dest_qpn}, did not acknowledge: timeout {timeout} ({timeout_ms} ms), \
         retry_cnt {retry_cnt}, path MTU {mtu}; {answered}",
        "{peer}",
        "{todo}";
    RnrExceeded "rnr-exceeded" Rnr Error:
        "a message to the peer {dgid}, QP {dest_qpn}, found no receive posted there, after {rnr_retry} \
         retries",
        "{peer}",
        "post receives before the peer sends, and again for each that is consumed; a larger rnr_retry here \
         (7: without end) or min_rnr_timer there (0: the longest, 655.36 ms) only gives it more time";
    CmFailed "cm-failed" Connection Error:
        "the id is in the state: {state}",
        "{why}",
        "{todo}";
    CmEvent "cm-event" Connection Error:
        "the event {event} was reported, status {status}",
        "{why}",
        "{todo}";

    } };
}
