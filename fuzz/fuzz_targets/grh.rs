//! Parses the 40 bytes in front of a UD message, and compares the result with the C library's
//! ibv_init_ah_from_wc if that is installed.
#![no_main]

use core::{ffi::c_int, mem::MaybeUninit};
use std::sync::LazyLock;

use ibverbs::verbs::ah_from_wc::{Sender, flow_label};
use ibverbs_abi::*;
use libfuzzer_sys::fuzz_target;
use libloading::Library;

type InitAh = unsafe extern "C" fn(
    *mut ibv_context,
    u8,
    *mut ibv_wc,
    *mut ibv_grh,
    *mut ibv_ah_attr,
) -> c_int;

static C_LIBRARY: LazyLock<Option<Library>> = LazyLock::new(|| {
    let path = format!(
        "/usr/lib/{}-linux-gnu/libibverbs.so.1",
        std::env::consts::ARCH
    );
    // SAFETY: libibverbs may be loaded at any time: its constructors have no preconditions.
    unsafe { Library::new(path) }.ok()
});

/// Returns the C library's errno: EBADF if it accepts the header. It then searches for the receiver's
/// GID by ioctl, which fails because the context has no descriptor.
fn theirs(library: &Library, grh: &[u8; 40]) -> c_int {
    // SAFETY: the function has this type.
    let init = unsafe { library.get::<InitAh>(b"ibv_init_ah_from_wc") }.unwrap();
    // SAFETY: integers, pointers and optional functions, for which zeros are valid.
    let (mut context, mut wc, mut attr) = unsafe {
        (
            MaybeUninit::<verbs_context>::zeroed().assume_init(),
            MaybeUninit::<ibv_wc>::zeroed().assume_init(),
            MaybeUninit::<ibv_ah_attr>::zeroed().assume_init(),
        )
    };
    let mut private = [0_u64; 256];
    context.priv_ = private.as_mut_ptr().cast();
    context.context.cmd_fd = -1;
    context.context.abi_compat = core::ptr::without_provenance_mut(usize::MAX);
    wc.wc_flags = IBV_WC_GRH;
    let mut grh = *grh;
    let (context, grh) = (&raw mut context.context, (&raw mut grh).cast());
    // SAFETY: of the context the library reads only the descriptor and the private part, which is longer
    // here than in any release.
    let ret = unsafe { init(context, 1, &mut wc, grh, &mut attr) };
    assert_eq!(ret, -1);
    Errno::last().0
}

/// Whether the C library may take a wrong checksum of an IPv4 header for right, or the other way round
/// (ARCHITECTURE.md, "Intended differences"): it sums up the words without the checksum, in the byte order of
/// this machine, and loses a carry, or gets zero, of which ones' complement has two.
fn has_other_checksum(grh: &[u8; 40]) -> bool {
    const CHECKSUM: usize = 5;
    let words = grh[20..].chunks_exact(2).enumerate();
    let sum: u32 = words
        .filter(|(i, _)| *i != CHECKSUM)
        .map(|(_, word)| u32::from(u16::from_ne_bytes([word[0], word[1]])))
        .sum();
    (sum & 0xffff) + (sum >> 16) >= 0xffff
}

fuzz_target!(|grh: [u8; 40]| {
    assert!(flow_label(&grh) < 1 << 20);
    let errno = match Sender::of(&grh) {
        Ok(sender) => {
            assert!(grh.windows(4).any(|part| part == &sender.gid[12..]));
            assert_ne!(sender.receiver[0], 0xff, "a multicast group");
            libc::EBADF
        }
        Err(errno) => errno.0,
    };
    if let Some(library) = C_LIBRARY.as_ref().filter(|_| !has_other_checksum(&grh)) {
        assert_eq!(theirs(library, &grh), errno);
    }
});
