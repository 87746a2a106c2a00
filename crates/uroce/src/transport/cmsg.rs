//! Control messages of datagrams (cmsg(3)), in fixed buffers.

use std::mem::MaybeUninit;
use std::time::Duration;

/// A buffer for the control messages of one datagram.
#[repr(C, align(8))]
pub struct ControlBuffer {
    bytes: [MaybeUninit<u8>; ControlBuffer::LEN],
}

impl ControlBuffer {
    /// Bytes in the buffer: more than the messages that uroce sends or enables need.
    pub const LEN: usize = 160;

    /// An empty buffer.
    pub const fn new() -> ControlBuffer {
        ControlBuffer {
            bytes: [MaybeUninit::uninit(); ControlBuffer::LEN],
        }
    }

    /// The pointer for `msg_control`; [`ControlBuffer::LEN`] bytes.
    pub fn as_mut_ptr(&mut self) -> *mut libc::c_void {
        self.bytes.as_mut_ptr().cast()
    }
}

/// Appends a control message to the first `len` bytes of a buffer. Returns their new number; it is unchanged
/// if the message does not fit. `len` is 0 or what an earlier call returned.
pub fn put<T: Copy>(
    control: &mut ControlBuffer,
    len: usize,
    level: i32,
    kind: i32,
    value: T,
) -> usize {
    let size = size_of::<T>() as u32;
    // SAFETY: CMSG_SPACE and CMSG_LEN only compute.
    let (space, cmsg_len) = unsafe { (libc::CMSG_SPACE(size), libc::CMSG_LEN(size)) };
    let space = space as usize;
    if len + space > ControlBuffer::LEN {
        return len;
    }
    // SAFETY: header and value lie within the buffer, as just checked. `len` is a sum of CMSG_SPACEs, so the
    // header is aligned as the buffer is.
    unsafe {
        let header = control.as_mut_ptr().byte_add(len).cast::<libc::cmsghdr>();
        // The padding too: valgrind reports uninitialised bytes that are passed to the kernel.
        header.cast::<u8>().write_bytes(0, space);
        (&raw mut (*header).cmsg_len).write(cmsg_len as _);
        (&raw mut (*header).cmsg_level).write(level);
        (&raw mut (*header).cmsg_type).write(kind);
        libc::CMSG_DATA(header).cast::<T>().write_unaligned(value);
    }
    len + space
}

/// The metadata that the kernel reports with a received datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecvMeta {
    /// The length of the datagrams that UDP_GRO has coalesced into this one (the last may be shorter); 0 if
    /// it is a single datagram.
    pub gro_size: usize,
    /// Type of service, or traffic class.
    pub traffic_class: u8,
    /// Time to live, or hop limit.
    pub hop_limit: u8,
    /// IPv6 only.
    pub flow_label: u32,
    /// The index of the interface that it came in through; 0 if the kernel does not say.
    pub ifindex: u32,
    /// The time of arrival, since 1970; None without SO_TIMESTAMPNS.
    pub arrived: Option<Duration>,
}

/// Reads the control messages of a received datagram.
///
/// # Safety
/// recvmmsg has filled `header`, and its control buffer is still valid and unchanged.
pub unsafe fn read(header: &libc::msghdr) -> RecvMeta {
    let mut meta = RecvMeta::default();
    // SAFETY: the caller passes a header that recvmmsg has filled, so CMSG_FIRSTHDR points into its control
    // buffer or is NULL.
    let mut next = unsafe { libc::CMSG_FIRSTHDR(header) };
    // SAFETY: `next` is NULL or a whole control message that the kernel has written to that buffer.
    while let Some(message) = unsafe { next.as_ref() } {
        // SAFETY: `next` is that message; its data follows the header.
        let data = unsafe { libc::CMSG_DATA(next) };
        // SAFETY: called only for the types below for which the kernel writes an int.
        let int = || unsafe { data.cast::<i32>().read_unaligned() };
        match (message.cmsg_level, message.cmsg_type) {
            (libc::SOL_UDP, libc::UDP_GRO) => meta.gro_size = int().max(0) as usize,
            (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => {
                meta.hop_limit = int() as u8;
            }
            // SAFETY: the kernel writes one byte for IP_TOS.
            (libc::IPPROTO_IP, libc::IP_TOS) => meta.traffic_class = unsafe { data.read() },
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => meta.traffic_class = int() as u8,
            (libc::IPPROTO_IPV6, libc::IPV6_FLOWINFO) => {
                meta.flow_label = u32::from_be(int() as u32) & 0xf_ffff;
            }
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                // SAFETY: the kernel writes an in_pktinfo for IP_PKTINFO.
                let info = unsafe { data.cast::<libc::in_pktinfo>().read_unaligned() };
                meta.ifindex = info.ipi_ifindex as u32;
            }
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                // SAFETY: the kernel writes an in6_pktinfo for IPV6_PKTINFO.
                let info = unsafe { data.cast::<libc::in6_pktinfo>().read_unaligned() };
                meta.ifindex = info.ipi6_ifindex as u32;
            }
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                // SAFETY: the kernel writes a timespec for SO_TIMESTAMPNS.
                let at = unsafe { data.cast::<libc::timespec>().read_unaligned() };
                let seconds = u64::try_from(at.tv_sec).unwrap_or(0);
                meta.arrived = Some(Duration::new(seconds, at.tv_nsec as u32));
            }
            _ => {}
        }
        // SAFETY: recvmmsg has filled `header`, as the caller says, and `next` is one of its messages.
        next = unsafe { libc::CMSG_NXTHDR(header, next) };
    }
    meta
}
