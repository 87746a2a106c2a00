//! Two uroce queue pairs driven by a script, which is the input: work requests, packets that are delivered,
//! corrupted, duplicated, reordered, lost or forged, time, and changes of state.
#![no_main]

use std::collections::{HashSet, VecDeque};

use hca::TestHca;
use libfuzzer_sys::{
    arbitrary::{Result, Unstructured},
    fuzz_target,
};
use roce::engine::{self, *};
use roce::wire::{
    Aeth, AethKind, AtomicEth, Bth, Deth, Feth, Headers, ICRC_LEN, NakCode, Opcode, Packet, Psn,
    Reth,
};

/// The HCA of the engine's unit tests, which the crate does not export.
#[path = "../../crates/roce/src/engine/tests/hca.rs"]
#[allow(dead_code)]
mod hca;

const KEY: u32 = 0x100;
/// The key that SEND with invalidate and local invalidate name.
const WINDOW: u32 = KEY + 1;
const BASE: u64 = 0x7000;
const LEN: usize = 40_000;
const DEPTH: u32 = 16;
const SRQN: u32 = 5;

fn gid(side: usize) -> Gid {
    let mut gid = [0; 16];
    gid[15] = side as u8;
    gid[14] = 1;
    gid
}

fn av(to: usize) -> AddressVector {
    AddressVector {
        dgid: gid(to),
        sgid_index: 0,
        traffic_class: 0,
        hop_limit: 0,
        flow_label: 0,
    }
}

fn small_len(script: &mut Unstructured) -> Result<u32> {
    Ok(match script.int_in_range(0..=9u8)? {
        0 => script.arbitrary()?,
        1 => 0,
        2 => LEN as u32,
        _ => script.int_in_range(0..=2000)?,
    })
}

fn key(script: &mut Unstructured) -> Result<u32> {
    Ok(if script.ratio(9, 10)? {
        KEY
    } else {
        script.arbitrary()?
    })
}

fn va(script: &mut Unstructured) -> Result<u64> {
    Ok(match script.int_in_range(0..=9u8)? {
        0 => script.arbitrary()?,
        1..5 => BASE + script.int_in_range(0..=100u64)? * 8,
        _ => BASE + script.int_in_range(0..=LEN as u64)?,
    })
}

fn sges(script: &mut Unstructured) -> Result<Sges> {
    let count = script.int_in_range(0..=3)?;
    (0..count)
        .map(|_| {
            Ok(Sge {
                addr: va(script)?,
                len: small_len(script)?,
                lkey: key(script)?,
            })
        })
        .collect()
}

fn kind(script: &mut Unstructured) -> Result<SendOp> {
    let (va, rkey) = (va(script)?, key(script)?);
    Ok(match script.int_in_range(0..=12u8)? {
        0 => SendOp::Send,
        1 => SendOp::SendImm { imm: 1 },
        2 => SendOp::SendInv {
            rkey: rkey.wrapping_add(1),
        },
        3 => SendOp::Write { va, rkey },
        4 => SendOp::WriteImm { va, rkey, imm: 2 },
        5 | 6 => SendOp::Read { va, rkey },
        7 => SendOp::CmpSwap {
            va,
            rkey,
            compare: 0,
            swap: 1,
        },
        8 => SendOp::FetchAdd { va, rkey, add: 1 },
        9 => SendOp::AtomicWrite {
            va,
            rkey,
            data: [7; 8],
        },
        10 => SendOp::Flush {
            va,
            rkey,
            len: small_len(script)?,
            placement: script.int_in_range(0..=4)?,
            selectivity: script.int_in_range(0..=2)?,
        },
        11 => SendOp::LocalInv {
            rkey: rkey.wrapping_add(1),
        },
        _ => SendOp::BindMw(Bind {
            rkey,
            mr_lkey: key(script)?,
            addr: va,
            len: 8,
            access: 0,
        }),
    })
}

/// Whether the service has the operation. (The caller of `post_send` validates WRs.)
fn fits(kind: &SendOp, service: Service) -> bool {
    match service {
        Service::Rc | Service::XrcSend => true,
        Service::Uc => !matches!(kind, SendOp::Read { .. }),
        Service::Ud => matches!(kind, SendOp::Send | SendOp::SendImm { .. }),
        Service::XrcRecv => false,
    }
}

/// A packet with arbitrary headers, its PSN near one of `near`.
fn forged(
    script: &mut Unstructured,
    near: [Psn; 2],
    qpn: u32,
    service: Service,
) -> Result<Vec<u8>> {
    let transport = match service {
        Service::Rc => 0,
        Service::Uc => 0x20,
        Service::Ud => 0x60,
        Service::XrcSend | Service::XrcRecv => 0xa0,
    };
    let opcode = Opcode(transport | script.int_in_range(0..=0x1f)?);
    let psn = near[usize::from(script.arbitrary::<bool>()?)];
    let psn = psn + (script.int_in_range(0..=6u32)?) - script.int_in_range(0..=6u32)?;
    let mut headers = Headers::new(Bth {
        opcode,
        solicited: script.arbitrary()?,
        migrated: true,
        pad: 0,
        pkey: 0xffff,
        dest_qpn: qpn,
        ack_request: script.arbitrary()?,
        psn: if script.ratio(1, 20)? {
            Psn::new(script.arbitrary()?)
        } else {
            psn
        },
    });
    // Every extension header that the opcode may have.
    let Some((_, operation, part)) = opcode.parts() else {
        return Ok(vec![]);
    };
    use roce::wire::{Operation::*, Part};
    if service == Service::Ud {
        headers.deth = Some(Deth {
            qkey: script.int_in_range(0..=1)?,
            src_qpn: 3,
        });
    }
    let starts = matches!(part, Part::First | Part::Only);
    let is_response = matches!(operation, Ack | AtomicAck | ReadResponse);
    if matches!(service, Service::XrcRecv | Service::XrcSend) && !is_response {
        headers.xrc_srqn = Some(script.int_in_range(SRQN - 1..=SRQN)?);
    }
    if operation == Flush {
        headers.feth = Some(Feth {
            placement: script.arbitrary()?,
            selectivity: script.arbitrary()?,
        });
    }
    if starts
        && matches!(
            operation,
            Write | WriteImm | ReadRequest | Flush | AtomicWrite
        )
    {
        headers.reth = Some(Reth {
            va: va(script)?,
            rkey: key(script)?,
            len: small_len(script)?,
        });
    }
    if matches!(operation, CmpSwap | FetchAdd) {
        headers.atomic = Some(AtomicEth {
            va: va(script)?,
            rkey: key(script)?,
            swap_add: 1,
            compare: 0,
        });
    }
    if is_response && part != Part::Middle {
        let kind = match script.int_in_range(0..=7u8)? {
            0 => AethKind::RnrNak {
                timer: script.arbitrary::<u8>()? & 31,
            },
            1 => AethKind::Nak(NakCode::PsnSequence),
            2 => AethKind::Nak(NakCode::RemoteAccess),
            3 => AethKind::Nak(NakCode::InvalidRdRequest),
            _ => AethKind::Ack {
                credits: script.arbitrary::<u8>()? & 31,
            },
        };
        headers.aeth = Some(Aeth {
            kind,
            msn: script.arbitrary::<u32>()? & 0xff_ffff,
        });
    }
    if operation == AtomicAck {
        headers.atomic_ack = Some(script.arbitrary()?);
    }
    if matches!(operation, SendImm | WriteImm) {
        headers.imm = Some(3);
    }
    if operation == SendInv {
        headers.ieth = Some(key(script)?.wrapping_add(1));
    }
    let len = match operation {
        _ if matches!(part, Part::First | Part::Middle) && script.ratio(9, 10)? => 256,
        AtomicWrite => 8,
        Send | SendImm | SendInv | Write | WriteImm | ReadResponse => {
            script.int_in_range(0..=260)?
        }
        _ => 0,
    };
    headers.bth.pad = (len as usize).wrapping_neg() as u8 & 3;
    let mut datagram = vec![0; headers.encoded_len()];
    headers.write(&mut datagram);
    let padded = (len as usize).next_multiple_of(4);
    datagram.resize(datagram.len() + padded + ICRC_LEN, 0x5a);
    Ok(datagram)
}

struct Play {
    now: Time,
    qps: Vec<Qp>,
    hcas: Vec<TestHca>,
    /// Whether each side has shared memory to the other.
    shares: Vec<bool>,
    /// Send and receive WRs that each side has posted; the count is the next WR's wr_id.
    posted: [[u64; 2]; 2],
    in_flight: VecDeque<(usize, InFlight)>,
}

#[derive(Clone)]
struct InFlight {
    /// A datagram, or a fragment through shared memory.
    bytes: Vec<u8>,
    is_fragment: bool,
}

/// The beginning of a fragment, as its receiver finds it.
fn head_of(bytes: &[u8]) -> [u8; HEAD_LEN] {
    let mut head = [0xa5; HEAD_LEN];
    let len = bytes.len().min(HEAD_LEN);
    head[..len].copy_from_slice(&bytes[..len]);
    head
}

impl Play {
    fn transmit(&mut self, side: usize) {
        let mut buffer = [0; 12 << 10];
        let mut count = 0;
        let (qp, hca) = (&mut self.qps[side], &mut self.hcas[side]);
        let mut sent = Vec::new();
        if self.shares[side] {
            qp.execute_direct(hca);
            qp.bind(self.now);
            while let Some(len) = qp.transmit_fragment(self.now, hca, &mut buffer[..1000]) {
                let head = head_of(&buffer[..len]);
                Fragment::parse(&head, &buffer[..len]).expect("wrote no fragment");
                sent.push((buffer[..len].to_vec(), true));
                count += 1;
                assert!(count < 3000, "writes without end");
            }
        } else {
            qp.unbind(self.now);
        }
        while let Some(packet) = qp.transmit(self.now, hca, &mut buffer) {
            let datagram = [&buffer[..packet.len], &[0; ICRC_LEN]].concat();
            Packet::parse(&datagram).expect("transmitted a malformed packet");
            sent.push((datagram, false));
            count += 1;
            assert!(count < 3000, "transmits without end");
        }
        for (bytes, is_fragment) in sent {
            if self.in_flight.len() < 200 {
                self.in_flight
                    .push_back((1 - side, InFlight { bytes, is_fragment }));
            }
        }
    }

    fn deliver(&mut self, side: usize, packet: &InFlight) {
        let from = Addresses {
            src: gid(1 - side),
            dst: gid(side),
            src_port: 4791,
            is_marked: false,
            grh: [1; 40],
            pkey_index: 0,
        };
        let (qp, hca) = (&mut self.qps[side], &mut self.hcas[side]);
        if packet.is_fragment {
            let head = head_of(&packet.bytes);
            if let Some(fragment) = Fragment::parse(&head, &packet.bytes) {
                qp.receive_fragment(&fragment, &from, self.now, hca);
            }
        } else if let Ok(parsed) = Packet::parse(&packet.bytes) {
            qp.receive(&parsed, &from, self.now, hca);
        }
        self.transmit(side);
    }

    fn near(&self, side: usize) -> [Psn; 2] {
        let attributes = self.qps[side].attributes();
        [attributes.rq_psn, attributes.sq_psn].map(|psn| psn.unwrap_or_default())
    }

    fn step(&mut self, script: &mut Unstructured) -> Result<()> {
        let side = usize::from(script.arbitrary::<bool>()?);
        match script.int_in_range(0..=15u8)? {
            0..3 => self.post(script, side)?,
            3 | 4 => {
                let wr_id = self.posted[side][1];
                let receive = RecvWr {
                    wr_id,
                    sges: sges(script)?,
                };
                let config = *self.qps[side].config();
                let hca = &mut self.hcas[side];
                if self.qps[side].state() == QpState::Reset {
                    return Ok(());
                }
                let taken = if config.service == Service::XrcRecv {
                    hca.xrc[0].1.push_back(receive);
                    true
                } else if config.has_srq {
                    hca.shared.push_back(receive);
                    true
                } else {
                    self.qps[side].post_recv(receive, hca)
                };
                self.posted[side][1] += u64::from(taken);
            }
            // Packets in flight are delivered, lost, duplicated, corrupted or reordered.
            5..9 => {
                if let Some((to, packet)) = self.in_flight.pop_front() {
                    self.deliver(to, &packet);
                }
            }
            9 => {
                self.in_flight.pop_front();
            }
            10 => {
                if let Some((to, packet)) = self.in_flight.front().cloned() {
                    self.deliver(to, &packet);
                }
            }
            11 => {
                if let Some((to, mut packet)) = self.in_flight.pop_front() {
                    let at = script.int_in_range(0..=packet.bytes.len().min(64) - 1)?;
                    packet.bytes[at] ^= script.arbitrary::<u8>()?;
                    self.deliver(to, &packet);
                }
            }
            12 => self.in_flight.rotate_left(self.in_flight.len().min(1)),
            13 => {
                let (near, config) = (self.near(side), *self.qps[side].config());
                let datagram = forged(script, near, config.qpn, config.service)?;
                let packet = InFlight {
                    bytes: datagram,
                    is_fragment: false,
                };
                self.deliver(side, &packet);
            }
            14 => {
                let wait: u64 = script.int_in_range(0..=200_000_000)?;
                self.now = Time(self.now.0 + wait);
                for side in 0..2 {
                    if self.qps[side]
                        .next_timeout()
                        .is_some_and(|at| at <= self.now)
                    {
                        let peer = match script.arbitrary()? {
                            true => PeerActivity::Idle,
                            false => PeerActivity::Unknown,
                        };
                        self.qps[side].handle_timeout(self.now, peer, &mut self.hcas[side]);
                        self.transmit(side);
                    }
                }
            }
            _ => self.change(script, side)?,
        }
        assert!(self.qps[side].send_depth() <= DEPTH && self.qps[side].recv_depth() <= DEPTH);
        Ok(())
    }

    fn post(&mut self, script: &mut Unstructured, side: usize) -> Result<()> {
        let service = self.qps[side].config().service;
        let kind = kind(script)?;
        let state = self.qps[side].state();
        if !fits(&kind, service) || matches!(state, QpState::Reset | QpState::Init | QpState::Rtr) {
            return Ok(());
        }
        let sges = sges(script)?;
        let inline = script.ratio(1, 8)? && matches!(kind, SendOp::Send);
        let flags = SendFlags {
            signaled: script.arbitrary()?,
            solicited: script.arbitrary()?,
            fence: script.arbitrary()?,
        };
        let request = SendWr {
            data: match inline {
                true => Data::Inline([9; 70].into_iter().collect()),
                false => Data::Sges(sges),
            },
            ud: Some(UdAddress {
                av: av(1 - side),
                qpn: 7,
                qkey: script.int_in_range(0..=1)?,
            }),
            xrc_srqn: SRQN,
            ..SendWr::new(self.posted[side][0], kind, flags)
        };
        let taken = self.qps[side].post_send(request, &mut self.hcas[side]);
        self.posted[side][0] += u64::from(taken);
        self.transmit(side);
        Ok(())
    }

    fn change(&mut self, script: &mut Unstructured, side: usize) -> Result<()> {
        let state = self.qps[side].state();
        let state = match (script.int_in_range(0..=7u8)?, state) {
            (0, _) => QpState::Reset,
            (1, _) => QpState::Err,
            (2 | 3, QpState::Rts) => QpState::Sqd,
            (2.., QpState::Sqd | QpState::Sqe) => QpState::Rts,
            (2.., QpState::Reset) => return self.start(script, side),
            (4, _) => {
                self.hcas[side].region(KEY).valid ^= true;
                self.hcas[side].region(WINDOW).valid = true;
                return Ok(());
            }
            _ => return Ok(()),
        };
        let change = QpChange {
            state: Some(state),
            sqd_async_notify: Some(true),
            ..QpChange::default()
        };
        if state == QpState::Reset {
            // RESET discards the receive WRs of the queue pair; discard those of the SRQs too.
            self.hcas[side].shared.clear();
            self.hcas[side].xrc[0].1.clear();
        }
        self.qps[side].modify(&change, self.now, &mut self.hcas[side]);
        self.transmit(side);
        Ok(())
    }

    fn start(&mut self, script: &mut Unstructured, side: usize) -> Result<()> {
        let usual = QpChange {
            access: Some(0x30e),
            av: Some(av(1 - side)),
            path_mtu: Some(256),
            dest_qpn: Some(1 + (1 - side) as u32),
            qkey: Some(0),
            max_rd_atomic: Some(script.int_in_range(0..=3)?),
            max_dest_rd_atomic: Some(script.int_in_range(0..=3)?),
            min_rnr_timer: Some(script.int_in_range(0..=31)?),
            timeout: Some(script.int_in_range(0..=31)?),
            retry_cnt: Some(script.int_in_range(0..=7)?),
            rnr_retry: Some(script.int_in_range(0..=7)?),
            ..QpChange::default()
        };
        let psn = |side| Psn::new(if side == 0 { 0xff_fffc } else { 7 });
        for state in [QpState::Init, QpState::Rtr, QpState::Rts] {
            let change = QpChange {
                state: Some(state),
                rq_psn: (state == QpState::Rtr).then(|| psn(1 - side)),
                sq_psn: (state == QpState::Rts).then(|| psn(side)),
                ..usual
            };
            self.qps[side].modify(&change, self.now, &mut self.hcas[side]);
        }
        Ok(())
    }
}

fn play(script: &mut Unstructured) -> Result<()> {
    let (services, has_srq) = match script.int_in_range(0..=9u8)? {
        0 => ([Service::Uc; 2], false),
        1 => ([Service::Uc; 2], true),
        2 => ([Service::Ud; 2], false),
        3 => ([Service::XrcSend, Service::XrcRecv], false),
        4 | 5 => ([Service::Rc; 2], true),
        _ => ([Service::Rc; 2], false),
    };
    let room = script.int_in_range(0..=200)?;
    let mut play = Play {
        now: Time(1_000_000),
        qps: Vec::new(),
        hcas: Vec::new(),
        shares: Vec::new(),
        posted: [[0; 2]; 2],
        in_flight: VecDeque::new(),
    };
    for (side, service) in services.into_iter().enumerate() {
        play.qps.push(Qp::new(QpConfig {
            service,
            qpn: 1 + side as u32,
            limits: Limits {
                max_send_wr: DEPTH,
                max_recv_wr: DEPTH,
            },
            sq_sig_all: false,
            has_srq,
        }));
        let mut hca = TestHca::default();
        hca.add(KEY, BASE, LEN);
        hca.add(WINDOW, BASE, 8);
        hca.xrc.push((SRQN, VecDeque::new()));
        hca.room = (room < 100).then_some(room);
        play.shares.push(script.arbitrary()?);
        play.hcas.push(hca);
        play.start(script, side)?;
    }
    while !script.is_empty() {
        play.step(script)?;
    }
    for ((qp, hca), posted) in play.qps.iter().zip(&play.hcas).zip(play.posted) {
        // A queue pair in ERR has flushed its queues.
        if qp.state() == QpState::Err {
            assert_eq!(qp.send_depth() + qp.recv_depth(), 0);
        }
        // Each WR has completed at most once.
        let mut seen = HashSet::new();
        for (queue, completion) in &hca.completions {
            let of = usize::from(*queue != WorkQueue::Send);
            assert!(completion.wr_id < posted[of]);
            assert!(seen.insert((of, completion.wr_id)), "completed twice");
        }
    }
    Ok(())
}

fuzz_target!(|bytes: &[u8]| {
    let _ = play(&mut Unstructured::new(bytes));
});
