//! A queue pair, and what its program posts: messages of one length, of which a number is always outstanding.

use std::time::Duration;

use ibverbs_abi::{
    IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_WRITE, IBV_WC_SUCCESS,
};
use roce::engine::*;
use roce::wire::Psn;

use crate::memory::Memory;

/// The operation that a program posts, over and over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// RDMA WRITEs.
    Write,
    /// RDMA READs.
    Read,
}

/// A program: it posts messages from a time on.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// The operation of each work request.
    pub operation: Operation,
    /// Bytes of a message.
    pub message: u32,
    /// Messages that are outstanding at a time.
    pub depth: u32,
    /// When it begins.
    pub start: Time,
    /// The most messages that it posts.
    pub count: u64,
}

/// The messages that a program has posted and seen completed.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// Messages posted.
    pub posted: u64,
    /// When each message completed.
    pub completed: Vec<Time>,
    /// The queue pair has failed.
    pub failed: bool,
}

/// One end of a connection.
pub struct Endpoint {
    /// The queue pair.
    pub qp: Qp,
    /// The memory and the completions of the endpoint's device.
    pub memory: Memory,
    /// The host that it is on.
    pub host: usize,
    /// The endpoint of its peer.
    pub peer: usize,
    /// See [`Connection::keeps_early`].
    pub keeps_early: bool,
    /// The program that posts; `None` at the end that only answers.
    pub program: Option<Program>,
    /// The progress of `program`.
    pub progress: Progress,
    /// When the timer event is due that was scheduled last.
    pub timer_at: Option<Time>,
}

/// Attributes of both ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Connection {
    /// The path MTU.
    pub mtu: u32,
    /// The value of `timeout` in `ibv_modify_qp`.
    pub timeout: u8,
    /// The value of `retry_cnt` in `ibv_modify_qp`.
    pub retry_cnt: u8,
    /// READs outstanding.
    pub max_rd_atomic: u8,
    /// The responder keeps requests that come before an earlier one. Not all that uroce talks to do.
    pub keeps_early: bool,
}

/// The address of a host.
pub fn gid(host: usize) -> Gid {
    let mut gid = [0; 16];
    gid[10..12].fill(0xff);
    gid[12..].copy_from_slice(&(0x0a00_0000 + host as u32).to_be_bytes());
    gid
}

/// The number of an endpoint's queue pair.
pub fn qpn(endpoint: usize) -> u32 {
    0x11 + endpoint as u32
}

impl Endpoint {
    /// An end of a connection, in RTS; `peer` is the other one.
    pub fn connected(
        (number, host): (usize, usize),
        (peer, peer_host): (usize, usize),
        connection: &Connection,
        program: Option<Program>,
        now: Time,
    ) -> Endpoint {
        let limits = Limits {
            max_send_wr: 1 << 14,
            max_recv_wr: 16,
        };
        let mut qp = Qp::new(QpConfig {
            service: Service::Rc,
            qpn: qpn(number),
            limits,
            sq_sig_all: true,
            has_srq: false,
        });
        let mut memory = Memory::default();
        for change in changes(qpn(peer), gid(peer_host), connection) {
            qp.modify(&change, now, &mut memory);
        }
        Endpoint {
            qp,
            memory,
            host,
            peer,
            keeps_early: connection.keeps_early,
            program,
            progress: Progress::default(),
            timer_at: None,
        }
    }

    /// Lets the program take its completions, and post what it may.
    pub fn run_program(&mut self, now: Time) {
        let Some(program) = self.program.filter(|program| now >= program.start) else {
            return;
        };
        for completion in self.memory.completions.drain(..) {
            match completion.status {
                IBV_WC_SUCCESS => self.progress.completed.push(now),
                _ => self.progress.failed = true,
            }
        }
        let most = program.count;
        while !self.progress.failed
            && self.progress.posted < most
            && self.qp.send_depth() < program.depth
            && self.qp.post_send(request(&program), &mut self.memory)
        {
            self.progress.posted += 1;
        }
    }
}

fn request(program: &Program) -> SendWr {
    let (va, rkey) = (0, 1);
    let op = match program.operation {
        Operation::Write => SendOp::Write { va, rkey },
        Operation::Read => SendOp::Read { va, rkey },
    };
    let sge = Sge {
        addr: 0,
        len: program.message,
        lkey: 1,
    };
    SendWr {
        data: Data::Sges([sge].into_iter().collect()),
        ..SendWr::new(0, op, SendFlags::default())
    }
}

/// The changes from RESET to RTS.
fn changes(peer: u32, dgid: Gid, connection: &Connection) -> [QpChange; 3] {
    let psn = Psn::new(0x00ff_ff00);
    let to = |state| QpChange {
        state: Some(state),
        ..QpChange::default()
    };
    let access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    [
        QpChange {
            access: Some(access),
            ..to(QpState::Init)
        },
        QpChange {
            av: Some(AddressVector::new(dgid)),
            path_mtu: Some(connection.mtu),
            dest_qpn: Some(peer),
            rq_psn: Some(psn),
            max_dest_rd_atomic: Some(connection.max_rd_atomic),
            min_rnr_timer: Some(12),
            ..to(QpState::Rtr)
        },
        QpChange {
            sq_psn: Some(psn),
            max_rd_atomic: Some(connection.max_rd_atomic),
            timeout: Some(connection.timeout),
            retry_cnt: Some(connection.retry_cnt),
            rnr_retry: Some(7),
            ..to(QpState::Rts)
        },
    ]
}

/// The delay of a timeout's code, 4.096 us times two to its power.
pub fn ack_timeout(code: u8) -> Duration {
    Duration::from_nanos(4096 << code)
}
