//! Messages of the communication manager (MADs).
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| uroce::internals::cm::mad(data));
