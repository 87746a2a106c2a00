//! Calls of librdmacm's functions by the program, for the library's IBV_EXPLAIN: much of what can be wrong
//! there librdmacm finds itself, without a command to the device file. With IBV_EXPLAIN only, the calls of
//! the loaded objects are redirected to functions here, which call librdmacm's with the same arguments.
//!
//! Calls that librdmacm makes itself, within one of these, are not reported.

use core::cell::Cell;
use core::ffi::{CStr, c_int, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::OnceLock;

use ibverbs_abi::{CmCall, CmNotice, Errno};

use super::definition::Definitions;
use super::got::{self, Redirection, Redirections};

static HOOK: OnceLock<fn(&CmNotice)> = OnceLock::new();

thread_local! {
    /// This thread is in one of librdmacm's functions.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

type Arg = usize;

/// Reports a call of the program. None within another one, whose end is not reported either.
fn begin(name: &'static str, arguments: [Arg; 4]) -> Option<CmCall> {
    let hook = HOOK.get()?;
    if INSIDE.replace(true) {
        return None;
    }
    let call = CmCall { name, arguments };
    let errno = Errno::last();
    hook(&CmNotice::Calling(call));
    errno.set();
    Some(call)
}

/// The call has returned `ret`.
fn end(call: Option<CmCall>, ret: c_int) {
    let Some(call) = call else { return };
    INSIDE.set(false);
    if let Some(hook) = HOOK.get() {
        let errno = Errno::last();
        hook(&CmNotice::Returned {
            call,
            failed: ret != 0,
        });
        errno.set();
    }
}

/// All arguments, with zeros behind them.
fn padded<const N: usize>(given: [Arg; N]) -> [Arg; 4] {
    let mut all = [0; 4];
    all[..N].copy_from_slice(&given);
    all
}

macro_rules! functions {
    ($($name:ident($($arg:ident),*) $(-> $ret:ident)?;)*) => {
        static CALLS: [Redirection; [$(stringify!($name)),*].len()] = [
            $(Redirection {
                name: match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => panic!("a name with a NUL"),
                },
                to: $name as *const c_void,
                address: AtomicUsize::new(0),
                definition: AtomicUsize::new(0),
            },)*
        ];

        $(unsafe extern "C" fn $name($($arg: Arg),*) -> c_int {
            let name = stringify!($name);
            let Some(real) = original(name) else {
                Errno(libc::ENOSYS).set();
                return -1;
            };
            // SAFETY: the function is librdmacm's of this name, whose arguments are pointers and integers,
            // passed like words on these machines, and which returns an int, or nothing.
            let real = unsafe {
                type Function =
                    unsafe extern "C" fn($(functions!(@word $arg)),*) -> functions!(@type $($ret)?);
                core::mem::transmute::<usize, Function>(real)
            };
            let call = begin(name, padded([$($arg),*]));
            // SAFETY: the arguments are the program's.
            let ret = unsafe { functions!(@int real($($arg),*) $(, $ret)?) };
            end(call, ret);
            ret
        })*
    };
    (@word $arg:ident) => { Arg };
    (@type) => { c_int };
    (@type void) => { () };
    (@int $call:expr) => { $call };
    // The caller reads no result of these.
    (@int $call:expr, void) => {{
        $call;
        0
    }};
}

functions! {
    rdma_accept(id, param);
    rdma_bind_addr(id, address);
    rdma_connect(id, param);
    rdma_create_ep(id, addresses, pd, attr);
    rdma_create_id(channel, id, context, space);
    rdma_create_qp(id, pd, attr);
    rdma_create_qp_ex(id, attr);
    rdma_create_srq(id, pd, attr);
    rdma_create_srq_ex(id, attr);
    rdma_destroy_ep(id) -> void;
    rdma_destroy_event_channel(channel) -> void;
    rdma_destroy_id(id);
    rdma_destroy_qp(id) -> void;
    rdma_disconnect(id);
    rdma_get_cm_event(channel, event);
    rdma_get_request(listener, id);
    rdma_join_multicast(id, address, context);
    rdma_leave_multicast(id, address);
    rdma_listen(id, backlog);
    rdma_migrate_id(id, channel);
    rdma_resolve_addr(id, from, to, timeout);
    rdma_resolve_route(id, timeout);
}

/// librdmacm's function.
fn original(name: &str) -> Option<usize> {
    let found = CALLS.binary_search_by(|call| call.name.to_bytes().cmp(name.as_bytes()));
    let definition = CALLS[found.ok()?].definition.load(Ordering::Relaxed);
    (definition != 0).then_some(definition)
}

/// The objects whose calls are redirected.
pub static OBJECTS: Redirections = Redirections::new(&CALLS);

/// Calls `hook` before and after each call of librdmacm by the program. Does nothing if
/// librdmacm is not loaded. From now on this library cannot be unloaded.
pub fn watch(hook: fn(&CmNotice)) {
    let mut definitions = Definitions::new();
    let found: Vec<_> = CALLS
        .iter()
        .map(|call| definitions.find(call.name).addr())
        .collect();
    if found.iter().all(|at| *at == 0) || HOOK.set(hook).is_err() {
        return;
    }
    ibverbs_os::thread::stay_loaded();
    for (call, definition) in CALLS.iter().zip(found) {
        // SAFETY: the name is a C string.
        let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, call.name.as_ptr()) };
        call.address.store(address.addr(), Ordering::Relaxed);
        call.definition.store(definition, Ordering::Relaxed);
    }
    got::redirect(&OBJECTS, crate::c_library::address());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_calls_within_calls_are_left_out() {
        assert!(CALLS.is_sorted_by(|a, b| a.name < b.name));
        // The tests are not linked with librdmacm.
        assert_eq!(original("rdma_connect"), None);
        assert_eq!(padded([1, 2]), [1, 2, 0, 0]);
        assert!(begin("rdma_connect", [0; 4]).is_none());
    }
}
