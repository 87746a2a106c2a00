//! Converts a program's flow specification to the kernel's.
#![no_main]

use ibverbs::uverbs::cmd::flow_spec::{HANDLE, KERNEL_MAX, Names, to_kernel};
use ibverbs_abi::IBV_FLOW_SPEC_INNER;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|spec: &[u8]| {
    let mut to = [0; KERNEL_MAX];
    match to_kernel(spec, &mut to) {
        Err(errno) => assert!([libc::EINVAL, libc::EOPNOTSUPP].contains(&errno.0)),
        Ok((size, names)) => {
            assert!((8..=KERNEL_MAX).contains(&size) && size % 4 == 0);
            assert_eq!(to[4..6], (size as u16).to_ne_bytes());
            assert!(
                to[size..].iter().all(|&byte| byte == 0),
                "written beyond the returned size"
            );
            let kind = |bytes: &[u8]| u32::from_ne_bytes(bytes[..4].try_into().unwrap());
            assert_eq!((kind(spec) ^ kind(&to)) & IBV_FLOW_SPEC_INNER, 0);
            if names != Names::Nothing {
                assert!(HANDLE + 4 <= size);
            }
        }
    }
});
