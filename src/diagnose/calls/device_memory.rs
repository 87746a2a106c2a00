//! Wrappers of device memory. The functions that copy to and from it are pointers in the object, which
//! wrappers replace.

use core::ffi::{c_int, c_uint, c_void};

use ibverbs_abi::*;

use super::super::finding::{Finding, Kind, Object, Outcome};
use super::super::originals::original;
use super::super::report;
use super::super::rules::Rule;
use super::super::shadow::{CopyOps, DeviceMemory};
use super::argument::object;
use super::failed::{check_arguments, report_failure};
use super::{check_process, memory, observe, with};

pub unsafe extern "C" fn alloc_dm(
    context: *mut ibv_context,
    attr: *mut ibv_alloc_dm_attr,
) -> *mut ibv_dm {
    check_process(context, "ibv_alloc_dm");
    // SAFETY: the program's attributes are readable, and its context is open and wrapped (see the module
    // above). New device memory is this thread's alone.
    unsafe {
        let length = (*attr).length as u64;
        let dm = (original(context).alloc_dm)(context, attr);
        let Some(new) = dm.as_mut() else { return dm };
        let memory = DeviceMemory {
            context: context as usize,
            length,
            ops: CopyOps {
                to: new.memcpy_to_dm,
                from: new.memcpy_from_dm,
            },
        };
        // Without a place for the functions nothing is replaced.
        if with(|shadow| shadow.device_memories.add(dm as usize, memory)).is_some() {
            new.memcpy_to_dm = new.memcpy_to_dm.map(|_| memcpy_to_dm as _);
            new.memcpy_from_dm = new.memcpy_from_dm.map(|_| memcpy_from_dm as _);
        }
        dm
    }
}

pub unsafe extern "C" fn free_dm(dm: *mut ibv_dm) -> c_int {
    // SAFETY: the object is alive (see the module above).
    check_process(unsafe { (*dm).context }, "ibv_free_dm");
    let address = dm as usize;
    let taken = with(|shadow| shadow.device_memories.take(address)).flatten();
    // SAFETY: the memory is alive, and its context is open and wrapped (see the module above).
    let ret = unsafe { (original((*dm).context).free_dm)(dm) };
    let outcome = Outcome::of(ret);
    observe(|shadow| match taken {
        Some(memory) if outcome.failed() => {
            shadow.device_memories.add(address, memory);
            shadow.busy(Kind::Dm, address, "ibv_free_dm", outcome)
        }
        Some(_) => {
            shadow.destroyed(Kind::Dm, address);
            None
        }
        None => None,
    });
    ret
}

pub unsafe extern "C" fn reg_dm_mr(
    pd: *mut ibv_pd,
    dm: *mut ibv_dm,
    offset: u64,
    length: usize,
    access: c_uint,
) -> *mut ibv_mr {
    const CALL: &str = "ibv_reg_dm_mr";
    // SAFETY: the domain is alive, and its context is open and wrapped (see the module above).
    let mr = unsafe { (original((*pd).context).reg_dm_mr)(pd, dm, offset, length, access) };
    let range = (offset, length as u64);
    // SAFETY: the domain is alive, and the region is NULL or new.
    unsafe { memory::registered(pd, mr, None, 0, range.1, access, CALL) };
    observe(|shadow| {
        if !mr.is_null() {
            shadow.device_memories.add_region(mr as usize, dm as usize);
        }
        let outcome = Outcome::of_pointer(mr.is_null());
        let memories = &shadow.device_memories;
        memories.check_range(dm as usize, range, CALL, outcome)
    });
    mr
}

/// The provider's functions of an allocation. Reports memory that was freed, and what is wrong with a copy.
///
/// # Safety
/// `dm` is alive, or was freed and is readable still.
unsafe fn copying(
    dm: *mut ibv_dm,
    (offset, length): (u64, usize),
    call: &'static str,
) -> Option<CopyOps> {
    let address = dm as usize;
    let known = with(|shadow| shadow.device_memories.get(address).copied()).flatten();
    let Some(known) = known else {
        let arguments = || vec![object("dm", Kind::Dm, address)];
        // SAFETY: as the caller promises.
        unsafe {
            let context = (*dm).context;
            check_arguments(context, call, &Outcome::Called, report::count(), arguments);
        }
        return None;
    };
    check_process(known.context as *mut ibv_context, call);
    observe(|shadow| {
        let range = (offset, length as u64);
        let memories = &shadow.device_memories;
        memories.check_range(address, range, call, Outcome::Called)
    });
    Some(known.ops)
}

/// Copies by the provider's function, as `copy` calls it. Reports what is wrong, and a copy that has failed,
/// unless something else was reported.
///
/// # Safety
/// `dm` is alive, or was freed and is readable still.
unsafe fn copied(
    dm: *mut ibv_dm,
    (offset, host_addr, length): (u64, *const c_void, usize),
    call: &'static str,
    copy: impl FnOnce(CopyOps) -> Option<c_int>,
) -> c_int {
    let count_before = report::count();
    // SAFETY: as the caller promises.
    let ops = unsafe { copying(dm, (offset, length), call) };
    let Some(ret) = ops.and_then(copy) else {
        return libc::EINVAL;
    };
    let outcome = Outcome::of(ret);
    if outcome.is(libc::EINVAL)
        && (offset | length as u64) % 4 != 0
        && report::count() == count_before
    {
        let found = Finding::new(
            Rule::Argument,
            Object::at(Kind::Dm, dm as usize),
            call,
            outcome,
        )
        .with_texts(
            format!("dm_offset is {offset} and length {length}, which are not both multiples of 4"),
            "devices copy to and from their memory in words of four bytes",
            "align offset and length to 4, and pad the data",
        );
        observe(|_| vec![found]);
        return ret;
    }
    let show = || format!("dm_offset = {offset}, host_addr = {host_addr:p}, length = {length}");
    // SAFETY: the memory is known, so it is alive, and its context is open.
    unsafe { report_failure((*dm).context, call, outcome, count_before, show) };
    ret
}

unsafe extern "C" fn memcpy_to_dm(
    dm: *mut ibv_dm,
    dm_offset: u64,
    host_addr: *const c_void,
    length: usize,
) -> c_int {
    let arguments = (dm_offset, host_addr, length);
    // SAFETY: the memory is alive, or was freed and is readable still (see the module above). The function
    // is the provider's for it, and gets the program's arguments.
    unsafe {
        copied(dm, arguments, "ibv_memcpy_to_dm", |ops| {
            Some(ops.to?(dm, dm_offset, host_addr, length))
        })
    }
}

unsafe extern "C" fn memcpy_from_dm(
    host_addr: *mut c_void,
    dm: *mut ibv_dm,
    dm_offset: u64,
    length: usize,
) -> c_int {
    let arguments = (dm_offset, host_addr.cast_const(), length);
    // SAFETY: as in `memcpy_to_dm`.
    unsafe {
        copied(dm, arguments, "ibv_memcpy_from_dm", |ops| {
            Some(ops.from?(host_addr, dm, dm_offset, length))
        })
    }
}
