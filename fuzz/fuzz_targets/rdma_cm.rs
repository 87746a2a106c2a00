//! Commands of `/dev/infiniband/rdma_cm`, and messages of a peer between them.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| uroce::internals::cm::commands(data));
