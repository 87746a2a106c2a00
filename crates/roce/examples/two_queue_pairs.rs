//! Two queue pairs of the engine, connected by a line that loses every fifth packet, in simulated time: an
//! RDMA WRITE of 10,000 bytes arrives all the same. The engine does no I/O and reads no clock.

use std::time::Duration;

use roce::engine::*;
use roce::ibverbs_abi::{IBV_ACCESS_REMOTE_WRITE, IBV_WC_SUCCESS};
use roce::wire::{ICRC_LEN, Packet, Psn};

const KEY: u32 = 0x1234;
const SIZE: usize = 10_000;

/// The memory of one side: a single region, which begins at address 0, and its completions.
struct Memory {
    bytes: Vec<u8>,
    completions: Vec<Completion>,
}

impl Memory {
    fn local(&mut self, sge: &Sge) -> Result<&mut [u8], LocalError> {
        let (start, len) = (sge.addr as usize, sge.len as usize);
        let range = start..start.saturating_add(len);
        let bytes = self.bytes.get_mut(range).filter(|_| sge.lkey == KEY);
        bytes.ok_or(LocalError::Protection)
    }

    fn remote(&mut self, key: RemoteKey, va: u64, len: usize) -> Result<&mut [u8], RemoteError> {
        let start = va as usize;
        let range = start..start.saturating_add(len);
        let bytes = self.bytes.get_mut(range).filter(|_| key.rkey == KEY);
        bytes.ok_or(RemoteError)
    }
}

/// An HCA that allows WRITEs to one region, and refuses other operations of the peer.
impl Hca for Memory {
    fn check_local(&mut self, sges: &[Sge], _writable: bool) -> Result<u64, LocalError> {
        let lens = sges
            .iter()
            .map(|sge| self.local(sge).map(|bytes| bytes.len() as u64));
        lens.sum()
    }

    fn gather(&mut self, sges: &[Sge], offset: u64, into: &mut [u8]) -> Result<(), LocalError> {
        let [sge] = sges else {
            return Err(LocalError::Length);
        };
        let from = self
            .local(sge)?
            .get(offset as usize..)
            .and_then(|rest| rest.get(..into.len()));
        into.copy_from_slice(from.ok_or(LocalError::Length)?);
        Ok(())
    }

    fn check_remote(
        &mut self,
        key: RemoteKey,
        va: u64,
        len: u64,
        access: Access,
    ) -> Result<(), RemoteError> {
        if access != Access::Write {
            return Err(RemoteError);
        }
        self.remote(key, va, len as usize).map(drop)
    }

    fn write_remote(&mut self, key: RemoteKey, va: u64, from: &[u8]) -> Result<(), RemoteError> {
        self.remote(key, va, from.len())?.copy_from_slice(from);
        Ok(())
    }

    fn complete(&mut self, _queue: WorkQueue, completion: Completion) -> Result<(), Overrun> {
        self.completions.push(completion);
        Ok(())
    }

    fn event(&mut self, event: QpEvent) {
        println!("event: {event:?}");
    }
    fn scatter(&mut self, _: &[Sge], _: u64, _: &[u8]) -> Result<(), LocalError> {
        Err(LocalError::Protection)
    }
    fn scatter_recv(&mut self, _: &[Sge], _: u64, _: &[u8]) -> Result<(), LocalError> {
        Err(LocalError::Protection)
    }
}

fn gid(side: usize) -> Gid {
    let mut gid = [0; 16];
    gid[10..].copy_from_slice(&[0xff, 0xff, 192, 0, 2, side as u8 + 1]);
    gid
}

struct Side {
    qp: Qp,
    memory: Memory,
}

/// A queue pair in RTS, connected to that of the other side.
fn connected(side: usize, bytes: Vec<u8>, now: Time) -> Side {
    let limits = Limits {
        max_send_wr: 16,
        max_recv_wr: 16,
    };
    let qpn = |side: usize| 0x11 + side as u32;
    let config = QpConfig {
        service: Service::Rc,
        qpn: qpn(side),
        limits,
        sq_sig_all: true,
        has_srq: false,
    };
    let (mut qp, mut memory) = (
        Qp::new(config),
        Memory {
            bytes,
            completions: Vec::new(),
        },
    );
    let av = AddressVector::new(gid(1 - side));
    let to = |state| QpChange {
        state: Some(state),
        ..QpChange::default()
    };
    let init = QpChange {
        access: Some(IBV_ACCESS_REMOTE_WRITE),
        ..to(QpState::Init)
    };
    let rtr = QpChange {
        av: Some(av),
        path_mtu: Some(1024),
        dest_qpn: Some(qpn(1 - side)),
        rq_psn: Some(Psn::new(100)),
        max_dest_rd_atomic: Some(1),
        min_rnr_timer: Some(12),
        ..to(QpState::Rtr)
    };
    let rts = QpChange {
        sq_psn: Some(Psn::new(100)),
        max_rd_atomic: Some(1),
        timeout: Some(14),
        retry_cnt: Some(7),
        rnr_retry: Some(7),
        ..to(QpState::Rts)
    };
    for change in [init, rtr, rts] {
        qp.modify(&change, now, &mut memory);
    }
    Side { qp, memory }
}

fn main() {
    let mut now = Time(1_000_000_000);
    let data: Vec<u8> = (0..SIZE).map(|i| i as u8).collect();
    let mut sides = [
        connected(0, data.clone(), now),
        connected(1, vec![0; SIZE], now),
    ];
    let source = Sge {
        addr: 0,
        len: SIZE as u32,
        lkey: KEY,
    };
    let op = SendOp::Write { va: 0, rkey: KEY };
    let write = SendWr {
        data: Data::Sges([source].into_iter().collect()),
        ..SendWr::new(1, op, SendFlags::default())
    };
    let Side { qp, memory } = &mut sides[0];
    assert!(qp.post_send(write, memory), "the send queue is full");

    let (mut sent, mut lost) = (0, 0);
    let mut buffer = [0; 4096 + 128];
    while sides[0].memory.completions.is_empty() {
        // Each side sends what it may send now.
        let mut idle = true;
        for side in 0..2 {
            loop {
                let Side { qp, memory } = &mut sides[side];
                let Some(transmit) = qp.transmit(now, memory, &mut buffer) else {
                    break;
                };
                idle = false;
                sent += 1;
                if sent % 5 == 0 {
                    lost += 1;
                    continue;
                }
                // The line has no ICRC, but the format has a place for it.
                let datagram = [&buffer[..transmit.len], &[0; ICRC_LEN]].concat();
                let packet = Packet::parse(&datagram).expect("the engine makes valid packets");
                let from = Addresses::new(gid(side), gid(1 - side));
                let Side { qp, memory } = &mut sides[1 - side];
                qp.receive(&packet, &from, now, memory);
            }
        }
        // Nothing to send: the time passes until a timer expires.
        if idle {
            let next = sides.iter().filter_map(|side| side.qp.next_timeout()).min();
            now = next.expect("a lost packet has a timer").max(now);
            for Side { qp, memory } in &mut sides {
                if qp.next_timeout().is_some_and(|at| at <= now) {
                    qp.handle_timeout(now, PeerActivity::Unknown, memory);
                }
            }
        }
    }
    let completion = &sides[0].memory.completions[0];
    assert_eq!(completion.status, IBV_WC_SUCCESS);
    assert_eq!(sides[1].memory.bytes, data);
    let passed = Duration::from_nanos(now.0 - 1_000_000_000);
    println!("{SIZE} bytes written; {lost} of {sent} packets lost; {passed:?} of simulated time");
}
