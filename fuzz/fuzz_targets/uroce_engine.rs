//! Two queue pairs of uroce and what may happen to them: requests, receives, packets that arrive whole,
//! changed, twice, late, never, or are forged; time; changes of state. The input is the script.
#![no_main]

use std::collections::VecDeque;

use ibverbs_abi::{IBV_WC_SUCCESS, ibv_wc_status};
use libfuzzer_sys::{
    arbitrary::{Result, Unstructured},
    fuzz_target,
};
use uroce::engine::*;
use uroce::wire::{
    Aeth, AethKind, AtomicEth, Bth, Deth, Feth, Headers, ICRC_LEN, NakCode, Opcode, Packet, Psn,
    Reth,
};

const KEY: u32 = 0x100;
const BASE: u64 = 0x7000;
const LEN: usize = 40_000;
const DEPTH: u32 = 16;
const SRQN: u32 = 5;

/// What the programs see of one queue pair.
struct World {
    memory: Vec<u8>,
    key_is_good: bool,
    shared: VecDeque<Receive>,
    /// How each request of the send queue and each receive has completed.
    sends: Vec<Option<ibv_wc_status>>,
    receives: Vec<Option<ibv_wc_status>>,
    room: usize,
}

impl World {
    fn range(&self, key: u32, va: u64, len: u64) -> Option<core::ops::Range<usize>> {
        let start = va.checked_sub(BASE)?;
        let end = start.checked_add(len)?;
        (key == KEY && self.key_is_good && end <= LEN as u64)
            .then_some(start as usize..end as usize)
    }

    fn remote(
        &self,
        key: u32,
        va: u64,
        len: u64,
    ) -> core::result::Result<core::ops::Range<usize>, RemoteError> {
        self.range(key, va, len).ok_or(RemoteError)
    }

    fn each(
        &mut self,
        sges: &[Sge],
        mut offset: u64,
        len: usize,
        mut each: impl FnMut(&mut [u8], usize),
    ) -> core::result::Result<(), LocalError> {
        let mut done = 0;
        for sge in sges {
            let skip = offset.min(sge.len.into());
            offset -= skip;
            let take = (u64::from(sge.len) - skip).min((len - done) as u64);
            if take > 0 {
                let range = self
                    .range(sge.lkey, sge.addr.wrapping_add(skip), take)
                    .ok_or(LocalError::Protection)?;
                each(&mut self.memory[range], done);
                done += take as usize;
            }
        }
        if done < len {
            return Err(LocalError::Length);
        }
        Ok(())
    }
}

impl Host for World {
    fn check_local(
        &mut self,
        sges: &[Sge],
        _writable: bool,
    ) -> core::result::Result<u64, LocalError> {
        let mut sum = 0;
        for sge in sges {
            self.range(sge.lkey, sge.addr, sge.len.into())
                .ok_or(LocalError::Protection)?;
            sum += u64::from(sge.len);
        }
        Ok(sum)
    }

    fn gather(
        &mut self,
        sges: &[Sge],
        offset: u64,
        into: &mut [u8],
    ) -> core::result::Result<(), LocalError> {
        self.each(sges, offset, into.len(), |piece, at| {
            into[at..at + piece.len()].copy_from_slice(piece);
        })
    }

    fn scatter(
        &mut self,
        sges: &[Sge],
        offset: u64,
        from: &[u8],
    ) -> core::result::Result<(), LocalError> {
        self.each(sges, offset, from.len(), |piece, at| {
            piece.copy_from_slice(&from[at..at + piece.len()]);
        })
    }

    fn check_remote(
        &mut self,
        rkey: u32,
        va: u64,
        len: u64,
        _access: Access,
    ) -> core::result::Result<(), RemoteError> {
        self.remote(rkey, va, len).map(|_| ())
    }

    fn write_remote(
        &mut self,
        rkey: u32,
        va: u64,
        from: &[u8],
    ) -> core::result::Result<(), RemoteError> {
        let range = self.remote(rkey, va, from.len() as u64)?;
        self.memory[range].copy_from_slice(from);
        Ok(())
    }

    fn read_remote(
        &mut self,
        rkey: u32,
        va: u64,
        into: &mut [u8],
    ) -> core::result::Result<(), RemoteError> {
        let range = self.remote(rkey, va, into.len() as u64)?;
        into.copy_from_slice(&self.memory[range]);
        Ok(())
    }

    fn atomic(
        &mut self,
        rkey: u32,
        va: u64,
        change: &mut dyn FnMut(u64) -> u64,
    ) -> core::result::Result<u64, RemoteError> {
        assert_eq!(va % 8, 0);
        let range = self.remote(rkey, va, 8)?;
        let bytes = &mut self.memory[range];
        let before = u64::from_ne_bytes((&*bytes).try_into().unwrap());
        bytes.copy_from_slice(&change(before).to_ne_bytes());
        Ok(before)
    }

    fn atomic_write(
        &mut self,
        rkey: u32,
        va: u64,
        data: [u8; 8],
    ) -> core::result::Result<(), RemoteError> {
        assert_eq!(va % 8, 0);
        self.write_remote(rkey, va, &data)
    }

    fn flush(
        &mut self,
        rkey: u32,
        va: u64,
        len: u64,
        whole: bool,
        _access: Access,
    ) -> core::result::Result<(), RemoteError> {
        self.remote(rkey, va, if whole { 0 } else { len }).map(|_| ())
    }

    fn invalidate_remote(&mut self, rkey: u32) -> core::result::Result<(), RemoteError> {
        if rkey == KEY { Ok(()) } else { Err(RemoteError) }
    }

    fn invalidate_local(&mut self, rkey: u32) -> core::result::Result<(), LocalError> {
        if rkey == KEY { Ok(()) } else { Err(LocalError::Bind) }
    }

    fn bind_mw(&mut self, bind: &Bind) -> core::result::Result<(), LocalError> {
        if bind.mr_lkey == KEY { Ok(()) } else { Err(LocalError::Bind) }
    }

    fn take_shared(&mut self) -> Option<Receive> {
        self.shared.pop_front()
    }

    fn take_xrc(&mut self, srqn: u32) -> core::result::Result<Receive, XrcError> {
        if srqn != SRQN {
            return Err(XrcError::NoSuchQueue);
        }
        self.shared.pop_front().ok_or(XrcError::Empty)
    }

    fn complete(
        &mut self,
        queue: Completed,
        completion: Completion,
    ) -> core::result::Result<(), Overrun> {
        let of = match queue {
            Completed::Send => &mut self.sends,
            Completed::Receive | Completed::Xrc { .. } => &mut self.receives,
        };
        let status = &mut of[completion.wr_id as usize];
        assert_eq!(*status, None, "completed twice");
        *status = Some(completion.status);
        self.room = self.room.checked_sub(1).ok_or(Overrun)?;
        Ok(())
    }

    fn event(&mut self, _event: QpEvent) {}
}

fn gid(side: usize) -> Gid {
    let mut gid = [0; 16];
    gid[15] = side as u8;
    gid[14] = 1;
    gid
}

fn path(to: usize) -> Path {
    Path {
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
    Ok(if script.ratio(9, 10)? { KEY } else { script.arbitrary()? })
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

fn kind(script: &mut Unstructured) -> Result<RequestKind> {
    let (va, rkey) = (va(script)?, key(script)?);
    Ok(match script.int_in_range(0..=12u8)? {
        0 => RequestKind::Send,
        1 => RequestKind::SendImm { imm: 1 },
        2 => RequestKind::SendInv { rkey },
        3 => RequestKind::Write { va, rkey },
        4 => RequestKind::WriteImm { va, rkey, imm: 2 },
        5 | 6 => RequestKind::Read { va, rkey },
        7 => RequestKind::CmpSwap { va, rkey, compare: 0, swap: 1 },
        8 => RequestKind::FetchAdd { va, rkey, add: 1 },
        9 => RequestKind::AtomicWrite { va, rkey, data: [7; 8] },
        10 => RequestKind::Flush {
            va,
            rkey,
            len: small_len(script)?,
            placement: script.int_in_range(0..=4)?,
            selectivity: script.int_in_range(0..=2)?,
        },
        11 => RequestKind::LocalInv { rkey },
        _ => RequestKind::BindMw(Bind {
            mw: 0,
            rkey,
            mr_lkey: key(script)?,
            addr: va,
            len: 8,
            access: 0,
        }),
    })
}

/// The form of requests is checked by who posts them; here they are of the service at least.
fn fits(kind: &RequestKind, service: Service) -> bool {
    match service {
        Service::Rc | Service::XrcSend => true,
        Service::Uc => !matches!(kind, RequestKind::Read { .. }),
        Service::Ud => matches!(kind, RequestKind::Send | RequestKind::SendImm { .. }),
        Service::XrcRecv => false,
    }
}

/// Any headers, written as a packet.
fn forged(script: &mut Unstructured, near: [Psn; 2], qpn: u32, service: Service) -> Result<Vec<u8>> {
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
        psn: if script.ratio(1, 20)? { Psn::new(script.arbitrary()?) } else { psn },
    });
    // All that there may be; what the opcode has not got is taken for payload.
    let Some((_, operation, part)) = opcode.parts() else {
        return Ok(vec![]);
    };
    use uroce::wire::{Operation::*, Part};
    if service == Service::Ud {
        headers.deth = Some(Deth { qkey: script.int_in_range(0..=1)?, src_qpn: 3 });
    }
    let starts = matches!(part, Part::First | Part::Only);
    let answers = matches!(operation, Ack | AtomicAck | ReadResponse);
    if matches!(service, Service::XrcRecv | Service::XrcSend) && !answers {
        headers.xrc_srqn = Some(script.int_in_range(SRQN - 1..=SRQN)?);
    }
    if operation == Flush {
        headers.feth = Some(Feth {
            placement: script.arbitrary()?,
            selectivity: script.arbitrary()?,
        });
    }
    if starts && matches!(operation, Write | WriteImm | ReadRequest | Flush | AtomicWrite) {
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
    if answers && part != Part::Middle {
        let kind = match script.int_in_range(0..=7u8)? {
            0 => AethKind::RnrNak { timer: script.arbitrary::<u8>()? & 31 },
            1 => AethKind::Nak(NakCode::PsnSequence),
            2 => AethKind::Nak(NakCode::RemoteAccess),
            3 => AethKind::Nak(NakCode::InvalidRdRequest),
            _ => AethKind::Ack { credits: script.arbitrary::<u8>()? & 31 },
        };
        headers.aeth = Some(Aeth { kind, msn: script.arbitrary::<u32>()? & 0xff_ffff });
    }
    if operation == AtomicAck {
        headers.atomic_ack = Some(script.arbitrary()?);
    }
    if matches!(operation, SendImm | WriteImm) {
        headers.imm = Some(3);
    }
    if operation == SendInv {
        headers.ieth = Some(key(script)?);
    }
    let len = match operation {
        _ if matches!(part, Part::First | Part::Middle) && script.ratio(9, 10)? => 256,
        AtomicWrite => 8,
        Send | SendImm | SendInv | Write | WriteImm | ReadResponse => script.int_in_range(0..=260)?,
        _ => 0,
    };
    headers.bth.pad = (len as usize).wrapping_neg() as u8 & 3;
    let mut datagram = vec![0; headers.len()];
    headers.write(&mut datagram);
    let padded = (len as usize).next_multiple_of(4);
    datagram.resize(datagram.len() + padded + ICRC_LEN, 0x5a);
    Ok(datagram)
}

struct Play {
    now: Time,
    qps: Vec<Qp>,
    worlds: Vec<World>,
    under_way: VecDeque<(usize, Vec<u8>)>,
}

impl Play {
    fn transmit(&mut self, side: usize) {
        let mut buffer = [0; 4300];
        let mut count = 0;
        while let Some(packet) =
            self.qps[side].transmit(self.now, &mut self.worlds[side], &mut buffer)
        {
            let datagram = [&buffer[..packet.len], &[0; ICRC_LEN]].concat();
            Packet::parse(&datagram).expect("sent what is no packet");
            count += 1;
            assert!(count < 3000, "sends without end");
            if self.under_way.len() < 200 {
                self.under_way.push_back((1 - side, datagram));
            }
        }
    }

    fn deliver(&mut self, side: usize, datagram: &[u8]) {
        let Ok(packet) = Packet::parse(datagram) else {
            return;
        };
        let from = Addresses {
            src: gid(1 - side),
            dst: gid(side),
            grh: [1; 40],
            pkey_index: 0,
        };
        self.qps[side].receive(&packet, &from, self.now, &mut self.worlds[side]);
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
                let wr_id = self.worlds[side].receives.len() as u64;
                let receive = Receive { wr_id, sges: sges(script)? };
                let config = *self.qps[side].config();
                if self.qps[side].state() == QpState::Reset {
                    return Ok(());
                }
                self.worlds[side].receives.push(None);
                if config.has_srq || config.service == Service::XrcRecv {
                    self.worlds[side].shared.push_back(receive);
                } else if !self.qps[side].post_recv(receive, &mut self.worlds[side]) {
                    self.worlds[side].receives.pop();
                }
            }
            // What is under way arrives; or what the network makes of it.
            5..9 => {
                if let Some((to, datagram)) = self.under_way.pop_front() {
                    self.deliver(to, &datagram);
                }
            }
            9 => {
                self.under_way.pop_front();
            }
            10 => {
                if let Some((to, datagram)) = self.under_way.front().cloned() {
                    self.deliver(to, &datagram);
                }
            }
            11 => {
                if let Some((to, mut datagram)) = self.under_way.pop_front() {
                    let at = script.int_in_range(0..=datagram.len().min(64) - 1)?;
                    datagram[at] ^= script.arbitrary::<u8>()?;
                    self.deliver(to, &datagram);
                }
            }
            12 => self.under_way.rotate_left(self.under_way.len().min(1)),
            13 => {
                let (near, config) = (self.near(side), *self.qps[side].config());
                let datagram = forged(script, near, config.qpn, config.service)?;
                self.deliver(side, &datagram);
            }
            14 => {
                let wait: u64 = script.int_in_range(0..=200_000_000)?;
                self.now = Time(self.now.0 + wait);
                for side in 0..2 {
                    if self.qps[side].timeout().is_some_and(|at| at <= self.now) {
                        self.qps[side].handle_timeout(self.now, &mut self.worlds[side]);
                        self.transmit(side);
                    }
                }
            }
            _ => self.change(script, side)?,
        }
        assert!(self.qps[side].send_depth() <= DEPTH && self.qps[side].receive_depth() <= DEPTH);
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
        let inline = script.ratio(1, 8)? && matches!(kind, RequestKind::Send);
        let request = Request {
            wr_id: self.worlds[side].sends.len() as u64,
            kind,
            flags: RequestFlags {
                signaled: script.arbitrary()?,
                solicited: script.arbitrary()?,
                fence: script.arbitrary()?,
            },
            sges,
            inline: inline.then(|| [9; 70].into_iter().collect()),
            ud: Some(UdAddress {
                path: path(1 - side),
                qpn: 7,
                qkey: script.int_in_range(0..=1)?,
                pkey_index: 0,
            }),
            xrc_srqn: SRQN,
        };
        self.worlds[side].sends.push(None);
        if !self.qps[side].post_send(request, self.now, &mut self.worlds[side]) {
            self.worlds[side].sends.pop();
        }
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
                self.worlds[side].key_is_good ^= true;
                return Ok(());
            }
            _ => return Ok(()),
        };
        let change = QpChange {
            state: Some(state),
            notify_drained: true,
            ..QpChange::default()
        };
        if state == QpState::Reset {
            // Receives of its own are forgotten with it.
            self.worlds[side].shared.clear();
        }
        self.qps[side].modify(&change, self.now, &mut self.worlds[side]);
        self.transmit(side);
        Ok(())
    }

    fn start(&mut self, script: &mut Unstructured, side: usize) -> Result<()> {
        let usual = QpChange {
            access: Some(0x30e),
            path: Some(path(1 - side)),
            path_mtu: Some(256),
            dest_qpn: Some(1 + (1 - side) as u32),
            qkey: Some(0),
            max_rd_atomic: Some(script.int_in_range(0..=3)?),
            max_dest_rd_atomic: Some(script.int_in_range(0..=3)?),
            min_rnr_timer: Some(script.int_in_range(0..=31)?),
            timeout: Some(script.int_in_range(0..=31)?),
            retry_count: Some(script.int_in_range(0..=7)?),
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
            self.qps[side].modify(&change, self.now, &mut self.worlds[side]);
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
        worlds: Vec::new(),
        under_way: VecDeque::new(),
    };
    for (side, service) in services.into_iter().enumerate() {
        play.qps.push(Qp::new(QpConfig {
            service,
            qpn: 1 + side as u32,
            limits: Limits {
                max_send_wr: DEPTH,
                max_recv_wr: DEPTH,
            },
            signal_all: false,
            has_srq,
        }));
        play.worlds.push(World {
            memory: vec![side as u8; LEN],
            key_is_good: true,
            shared: VecDeque::new(),
            sends: Vec::new(),
            receives: Vec::new(),
            room: if room < 100 { room } else { usize::MAX },
        });
        play.start(script, side)?;
    }
    while !script.is_empty() {
        play.step(script)?;
    }
    // What is in error has flushed what it had; and in order, so nothing succeeded after a failure.
    for (qp, world) in play.qps.iter().zip(&play.worlds) {
        if qp.state() == QpState::Err {
            assert_eq!(qp.send_depth() + qp.receive_depth(), 0);
        }
        let reached = world.sends.iter().flatten().filter(|status| **status == IBV_WC_SUCCESS);
        assert!(reached.count() <= world.sends.len());
    }
    Ok(())
}

fuzz_target!(|bytes: &[u8]| {
    let _ = play(&mut Unstructured::new(bytes));
});
