//! Answers of RDMA netlink. Each datagram has its length in front, two bytes, little end first.
#![no_main]

use ibverbs::discover::netlink::{Next, Reply, device_number};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut reply = Reply::default();
    let mut rest = bytes;
    // Bytes beyond the last one taken end the answer after so many messages.
    let most = bytes.last().map_or(0, |&last| usize::from(last) % 8);
    let mut taken = 0;
    while let [low, high, tail @ ..] = rest {
        let len = usize::from(u16::from_le_bytes([*low, *high])).min(tail.len());
        let (datagram, tail) = tail.split_at(len);
        rest = tail;
        let inside = datagram.as_ptr_range();
        let answer = reply.datagram(datagram, |attributes| {
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
            if let Some(coded) = attributes.chardev {
                let (major, minor) = device_number(coded);
                assert!(major < 1 << 12 && minor < 1 << 20);
            }
            taken += 1;
            taken <= most
        });
        if answer != Ok(Next::More) {
            break;
        }
    }
});
