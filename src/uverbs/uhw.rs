//! The provider's part of a command and of its response, and where the library's part goes beside it.
//!
//! A provider appends data of its own to a command and to the response ("user hardware", UHW). The kernel
//! takes a legacy command as one block, so the library builds its part directly in front of the provider's,
//! in the provider's memory. A provider's structure begins with room for it (rdma-core's driver.h).

use core::{
    mem::{MaybeUninit, size_of},
    ptr::null_mut,
};

use ibverbs_abi::Errno;
use libc::EINVAL;

/// A request or a response in memory.
pub struct Buffer<T> {
    /// The library's part (the kernel's term is "core"); null for a command without a response.
    pub at: *mut T,
    /// The length in bytes with the provider's part behind it.
    pub len: usize,
}

impl<T> Clone for Buffer<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Buffer<T> {}

impl<T> Buffer<T> {
    /// The library's part alone.
    #[inline(always)]
    pub fn core(at: *mut T) -> Self {
        Buffer {
            at,
            len: size_of::<T>(),
        }
    }

    /// A provider's buffer of `len` bytes, which begins with the library's part.
    #[inline(always)]
    pub fn of_provider(at: *mut T, len: usize) -> Self {
        Buffer { at, len }
    }

    /// The response of a command that has none.
    #[inline(always)]
    pub fn none() -> Self {
        Buffer {
            at: null_mut(),
            len: 0,
        }
    }

    /// The length in bytes of the library's part.
    #[inline(always)]
    pub fn core_len(&self) -> usize {
        if self.at.is_null() { 0 } else { size_of::<T>() }
    }

    /// The same memory, seen as another type.
    #[inline(always)]
    pub fn cast<U>(self) -> Buffer<U> {
        Buffer {
            at: self.at.cast(),
            len: self.len,
        }
    }
}

impl Buffer<u8> {
    /// All but the first `len` bytes.
    ///
    /// # Safety
    /// The buffer is that long.
    #[inline(always)]
    pub(super) unsafe fn skip(self, len: usize) -> Self {
        Buffer {
            // SAFETY: the caller knows the buffer to be that long.
            at: unsafe { self.at.add(len) },
            len: self.len - len,
        }
    }
}

/// One direction of the provider's part.
#[derive(Clone, Copy)]
struct ProviderPart {
    at: *mut u8,
    len: usize,
    /// The bytes in front of `at` where the library may build its own part.
    headroom: usize,
}

impl ProviderPart {
    /// The provider's part behind the library's part `T` of a buffer of `len` bytes at `buffer`,
    /// which may be null. Without a branch: most commands have both parts. An empty part's other
    /// members say nothing.
    #[inline(always)]
    fn after<T>(buffer: *mut T, len: usize) -> ProviderPart {
        let len = if buffer.is_null() { 0 } else { len };
        ProviderPart {
            at: buffer.wrapping_add(1).cast(),
            len: len.saturating_sub(size_of::<T>()),
            headroom: size_of::<T>(),
        }
    }

    /// Where the library builds a `T`: in front of this part, or at `own` if there is none. EINVAL if the
    /// provider's buffer has no room for it.
    #[inline(always)]
    fn place<T>(&self, own: &mut MaybeUninit<T>) -> Result<Buffer<T>, Errno> {
        if self.len == 0 {
            return Ok(Buffer::core(own.as_mut_ptr()));
        }
        if self.headroom < size_of::<T>() {
            return Errno(EINVAL).fail();
        }
        Ok(Buffer {
            at: self.at.wrapping_sub(size_of::<T>()).cast(),
            len: size_of::<T>() + self.len,
        })
    }
}

/// The provider's part of a command and of its response.
#[derive(Clone, Copy)]
pub struct Uhw {
    input: ProviderPart,
    output: ProviderPart,
}

impl Uhw {
    /// The provider's parts behind the common parts `Q` and `R` of its command and response
    /// buffers.
    #[inline(always)]
    pub fn after<Q, R>(cmd: *mut Q, cmd_size: usize, resp: *mut R, resp_size: usize) -> Uhw {
        Uhw {
            input: ProviderPart::after(cmd, cmd_size),
            output: ProviderPart::after(resp, resp_size),
        }
    }

    /// The provider's input, if it has any.
    #[inline(always)]
    pub fn input(&self) -> Option<(*const u8, usize)> {
        (self.input.len != 0).then_some((self.input.at.cast_const(), self.input.len))
    }

    /// Where the provider's output goes, if it has any.
    #[inline(always)]
    pub fn output(&self) -> Option<(*mut u8, usize)> {
        (self.output.len != 0).then_some((self.output.at, self.output.len))
    }

    /// Where to build a request `Q`: in front of the provider's input, or at `own` if there is none.
    #[inline(always)]
    pub fn request<Q>(&self, own: &mut MaybeUninit<Q>) -> Result<Buffer<Q>, Errno> {
        self.input.place(own)
    }

    /// Where the kernel puts a response `R`: in front of the provider's output, or at `own`.
    #[inline(always)]
    pub fn response<R>(&self, own: &mut MaybeUninit<R>) -> Result<Buffer<R>, Errno> {
        self.output.place(own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(C)]
    struct TestRequest {
        core: [u32; 4],
        provider: [u32; 2],
    }

    #[test]
    fn a_request_ends_where_the_providers_part_begins() {
        let mut buffer = TestRequest {
            core: [0; 4],
            provider: [7, 8],
        };
        let whole = (&raw mut buffer).cast::<[u32; 4]>();
        let uhw = Uhw::after(whole, size_of::<TestRequest>(), null_mut::<u8>(), 0);
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
        let mut buffer = TestRequest {
            core: [0; 4],
            provider: [7, 8],
        };
        let whole = (&raw mut buffer).cast::<[u32; 4]>();
        let uhw = Uhw::after(whole, size_of::<TestRequest>(), null_mut::<u8>(), 0);
        let mut own = MaybeUninit::<[u32; 5]>::uninit();
        assert!(uhw.request(&mut own).is_err());
    }
}
