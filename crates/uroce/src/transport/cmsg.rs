//! Control messages of datagrams (cmsg(3)), in buffers of our own.

use std::mem::MaybeUninit;

/// Room for the control messages that one datagram comes or goes with.
#[repr(C, align(8))]
pub struct Control {
    bytes: [MaybeUninit<u8>; Control::LEN],
}

impl Control {
    pub const LEN: usize = 128;

    pub const fn new() -> Control {
        Control {
            bytes: [MaybeUninit::uninit(); Control::LEN],
        }
    }

    pub fn as_mut_ptr(&mut self) -> *mut libc::c_void {
        self.bytes.as_mut_ptr().cast()
    }
}

/// Adds a control message behind `len` bytes; returns their new number. There is room for it.
pub fn put<T: Copy>(control: &mut Control, len: usize, level: i32, kind: i32, value: T) -> usize {
    // SAFETY: CMSG_SPACE and CMSG_LEN only calculate.
    let (space, told) = unsafe {
        let size = size_of::<T>() as u32;
        (
            libc::CMSG_SPACE(size) as usize,
            libc::CMSG_LEN(size) as usize,
        )
    };
    if len + space > Control::LEN {
        return len;
    }
    // SAFETY: header and value lie within the buffer, as just checked; `len` is a sum of CMSG_SPACEs, so
    // the header is aligned as the buffer is.
    unsafe {
        let header = control.as_mut_ptr().byte_add(len).cast::<libc::cmsghdr>();
        // The padding too: valgrind complains of bytes that the kernel is handed and nobody wrote.
        header.cast::<u8>().write_bytes(0, space);
        (&raw mut (*header).cmsg_len).write(told as _);
        (&raw mut (*header).cmsg_level).write(level);
        (&raw mut (*header).cmsg_type).write(kind);
        libc::CMSG_DATA(header).cast::<T>().write_unaligned(value);
    }
    len + space
}

/// What a datagram came with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecvMeta {
    /// The size of the datagrams that were put together to this one (UDP_GRO); 0 if it is alone.
    pub segment: usize,
    pub traffic_class: u8,
    pub hop_limit: u8,
    pub flow_label: u32,
}

/// Reads the control messages of a received datagram.
///
/// # Safety
/// `header` is as recvmmsg has left it, and its control buffer still there.
pub unsafe fn read(header: &libc::msghdr) -> RecvMeta {
    let mut told = RecvMeta::default();
    // SAFETY: by the contract; the kernel has written whole control messages of these types, and each
    // value has at least the size that is read.
    unsafe {
        let mut at = libc::CMSG_FIRSTHDR(header);
        while let Some(message) = at.as_ref() {
            let data = libc::CMSG_DATA(at);
            let number = || data.cast::<i32>().read_unaligned();
            match (message.cmsg_level, message.cmsg_type) {
                (libc::SOL_UDP, libc::UDP_GRO) => told.segment = number().max(0) as usize,
                (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => {
                    told.hop_limit = number() as u8;
                }
                // One byte.
                (libc::IPPROTO_IP, libc::IP_TOS) => told.traffic_class = data.read(),
                (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => told.traffic_class = number() as u8,
                (libc::IPPROTO_IPV6, libc::IPV6_FLOWINFO) => {
                    told.flow_label = u32::from_be(number() as u32) & 0xf_ffff;
                }
                _ => {}
            }
            at = libc::CMSG_NXTHDR(header, at);
        }
    }
    told
}
