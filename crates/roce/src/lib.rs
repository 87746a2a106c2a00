//! `roce`: RoCEv2 (InfiniBand transport over UDP port 4791) for tools that parse, check, make or simulate it.
//!
//! | module | contents |
//! |---|---|
//! | [`wire`] | packets: headers, opcodes, PSN arithmetic, ICRC |
//! | [`engine`] | the protocol of a queue pair: RC, UC, UD, XRC |
//! | [`cm`] | the communication manager: its messages, the state machine of a connection |
//!
//! It does no I/O, reads no clock, and has no unsafe code: packets and the time go in, packets and
//! completions come out. uroce, the software device of libibverbs-rs, is built on it. Section numbers are
//! those of the InfiniBand Architecture Specification 1.7, volume 1; annex A17 is RoCEv2.
//!
//! It follows Semantic Versioning: before 1.0, an incompatible change increases the second number of the
//! version. Statuses and access flags are the constants of [`ibverbs_abi`], as in verbs.h.
//!
//! Some items of this crate are not RoCEv2, and only uroce uses them, between its own processes:
//! [`wire::port_of`], the UDP port of a queue pair, and [`engine::Fragment`], a request or response in shared
//! memory, with the methods of [`engine::Qp`] that need it.
//!
//! # A packet
//!
//! ```
//! use roce::wire::{Bth, Flow, Fragmentation, Headers, Opcode, PORT, Packet, Psn};
//!
//! let mut headers = Headers::new(Bth {
//!     opcode: Opcode::RC_SEND_ONLY,
//!     solicited: false,
//!     migrated: true,
//!     pad: 3,
//!     pkey: 0xffff,
//!     dest_qpn: 0x11,
//!     ack_request: true,
//!     psn: Psn::new(100),
//! });
//! let flow = Flow {
//!     src: [192, 0, 2, 1].into(),
//!     dst: [192, 0, 2, 2].into(),
//!     src_port: PORT,
//!     dst_port: PORT,
//! };
//! let mut datagram = vec![0; headers.encoded_len()];
//! headers.write(&mut datagram);
//! datagram.extend(b"hello\0\0\0");
//! datagram.extend(flow.icrc(&datagram, Fragmentation::SENT));
//!
//! let packet = Packet::parse(&datagram).unwrap();
//! assert_eq!(packet.headers(), headers);
//! assert_eq!(packet.payload, b"hello");
//! assert_eq!(flow.check(&datagram), Some(Fragmentation::SENT));
//! datagram[20] ^= 1;
//! assert_eq!(flow.check(&datagram), None);
//! ```
//!
//! # Two queue pairs
//!
//! An [`Hca`](engine::Hca) is what a queue pair needs around it. This one has memory that begins at address
//! 0, and keeps completions. `examples/two_queue_pairs.rs` has a line that loses packets.
//!
//! ```
//! use roce::engine::*;
//! use roce::ibverbs_abi::IBV_WC_SUCCESS;
//! use roce::wire::{MAX_PACKET, Packet, Psn};
//!
//! struct Memory {
//!     bytes: [u8; 64],
//!     completions: Vec<Completion>,
//! }
//!
//! impl Memory {
//!     fn at(&mut self, sges: &[Sge], offset: u64, len: usize) -> Result<&mut [u8], LocalError> {
//!         let start = (sges.first().ok_or(LocalError::Length)?.addr + offset) as usize;
//!         self.bytes.get_mut(start..start + len).ok_or(LocalError::Length)
//!     }
//! }
//!
//! impl Hca for Memory {
//!     fn check_local(&mut self, sges: &[Sge], _writable: bool) -> Result<u64, LocalError> {
//!         Ok(sges.iter().map(|sge| u64::from(sge.len)).sum())
//!     }
//!     fn gather(&mut self, sges: &[Sge], at: u64, into: &mut [u8]) -> Result<(), LocalError> {
//!         into.copy_from_slice(self.at(sges, at, into.len())?);
//!         Ok(())
//!     }
//!     fn scatter(&mut self, sges: &[Sge], at: u64, from: &[u8]) -> Result<(), LocalError> {
//!         self.at(sges, at, from.len())?.copy_from_slice(from);
//!         Ok(())
//!     }
//!     fn scatter_recv(&mut self, sges: &[Sge], at: u64, from: &[u8]) -> Result<(), LocalError> {
//!         self.scatter(sges, at, from)
//!     }
//!     fn complete(&mut self, _: WorkQueue, completion: Completion) -> Result<(), Overrun> {
//!         self.completions.push(completion);
//!         Ok(())
//!     }
//!     fn event(&mut self, event: QpEvent) {
//!         println!("{event:?}");
//!     }
//! }
//!
//! /// A queue pair in RTS that is connected to that of the other side.
//! fn connected(side: u32, memory: &mut Memory) -> Qp {
//!     let mut qp = Qp::new(QpConfig {
//!         service: Service::Rc,
//!         qpn: 2 + side,
//!         limits: Limits { max_send_wr: 1, max_recv_wr: 1 },
//!         sq_sig_all: true,
//!         has_srq: false,
//!     });
//!     let attributes = QpChange {
//!         av: Some(AddressVector::new(gid(1 - side))),
//!         path_mtu: Some(1024),
//!         dest_qpn: Some(3 - side),
//!         rq_psn: Some(Psn::new(7)),
//!         sq_psn: Some(Psn::new(7)),
//!         retry_cnt: Some(7),
//!         ..QpChange::default()
//!     };
//!     for state in [QpState::Init, QpState::Rtr, QpState::Rts] {
//!         qp.modify(&QpChange { state: Some(state), ..attributes }, Time(0), memory);
//!     }
//!     qp
//! }
//!
//! fn gid(side: u32) -> Gid {
//!     roce::wire::gid_of([192, 0, 2, side as u8].into())
//! }
//!
//! let mut memory = [b"hello", b"     "].map(|text| {
//!     let mut bytes = [0; 64];
//!     bytes[..5].copy_from_slice(text);
//!     Memory { bytes, completions: vec![] }
//! });
//! let mut qps = [0, 1].map(|side| connected(side, &mut memory[side as usize]));
//! let sge = |addr, len| [Sge { addr, len, lkey: 0 }].into_iter().collect();
//! qps[1].post_recv(RecvWr { wr_id: 1, sges: sge(8, 32) }, &mut memory[1]);
//! let send = SendWr::new(2, SendOp::Send, SendFlags::default());
//! qps[0].post_send(SendWr { data: Data::Sges(sge(0, 5)), ..send }, &mut memory[0]);
//!
//! // The request to the second queue pair, then its ACK to the first.
//! for (from, to) in [(0, 1), (1, 0)] {
//!     let mut packet = [0; MAX_PACKET];
//!     let sent = qps[from].transmit(Time(0), &mut memory[from], &mut packet).unwrap();
//!     let packet = Packet::parse_without_icrc(&packet[..sent.len]).unwrap();
//!     let addresses = Addresses::new(gid(from as u32), gid(to as u32));
//!     qps[to].receive(&packet, &addresses, Time(0), &mut memory[to]);
//! }
//! assert_eq!(memory[1].bytes[8..13], *b"hello");
//! for (memory, wr_id) in memory.iter().zip([2, 1]) {
//!     assert_eq!((memory.completions[0].wr_id, memory.completions[0].status), (wr_id, IBV_WC_SUCCESS));
//! }
//! ```

#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod cm;
pub mod engine;
pub mod wire;

pub use ibverbs_abi;
