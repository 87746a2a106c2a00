//! Files that a capture writes, read by the `pcap-file` crate.

use std::borrow::Cow;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, FromRawFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketOption;
use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionOption;
use pcap_file::pcapng::{Block, PcapNgReader};

use super::buffer::{Buffer, Taken};
use super::*;
use roce::wire::{Flow, Fragmentation};

/// A packet as a reader sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedPacket {
    /// The interface's name.
    pub interface: String,
    pub at: Duration,
    /// The bytes from the IP header on.
    pub data: Vec<u8>,
    pub original_len: u32,
    /// 1 for received, 2 for sent.
    pub flags: u32,
    pub missing: u64,
    pub comment: String,
}

/// The packets of a file, which has whole blocks only.
pub fn read(path: &Path) -> Vec<RecordedPacket> {
    let file = fs::File::open(path).unwrap();
    // The writer has not started yet.
    if file.metadata().unwrap().len() == 0 {
        return Vec::new();
    }
    let mut reader = PcapNgReader::new(file).unwrap();
    let (mut names, mut packets) = (Vec::<String>::new(), Vec::new());
    while let Some(block) = reader.next_block() {
        match block.unwrap() {
            Block::InterfaceDescription(interface) => {
                let mut name = String::new();
                let mut resolution = 6;
                for option in &interface.options {
                    match option {
                        InterfaceDescriptionOption::IfName(text) => name = text.to_string(),
                        InterfaceDescriptionOption::IfTsResol(value) => resolution = *value,
                        other => panic!("{other:?}"),
                    }
                }
                assert_eq!(resolution, 9, "nanoseconds");
                names.push(name);
            }
            Block::EnhancedPacket(block) => {
                let mut packet = RecordedPacket {
                    interface: names[block.interface_id as usize].clone(),
                    at: block.timestamp,
                    data: block.data.to_vec(),
                    original_len: block.original_len,
                    flags: 0,
                    missing: 0,
                    comment: String::new(),
                };
                for option in block.options {
                    match option {
                        EnhancedPacketOption::Flags(flags) => packet.flags = flags,
                        EnhancedPacketOption::DropCount(count) => packet.missing = count,
                        EnhancedPacketOption::Comment(Cow::Borrowed(text)) => {
                            packet.comment = text.into();
                        }
                        other => panic!("{other:?}"),
                    }
                }
                packets.push(packet);
            }
            other => panic!("{other:?}"),
        }
    }
    packets
}

/// A directory that is removed at the end of a test.
pub struct TempDirectory(PathBuf);

impl TempDirectory {
    pub fn new(test: &str) -> TempDirectory {
        let name = format!("uroce-capture-{}-{test}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        TempDirectory(path)
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// A tap of a capture that writes to a file in this directory.
    pub fn tap(&self, name: &str, device: &str) -> Tap {
        Tap::of(self.capture(name, ""), device).unwrap()
    }

    fn capture(&self, name: &str, limit: &str) -> Arc<Capture> {
        capture(&self.file(name), limit, "")
    }
}

impl Drop for TempDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn capture(path: &Path, limit: &str, snaplen: &str) -> Arc<Capture> {
    let values = [limit, snaplen].map(|text| Some(text.as_bytes()).filter(|text| !text.is_empty()));
    let name = path.as_os_str().as_encoded_bytes();
    let (settings, rejected) = CaptureSettings::parse(name, values[0], values[1]);
    assert_eq!(rejected, [""; 0]);
    Arc::new(Capture::new(settings.unwrap()))
}

const V4: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
    IpAddr::V4(Ipv4Addr::new(198, 51, 100, 7)),
];
const V6: [IpAddr; 2] = [
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
    IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 2)),
];

fn frame([src, dst]: [IpAddr; 2], dst_port: u16, datagram: &[u8]) -> Frame<'_> {
    Frame {
        flow: Flow {
            src,
            dst,
            src_port: 61440,
            dst_port,
        },
        traffic_class: 0x28,
        hop_limit: 64,
        flow_label: 0x12345,
        fragmentation: Fragmentation {
            id: 3,
            dont_fragment: true,
        },
        datagram,
    }
}

fn at(nanoseconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_nanos(nanoseconds)
}

/// The ones' complement sum of 16-bit words, which is 0xffff over data with a correct checksum.
fn sum(words: &[u8]) -> u16 {
    let mut sum = 0_u32;
    for pair in words.chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[test]
fn ip_and_udp_headers() {
    for len in [16_usize, 17, 1500] {
        let datagram: Vec<u8> = (0..len).map(|i| (i * 7) as u8).collect();
        let headers = frame(V4, 4791, &datagram).headers();
        let ip = headers.bytes();
        assert_eq!(ip.len(), 28);
        let total = (28 + len) as u16;
        assert_eq!((ip[0], ip[1], ip[8], ip[9]), (0x45, 0x28, 64, 17));
        assert_eq!(ip[2..4], total.to_be_bytes());
        assert_eq!(ip[4..8], [0, 3, 0x40, 0], "identification and DF");
        assert_eq!(sum(&ip[..20]), 0xffff);
        let udp_len = (len as u16 + 8).to_be_bytes();
        let pseudo = [&ip[12..20], &[0, 17], &udp_len, &ip[20..], &datagram].concat();
        assert_eq!(sum(&pseudo), 0xffff);

        let headers = frame(V6, 4791, &datagram).headers();
        let ip = headers.bytes();
        assert_eq!(ip.len(), 48);
        assert_eq!(ip[..4], [0x62, 0x81, 0x23, 0x45]);
        assert_eq!((ip[6], ip[7]), (17, 64));
        assert_eq!(ip[4..6], udp_len);
        let pseudo = [&ip[8..40], &udp_len, &[0, 17], &ip[40..], &datagram].concat();
        assert_eq!(sum(&pseudo), 0xffff);
    }
}

/// A sum of 0 is sent as 0xffff, as 0 says that there is no checksum.
#[test]
fn a_udp_checksum_is_never_zero() {
    let mut datagram = [0; 16];
    let first = frame(V6, 4791, &datagram).headers();
    datagram[..2].copy_from_slice(&first.bytes()[46..48]);
    let second = frame(V6, 4791, &datagram).headers();
    assert_eq!(second.bytes()[46..48], [0xff, 0xff]);
}

#[test]
fn a_file_has_what_was_recorded() {
    let directory = TempDirectory::new("content");
    let capture = directory.capture("a.pcapng", "");
    let taps = ["one", "two", "one"].map(|name| Tap::of(capture.clone(), name).unwrap());
    let datagram = [7; 21];
    for (i, tap) in taps.iter().enumerate() {
        let (direction, port, note) = match i {
            0 => (Direction::Sent, 4791, None),
            1 => (Direction::Received, 63000, Some("dropped: wrong ICRC")),
            _ => (Direction::Sent, 63001, None),
        };
        let time = at(1_700_000_000_123_456_789 + i as u64);
        tap.record(time, direction, &frame(V4, port, &datagram), note);
    }
    drop(taps);
    let packets = read(&directory.file("a.pcapng"));
    let expected = [
        ("one", 2, ""),
        ("two", 1, "UDP destination port 63000; dropped: wrong ICRC"),
        ("one", 2, "UDP destination port 63001"),
    ];
    assert_eq!(packets.len(), expected.len());
    for ((i, packet), (interface, flags, comment)) in (0..).zip(&packets).zip(expected) {
        assert_eq!(packet.interface, interface);
        assert_eq!((packet.flags, packet.missing), (flags, 0));
        assert_eq!(packet.comment, comment);
        let time = Duration::from_nanos(1_700_000_000_123_456_789 + i);
        assert_eq!(packet.at, time);
        assert_eq!(packet.data[28..], datagram);
        assert_eq!(packet.original_len, 49);
        assert_eq!(packet.data[22..24], 4791_u16.to_be_bytes());
    }
    // The device is opened again: the file continues.
    let tap = Tap::of(capture, "two").unwrap();
    tap.record(at(5), Direction::Sent, &frame(V6, 4791, &datagram), None);
    drop(tap);
    let packets = read(&directory.file("a.pcapng"));
    assert_eq!((packets.len(), &*packets[3].interface), (4, "two"));
    assert_eq!(packets[3].data.len(), 48 + 21);
}

#[test]
fn a_part_of_each_packet() {
    let directory = TempDirectory::new("snaplen");
    let file = directory.file("a");
    let tap = Tap::of(capture(&file, "", "100"), "one").unwrap();
    for len in [20, 72, 73, 4096] {
        let datagram = vec![9; len];
        let frame = frame(V4, 4791, &datagram);
        tap.record(at(0), Direction::Sent, &frame, None);
    }
    drop(tap);
    let lens: Vec<_> = read(&file)
        .iter()
        .map(|packet| (packet.data.len(), packet.original_len))
        .collect();
    assert_eq!(lens, [(48, 48), (100, 100), (100, 101), (100, 4124)]);
}

/// Without another packet, and without closing anything: a process that hangs can be killed.
#[test]
fn packets_reach_the_file_soon() {
    let directory = TempDirectory::new("soon");
    let (file, tap) = (directory.file("a"), directory.tap("a", "one"));
    for count in 1..=3 {
        tap.record(at(count), Direction::Sent, &frame(V4, 4791, &[0; 16]), None);
        let start = SystemTime::now();
        while read(&file).len() < count as usize {
            assert!(start.elapsed().unwrap() < Duration::from_secs(10));
            std::thread::sleep(Duration::from_millis(1));
        }
        // The writer sleeps now; the next packet wakes it up.
        std::thread::sleep(Duration::from_millis(30));
    }
}

#[test]
fn the_newest_packets_stay_within_the_limit() {
    let directory = TempDirectory::new("limit");
    let [file, old] = ["a.pcapng", "a.old.pcapng"].map(|name| directory.file(name));
    let limit = 100 << 10;
    let capture = directory.capture("a.pcapng", "100K");
    let tap = Tap::of(capture.clone(), "one").unwrap();
    let second = Tap::of(capture, "two").unwrap();
    let datagram = vec![1; 4100];
    for i in 0..300 {
        let tap = [&tap, &second][i as usize % 2];
        tap.record(at(i), Direction::Sent, &frame(V4, 4791, &datagram), None);
        if i % 17 == 0 {
            std::thread::sleep(Duration::from_millis(12));
        }
    }
    drop((tap, second));
    let bytes = |path: &Path| fs::metadata(path).unwrap().len();
    assert!(bytes(&file) <= limit / 2 && bytes(&old) <= limit / 2);
    assert!(bytes(&old) > limit / 2 - 5000, "{}", bytes(&old));
    let packets = [read(&old), read(&file)].concat();
    let times: Vec<_> = packets.iter().map(|packet| packet.at.as_nanos()).collect();
    let first = 300 - times.len() as u128;
    assert!(times.iter().copied().eq(first..300), "{times:?}");
    for packet in &packets {
        let device = ["one", "two"][packet.at.as_nanos() as usize % 2];
        assert_eq!(packet.interface, device);
    }
}

#[test]
fn a_file_in_use_is_left_alone() {
    let directory = TempDirectory::new("in-use");
    let first = directory.tap("a.pcapng", "one");
    let second = directory.tap("a.pcapng", "two");
    for (i, tap) in (0..).zip([&first, &second]) {
        tap.record(at(i), Direction::Sent, &frame(V4, 4791, &[0; 16]), None);
    }
    drop((first, second));
    let own = directory.file(&format!("a.{}.pcapng", std::process::id()));
    for (path, name) in [(directory.file("a.pcapng"), "one"), (own, "two")] {
        let packets = read(&path);
        assert_eq!((packets.len(), &*packets[0].interface), (1, name));
    }
    // A file that nobody writes to any more is replaced.
    drop(directory.tap("a.pcapng", "three"));
    assert_eq!(read(&directory.file("a.pcapng")), []);
}

#[test]
fn a_file_that_cannot_be_opened() {
    let directory = TempDirectory::new("unwritable");
    fs::create_dir(directory.file("directory")).unwrap();
    for name in ["directory", "missing/a"] {
        let capture = directory.capture(name, "");
        assert!(Tap::of(capture.clone(), "one").is_none());
        assert!(Tap::of(capture, "one").is_none(), "nor later");
    }
    // Not a regular file.
    assert!(Tap::of(capture(Path::new("/dev/null"), "", ""), "one").is_none());
}

/// A file that cannot grow, as on a full disk, has whole packets, and nothing more is recorded.
#[test]
fn a_full_disk_ends_the_capture() {
    // SAFETY: the name is NUL-terminated; the new descriptor is owned by `memory` alone.
    let memory = unsafe {
        let fd = libc::memfd_create(c"full".as_ptr(), libc::MFD_ALLOW_SEALING);
        assert!(fd >= 0);
        fs::File::from_raw_fd(fd)
    };
    let path = PathBuf::from(format!("/proc/self/fd/{}", memory.as_raw_fd()));
    let capture = capture(&path, "", "");
    let tap = Tap::of(capture.clone(), "one").unwrap();
    let record = |count: u64, len: usize| {
        for i in 0..count {
            let datagram = vec![0; len];
            let frame = frame(V4, 4791, &datagram);
            tap.record(at(i), Direction::Sent, &frame, None);
        }
        capture.flush_at_exit();
    };
    record(3, 16);
    assert_eq!(read(&path).len(), 3);
    // Two pages, and no more.
    memory.set_len(8192).unwrap();
    // SAFETY: the call takes a descriptor, which is open, and integers.
    let sealed = unsafe { libc::fcntl(memory.as_raw_fd(), libc::F_ADD_SEALS, libc::F_SEAL_GROW) };
    assert_eq!(sealed, 0);
    record(50, 1000);
    let packets = read(&path).len();
    assert!((6..=3 + 8).contains(&packets), "{packets}");
    record(2, 16);
    assert_eq!(read(&path).len(), packets);
    assert!(Tap::of(capture.clone(), "two").is_none());
}

/// A program may close all descriptors, and get the number for a file of its own.
#[test]
fn a_file_of_the_program_is_not_written() {
    let directory = TempDirectory::new("foreign");
    let capture = directory.capture("a", "");
    let tap = Tap::of(capture.clone(), "one").unwrap();
    capture.flush_at_exit();
    let fd = capture.descriptor().unwrap();
    let own = fs::File::create(directory.file("program")).unwrap();
    // SAFETY: both descriptors are open; the capture's one is checked before each use.
    assert_eq!(unsafe { libc::dup2(own.as_raw_fd(), fd) }, fd);
    tap.record(at(0), Direction::Sent, &frame(V4, 4791, &[0; 16]), None);
    capture.flush_at_exit();
    drop(tap);
    assert_eq!(own.metadata().unwrap().len(), 0);
    // SAFETY: the calls take a descriptor only; it is the copy that this test made.
    unsafe {
        assert_ne!(libc::fcntl(fd, libc::F_GETFD), -1, "nor closed");
        libc::close(fd);
    }
}

#[test]
fn a_child_closes_its_copy() {
    let directory = TempDirectory::new("fork");
    let capture = directory.capture("a", "");
    let tap = Tap::of(capture.clone(), "one").unwrap();
    capture.flush_at_exit();
    let fd = capture.descriptor().unwrap();
    // SAFETY: the child takes no lock that another thread may hold, and exits without running handlers.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        capture.close_in_child();
        // SAFETY: the calls take integers only.
        unsafe { libc::_exit((libc::fcntl(fd, libc::F_GETFD) != -1).into()) };
    }
    let mut status = 0;
    // SAFETY: `status` is writable; this test forked the child.
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
    assert_eq!(status, 0);
    tap.record(at(0), Direction::Sent, &frame(V4, 4791, &[0; 16]), None);
    drop(tap);
    assert_eq!(read(&directory.file("a")).len(), 1);
}

/// Packets that the writer cannot keep up with are missing, and the next packet of the device says
/// how many.
#[test]
fn missing_packets_are_counted() {
    let directory = TempDirectory::new("missing");
    let mut buffer = Buffer::new();
    let interfaces = ["one", "two"].map(|name| buffer.interface(name));
    let datagram = vec![0; 60_000];
    let record = |buffer: &mut Buffer, interface, time| {
        let frame = frame(V4, 4791, &datagram);
        let to = interfaces[interface];
        buffer.record(to, at(time), Direction::Sent, &frame, None, usize::MAX);
    };
    for i in 0..1000 {
        record(&mut buffer, 0, i);
    }
    let mut taken = Taken::default();
    buffer.take(&mut taken);
    let fitting = (taken.bytes.len() / 60_000) as u64;
    assert!((200..300).contains(&fitting), "16 MiB: {fitting}");
    let mut rest = Taken::default();
    record(&mut buffer, 1, 1000);
    record(&mut buffer, 0, 1001);
    record(&mut buffer, 0, 1002);
    buffer.take(&mut rest);
    let name = directory.file("a");
    let mut bytes = Vec::new();
    pcapng::section(&mut bytes, "test");
    for name in &taken.interfaces {
        pcapng::interface(&mut bytes, name, 0);
    }
    assert!(rest.interfaces.is_empty());
    fs::write(&name, [bytes, taken.bytes, rest.bytes].concat()).unwrap();
    let packets = read(&name).split_off(fitting as usize);
    let missing: Vec<_> = packets.iter().map(|packet| packet.missing).collect();
    assert_eq!(missing, [0, 1000 - fitting, 0]);
}
