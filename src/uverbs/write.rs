//! The legacy path: a command as a structure, handed to the kernel by `write()` on the command fd,
//! or by the ioctl INVOKE_WRITE where that exists.
//!
//! A provider appends data of its own to a command and to its response ([`Uhw`], the "user hardware"
//! part). The kernel takes a command as one block, so the library's part is built directly in front
//! of the provider's, in the provider's memory ([`Uhw::request`]).

use core::{
    mem::{MaybeUninit, size_of},
    ptr::null_mut,
};

use ibverbs_abi::*;
use libc::{EINVAL, c_int, c_void};

use super::{ioctl::Command, state::state, valgrind};

/// The provider's part of a command and of its response.
#[derive(Clone, Copy)]
pub struct Uhw {
    input: *mut u8,
    input_len: usize,
    /// Bytes in front of `input` that the library may use for its own part.
    input_headroom: usize,
    output: *mut u8,
    output_len: usize,
    output_headroom: usize,
}

impl Uhw {
    /// No provider part.
    pub const NONE: Uhw = Uhw {
        input: null_mut(),
        input_len: 0,
        input_headroom: 0,
        output: null_mut(),
        output_len: 0,
        output_headroom: 0,
    };

    /// What follows the common parts `Q` and `R` in a provider's command and response buffers.
    #[inline(always)]
    pub fn after<Q, R>(cmd: *mut Q, cmd_size: usize, resp: *mut R, resp_size: usize) -> Uhw {
        let mut uhw = Uhw::NONE;
        if !cmd.is_null() && cmd_size > size_of::<Q>() {
            uhw.input = cmd.wrapping_add(1).cast();
            uhw.input_len = cmd_size - size_of::<Q>();
            uhw.input_headroom = size_of::<Q>();
        }
        if !resp.is_null() && resp_size > size_of::<R>() {
            uhw.output = resp.wrapping_add(1).cast();
            uhw.output_len = resp_size - size_of::<R>();
            uhw.output_headroom = size_of::<R>();
        }
        uhw
    }

    /// The provider's input.
    #[inline(always)]
    pub fn input(&self) -> Option<(*const u8, usize)> {
        (self.input_len != 0).then_some((self.input.cast_const(), self.input_len))
    }

    /// Where the provider's output goes.
    #[inline(always)]
    pub fn output(&self) -> Option<(*mut u8, usize)> {
        (self.output_len != 0).then_some((self.output, self.output_len))
    }

    /// Where to build a request `Q`: in front of the provider's input, or `own` if there is none.
    #[inline(always)]
    pub fn request<Q>(&self, own: &mut MaybeUninit<Q>) -> Result<Placed<Q>, Errno> {
        place(self.input, self.input_len, self.input_headroom, own)
    }

    /// Where the kernel is to put a response `R`.
    #[inline(always)]
    pub fn response<R>(&self, own: &mut MaybeUninit<R>) -> Result<Placed<R>, Errno> {
        place(self.output, self.output_len, self.output_headroom, own)
    }
}

/// A structure of the library's and its length with the provider's part behind it.
pub struct Placed<T> {
    /// The library's part.
    pub at: *mut T,
    /// The whole, in bytes.
    pub len: usize,
}

impl<T> Clone for Placed<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Placed<T> {}

impl<T> Placed<T> {
    /// A structure with nothing of the provider's behind it.
    #[inline(always)]
    pub fn alone(at: *mut T) -> Self {
        Placed {
            at,
            len: size_of::<T>(),
        }
    }

    /// A provider's buffer that begins with the library's part and is `len` bytes in all.
    #[inline(always)]
    pub fn whole(at: *mut T, len: usize) -> Self {
        Placed { at, len }
    }

    /// No structure at all: a command without a response.
    #[inline(always)]
    pub fn nothing() -> Self {
        Placed {
            at: null_mut(),
            len: 0,
        }
    }
}

#[inline(always)]
fn place<T>(
    uhw: *mut u8,
    len: usize,
    headroom: usize,
    own: &mut MaybeUninit<T>,
) -> Result<Placed<T>, Errno> {
    if len == 0 {
        return Ok(Placed::alone(own.as_mut_ptr()));
    }
    if headroom < size_of::<T>() {
        Errno(EINVAL).set();
        return Err(Errno(EINVAL));
    }
    Ok(Placed {
        at: uhw.wrapping_sub(size_of::<T>()).cast(),
        len: size_of::<T>() + len,
    })
}

/// Completes a legacy command's header and sends it. The first member of a request that has a
/// response is the response's address, which is filled in here. On failure errno is set and returned.
///
/// # Safety
/// `context` is open; `request.at` and, unless null, `response.at` are valid for their lengths.
pub unsafe fn execute<Q, R>(
    context: *mut ibv_context,
    method: u32,
    request: Placed<Cmd<Q>>,
    response: Placed<R>,
) -> c_int {
    // SAFETY: by the contract; a request with a response begins with the u64 for its address.
    unsafe {
        if !response.at.is_null() {
            (&raw mut (*request.at).core_payload)
                .cast::<u64>()
                .write(response.at as u64);
        }
        execute_sized(
            context,
            method,
            request.at.cast(),
            size_of::<Cmd<Q>>(),
            request.len,
            response.at.cast(),
            if response.at.is_null() {
                0
            } else {
                size_of::<R>()
            },
            response.len,
        )
    }
}

/// As [`execute`] for a command without a response.
///
/// # Safety
/// As for [`execute`].
#[inline(always)]
pub unsafe fn execute_request<Q>(
    context: *mut ibv_context,
    method: u32,
    request: Placed<Cmd<Q>>,
) -> c_int {
    // SAFETY: by the contract.
    unsafe { execute::<Q, ()>(context, method, request, Placed::nothing()) }
}

/// As [`execute`], with the lengths of the library's parts given: for structures with a variable
/// tail. `request` begins with the header; the response's address in it is the caller's to fill.
///
/// # Safety
/// As for [`execute`].
#[allow(clippy::too_many_arguments)]
pub unsafe fn execute_sized(
    context: *mut ibv_context,
    method: u32,
    request: *mut ib_uverbs_cmd_hdr,
    core_request_len: usize,
    request_len: usize,
    response: *mut c_void,
    core_response_len: usize,
    response_len: usize,
) -> c_int {
    // SAFETY: by the contract.
    unsafe {
        if state(context)
            .write_by_ioctl
            .load(core::sync::atomic::Ordering::Relaxed)
        {
            let header = size_of::<ib_uverbs_cmd_hdr>();
            return invoke_write(
                context,
                method,
                request.cast::<u8>().add(header),
                core_request_len - header,
                request_len - header,
                response.cast(),
                core_response_len,
                response_len,
            );
        }
        (*request).command = method;
        (*request).in_words = (request_len / 4) as u16;
        (*request).out_words = (response_len / 4) as u16;
        send(context, request.cast(), request_len, response, response_len)
    }
}

/// Completes an extended legacy command's header and sends it. The response is zeroed first: kernels
/// without ioctls leave alone what they do not know.
///
/// # Safety
/// As for [`execute`].
pub unsafe fn execute_ex<Q, R>(
    context: *mut ibv_context,
    method: u32,
    request: Placed<CmdEx<Q>>,
    response: Placed<R>,
) -> c_int {
    // SAFETY: by the contract.
    unsafe {
        execute_ex_sized(
            context,
            method,
            request.at.cast(),
            size_of::<CmdEx<Q>>(),
            request.len,
            response.at.cast(),
            if response.at.is_null() {
                0
            } else {
                size_of::<R>()
            },
            response.len,
        )
    }
}

/// As [`execute_ex`], with the lengths of the library's parts given.
///
/// # Safety
/// As for [`execute`].
#[allow(clippy::too_many_arguments)]
pub unsafe fn execute_ex_sized(
    context: *mut ibv_context,
    method: u32,
    request: *mut ex_hdr,
    core_request_len: usize,
    request_len: usize,
    response: *mut c_void,
    core_response_len: usize,
    response_len: usize,
) -> c_int {
    let header = size_of::<ex_hdr>();
    let method = method | IB_USER_VERBS_CMD_FLAG_EXTENDED;
    // SAFETY: by the contract.
    unsafe {
        if state(context)
            .write_by_ioctl
            .load(core::sync::atomic::Ordering::Relaxed)
        {
            return invoke_write(
                context,
                method,
                request.cast::<u8>().add(header),
                core_request_len - header,
                request_len - header,
                response.cast(),
                core_response_len,
                response_len,
            );
        }
        (*request).hdr.command = method;
        (*request).hdr.in_words = ((core_request_len - header) / 8) as u16;
        (*request).hdr.out_words = (core_response_len / 8) as u16;
        (*request).ex_hdr.provider_in_words = ((request_len - core_request_len) / 8) as u16;
        (*request).ex_hdr.provider_out_words = ((response_len - core_response_len) / 8) as u16;
        (*request).ex_hdr.response = response as u64;
        (*request).ex_hdr.cmd_hdr_reserved = 0;
        if !response.is_null() {
            response.write_bytes(0, response_len);
        }
        send(context, request.cast(), request_len, response, response_len)
    }
}

/// Hands a complete command to the kernel.
///
/// # Safety
/// As for [`execute`].
#[inline(always)]
unsafe fn send(
    context: *mut ibv_context,
    request: *const c_void,
    request_len: usize,
    response: *mut c_void,
    response_len: usize,
) -> c_int {
    // SAFETY: by the contract; the kernel writes at most `response_len` bytes to the response.
    unsafe {
        if libc::write((*context).cmd_fd, request, request_len) != request_len as isize {
            return Errno::last().0;
        }
    }
    if !response.is_null() {
        valgrind::make_mem_defined(response as u64, response_len);
    }
    0
}

/// A legacy command inside an ioctl. The lengths are without the header, which has no use there.
///
/// # Safety
/// As for [`execute`].
#[allow(clippy::too_many_arguments)]
unsafe fn invoke_write(
    context: *mut ibv_context,
    method: u32,
    request: *mut u8,
    core_request_len: usize,
    request_len: usize,
    response: *mut u8,
    core_response_len: usize,
    response_len: usize,
) -> c_int {
    let mut cmd = Command::<5>::new(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE);
    cmd.u64(UVERBS_ATTR_WRITE_CMD, method.into());
    // SAFETY: by the contract the buffers are as long as told.
    unsafe {
        if core_request_len != 0 {
            cmd.input(UVERBS_ATTR_CORE_IN, request, core_request_len);
        }
        if core_response_len != 0 {
            cmd.output_bytes(UVERBS_ATTR_CORE_OUT, response, core_response_len);
        }
        if request_len > core_request_len {
            let uhw = request.add(core_request_len);
            cmd.input(UVERBS_ATTR_UHW_IN, uhw, request_len - core_request_len);
        }
        if response_len > core_response_len {
            let uhw = response.add(core_response_len);
            cmd.output_bytes(UVERBS_ATTR_UHW_OUT, uhw, response_len - core_response_len);
        }
        cmd.execute(context).into_c()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(C)]
    struct Request {
        core: [u32; 4],
        provider: [u32; 2],
    }

    #[test]
    fn a_request_ends_where_the_providers_part_begins() {
        let mut buffer = Request {
            core: [0; 4],
            provider: [7, 8],
        };
        let whole = (&raw mut buffer).cast::<[u32; 4]>();
        let uhw = Uhw::after(whole, size_of::<Request>(), null_mut::<u8>(), 0);
        assert_eq!(
            uhw.input(),
            Some((whole.wrapping_add(1).cast::<u8>().cast_const(), 8))
        );
        assert_eq!(uhw.output(), None);

        let mut own = MaybeUninit::<[u32; 3]>::uninit();
        let placed = uhw
            .request(&mut own)
            .expect("12 bytes fit into 16 of headroom");
        assert_eq!(placed.at as usize, whole as usize + 4);
        assert_eq!(placed.len, 12 + 8);
    }

    #[test]
    fn without_a_providers_part_the_request_is_the_librarys_own() {
        let mut buffer = [0u32; 4];
        let uhw = Uhw::after(&raw mut buffer, 16, null_mut::<u8>(), 0);
        let mut own = MaybeUninit::<[u32; 3]>::uninit();
        let placed = uhw.request(&mut own).expect("no provider part");
        assert_eq!(placed.at.cast_const(), own.as_ptr());
        assert_eq!(placed.len, 12);
    }

    #[test]
    fn a_request_larger_than_the_headroom_is_refused() {
        let mut buffer = Request {
            core: [0; 4],
            provider: [7, 8],
        };
        let whole = (&raw mut buffer).cast::<[u32; 4]>();
        let uhw = Uhw::after(whole, size_of::<Request>(), null_mut::<u8>(), 0);
        let mut own = MaybeUninit::<[u32; 5]>::uninit();
        assert!(uhw.request(&mut own).is_err());
    }
}
