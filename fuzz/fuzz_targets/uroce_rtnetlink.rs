//! Parses what uroce reads from rtnetlink: interfaces, addresses, default routes, notifications.
#![no_main]

use ibverbs_netlink::rtnl::{Route, address, concerns, link, route};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|datagram: &[u8]| {
    let concerned = concerns(datagram, 7);
    // A truncated datagram must not concern an interface that the whole one does not concern.
    if let Some((_, shorter)) = datagram.split_last() {
        assert!(concerned || !concerns(shorter, 7));
    }
    if let Some(link) = link::parse(datagram) {
        assert!(link.name.len() <= 3 * datagram.len());
        assert!(link.up || !link.running);
    }
    if let Some(usable) = address::parse_usable(datagram) {
        assert_eq!(address::parse(datagram), Some(usable));
    }
    let _ = route::parse(datagram).is_some_and(|route: Route| route.is_default());
});
