//! Sending.

use std::mem::{MaybeUninit, zeroed};
use std::net::SocketAddr;
use std::sync::Arc;

use socket2::SockAddr;

use super::cmsg::{self, Control};
use super::net::{Net, Table};
use super::port_of;
use super::socket::{self, Socket};
use crate::engine::{AddressVector, Transmit};
use crate::wire::{Flow, Fragmentation, ICRC_LEN, MAX_HEADERS, PORT, ip_of};

/// The longest packet: headers, the largest path MTU, padding, ICRC.
const PACKET: usize = MAX_HEADERS + 4096 + 3 + ICRC_LEN;
/// What a batch has room for.
const BATCH: usize = 32 * PACKET;
/// Datagrams, or buffers to be cut into several, that one system call sends.
const RUNS: usize = 32;
/// Packets that the kernel cuts out of one buffer at most, and the largest such buffer: an IP packet,
/// less the longer of the IP headers and the UDP header.
const SEGMENTS: usize = 64;
const SEGMENTS_LEN: usize = 65535 - 40 - 8;
/// A full socket is waited for that often, a millisecond each.
const WAITS: u32 = 5;

/// A batch of packets of one queue pair, with room for the next one. One per thread, reused.
pub struct Outbox {
    bytes: Box<[u8]>,
    used: usize,
    runs: Vec<Run>,
    /// The sockets, from the first packet of a batch to its sending.
    table: Option<Arc<Table>>,
}

/// Packets that stand behind each other in the buffer and go the same way: all of one length, but the
/// last may be shorter.
struct Run {
    socket: Arc<Socket>,
    path: AddressVector,
    /// The destination's; and the whole address.
    port: u16,
    to: SocketAddr,
    start: usize,
    len: usize,
    /// Bytes of the first packet.
    segment: usize,
    count: usize,
    /// A shorter packet has come: none may follow.
    closed: bool,
}

impl Run {
    fn flow(&self) -> Flow {
        Flow {
            src: self.socket.slot.ip,
            dst: self.to.ip(),
            src_port: self.socket.port,
            dst_port: self.to.port(),
        }
    }
}

impl Outbox {
    pub fn new() -> Outbox {
        Outbox {
            bytes: vec![0; BATCH].into(),
            used: 0,
            runs: Vec::with_capacity(RUNS),
            table: None,
        }
    }

    /// Room for the next packet: headers, 4096 bytes, padding, ICRC.
    pub fn buffer(&mut self) -> &mut [u8] {
        // `push` leaves that much.
        &mut self.bytes[self.used..self.used + PACKET]
    }

    /// The last run, if it can take one more packet of `len` bytes.
    fn continues(
        &mut self,
        len: usize,
        socket: &Arc<Socket>,
        packet: &Transmit,
    ) -> Option<&mut Run> {
        self.runs.last_mut().filter(|run| {
            !run.closed
                && len <= run.segment
                && run.count < SEGMENTS
                && run.len + len <= SEGMENTS_LEN
                && run.path == packet.av
                && run.port == destination(packet)
                && Arc::ptr_eq(&run.socket, socket)
                && run.socket.segments()
        })
    }
}

impl Default for Outbox {
    fn default() -> Outbox {
        Outbox::new()
    }
}

impl Net {
    /// Adds the packet that stands in [`Outbox::buffer`] to the batch of the queue pair `src_qpn`; the
    /// ICRC is put behind it here. Sends the batch if it is full then. A packet that cannot be sent
    /// (no such GID, another family's) is lost.
    pub fn push(&self, outbox: &mut Outbox, src_qpn: u32, packet: &Transmit) {
        let table = outbox.table.get_or_insert_with(|| self.table());
        let path = &packet.av;
        let Some(socket) = table.sender(port_of(src_qpn), path.sgid_index) else {
            return;
        };
        let (start, end) = (outbox.used, outbox.used + packet.len);
        let len = packet.len + ICRC_LEN;
        if len > PACKET {
            return;
        }
        let socket = Arc::clone(socket);
        let (flow, id) = if let Some(run) = outbox.continues(len, &socket, packet) {
            let id = run.count as u16;
            run.count += 1;
            run.len += len;
            run.closed = len < run.segment;
            (run.flow(), id)
        } else {
            let ip = if path.dgid == socket.slot.gid {
                socket.slot.ip
            } else {
                ip_of(&path.dgid)
            };
            if ip.is_ipv4() != socket.slot.ip.is_ipv4() {
                return;
            }
            let port = destination(packet);
            let run = Run {
                to: socket::address(ip, port, self.ifindex()),
                socket,
                path: *path,
                port,
                start,
                len,
                segment: len,
                count: 1,
                closed: false,
            };
            let flow = run.flow();
            outbox.runs.push(run);
            (flow, 0)
        };
        let fragmentation = Fragmentation {
            id,
            ..Fragmentation::SENT
        };
        let icrc = flow.icrc(&outbox.bytes[start..end], fragmentation);
        outbox.bytes[end..end + ICRC_LEN].copy_from_slice(&icrc);
        outbox.used += len;
        if outbox.used + PACKET > BATCH || outbox.runs.len() == RUNS {
            self.flush(outbox, src_qpn);
        }
    }

    /// Sends the batch. Packets that the network refuses are lost, as on any network; a full socket is
    /// waited for, for some milliseconds at most.
    pub fn flush(&self, outbox: &mut Outbox, _src_qpn: u32) {
        outbox.table = None;
        let mut rest = &outbox.runs[..];
        while let Some(first) = rest.first() {
            let same = |run: &&Run| Arc::ptr_eq(&run.socket, &first.socket);
            let (now, later) = rest.split_at(rest.iter().take_while(same).count());
            send(&first.socket, &mut outbox.bytes, now);
            rest = later;
        }
        outbox.runs.clear();
        outbox.used = 0;
    }
}

/// Sends runs of one socket.
fn send(socket: &Socket, bytes: &mut [u8], mut runs: &[Run]) {
    let mut waits = 0;
    while let Some(first) = runs.first() {
        match send_some(socket, bytes, runs) {
            Ok(count) => runs = &runs[count..],
            Err(libc::EINTR) => {}
            Err(libc::EAGAIN | libc::ENOBUFS) if waits < WAITS => {
                waits += 1;
                wait(socket);
            }
            Err(errno) => {
                if first.count > 1 {
                    one_by_one(socket, bytes, first, errno);
                }
                runs = &runs[1..];
            }
        }
    }
}

/// One system call. How many runs were sent; the error is about the first.
fn send_some(socket: &Socket, bytes: &mut [u8], runs: &[Run]) -> Result<usize, i32> {
    let mut controls = [const { Control::new() }; RUNS];
    let mut names = [const { MaybeUninit::<SockAddr>::uninit() }; RUNS];
    let mut vectors = [const { MaybeUninit::<libc::iovec>::uninit() }; RUNS];
    let mut headers = [const { MaybeUninit::<libc::mmsghdr>::uninit() }; RUNS];
    for ((((run, header), name), control), vector) in runs
        .iter()
        .zip(&mut headers)
        .zip(&mut names)
        .zip(&mut controls)
        .zip(&mut vectors)
    {
        // SAFETY: zeros are valid for this structure of numbers and pointers.
        let header = header.write(unsafe { zeroed() });
        let name = name.write(run.to.into());
        let data = &mut bytes[run.start..run.start + run.len];
        let vector = vector.write(libc::iovec {
            iov_base: data.as_mut_ptr().cast(),
            iov_len: data.len(),
        });
        header.msg_hdr.msg_name = name.as_ptr().cast_mut().cast();
        header.msg_hdr.msg_namelen = name.len();
        header.msg_hdr.msg_iov = vector;
        header.msg_hdr.msg_iovlen = 1;
        header.msg_hdr.msg_controllen = control_of(run, control);
        if header.msg_hdr.msg_controllen > 0 {
            header.msg_hdr.msg_control = control.as_mut_ptr();
        }
    }
    // SAFETY: each header that counts was written above, and leads to an address, bytes and control
    // messages that live during the call.
    let sent = unsafe {
        libc::sendmmsg(
            socket.fd(),
            headers.as_mut_ptr().cast(),
            runs.len().min(RUNS) as u32,
            libc::MSG_DONTWAIT,
        )
    };
    usize::try_from(sent).map_err(|_| errno())
}

/// Writes a run's control messages; their length.
fn control_of(run: &Run, control: &mut Control) -> usize {
    let mut len = 0;
    if run.count > 1 {
        let segment = run.segment as u16;
        len = cmsg::put(control, len, libc::SOL_UDP, libc::UDP_SEGMENT, segment);
    }
    let (level, service, ttl) = if run.to.is_ipv4() {
        (libc::IPPROTO_IP, libc::IP_TOS, libc::IP_TTL)
    } else {
        (libc::IPPROTO_IPV6, libc::IPV6_TCLASS, libc::IPV6_HOPLIMIT)
    };
    let AddressVector {
        traffic_class,
        hop_limit,
        ..
    } = run.path;
    if traffic_class != 0 {
        len = cmsg::put(control, len, level, service, i32::from(traffic_class));
    }
    // To one receiver, Linux's default, as from kernel devices, whatever the program says.
    if run.to.ip().is_multicast() {
        len = cmsg::put(control, len, level, ttl, i32::from(hop_limit.max(1)));
    }
    len
}

/// Sends the packets of a run that was refused as a whole, each in a datagram of its own. If that
/// works, cutting is not asked for any more on this socket.
fn one_by_one(socket: &Socket, bytes: &mut [u8], run: &Run, why: i32) {
    let end = run.start + run.len;
    let mut sent = false;
    for start in (run.start..end).step_by(run.segment) {
        let len = run.segment.min(end - start);
        let packet = &mut bytes[start..start + len];
        // It has the identification of its place in the run.
        if let Some((packet, icrc)) = packet.split_last_chunk_mut::<ICRC_LEN>() {
            *icrc = run.flow().icrc(packet, Fragmentation::SENT);
        }
        let alone = Run {
            socket: Arc::clone(&run.socket),
            start,
            len,
            segment: len,
            count: 1,
            ..*run
        };
        for _ in 0..=WAITS {
            match send_some(socket, bytes, std::slice::from_ref(&alone)) {
                Ok(_) => sent = true,
                Err(libc::EAGAIN | libc::ENOBUFS) => {
                    wait(socket);
                    continue;
                }
                Err(_) => {}
            }
            break;
        }
    }
    if sent
        && matches!(
            why,
            libc::EIO | libc::EINVAL | libc::EOPNOTSUPP | libc::EMSGSIZE
        )
    {
        log::debug!(
            "uroce: {} sends one by one: error {why}",
            run.socket.slot.ip
        );
        socket.no_segments();
    }
}

/// Waits a millisecond for room.
fn wait(socket: &Socket) {
    let mut poll = libc::pollfd {
        fd: socket.fd(),
        events: libc::POLLOUT,
        revents: 0,
    };
    // SAFETY: one pollfd, ours for the call.
    unsafe { libc::poll(&mut poll, 1, 1) };
}

/// The UDP port that a packet goes to.
fn destination(packet: &Transmit) -> u16 {
    match packet.av.dgid {
        // A multicast group, in any form.
        [0xff, ..] | [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xe0..=0xef, ..] => PORT,
        _ => port_of(packet.dest_qpn),
    }
}

fn errno() -> i32 {
    std::io::Error::last_os_error()
        .raw_os_error()
        .unwrap_or(libc::EIO)
}
