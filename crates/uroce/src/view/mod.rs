//! The view: what the process sees of the devices in `/dev/infiniband` and `/sys`, as from a kernel
//! driver. Programs look there in addition to using the verbs: UCX, Open MPI, NCCL, hwloc, ibstat and others.
//!
//! The calls of the loaded objects that take paths are redirected to this library, which answers those for
//! paths of its devices and passes all others on. Nothing is mounted and nothing is left in the file system;
//! no other process sees it.
//!
//! | file | responsible for |
//! |---|---|
//! | `tree.rs` | which paths exist (pure) |
//! | `paths.rs` | where a path leads, over links and `..` (pure) |
//! | `content.rs` | what the files say |
//! | `files.rs`, `streams.rs` | descriptors, stat(2), directory streams |
//! | `state.rs`, `working_directory.rs` | devices, open descriptors; the working directory |
//! | `kernel.rs` | what is asked of the kernel |
//! | `real.rs`, `definition.rs`, `libc_types.rs` | libc's own functions, how they are found, their types |
//! | `got.rs`, `reserved.rs` | the redirection; lists that are filled without allocating memory |
//! | `calls/` | the functions that calls are redirected to |
//! | `librdmacm.rs` | calls of librdmacm, for the library's IBV_EXPLAIN |
//!
//! Not redirected: system calls that a program makes without libc, and statically linked programs.

mod calls;
mod content;
mod definition;
mod files;
mod got;
mod kernel;
mod libc_types;
pub mod librdmacm;
mod paths;
mod real;
mod reserved;
mod state;
mod streams;
#[cfg(test)]
mod tests;
mod tree;
mod working_directory;

use core::sync::atomic::{AtomicBool, Ordering};

use calls::REDIRECTIONS;
use definition::Definitions;
pub use state::FIRST_UVERBS;

use crate::config::Config;

static INSTALLED: AtomicBool = AtomicBool::new(false);

/// Shows these devices to the process: redirects the calls of all loaded objects. Must be called once at
/// most.
///
/// The devices are looked at when a program first looks for them. From now on this library cannot be
/// unloaded.
pub fn install(devices: Vec<Config>) {
    if devices.is_empty() || INSTALLED.load(Ordering::Acquire) {
        return;
    }
    // Other objects hold addresses of its functions.
    ibverbs_os::thread::stay_loaded();
    let mut definitions = Definitions::new();
    real::resolve(&mut definitions);
    for redirection in &REDIRECTIONS {
        let (address, definition) = (&redirection.address, &redirection.definition);
        address.store(real::address(redirection.name), Ordering::Relaxed);
        definition.store(definitions.find(redirection.name).addr(), Ordering::Relaxed);
    }
    drop(definitions);
    state::configure(devices);
    state::set_cwd(inherited_cwd());
    INSTALLED.store(true, Ordering::Release);
    redirect_new_objects();
}

/// The working directory of the tree that a shell has changed to before it started this program, by PWD. The
/// kernel's is then the nearest one that exists, as `chdir` of the view has set it.
fn inherited_cwd() -> Option<String> {
    let pwd = std::env::var("PWD").ok()?;
    if !pwd.starts_with('/') || !paths::may_concern(pwd.as_bytes()) {
        return None;
    }
    let tree = state::devices().tree;
    match paths::walk(&tree, &kernel::KernelLinks, "/", &pwd, true) {
        paths::Found::Ours(path, tree::Node::Directory(_)) => {
            let nearest = kernel::nearest_directory(&path);
            (nearest != path && kernel::cwd().as_deref() == Some(nearest)).then_some(path)
        }
        _ => None,
    }
}

/// Takes the locks that a child of fork needs. [`after_fork`] releases them.
pub fn before_fork() {
    calls::OBJECTS.before_fork();
    librdmacm::OBJECTS.before_fork();
    state::before_fork();
}

/// Releases them in the parent and in the child.
///
/// # Safety
/// This thread has called [`before_fork`], and has not called this since.
pub unsafe fn after_fork() {
    // SAFETY: `before_fork` took them in this thread, as the caller says.
    unsafe {
        state::after_fork();
        librdmacm::OBJECTS.after_fork();
        calls::OBJECTS.after_fork();
    }
}

/// Whether the process has the view.
pub fn is_installed() -> bool {
    INSTALLED.load(Ordering::Acquire)
}

/// Redirects the calls of objects that were loaded since the last call. Cheap if there are none.
pub fn redirect_new_objects() {
    if is_installed() {
        got::redirect(&calls::OBJECTS, crate::c_library::address());
    }
}

/// Reads a file of the view for the library's own functions: `None` if the path does not lead to one. Else
/// the file's text, or the errno value of the failure.
pub fn read_file(path: &str) -> Option<Result<Vec<u8>, ibverbs_abi::Errno>> {
    if !is_installed() || !paths::may_concern(path.as_bytes()) {
        return None;
    }
    let devices = state::devices();
    match paths::walk(&devices.tree, &kernel::KernelLinks, "/", path, true) {
        paths::Found::Ours(_, tree::Node::File(file)) => {
            Some(content::read(file, &devices.configs))
        }
        _ => None,
    }
}
