//! What rtnetlink tells uroce of interfaces and addresses.
#![no_main]

use libfuzzer_sys::fuzz_target;
use uroce::internals::rtnl;

fuzz_target!(|datagram: &[u8]| {
    let told = rtnl::concerns(datagram, 7);
    // What is cut off tells no more than the whole.
    if let Some((_, shorter)) = datagram.split_last() {
        assert!(told || !rtnl::concerns(shorter, 7));
    }
    if let Some(link) = rtnl::link(datagram) {
        assert!(link.name.len() <= 3 * datagram.len());
    }
    rtnl::address(datagram);
    rtnl::default_route(datagram);
});
