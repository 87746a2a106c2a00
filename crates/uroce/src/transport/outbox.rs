//! Sending: collects packets in GSO buffers (UDP_SEGMENT), and passes them to the kernel by
//! sendmmsg.
//!
//! Not here: what is sent, and when (the engine, `device/sending.rs`). A packet that the kernel
//! refuses is counted and lost, as in a network; the engine retransmits it.

use std::mem::{MaybeUninit, zeroed};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use ibverbs_abi::Errno;
use socket2::SockAddr;

use super::cmsg::{self, ControlBuffer};
use super::net::Net;
use super::socket::{self, Socket};
use super::socket_table::SocketTable;
use super::{GSO_LEN_MAX, GSO_PACKETS_MAX, zeroed_pages};
use crate::cancellation;
use crate::capture::{Direction, Frame, Tap};
use roce::engine::{AddressVector, Transmit};
use roce::wire::{Flow, Fragmentation, ICRC_LEN, MAX_PACKET, PORT, port_of};

/// The longest packet with its ICRC, in bytes.
const PACKET_MAX: usize = MAX_PACKET + ICRC_LEN;
/// Bytes of a batch.
const BATCH_LEN: usize = 32 * PACKET_MAX;
/// GSO buffers that one system call sends at most.
const BUFFERS_MAX: usize = 32;
/// How many times to wait for space in the socket's send buffer before packets are dropped.
const WAITS_MAX: u32 = 5;
const WAIT: Duration = Duration::from_millis(1);
/// Linux's default for time to live and hop limit.
const DEFAULT_HOP_LIMIT: u8 = 64;

/// A batch of packets of one queue pair, and space for the next packet. One per thread, reused.
pub struct Outbox {
    bytes: Box<[u8]>,
    used: usize,
    buffers: Vec<GsoBuffer>,
    /// The sockets, from the first packet of a batch until the batch is sent.
    table: Option<Arc<SocketTable>>,
}

/// Consecutive packets of a batch that the kernel gets as one buffer and cuts into datagrams. They have the
/// same source, destination and length; the last may be shorter.
struct GsoBuffer {
    socket: Arc<Socket>,
    av: AddressVector,
    to: SocketAddr,
    /// Offset in the batch, in bytes.
    start: usize,
    /// Bytes of all packets.
    len: usize,
    /// Bytes of each packet but the last.
    gso_size: usize,
    packets: usize,
    /// The last packet is shorter, so no other may follow.
    closed: bool,
}

impl GsoBuffer {
    fn flow(&self) -> Flow {
        Flow {
            src: self.socket.local.ip,
            dst: self.to.ip(),
            src_port: self.socket.port,
            dst_port: self.to.port(),
        }
    }
}

impl Outbox {
    /// Allocates the buffers. None if there is no memory.
    pub fn try_new() -> Option<Outbox> {
        let mut buffers = Vec::new();
        buffers.try_reserve_exact(BUFFERS_MAX).ok()?;
        Some(Outbox {
            bytes: zeroed_pages(BATCH_LEN)?,
            used: 0,
            buffers,
            table: None,
        })
    }

    /// Whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.buffers.is_empty()
    }

    /// Whether the batch has to be sent before the next packet.
    pub fn is_full(&self) -> bool {
        self.used + PACKET_MAX > BATCH_LEN || self.buffers.len() == BUFFERS_MAX
    }

    /// Space for the next packet: headers, 4096 bytes of payload, padding, ICRC.
    ///
    /// # Panics
    /// If the batch is full.
    pub fn buffer(&mut self) -> &mut [u8] {
        &mut self.bytes[self.used..self.used + PACKET_MAX]
    }

    /// The last GSO buffer, if a packet of `len` bytes may be appended to it.
    fn open_buffer(
        &mut self,
        len: usize,
        socket: &Arc<Socket>,
        packet: &Transmit,
    ) -> Option<&mut GsoBuffer> {
        self.buffers.last_mut().filter(|buffer| {
            !buffer.closed
                && len <= buffer.gso_size
                && buffer.packets < GSO_PACKETS_MAX
                && buffer.len + len <= GSO_LEN_MAX
                && buffer.av == packet.av
                && buffer.to.port() == destination_port(packet)
                && Arc::ptr_eq(&buffer.socket, socket)
                && buffer.socket.gso()
        })
    }
}

impl Net {
    /// Adds the packet that is in [`Outbox::buffer`] to the batch of the queue pair `src_qpn`, and appends
    /// its ICRC. A packet that cannot be sent, because its GID index is
    /// not in the table or its destination is of another address family, is dropped.
    pub fn push(&self, outbox: &mut Outbox, src_qpn: u32, packet: &Transmit) {
        let table = outbox.table.get_or_insert_with(|| self.table());
        let av = &packet.av;
        let Some(socket) = table.sender(port_of(src_qpn), av.sgid_index) else {
            return self.count_unsent(1);
        };
        let (start, end) = (outbox.used, outbox.used + packet.len);
        let len = packet.len + ICRC_LEN;
        if len > PACKET_MAX {
            return self.count_unsent(1);
        }
        let socket = Arc::clone(socket);
        let (flow, id) = if let Some(buffer) = outbox.open_buffer(len, &socket, packet) {
            let id = buffer.packets as u16;
            buffer.packets += 1;
            buffer.len += len;
            buffer.closed = len < buffer.gso_size;
            (buffer.flow(), id)
        } else {
            let ip = socket.destination(av);
            if ip.is_ipv4() != socket.local.ip.is_ipv4() {
                return self.count_unsent(1);
            }
            let buffer = GsoBuffer {
                to: socket::address(ip, destination_port(packet), self.ifindex()),
                socket,
                av: *av,
                start,
                len,
                gso_size: len,
                packets: 1,
                closed: false,
            };
            let flow = buffer.flow();
            outbox.buffers.push(buffer);
            (flow, 0)
        };
        let fragmentation = Fragmentation {
            id,
            ..Fragmentation::SENT
        };
        let icrc = flow.icrc(&outbox.bytes[start..end], fragmentation);
        outbox.bytes[end..end + ICRC_LEN].copy_from_slice(&icrc);
        outbox.used += len;
    }

    /// [`Net::push`] for a packet that is sent at once, alone, and recorded with a comment.
    #[cold]
    pub fn send_noted(
        &self,
        outbox: &mut Outbox,
        src_qpn: u32,
        packet: &Transmit,
        note: &'static str,
    ) {
        self.flush_before(outbox, packet);
        self.push(outbox, src_qpn, packet);
        self.flush_noted(outbox, note);
    }

    /// [`Net::send_noted`] with a wrong ICRC.
    #[cold]
    pub fn send_corrupted(
        &self,
        outbox: &mut Outbox,
        src_qpn: u32,
        packet: &Transmit,
        note: &'static str,
    ) {
        self.flush_before(outbox, packet);
        self.push_corrupted(outbox, src_qpn, packet);
        self.flush_noted(outbox, note);
    }

    /// A packet that is in [`Outbox::buffer`] is lost: it is only recorded.
    #[cold]
    pub fn lose(&self, outbox: &mut Outbox, src_qpn: u32, packet: &Transmit, note: &'static str) {
        let Some(tap) = self.ingress.tap() else {
            return;
        };
        self.flush_before(outbox, packet);
        self.push(outbox, src_qpn, packet);
        record(tap, outbox, Some(note));
        outbox.buffers.clear();
        (outbox.used, outbox.table) = (0, None);
    }

    /// Sends what is in the batch, but not the packet in [`Outbox::buffer`], which stays there.
    fn flush_before(&self, outbox: &mut Outbox, packet: &Transmit) {
        let bytes = outbox.buffer()[..packet.len].to_vec();
        self.flush(outbox);
        outbox.buffer()[..packet.len].copy_from_slice(&bytes);
    }

    /// [`Net::push`] with a wrong ICRC.
    #[cold]
    fn push_corrupted(&self, outbox: &mut Outbox, src_qpn: u32, packet: &Transmit) {
        let before = outbox.used;
        self.push(outbox, src_qpn, packet);
        // Not if it was dropped.
        if let [.., last] = &mut outbox.bytes[before..outbox.used] {
            *last = !*last;
        }
    }

    /// Sends the batch. Packets that the network refuses are lost, as on any network. If a socket's send
    /// buffer is full, waits for space, for some milliseconds at most.
    #[inline]
    pub fn flush(&self, outbox: &mut Outbox) {
        outbox.table = None;
        if !outbox.is_empty() {
            self.flush_buffers(outbox, None);
        }
    }

    /// [`Net::flush`] for packets that are recorded with a comment.
    fn flush_noted(&self, outbox: &mut Outbox, note: &'static str) {
        outbox.table = None;
        self.flush_buffers(outbox, Some(note));
    }

    fn flush_buffers(&self, outbox: &mut Outbox, note: Option<&str>) {
        if let Some(tap) = self.ingress.tap() {
            record(tap, outbox, note);
        }
        let mut rest = &outbox.buffers[..];
        while let Some(first) = rest.first() {
            let same = |buffer: &&GsoBuffer| Arc::ptr_eq(&buffer.socket, &first.socket);
            let (now, later) = rest.split_at(rest.iter().take_while(same).count());
            let unsent = send(&first.socket, &mut outbox.bytes, now);
            if unsent > 0 {
                self.count_unsent(unsent);
            }
            rest = later;
        }
        outbox.buffers.clear();
        outbox.used = 0;
    }

    #[cold]
    pub fn count_unsent(&self, packets: u64) {
        self.unsent.fetch_add(packets, Ordering::Relaxed);
    }
}

/// Records the packets of a batch. They are recorded before they are sent, so that none is recorded after its
/// response; the network may still refuse them.
#[cold]
fn record(tap: &Tap, outbox: &Outbox, note: Option<&str>) {
    let now = SystemTime::now();
    for buffer in &outbox.buffers {
        let packets = &outbox.bytes[buffer.start..buffer.start + buffer.len];
        for (i, datagram) in packets.chunks(buffer.gso_size).enumerate() {
            let frame = Frame {
                flow: buffer.flow(),
                traffic_class: buffer.av.traffic_class,
                hop_limit: match buffer.to.ip().is_multicast() {
                    true => buffer.av.hop_limit.max(1),
                    false => DEFAULT_HOP_LIMIT,
                },
                flow_label: 0,
                fragmentation: Fragmentation {
                    id: i as u16,
                    ..Fragmentation::SENT
                },
                datagram,
            };
            tap.record(now, Direction::Sent, &frame, note);
        }
    }
}

/// Sends buffers of one socket. Returns how many packets could not be sent.
fn send(socket: &Socket, bytes: &mut [u8], mut buffers: &[GsoBuffer]) -> u64 {
    let (mut waits, mut unsent) = (0, 0);
    while let Some(first) = buffers.first() {
        match send_some(socket, bytes, buffers) {
            Ok(count) => buffers = &buffers[count..],
            Err(Errno(libc::EINTR)) => {}
            Err(Errno(libc::EAGAIN | libc::ENOBUFS)) if waits < WAITS_MAX => {
                waits += 1;
                wait_writable(socket);
            }
            Err(errno) => {
                unsent += match first.packets {
                    1 => 1,
                    _ => send_without_gso(socket, bytes, first, errno),
                };
                buffers = &buffers[1..];
            }
        }
    }
    unsent
}

/// Makes one system call. Returns the number of buffers sent; an error is that of the first.
fn send_some(socket: &Socket, bytes: &mut [u8], buffers: &[GsoBuffer]) -> Result<usize, Errno> {
    if !socket.is_ours() {
        return Err(Errno(libc::EBADF));
    }
    let mut controls = [const { ControlBuffer::new() }; BUFFERS_MAX];
    let mut names = [const { MaybeUninit::<SockAddr>::uninit() }; BUFFERS_MAX];
    let mut vectors = [const { MaybeUninit::<libc::iovec>::uninit() }; BUFFERS_MAX];
    let mut headers = [const { MaybeUninit::<libc::mmsghdr>::uninit() }; BUFFERS_MAX];
    for ((((buffer, header), name), control), vector) in buffers
        .iter()
        .zip(&mut headers)
        .zip(&mut names)
        .zip(&mut controls)
        .zip(&mut vectors)
    {
        // SAFETY: mmsghdr consists of integers and pointers, for which zero bytes are valid.
        let header = header.write(unsafe { zeroed() });
        let name = name.write(buffer.to.into());
        let data = &mut bytes[buffer.start..buffer.start + buffer.len];
        let vector = vector.write(libc::iovec {
            iov_base: data.as_mut_ptr().cast(),
            iov_len: data.len(),
        });
        header.msg_hdr.msg_name = name.as_ptr().cast_mut().cast();
        header.msg_hdr.msg_namelen = name.len();
        header.msg_hdr.msg_iov = vector;
        header.msg_hdr.msg_iovlen = 1;
        header.msg_hdr.msg_controllen = put_control(buffer, control) as _;
        if header.msg_hdr.msg_controllen > 0 {
            header.msg_hdr.msg_control = control.as_mut_ptr();
        }
    }
    // SAFETY: the loop above has written as many headers as are passed. Each points to an address and control
    // messages, which are locals, and to bytes of the batch; all outlive the call.
    let sent = unsafe {
        cancellation::sendmmsg(
            socket.fd(),
            headers.as_mut_ptr().cast(),
            buffers.len().min(BUFFERS_MAX) as u32,
            libc::MSG_DONTWAIT,
        )
    };
    usize::try_from(sent).map_err(|_| Errno::last())
}

/// Writes the control messages of a GSO buffer; returns their length.
fn put_control(buffer: &GsoBuffer, control: &mut ControlBuffer) -> usize {
    let mut len = 0;
    if buffer.packets > 1 {
        let gso_size = buffer.gso_size as u16;
        len = cmsg::put(control, len, libc::SOL_UDP, libc::UDP_SEGMENT, gso_size);
    }
    let (level, service, ttl) = if buffer.to.is_ipv4() {
        (libc::IPPROTO_IP, libc::IP_TOS, libc::IP_TTL)
    } else {
        (libc::IPPROTO_IPV6, libc::IPV6_TCLASS, libc::IPV6_HOPLIMIT)
    };
    let AddressVector {
        traffic_class,
        hop_limit,
        ..
    } = buffer.av;
    if traffic_class != 0 {
        len = cmsg::put(control, len, level, service, i32::from(traffic_class));
    }
    // The program's hop limit is used for multicast only. Unicast has Linux's default, as from kernel
    // devices.
    if buffer.to.ip().is_multicast() {
        len = cmsg::put(control, len, level, ttl, i32::from(hop_limit.max(1)));
    }
    len
}

/// Sends the packets of a GSO buffer that the kernel has refused, each as a datagram of its own. If that
/// succeeds and `why` may be due to GSO, the socket does not use GSO any more. Returns how many packets could
/// not be sent.
fn send_without_gso(socket: &Socket, bytes: &mut [u8], buffer: &GsoBuffer, why: Errno) -> u64 {
    let end = buffer.start + buffer.len;
    let mut sent = 0;
    for start in (buffer.start..end).step_by(buffer.gso_size) {
        let len = buffer.gso_size.min(end - start);
        let packet = &mut bytes[start..start + len];
        // The packet's ICRC covers the IP identification that GSO gives to its position in the buffer.
        if let Some((packet, icrc)) = packet.split_last_chunk_mut::<ICRC_LEN>() {
            *icrc = buffer.flow().icrc(packet, Fragmentation::SENT);
        }
        let single = GsoBuffer {
            socket: Arc::clone(&buffer.socket),
            start,
            len,
            gso_size: len,
            packets: 1,
            ..*buffer
        };
        for _ in 0..=WAITS_MAX {
            match send_some(socket, bytes, std::slice::from_ref(&single)) {
                Ok(_) => sent += 1,
                Err(Errno(libc::EAGAIN | libc::ENOBUFS)) => {
                    wait_writable(socket);
                    continue;
                }
                Err(_) => {}
            }
            break;
        }
    }
    let may_be_gso = matches!(
        why.0,
        libc::EIO | libc::EINVAL | libc::EOPNOTSUPP | libc::EMSGSIZE
    );
    if sent > 0 && may_be_gso {
        let _no_cancellation = cancellation::disable();
        log::debug!(
            "uroce: {} sends without UDP_SEGMENT: error {}",
            buffer.socket.local.ip,
            why.0
        );
        socket.disable_gso();
    }
    buffer.packets as u64 - sent
}

/// Waits up to [`WAIT`] for space in the socket's send buffer.
fn wait_writable(socket: &Socket) {
    let mut poll = libc::pollfd {
        fd: socket.fd(),
        events: libc::POLLOUT,
        revents: 0,
    };
    let timeout = libc::timespec {
        tv_sec: 0,
        tv_nsec: WAIT.subsec_nanos().into(),
    };
    cancellation::ppoll(std::slice::from_mut(&mut poll), Some(timeout));
}

/// The UDP port that a packet goes to.
fn destination_port(packet: &Transmit) -> u16 {
    match packet.av.dgid {
        // A multicast group: IPv6, or a mapped IPv4 address.
        [0xff, ..] | [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xe0..=0xef, ..] => PORT,
        _ => port_of(packet.dest_qpn),
    }
}
