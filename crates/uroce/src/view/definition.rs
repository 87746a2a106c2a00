//! Finds the definitions of libc's functions, as the dynamic linker binds the program's calls to them: a
//! preloaded library that defines such a function comes before libc.
//!
//! dlsym(3) is not enough. A program that is not position-independent and takes the address of a function
//! has an entry of its procedure linkage table (PLT) as that function's address, in all objects of the
//! process (System V ABI, "Function Addresses"). dlsym returns it. The entry calls through the program's GOT,
//! so it leads to this library once the GOT is redirected: to call it from there never ends.

use core::ffi::{CStr, c_int, c_void};
use core::ops::Range;
use core::ptr::null_mut;

use libc::dl_phdr_info;

use super::reserved::Reserved;
use crate::c_library::{is_plt_entry, object_of, object_of_handle};

/// Bytes of the names of all objects: where there are more, the objects are looked through again.
const NAMES: usize = 8 << 10;

/// Finds definitions.
pub struct Definitions {
    /// The addresses of the program itself. dladdr1 takes microseconds for an address of a large library.
    program: Range<usize>,
    /// The loaded objects but the program, in the order in which the dynamic linker searches them.
    objects: Option<Vec<Handle>>,
}

impl Definitions {
    /// Asks the dynamic linker where the program is.
    pub fn new() -> Definitions {
        Definitions {
            program: program(),
            objects: None,
        }
    }

    /// The function that calls of the program reach, unless they are redirected; NULL if there is none.
    pub fn find(&mut self, name: &CStr) -> *mut c_void {
        // SAFETY: the name is a C string.
        let first = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
        if !self.program.contains(&first.addr()) || !is_plt_entry(first) {
            return first;
        }
        let objects = self.objects.get_or_insert_with(open_objects);
        let found = objects.iter().find_map(|object| object.definition(name));
        found.unwrap_or(null_mut())
    }
}

/// The addresses of the program.
fn program() -> Range<usize> {
    unsafe extern "C" fn first(info: *mut dl_phdr_info, _: usize, found: *mut c_void) -> c_int {
        // SAFETY: dl_iterate_phdr passes a valid structure, with as many headers as it says, and the range of
        // the function around this.
        unsafe {
            let count = (*info).dlpi_phnum.into();
            let headers = core::slice::from_raw_parts((*info).dlpi_phdr, count);
            let loaded = headers
                .iter()
                .filter(|header| header.p_type == libc::PT_LOAD);
            let start = loaded.clone().map(|header| header.p_vaddr).min();
            let end = loaded
                .map(|header| header.p_vaddr.wrapping_add(header.p_memsz))
                .max();
            let at = |address: Option<u64>| {
                (*info).dlpi_addr.wrapping_add(address.unwrap_or(0)) as usize
            };
            *found.cast::<Range<usize>>() = at(start)..at(end);
        }
        1
    }
    let mut found = 0..0;
    // SAFETY: `first` has the type that dl_iterate_phdr needs, and gets the range, which outlives it.
    unsafe { libc::dl_iterate_phdr(Some(first), (&raw mut found).cast()) };
    found
}

/// An object that stays loaded as long as this exists.
struct Handle(*mut c_void);

impl Handle {
    /// The object's own definition. dlsym searches the objects that it depends on, too.
    fn definition(&self, name: &CStr) -> Option<*mut c_void> {
        // SAFETY: the handle is open, the name a C string.
        let (map, found) =
            unsafe { (object_of_handle(self.0), libc::dlsym(self.0, name.as_ptr())) };
        (!found.is_null() && object_of(found) == Some(map)).then_some(found)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: the handle is open, and nobody else has it.
        unsafe { libc::dlclose(self.0) };
    }
}

/// The names of the objects, one behind the other, each with its NUL.
fn names() -> Reserved<u8> {
    unsafe extern "C" fn add(info: *mut dl_phdr_info, _: usize, names: *mut c_void) -> c_int {
        // SAFETY: dl_iterate_phdr passes a valid structure, whose name is NULL or a C string, and the list of
        // the function around this.
        unsafe {
            if !(*info).dlpi_name.is_null() {
                let name = CStr::from_ptr((*info).dlpi_name).to_bytes_with_nul();
                name.iter()
                    .for_each(|byte| (*names.cast::<Reserved<u8>>()).push(*byte));
            }
        }
        0
    }
    let mut names = Reserved::with_room(NAMES);
    loop {
        // SAFETY: `add` has the type that dl_iterate_phdr needs, and gets the list, which outlives it.
        unsafe { libc::dl_iterate_phdr(Some(add), (&raw mut names).cast()) };
        if !names.must_repeat() {
            return names;
        }
    }
}

fn open_objects() -> Vec<Handle> {
    let names = names();
    let names = names.items().split_inclusive(|byte| *byte == 0);
    let names = names.filter_map(|name| CStr::from_bytes_with_nul(name).ok());
    // The program has an empty name.
    let names = names.filter(|name| !name.is_empty());
    let open = |name: &CStr| {
        // SAFETY: the name is a C string. With RTLD_NOLOAD nothing is loaded and no constructor runs.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        (!handle.is_null()).then_some(Handle(handle))
    };
    names.filter_map(open).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_in_the_object_that_defines_them() {
        let objects = open_objects();
        let defining = |name| objects.iter().find_map(|object| object.definition(name));
        // SAFETY: the name is a C string.
        let expected = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"fchdir".as_ptr()) };
        assert_eq!(defining(c"fchdir"), Some(expected));
        assert_eq!(Definitions::new().find(c"fchdir"), expected);
        assert_eq!(defining(c"no_such_function"), None);
        assert!(Definitions::new().find(c"no_such_function").is_null());
        assert!(!is_plt_entry(expected));
        let program = program();
        assert!(program.contains(&(open_objects as *const () as usize)));
        assert!(!program.contains(&expected.addr()));
    }
}
