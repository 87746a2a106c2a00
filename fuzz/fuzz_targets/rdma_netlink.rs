//! Parses RDMA netlink replies. The input is a sequence of datagrams, each preceded by its length (2 bytes,
//! little-endian).
#![no_main]

use ibverbs_netlink::{
    message::ReplyState,
    nldev::{DeviceNumber, ReplyParser, decode_dev},
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut parser = ReplyParser::default();
    let mut rest = bytes;
    // The last byte selects after how many messages the callback stops the parser.
    let limit = bytes.last().map_or(0, |&last| usize::from(last) % 8);
    let mut taken = 0;
    while let [low, high, tail @ ..] = rest {
        let len = usize::from(u16::from_le_bytes([*low, *high])).min(tail.len());
        let (datagram, tail) = tail.split_at(len);
        rest = tail;
        let inside = datagram.as_ptr_range();
        let state = parser.datagram(datagram, |attributes| {
            for text in [attributes.dev_name, attributes.chardev_name]
                .into_iter()
                .flatten()
            {
                let text_range = text.as_ptr_range();
                assert!(
                    text.is_empty()
                        || inside.start <= text_range.start && text_range.end <= inside.end
                );
                assert!(!text.contains(&0));
            }
            if let Some(encoded) = attributes.chardev {
                let DeviceNumber { major, minor } = decode_dev(encoded);
                assert!(major < 1 << 12 && minor < 1 << 20);
            }
            taken += 1;
            taken <= limit
        });
        if state != Ok(ReplyState::Incomplete) {
            break;
        }
    }
});
