//! The installed C library, for tests that compare with it.

use libloading::Library;

/// The C library's path in Debian and Ubuntu.
const PATH: &str = concat!("/usr/lib/", multiarch!(), "/libibverbs.so.1");

/// Loads the C library.
pub(crate) fn library() -> Library {
    // SAFETY: its constructors do not affect this library: they register no driver.
    unsafe { Library::new(PATH) }.unwrap_or_else(|err| {
        panic!("this test compares with the C library, which is missing: {err}. apt install libibverbs1")
    })
}

/// A function of the C library. `T` must be its type.
pub(crate) fn symbol<T: Copy>(library: &Library, name: &str) -> T {
    // SAFETY: each test passes the function's type from the C headers, and keeps the library loaded.
    let symbol = unsafe { library.get::<T>(name.as_bytes()) };
    *symbol.unwrap_or_else(|err| panic!("the C library has no {name}: {err}"))
}
