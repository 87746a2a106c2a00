//! Wrappers of protection domains, memory regions and windows, address handles.

use core::ffi::{c_int, c_void};

use ibverbs_abi::*;

use super::super::check::{gid, memory};
use super::super::facts;
use super::super::finding::{Finding, Kind, Object, Outcome};
use super::super::originals::original;
use super::super::rules::Rule;
use super::super::shadow::{Mr, Pd};
use super::{check_process, observe, preserving_errno, with};
use crate::provider::software;

pub unsafe extern "C" fn alloc_pd(context: *mut ibv_context) -> *mut ibv_pd {
    check_process(context, "ibv_alloc_pd");
    // SAFETY: the context is open and wrapped (see the module above).
    let pd = unsafe { (original(context).alloc_pd)(context) };
    add_pd(context, pd, 0, false);
    pd
}

pub unsafe extern "C" fn alloc_parent_domain(
    context: *mut ibv_context,
    attr: *mut ibv_parent_domain_init_attr,
) -> *mut ibv_pd {
    // SAFETY: the program's attributes are readable. The context is open and wrapped (see the module above).
    unsafe {
        let (parent, td) = ((*attr).pd, (*attr).td);
        let pd = (original(context).alloc_parent_domain)(context, attr);
        add_pd(context, pd, parent as usize, !td.is_null());
        pd
    }
}

fn add_pd(context: *mut ibv_context, pd: *mut ibv_pd, parent: usize, single_threaded: bool) {
    if !pd.is_null() {
        let new = Pd {
            context: context as usize,
            parent,
            single_threaded,
            had_windows: false,
        };
        with(|shadow| shadow.pds.add(pd as usize, new));
    }
}

pub unsafe extern "C" fn dealloc_pd(pd: *mut ibv_pd) -> c_int {
    // SAFETY: the object is alive (see the module above).
    check_process(unsafe { (*pd).context }, "ibv_dealloc_pd");
    let address = pd as usize;
    let taken = with(|shadow| shadow.pds.take(address)).flatten();
    // SAFETY: the domain is alive, and its context is open and wrapped (see the module above).
    let ret = unsafe { (original((*pd).context).dealloc_pd)(pd) };
    let outcome = Outcome::of(ret);
    observe(|shadow| {
        if !outcome.failed() {
            shadow.destroyed(Kind::Pd, address);
            return None;
        }
        if let Some(pd) = taken {
            shadow.pds.add(address, pd);
        }
        shadow.busy(Kind::Pd, address, "ibv_dealloc_pd", outcome)
    });
    ret
}

/// The offsets in a page.
const OFFSETS: u64 = 4096;

/// The members `start`, `stack_of` and `is_memory` of a region. `addr` is None for memory that is not the
/// process's.
fn place(addr: Option<u64>, iova: u64, access: u32) -> (u64, i32, bool) {
    let start = match access & IBV_ACCESS_ZERO_BASED {
        0 => iova,
        _ => 0,
    };
    let is_memory = addr == Some(start);
    let stack_of = match is_memory && preserving_errno(|| facts::is_on_stack(start)) {
        true => facts::thread(),
        false => 0,
    };
    (start, stack_of, is_memory)
}

/// A registration has returned: records the region, or finds out why there is none. `memory` is the address
/// and the length; None for memory that is not the process's.
///
/// # Safety
/// `pd` is alive, and `mr` is NULL or the new region.
pub unsafe fn registered(
    pd: *mut ibv_pd,
    mr: *mut ibv_mr,
    memory: Option<(u64, u64)>,
    iova: u64,
    length: u64,
    access: u32,
    call: &'static str,
) {
    let outcome = Outcome::of_pointer(mr.is_null());
    // SAFETY: the domain and the region are alive, as the caller promises.
    let (context, keys) = unsafe {
        let keys = mr.as_ref().map(|mr| (mr.lkey, mr.rkey));
        ((*pd).context, keys)
    };
    if let Some((lkey, rkey)) = keys {
        let (start, stack_of, is_memory) = place(memory.map(|(addr, _)| addr), iova, access);
        let region = Mr {
            context: context as usize,
            pd: pd as usize,
            start,
            length,
            lkey,
            rkey,
            access,
            stack_of,
            is_memory,
        };
        with(|shadow| shadow.mrs.add(mr as usize, region));
    } else if let Some((addr, length)) = memory {
        let failed = Registration {
            pd,
            addr,
            length,
            iova,
            access,
            call,
        };
        // SAFETY: the domain is alive, as the caller promises.
        unsafe { not_registered(&failed, context, &outcome) };
    }
}

/// A registration that has failed.
struct Registration {
    pd: *mut ibv_pd,
    addr: u64,
    length: u64,
    iova: u64,
    access: u32,
    call: &'static str,
}

/// Finds out why there is no region.
///
/// # Safety
/// `context` is open.
#[cold]
unsafe fn not_registered(of: &Registration, context: *mut ibv_context, outcome: &Outcome) {
    let &Registration {
        pd,
        addr,
        length,
        iova,
        access,
        call,
    } = of;
    if outcome.is(libc::EINVAL) && (iova ^ addr) % OFFSETS != 0 {
        let object = Object::at(Kind::Pd, pd as usize);
        let found = Finding::new(Rule::Argument, object, call, outcome.clone()).with_texts(
            format!("iova is {iova:#x} and addr {addr:#x}, which differ in their lower 12 bits"),
            "a device maps whole pages: both have the same offset in a page",
            "align addr to a page if iova is 0, or let iova have the offset of addr",
        );
        return observe(|_| vec![found]);
    }
    let regions = with(|shadow| {
        let all = shadow.mrs.of_context(context as usize);
        all.count()
    });
    preserving_errno(|| {
        // SAFETY: the context is open.
        let pins = unsafe { software::of_context(context) }.is_none();
        let facts = facts::registration(addr, length, access, pins, regions.unwrap_or(0));
        let object = Object::at(Kind::Pd, pd as usize);
        let found = memory::registration(&facts, &object, call, outcome);
        observe(|_| found);
    });
}

pub unsafe extern "C" fn reg_mr(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    access: c_int,
) -> *mut ibv_mr {
    // SAFETY: the domain is alive, and its context is open and wrapped (see the module above).
    unsafe {
        let context = (*pd).context;
        check_process(context, "ibv_reg_mr");
        let mr = (original(context).reg_mr)(pd, addr, length, iova, access);
        let (length, access) = (length as u64, access as u32);
        let memory = Some((addr as u64, length));
        registered(pd, mr, memory, iova, length, access, "ibv_reg_mr");
        mr
    }
}

pub unsafe extern "C" fn reg_mr_ex(pd: *mut ibv_pd, attr: *mut ibv_mr_init_attr) -> *mut ibv_mr {
    // SAFETY: the library passes complete attributes. The domain is alive, and its context is open and
    // wrapped (see the module above).
    unsafe {
        let given = *attr;
        let mr = (original((*pd).context).reg_mr_ex)(pd, attr);
        let has = |bit: u32| given.comp_mask & u64::from(bit) != 0;
        let (addr, length) = (given.addr as u64, given.length as u64);
        let memory = has(IBV_REG_MR_MASK_ADDR).then_some((addr, length));
        let iova = match has(IBV_REG_MR_MASK_IOVA) {
            true => given.iova,
            false => addr,
        };
        let access = given.access as u32;
        registered(pd, mr, memory, iova, length, access, "ibv_reg_mr_ex");
        mr
    }
}

pub unsafe extern "C" fn reg_dmabuf_mr(
    pd: *mut ibv_pd,
    offset: u64,
    length: usize,
    iova: u64,
    fd: c_int,
    access: c_int,
) -> *mut ibv_mr {
    // SAFETY: the domain is alive, and its context is open and wrapped (see the module above).
    unsafe {
        let reg = original((*pd).context).reg_dmabuf_mr;
        let mr = reg(pd, offset, length, iova, fd, access);
        let (length, access) = (length as u64, access as u32);
        registered(pd, mr, None, iova, length, access, "ibv_reg_dmabuf_mr");
        mr
    }
}

pub unsafe extern "C" fn rereg_mr(
    vmr: *mut verbs_mr,
    flags: c_int,
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    access: c_int,
) -> c_int {
    // SAFETY: the region is alive, and its context is open and wrapped (see the module above). After success
    // the provider has set the keys.
    unsafe {
        let context = (*vmr).ibv_mr.context;
        let ret = (original(context).rereg_mr)(vmr, flags, pd, addr, length, access);
        let keys = ((*vmr).ibv_mr.lkey, (*vmr).ibv_mr.rkey);
        let changed = |mr: &mut Mr| {
            let has = |flag: u32| flags as u32 & flag != 0;
            (mr.lkey, mr.rkey) = keys;
            if has(IBV_REREG_MR_CHANGE_PD) {
                mr.pd = pd as usize;
            }
            if has(IBV_REREG_MR_CHANGE_ACCESS) {
                mr.access = access as u32;
            }
            if has(IBV_REREG_MR_CHANGE_TRANSLATION) {
                let addr = addr as u64;
                (mr.start, mr.stack_of, mr.is_memory) = place(Some(addr), addr, mr.access);
                mr.length = length as u64;
            }
        };
        if ret == 0 {
            with(|shadow| shadow.mrs.change(vmr as usize, changed));
        }
        ret
    }
}

pub unsafe extern "C" fn dereg_mr(vmr: *mut verbs_mr) -> c_int {
    // SAFETY: the object is alive (see the module above).
    check_process(unsafe { (*vmr).ibv_mr.context }, "ibv_dereg_mr");
    let address = vmr as usize;
    let (taken, in_use) = with(|shadow| shadow.take_mr(address)).unwrap_or_default();
    // SAFETY: the region is alive, and its context is open and wrapped (see the module above).
    let ret = unsafe { (original((*vmr).ibv_mr.context).dereg_mr)(vmr) };
    let outcome = Outcome::of(ret);
    observe(|shadow| {
        let Some(mr) = taken else { return Vec::new() };
        if outcome.failed() {
            shadow.mrs.add(address, mr);
            return Vec::from_iter(shadow.busy(Kind::Mr, address, "ibv_dereg_mr", outcome));
        }
        shadow.forget_mr(address, mr);
        in_use
    });
    ret
}

pub unsafe extern "C" fn alloc_mw(pd: *mut ibv_pd, kind: ibv_mw_type) -> *mut ibv_mw {
    // SAFETY: the domain is alive, and its context is open and wrapped (see the module above).
    let mw = unsafe { (original((*pd).context).alloc_mw)(pd, kind) };
    if !mw.is_null() {
        // SAFETY: the window is new.
        let key = unsafe { ((*mw).context as usize, (*mw).rkey) };
        with(|shadow| shadow.add_mw(mw as usize, pd as usize, key));
    }
    mw
}

pub unsafe extern "C" fn dealloc_mw(mw: *mut ibv_mw) -> c_int {
    // SAFETY: the object is alive (see the module above).
    check_process(unsafe { (*mw).context }, "ibv_dealloc_mw");
    let address = mw as usize;
    let taken = with(|shadow| shadow.mws.take(address)).flatten();
    // SAFETY: the window is alive, and its context is open and wrapped (see the module above).
    let ret = unsafe { (original((*mw).context).dealloc_mw)(mw) };
    with(|shadow| match taken {
        Some(pd) if ret != 0 => shadow.mws.add(address, pd),
        Some(_) => {
            shadow.mws.forget(address);
            shadow.destroyed(Kind::Mw, address);
        }
        None => {}
    });
    ret
}

pub unsafe extern "C" fn create_ah(pd: *mut ibv_pd, attr: *mut ibv_ah_attr) -> *mut ibv_ah {
    // SAFETY: the program's attributes are readable. The domain is alive, and its context is open and
    // wrapped (see the module above).
    unsafe {
        let (context, given) = ((*pd).context, *attr);
        let ah = (original(context).create_ah)(pd, attr);
        let outcome = Outcome::of_pointer(ah.is_null());
        let facts = preserving_errno(|| facts::address_vector(context, &given));
        observe(|shadow| {
            let object = match ah.is_null() {
                true => Object::at(Kind::Pd, pd as usize),
                false => Object::at(Kind::Ah, ah as usize),
            };
            if !ah.is_null() {
                shadow.reported.forget(Kind::Ah, ah as usize);
                let dgid = given.grh.dgid.raw;
                let is_group = gid::AddressKind::of(&dgid) == gid::AddressKind::Multicast;
                let group = is_group.then_some(dgid);
                let is_own = |facts: &gid::Facts| facts.table.iter().any(|of| of.gid == dgid);
                let is_local = facts.as_ref().is_some_and(is_own);
                shadow.ahs.create(ah as usize, pd as usize, group, is_local);
            }
            let vector = |facts| gid::vector(facts, &object, "ibv_create_ah", &outcome);
            facts.iter().filter_map(vector).collect::<Vec<Finding>>()
        });
        ah
    }
}

pub unsafe extern "C" fn destroy_ah(ah: *mut ibv_ah) -> c_int {
    // SAFETY: the object is alive (see the module above).
    check_process(unsafe { (*ah).context }, "ibv_destroy_ah");
    let address = ah as usize;
    let taken = with(|shadow| {
        let found = shadow.ah_in_use(address);
        (shadow.ahs.take(address), found)
    });
    let (taken, in_use) = taken.unwrap_or_default();
    // SAFETY: the handle is alive, and its context is open and wrapped (see the module above).
    let ret = unsafe { (original((*ah).context).destroy_ah)(ah) };
    observe(|shadow| match (ret, taken) {
        (0, _) => {
            shadow.destroyed(Kind::Ah, address);
            in_use
        }
        (_, Some(pd)) => {
            shadow.ahs.put_back(address, pd);
            Vec::new()
        }
        _ => Vec::new(),
    });
    ret
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places() {
        let frame = [0_u8; 4096];
        let stack = &raw const frame as u64 + 4095;
        let heap = Box::new(0_u8);
        let heap = &raw const *heap as u64;
        assert_eq!(place(Some(stack), stack, 0), (stack, facts::thread(), true));
        assert_eq!(place(Some(heap), heap, 0), (heap, 0, true));
        assert_eq!(place(None, 8, 0), (8, 0, false));
        // Their addresses are not comparable with the stack's.
        let elsewhere = (0, 0, false);
        assert_eq!(place(Some(stack), 0, 0), elsewhere);
        assert_eq!(place(Some(stack), stack, IBV_ACCESS_ZERO_BASED), elsewhere);
    }
}
