//! The device list, device names and GUIDs.

use core::ffi::c_char;
use core::mem::MaybeUninit;
use core::ptr;

use libc::c_int;

use super::twin::forward;
use super::types::*;
use crate::abi::*;
use crate::verbs;

/// The size of a device of the list, in pointers.
const DEVICE_WORDS: usize = size_of::<ibv_device_1_0>() / size_of::<usize>();
const _: () = assert!(DEVICE_WORDS * size_of::<usize>() == size_of::<ibv_device_1_0>());

/// Returns the present devices (ibv_get_device_list(3)); [`ibv_free_device_list_1_0`] frees the list with its
/// devices. Returns NULL with errno set if it fails.
///
/// # Safety
///
/// `num_devices` is NULL or writable.
pub unsafe extern "C" fn ibv_get_device_list_1_0(
    num_devices: *mut c_int,
) -> *mut *mut ibv_device_1_0 {
    let mut num = MaybeUninit::<c_int>::zeroed();
    // SAFETY: `num` is writable.
    let real_list = unsafe { verbs::device::ibv_get_device_list(num.as_mut_ptr()) };
    if real_list.is_null() {
        return ptr::null_mut();
    }
    // SAFETY: `num` was zeroed.
    let num = unsafe { num.assume_init() };
    // SAFETY: `real_list` has `num` devices.
    let list = unsafe { twins(real_list, usize::try_from(num).unwrap_or(0)) };
    if list.is_null() {
        // SAFETY: the list was returned above, and is freed once.
        unsafe { verbs::device::ibv_free_device_list(real_list) };
    } else if !num_devices.is_null() {
        // SAFETY: `num_devices` is NULL or writable, as the caller promises.
        unsafe { *num_devices = num };
    }
    list
}

/// Creates the list of twins of a real list. One allocation holds the address of the real list, a pointer to
/// each twin, NULL, and the twins. Returns the address of the first pointer to a twin, or NULL with errno set
/// if memory is short.
///
/// # Safety
///
/// `real_list` has `num` devices.
unsafe fn twins(real_list: *mut *mut ibv_device, num: usize) -> *mut *mut ibv_device_1_0 {
    let words = num.saturating_mul(1 + DEVICE_WORDS).saturating_add(2);
    // SAFETY: calloc accepts any size.
    let front = unsafe { libc::calloc(words, size_of::<usize>()) };
    if front.is_null() {
        return ptr::null_mut();
    }
    // SAFETY: the allocation has room for 2 + num pointers and num twins. It is zeroed, so the last pointer
    // is NULL, and so are the other members of the twins.
    unsafe {
        front.cast::<*mut *mut ibv_device>().write(real_list);
        let list = front.cast::<*mut ibv_device_1_0>().add(1);
        let devices = list.add(num + 1).cast::<ibv_device_1_0>();
        for i in 0..num {
            (*devices.add(i)).real_device = *real_list.add(i);
            *list.add(i) = devices.add(i);
        }
        list
    }
}

/// Frees a device list and its twins, and releases the real list's references (ibv_get_device_list(3)).
///
/// # Safety
///
/// `list` is from [`ibv_get_device_list_1_0`], and is not used again.
pub unsafe extern "C" fn ibv_free_device_list_1_0(list: *mut *mut ibv_device_1_0) {
    // SAFETY: `twins` put the real list's address in front of the list, where the allocation starts.
    unsafe {
        let front = list.sub(1).cast::<*mut *mut ibv_device>();
        verbs::device::ibv_free_device_list(*front);
        libc::free(front.cast());
    }
}

forward! {
    /// Returns the device's name (ibv_get_device_name(3)). The string is part of the real device.
    ibv_get_device_name_1_0(device: ibv_device_1_0 => real_device) -> *const c_char
        = verbs::device::ibv_get_device_name;

    /// Returns the device's node GUID in network byte order (ibv_get_device_guid(3)).
    ibv_get_device_guid_1_0(device: ibv_device_1_0 => real_device) -> u64
        = verbs::device::ibv_get_device_guid;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_old_list_mirrors_the_real_one() {
        for num in [0, 1, 2, 17] {
            // Only the addresses of these devices are used.
            let mut real: Vec<*mut ibv_device> = (1..=num)
                .map(|i| ptr::without_provenance_mut(i * 0x1000))
                .collect();
            real.push(ptr::null_mut());
            // SAFETY: `real` has `num` devices; the accesses are within what `twins` allocated.
            unsafe {
                let list = twins(real.as_mut_ptr(), num);
                assert_eq!(
                    *list.sub(1).cast::<*mut *mut ibv_device>(),
                    real.as_mut_ptr()
                );
                for (i, real) in real.iter().take(num).enumerate() {
                    let device = *list.add(i);
                    assert_eq!((*device).real_device, *real);
                    assert!((*device).obsolete_sysfs_dev.is_null());
                    assert!((*device)._ops._dummy2.is_none());
                }
                assert!((*list.add(num)).is_null());
                libc::free(list.sub(1).cast());
            }
        }
    }
}
