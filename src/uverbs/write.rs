//! The legacy path: a command as a structure, which the kernel takes by `write()` on the command fd, or by
//! the ioctl INVOKE_WRITE where it has that (kernel: `rdma/ib_user_verbs.h`).
//!
//! The error of a failing function is in errno, too.

use core::mem::{MaybeUninit, size_of};

use ibverbs_abi::*;

use super::{
    Status,
    ioctl::Command,
    state::state,
    uhw::{Buffer, Uhw},
    valgrind,
};

/// The length in bytes of an extended command's headers.
const EX_HEADER: usize = size_of::<ex_hdr>();

/// A request and its response. In both, the provider's part follows the library's.
pub struct Parts<H> {
    /// Begins with the headers `H`.
    pub request: Buffer<H>,
    /// The length in bytes of the library's part of the request, with the headers.
    pub core_request_len: usize,
    pub response: Buffer<u8>,
    /// The length in bytes of the library's part of the response.
    pub core_response_len: usize,
}

impl<H> Parts<H> {
    /// The parts of a command whose library's parts are a `Q` and an `R`.
    #[inline(always)]
    fn new<Q, R>(request: Buffer<Q>, response: Buffer<R>) -> Parts<H> {
        Parts {
            core_request_len: request.core_len(),
            request: request.cast(),
            core_response_len: response.core_len(),
            response: response.cast(),
        }
    }

    /// The same without the headers of the request.
    ///
    /// # Safety
    /// The request has them.
    unsafe fn without_headers(&self) -> Parts<u8> {
        Parts {
            // SAFETY: the request is that long, as the caller promises.
            request: unsafe { self.request.cast::<u8>().skip(size_of::<H>()) },
            core_request_len: self.core_request_len - size_of::<H>(),
            response: self.response,
            core_response_len: self.core_response_len,
        }
    }
}

/// Completes a legacy command's header and sends it. The payload of a request that has a response begins
/// with the response's address, which is filled in here.
///
/// # Safety
/// `context` is open; `request.at` and, unless null, `response.at` are valid for their lengths.
#[inline(always)]
pub unsafe fn execute<Q, R>(
    context: *mut ibv_context,
    method: u32,
    request: Buffer<Cmd<Q>>,
    response: Buffer<R>,
) -> Result<(), Errno> {
    // SAFETY: `context` is open, request and response are valid for their lengths.
    unsafe { plain(context, method, request, response) }.result()
}

/// # Safety
/// As for [`execute`].
unsafe fn plain<Q, R>(
    context: *mut ibv_context,
    method: u32,
    request: Buffer<Cmd<Q>>,
    response: Buffer<R>,
) -> Status {
    // SAFETY: `request` is valid, and a payload with a response begins with the u64 for its address.
    unsafe {
        if !response.at.is_null() {
            (&raw mut (*request.at).core_payload)
                .cast::<u64>()
                .write(response.at as u64);
        }
    }
    // SAFETY: `context` is open, request and response are valid for their lengths.
    unsafe { plain_sized(context, method, &Parts::new(request, response)) }
}

/// As [`execute`] for a command without a response.
///
/// # Safety
/// As for [`execute`].
#[inline(always)]
pub unsafe fn execute_request<Q>(
    context: *mut ibv_context,
    method: u32,
    request: Buffer<Cmd<Q>>,
) -> Result<(), Errno> {
    // SAFETY: `context` is open and `request` valid; there is no response.
    unsafe { execute::<Q, ()>(context, method, request, Buffer::none()) }
}

/// Sends a legacy command that has neither a response nor a provider's part.
///
/// # Safety
/// `context` is open.
#[inline(always)]
pub unsafe fn execute_payload<Q>(
    context: *mut ibv_context,
    method: u32,
    core_payload: Q,
) -> Result<(), Errno> {
    let mut request = Cmd {
        hdr: ib_uverbs_cmd_hdr::default(),
        core_payload,
    };
    // SAFETY: `context` is open, and the request is a local of this function.
    unsafe { execute_request(context, method, Buffer::core(&raw mut request)) }
}

/// Sends a legacy command with the provider's part `uhw`, and calls `accept` with the response.
///
/// # Safety
/// `context` is open; the buffers that `uhw` describes are live; the kernel answers `method` with an `R`.
#[inline(always)]
pub unsafe fn execute_uhw<Q, R>(
    context: *mut ibv_context,
    method: u32,
    uhw: &Uhw,
    core_payload: Q,
    accept: impl FnOnce(&R),
) -> Result<(), Errno> {
    let (mut request, mut response) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    let request = uhw.request::<Cmd<Q>>(&mut request)?;
    let response = uhw.response::<R>(&mut response)?;
    // SAFETY: request and response are locals, or in the provider's buffers with room for them; after
    // success the kernel has filled the response.
    unsafe {
        (&raw mut (*request.at).core_payload).write(core_payload);
        execute(context, method, request, response)?;
        accept(&*response.at);
    }
    Ok(())
}

/// As [`execute_uhw`] for an extended legacy command.
///
/// # Safety
/// As for [`execute_uhw`].
#[inline(always)]
pub unsafe fn execute_ex_uhw<Q, R>(
    context: *mut ibv_context,
    method: u32,
    uhw: &Uhw,
    core_payload: Q,
    accept: impl FnOnce(&R),
) -> Result<(), Errno> {
    let (mut request, mut response) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    let request = uhw.request::<CmdEx<Q>>(&mut request)?;
    let response = uhw.response::<R>(&mut response)?;
    // SAFETY: request and response are locals, or in the provider's buffers with room for them; the
    // response was zeroed before the kernel filled in what it knows.
    unsafe {
        (&raw mut (*request.at).core_payload).write(core_payload);
        execute_ex(context, method, request, response)?;
        accept(&*response.at);
    }
    Ok(())
}

/// As [`execute`], for structures with a variable tail: the lengths of the library's parts are given, and
/// the response's address in the payload is the caller's to fill in.
///
/// # Safety
/// As for [`execute`], with what `parts` name.
#[inline(always)]
pub unsafe fn execute_sized(
    context: *mut ibv_context,
    method: u32,
    parts: &Parts<ib_uverbs_cmd_hdr>,
) -> Result<(), Errno> {
    // SAFETY: `context` is open, request and response are valid for their lengths.
    unsafe { plain_sized(context, method, parts) }.result()
}

/// # Safety
/// As for [`execute_sized`].
unsafe fn plain_sized(
    context: *mut ibv_context,
    method: u32,
    parts: &Parts<ib_uverbs_cmd_hdr>,
) -> Status {
    // SAFETY: `context` is open; the request begins with the header, which an ioctl does not carry.
    unsafe {
        if state(context).writes_by_ioctl() {
            return invoke_write(context, method, &parts.without_headers());
        }
    }
    let Parts {
        request, response, ..
    } = *parts;
    // SAFETY: the request begins with the header.
    let hdr = unsafe { &mut *request.at };
    hdr.command = method;
    hdr.in_words = (request.len / 4) as u16;
    hdr.out_words = (response.len / 4) as u16;
    // SAFETY: `context` is open; request and response are valid for their lengths.
    unsafe { send(context, request.cast(), response) }
}

/// Completes an extended legacy command's header and sends it. The response is zeroed first: kernels
/// without ioctls leave alone what they do not know.
///
/// # Safety
/// As for [`execute`].
#[inline(always)]
pub unsafe fn execute_ex<Q, R>(
    context: *mut ibv_context,
    method: u32,
    request: Buffer<CmdEx<Q>>,
    response: Buffer<R>,
) -> Result<(), Errno> {
    // SAFETY: `context` is open, request and response are valid for their lengths.
    unsafe { execute_ex_sized(context, method, &Parts::new(request, response)) }
}

/// As [`execute_ex`] for a command without a response.
///
/// # Safety
/// As for [`execute`].
#[inline(always)]
pub unsafe fn execute_ex_request<Q>(
    context: *mut ibv_context,
    method: u32,
    request: Buffer<CmdEx<Q>>,
) -> Result<(), Errno> {
    // SAFETY: `context` is open and `request` valid; there is no response.
    unsafe { execute_ex::<Q, ()>(context, method, request, Buffer::none()) }
}

/// As [`execute_ex`], with the lengths of the library's parts given.
///
/// # Safety
/// As for [`execute`], with what `parts` name.
#[inline(always)]
pub unsafe fn execute_ex_sized(
    context: *mut ibv_context,
    method: u32,
    parts: &Parts<ex_hdr>,
) -> Result<(), Errno> {
    // SAFETY: `context` is open, request and response are valid for their lengths.
    unsafe { extended_sized(context, method, parts) }.result()
}

/// # Safety
/// As for [`execute_ex_sized`].
unsafe fn extended_sized(context: *mut ibv_context, method: u32, parts: &Parts<ex_hdr>) -> Status {
    let method = method | IB_USER_VERBS_CMD_FLAG_EXTENDED;
    // SAFETY: `context` is open; the request begins with the header, which an ioctl does not carry.
    unsafe {
        if state(context).writes_by_ioctl() {
            return invoke_write(context, method, &parts.without_headers());
        }
    }
    let Parts {
        request,
        core_request_len,
        response,
        core_response_len,
    } = *parts;
    // SAFETY: the request begins with the headers.
    let ex_hdr { hdr, ex_hdr } = unsafe { &mut *request.at };
    hdr.command = method;
    hdr.in_words = ((core_request_len - EX_HEADER) / 8) as u16;
    hdr.out_words = (core_response_len / 8) as u16;
    ex_hdr.provider_in_words = ((request.len - core_request_len) / 8) as u16;
    ex_hdr.provider_out_words = ((response.len - core_response_len) / 8) as u16;
    ex_hdr.response = response.at as u64;
    ex_hdr.cmd_hdr_reserved = 0;
    // SAFETY: the response, if any, is writable for its length; the request is complete.
    unsafe {
        if !response.at.is_null() {
            response.at.write_bytes(0, response.len);
        }
        send(context, request.cast(), response)
    }
}

/// Writes a complete command to the command fd.
///
/// # Safety
/// As for [`execute`].
#[inline(always)]
unsafe fn send(context: *mut ibv_context, request: Buffer<u8>, response: Buffer<u8>) -> Status {
    // SAFETY: the request is readable for its length, and the response, whose address the request has,
    // is writable for the length that the header gives.
    let written = unsafe { libc::write((*context).cmd_fd, request.at.cast(), request.len) };
    if written != request.len as isize {
        return Status::failed();
    }
    if !response.at.is_null() {
        valgrind::make_mem_defined(response.at as u64, response.len);
    }
    Status::OK
}

/// Sends a legacy command inside an ioctl. The request is without its header, which has no use there.
///
/// # Safety
/// As for [`execute`].
unsafe fn invoke_write(context: *mut ibv_context, method: u32, parts: &Parts<u8>) -> Status {
    let Parts {
        request,
        core_request_len,
        response,
        core_response_len,
    } = *parts;
    let mut cmd = Command::<5>::new(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE);
    cmd.u64(UVERBS_ATTR_WRITE_CMD, method.into());
    // SAFETY: request and response are valid for their lengths, of which the library's parts are a
    // part; `context` is open.
    unsafe {
        if core_request_len != 0 {
            cmd.input(UVERBS_ATTR_CORE_IN, request.at, core_request_len);
        }
        if core_response_len != 0 {
            cmd.output_bytes(UVERBS_ATTR_CORE_OUT, response.at, core_response_len);
        }
        if request.len > core_request_len {
            let uhw = request.skip(core_request_len);
            cmd.input(UVERBS_ATTR_UHW_IN, uhw.at, uhw.len);
        }
        if response.len > core_response_len {
            let uhw = response.skip(core_response_len);
            cmd.output_bytes(UVERBS_ATTR_UHW_OUT, uhw.at, uhw.len);
        }
        cmd.status(context)
    }
}
