//! Converts attributes and path records between the kernel's and the programs' form, and compares the
//! result with the C library's functions if it is installed.
//!
//! The first byte selects the function. Up to 256 bytes each for source and destination follow.
#![no_main]

use std::sync::LazyLock;

use ibverbs::verbs::marshall::*;
use libfuzzer_sys::fuzz_target;
use libloading::Library;

#[repr(C, align(8))]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Bytes([u8; 256]);

type Copy<D, S> = unsafe extern "C" fn(*mut D, *mut S);

static C_LIBRARY: LazyLock<Option<Library>> = LazyLock::new(|| {
    let path = format!(
        "/usr/lib/{}-linux-gnu/libibverbs.so.1",
        std::env::consts::ARCH
    );
    // SAFETY: libibverbs may be loaded at any time: its constructors have no preconditions.
    unsafe { Library::new(path) }.ok()
});

fn compare<D, S>(name: &str, ours: Copy<D, S>, src: Bytes, dst: Bytes) {
    const { assert!(size_of::<D>() <= 256 && size_of::<S>() <= 256) };
    let run = |copy: Copy<D, S>| {
        let (mut src, mut dst) = (src, dst);
        // SAFETY: all members of these structs are numbers, so any bytes are valid; both buffers are
        // large enough and aligned.
        unsafe { copy((&raw mut dst).cast(), (&raw mut src).cast()) };
        dst
    };
    let ours = run(ours);
    assert_eq!(
        ours.0[size_of::<D>()..],
        dst.0[size_of::<D>()..],
        "{name} wrote beyond the struct"
    );
    if let Some(library) = &*C_LIBRARY {
        // SAFETY: the function of this name has this type.
        let theirs = *unsafe { library.get::<Copy<D, S>>(name.as_bytes()) }.unwrap();
        assert_eq!(ours, run(theirs), "{name}");
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((which, bytes)) = bytes.split_first() else {
        return;
    };
    let mut both = [0; 512];
    let len = bytes.len().min(both.len());
    both[..len].copy_from_slice(&bytes[..len]);
    let (src, dst) = both.split_at(256);
    let [src, dst] = [src, dst].map(|half| Bytes(half.try_into().unwrap()));
    match which % 4 {
        0 => compare(
            "ibv_copy_ah_attr_from_kern",
            ibv_copy_ah_attr_from_kern,
            src,
            dst,
        ),
        1 => compare(
            "ibv_copy_qp_attr_from_kern",
            ibv_copy_qp_attr_from_kern,
            src,
            dst,
        ),
        2 => compare(
            "ibv_copy_path_rec_from_kern",
            ibv_copy_path_rec_from_kern,
            src,
            dst,
        ),
        _ => compare(
            "ibv_copy_path_rec_to_kern",
            ibv_copy_path_rec_to_kern,
            src,
            dst,
        ),
    }
});
