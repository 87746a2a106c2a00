//! The C library that is installed on the machine, for tests that compare with it.

use libloading::Library;

/// Where Debian and Ubuntu have it.
const PATH: &str = "/usr/lib/x86_64-linux-gnu/libibverbs.so.1";

/// Loads the C library.
pub(crate) fn library() -> Library {
    // SAFETY: its constructors only note the environment and register nothing.
    unsafe { Library::new(PATH) }.unwrap_or_else(|err| {
        panic!("this test compares with the C library, which is missing: {err}. apt install libibverbs1")
    })
}

/// A function of the C library. `T` is its type.
pub(crate) fn symbol<T: Copy>(library: &Library, name: &str) -> T {
    // SAFETY: the caller's type is the function's, from the C headers; each test keeps the library.
    let symbol = unsafe { library.get::<T>(name.as_bytes()) };
    *symbol.unwrap_or_else(|err| panic!("the C library has no {name}: {err}"))
}
