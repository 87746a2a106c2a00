//! A peer of the same host that writes anything into the memory of a channel.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| uroce::internals::shm::channel(data));
