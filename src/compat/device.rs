//! The device list.

use core::ffi::c_char;
use core::mem::MaybeUninit;
use core::ptr;

use libc::c_int;

use super::twin::forward;
use super::types::*;
use crate::abi::*;
use crate::verbs;

/// How many pointers a device of the list takes.
const DEVICE_WORDS: usize = size_of::<ibv_device_1_0>() / size_of::<usize>();
const _: () = assert!(DEVICE_WORDS * size_of::<usize>() == size_of::<ibv_device_1_0>());

/// Lists the devices (ibv_get_device_list(3)). The list, its devices and the real list, which stands
/// in front, are freed by [`ibv_free_device_list_1_0`]. Returns NULL with errno set if it fails.
///
/// # Safety
///
/// `num_devices` is NULL or writable.
pub unsafe extern "C" fn ibv_get_device_list_1_0(
    num_devices: *mut c_int,
) -> *mut *mut ibv_device_1_0 {
    let mut num = MaybeUninit::<c_int>::zeroed();
    // SAFETY: a number of its own to write to.
    let real_list = unsafe { verbs::device::ibv_get_device_list(num.as_mut_ptr()) };
    if real_list.is_null() {
        return ptr::null_mut();
    }
    // SAFETY: initialised above.
    let num = unsafe { num.assume_init() };
    // SAFETY: the list has that many devices.
    let list = unsafe { twins(real_list, usize::try_from(num).unwrap_or(0)) };
    if list.is_null() {
        // SAFETY: got above and not yet freed.
        unsafe { verbs::device::ibv_free_device_list(real_list) };
    } else if !num_devices.is_null() {
        // SAFETY: the caller's number is writable.
        unsafe { *num_devices = num };
    }
    list
}

/// The old list for a real one, in one piece of memory: the real list, a pointer to each device's
/// twin, NULL, the twins. Returns the address behind the real list; NULL with errno set if memory
/// is short.
///
/// # Safety
///
/// `num` devices stand in `real_list`.
unsafe fn twins(real_list: *mut *mut ibv_device, num: usize) -> *mut *mut ibv_device_1_0 {
    let words = num.saturating_mul(1 + DEVICE_WORDS).saturating_add(2);
    // SAFETY: calloc takes any sizes.
    let front = unsafe { libc::calloc(words, size_of::<usize>()) };
    if front.is_null() {
        return ptr::null_mut();
    }
    // SAFETY: the memory holds 2 + num pointers and num devices, which are all words, and is zeroed,
    // so that the word after the last pointer is NULL and each device's other members are, too.
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

/// Frees a list of devices, and the devices that are not open (ibv_get_device_list(3)).
///
/// # Safety
///
/// `list` came from [`ibv_get_device_list_1_0`] and is not yet freed.
pub unsafe extern "C" fn ibv_free_device_list_1_0(list: *mut *mut ibv_device_1_0) {
    // SAFETY: in front of the list stands the real one, where the memory of both begins.
    unsafe {
        let front = list.sub(1).cast::<*mut *mut ibv_device>();
        verbs::device::ibv_free_device_list(*front);
        libc::free(front.cast());
    }
}

forward! {
    /// A device's name, which lives as long as the device (ibv_get_device_name(3)).
    ibv_get_device_name_1_0(device: ibv_device_1_0 => real_device) -> *const c_char
        = verbs::device::ibv_get_device_name;

    /// A device's GUID in network byte order (ibv_get_device_guid(3)).
    ibv_get_device_guid_1_0(device: ibv_device_1_0 => real_device) -> u64
        = verbs::device::ibv_get_device_guid;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_old_list_mirrors_the_real_one() {
        for num in [0, 1, 2, 17] {
            // Addresses are all that is looked at.
            let mut real: Vec<*mut ibv_device> = (1..=num)
                .map(|i| ptr::without_provenance_mut(i * 0x1000))
                .collect();
            real.push(ptr::null_mut());
            // SAFETY: the list has that many devices; what is read of its copy is what it has.
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
