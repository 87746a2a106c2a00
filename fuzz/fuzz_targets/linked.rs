//! Executes commands that a provider built, on a fake kernel that returns anything.
//!
//! This program's `ioctl` is that kernel. It changes what the real one may change (the `data` of object
//! handles, flags, the error), and also overwrites the other members of the attributes, which the
//! library must tolerate.
#![no_main]

use core::{
    ffi::{c_int, c_ulong, c_void},
    mem::{MaybeUninit, size_of},
    ptr,
};
use std::cell::RefCell;

use ibverbs::uverbs::{
    fallback::Needs,
    ioctl::Command,
    linked::{__ioctl_final_num_attrs, execute, execute_ioctl, needs},
    state::State,
};
use ibverbs_abi::*;
use libfuzzer_sys::{arbitrary::Unstructured, fuzz_target};

/// The response that the fake kernel is to give, and the attributes that it returned.
#[derive(Default)]
struct Kernel {
    errno: c_int,
    script: Vec<u8>,
    answered: Vec<(u16, u16, u64)>,
}

thread_local! {
    static KERNEL: RefCell<Kernel> = RefCell::default();
}

/// Replaces libc's function for the library in this program.
///
/// # Safety
/// `arg` points to an ioctl header that is followed by `num_attrs` attributes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ioctl(_fd: c_int, request: c_ulong, arg: *mut c_void) -> c_int {
    assert_eq!(request, RDMA_VERBS_IOCTL as c_ulong);
    let header = arg.cast::<ib_uverbs_ioctl_hdr>();
    // SAFETY: the caller guarantees a header with `num_attrs` attributes after it.
    let attrs = unsafe {
        let count = usize::from((*header).num_attrs);
        assert_eq!(
            usize::from((*header).length),
            size_of::<ib_uverbs_ioctl_hdr>() + count * size_of::<ib_uverbs_attr>()
        );
        core::slice::from_raw_parts_mut(header.add(1).cast::<ib_uverbs_attr>(), count)
    };
    KERNEL.with_borrow_mut(|kernel| {
        let mut script = Unstructured::new(&kernel.script);
        for attr in &mut *attrs {
            attr.flags = script.arbitrary().unwrap_or(attr.flags);
            attr.data = script.arbitrary().unwrap_or(attr.data);
            attr.len = script.arbitrary().unwrap_or(attr.len);
        }
        kernel.answered = attrs
            .iter()
            .map(|attr| (attr.flags, attr.len, attr.data))
            .collect();
        if kernel.errno == 0 {
            return 0;
        }
        // SAFETY: this thread's errno.
        unsafe { *libc::__errno_location() = kernel.errno };
        -1
    })
}

const ROOM: usize = 12;

/// A command buffer followed by room for attributes, as declared by DECLARE_COMMAND_BUFFER.
#[repr(C)]
struct Block {
    buffer: ibv_command_buffer,
    attrs: [ib_uverbs_attr; ROOM],
    after: u64,
}

const CANARY: u64 = 0x1357_9bdf_0246_8ace;

impl Block {
    fn new(input: &mut Unstructured, data: *mut u8, room: usize) -> Box<Block> {
        // SAFETY: all members are numbers and pointers, which may be zero.
        let mut block: Box<Block> = Box::new(unsafe { MaybeUninit::zeroed().assume_init() });
        block.after = CANARY;
        let count = input.int_in_range(0..=4).unwrap_or(0).min(room);
        for attr in &mut block.attrs[..count] {
            *attr = ib_uverbs_attr {
                attr_id: UVERBS_ID_DRIVER_NS as u16
                    | u16::from(input.arbitrary::<u8>().unwrap_or(0) & 7),
                len: u16::from(input.arbitrary::<u8>().unwrap_or(0) & 31),
                flags: input.arbitrary().unwrap_or(0),
                attr_data: ib_uverbs_attr_data { reserved: 0 },
                data: data as u64,
            };
        }
        // The index is that of one of the provider's attributes, or _UHW_NO_INDEX.
        let index = input.arbitrary::<u8>().unwrap_or(0);
        block.buffer.uhw_in_idx = if usize::from(index) < count {
            index
        } else {
            _UHW_NO_INDEX
        };
        block.buffer.uhw_out_idx = _UHW_NO_INDEX;
        block.buffer.flags = input.arbitrary::<u8>().unwrap_or(0) & 7;
        let first = (&raw mut block.attrs).cast::<ib_uverbs_attr>();
        block.buffer.next_attr = first.wrapping_add(count);
        block.buffer.last_attr = first.wrapping_add(room);
        block
    }

    fn count(&self) -> usize {
        (self.buffer.next_attr as usize - (&raw const self.attrs) as usize)
            / size_of::<ib_uverbs_attr>()
    }

    fn shown(&self) -> Vec<(u16, u16, u64)> {
        self.attrs[..self.count()]
            .iter()
            .map(|a| (a.flags, a.len, a.data))
            .collect()
    }
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Unstructured::new(bytes);
    // The data that the attributes point to.
    let mut data = [0x55_u8; 64];
    let room = input.int_in_range(0..=ROOM).unwrap_or(ROOM);
    let mut blocks: Vec<Box<Block>> = (0..input.int_in_range(1..=4).unwrap_or(1))
        .map(|i| {
            Block::new(
                &mut input,
                data.as_mut_ptr(),
                if i == 0 { room } else { ROOM },
            )
        })
        .collect();
    for i in (0..blocks.len() - 1).rev() {
        blocks[i].buffer.next = &raw mut blocks[i + 1].buffer;
    }
    let whole = input.arbitrary().unwrap_or(false);
    let errno = [0, 0, 0, libc::EIO, libc::ENOTTY, libc::EPROTONOSUPPORT];
    let errno = *input.choose(&errno).unwrap_or(&0);
    KERNEL.set(Kernel {
        errno,
        script: input.take_rest().to_vec(),
        answered: Vec::new(),
    });
    let before: Vec<_> = blocks.iter().map(|block| block.shown()).collect();
    let total: usize = before.iter().map(Vec::len).sum();
    let linked = total - before[0].len();

    let mut state = State::new(1);
    // SAFETY: a context may be all zeros; the library reads only its descriptor and private part.
    let mut context: Box<verbs_context> = Box::new(unsafe { MaybeUninit::zeroed().assume_init() });
    context.priv_ = (&raw mut state).cast();
    context.context.cmd_fd = -1;
    context.context.abi_compat = ptr::without_provenance_mut(usize::MAX);
    let context = &raw mut context.context;
    let first = &raw mut blocks[0].buffer;

    // SAFETY: the blocks are live, linked command buffers.
    unsafe {
        assert_eq!(__ioctl_final_num_attrs(3, first) as usize, 3 + total);
        needs(first, Needs::default());
    }
    let (result, sent) = if whole {
        // SAFETY: the blocks are live, linked command buffers, and the context is live.
        let result = unsafe { execute_ioctl(context, first) };
        let fits =
            before[0].len() + linked <= room && blocks[0].buffer.flags & CMDB_BUFFER_ERROR == 0;
        assert_eq!(result, if fits { errno } else { libc::EINVAL });
        (result, 0)
    } else {
        let mut command = Command::<10>::new(1, 2);
        command.object(1, 2);
        command.u64(2, 3);
        // SAFETY: the blocks are live, linked command buffers, and the context is live.
        let result = unsafe { execute(context, &mut command, first) };
        let expected = if total > 8 { libc::EINVAL } else { errno };
        let result = result.map_or_else(|errno| errno.0, |()| 0);
        assert_eq!(result, expected);
        (result, 2)
    };
    let answered = KERNEL.with_borrow(|kernel| kernel.answered.clone());
    // Results are copied to the provider's attributes; after a failure these are unchanged.
    let mut at = if whole { before[0].len() } else { sent };
    for (i, (block, before)) in blocks.iter().zip(&before).enumerate() {
        assert_eq!(block.after, CANARY);
        if whole && i == 0 {
            continue;
        }
        let expected = if result == 0 {
            &answered[at..at + before.len()]
        } else {
            before
        };
        assert_eq!(block.shown(), expected);
        at += before.len();
    }
    assert_eq!(data, [0x55; 64]);
});
