//! Queue pairs: what each was created with, its state, its queues and its connection.
//!
//! Not here: all queue pairs of the process (`qps.rs`), and what is wrong with one.

use core::ops::Deref;

use ibverbs_abi::*;

use super::building::Building;
use super::overlap::{OneThread, overlap};
use super::receives::ReceiveQueue;
use super::request::Requests;
use super::sends::SendQueue;
use crate::diagnose::finding::{Finding, Object, Outcome};
use crate::diagnose::peer_facts::{Evidence, Peer};
use crate::diagnose::rules::Rule;

/// The arguments with which a program creates a queue pair.
#[derive(Clone, Copy)]
pub struct NewQp {
    pub context: usize,
    pub pd: usize,
    pub send_cq: usize,
    pub recv_cq: usize,
    pub srq: usize,
    pub number: u32,
    pub kind: ibv_qp_type,
    pub cap: ibv_qp_cap,
    pub sig_all: bool,
    /// IBV_QP_EX_WITH_* of an extended queue pair; else 0.
    pub send_ops: u64,
}

/// The first error of a queue pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirstError {
    pub wr_id: u64,
    pub operation: &'static str,
    pub status: u32,
    /// The serial number of requests when it was polled.
    pub serial: u64,
}

/// The connection of a queue pair, as ibv_modify_qp has set it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Connection {
    pub sgid_index: u8,
    pub sgid: [u8; 16],
    pub dgid: [u8; 16],
    pub dest_qpn: u32,
    /// In bytes.
    pub mtu: u32,
    pub rq_psn: u32,
    pub sq_psn: u32,
    pub timeout: u8,
    pub retry_cnt: u8,
    pub rnr_retry: u8,
    pub min_rnr_timer: u8,
    pub max_rd_atomic: u8,
    pub max_dest_rd_atomic: u8,
    /// The queue pair is in RTR or later, so the members for receiving are set.
    pub receives: bool,
    /// The queue pair has been in RTS, so the members for sending are set.
    pub sends: bool,
    /// The GID index is of type RoCE v1, and this other has the same address with v2.
    pub better_index: Option<u32>,
}

/// Resets of a queue pair and its peer, as far as they matter for the PSNs of both.
#[derive(Clone, Copy, Default)]
pub(super) struct Resets {
    /// The queue pair was reset after it had sent to a peer in this process, and has posted nothing since.
    pub reconnects: bool,
    /// The peer in this process was reset after it had sent, and this one was not.
    pub peer_was_reset: bool,
    /// How many requests the process had posted when it was connected.
    pub connected_at: u64,
    /// The same after its last request.
    pub last_posted: u64,
}

/// The end of a queue pair by the program, and what was outstanding then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ended {
    /// RESET or ERR.
    pub state: ibv_qp_state,
    pub sends: usize,
    pub receives: usize,
}

/// A queue pair. It derefs to what it was created with, which does not change.
#[derive(Clone)]
pub struct Qp {
    pub address: usize,
    created: NewQp,
    pub(super) one_thread: OneThread,
    pub state: ibv_qp_state,
    pub access: u32,
    /// The Q_Key of a queue pair for datagrams; else 0.
    pub qkey: u32,
    /// The active MTU of its port in bytes; 0 if it is not known.
    pub port_mtu: u32,
    pub connection: Connection,
    pub sends: SendQueue,
    pub receives: ReceiveQueue,
    pub building: Building,
    /// The multicast groups that it is attached to.
    groups: Vec<[u8; 16]>,
    /// Two receives of one buffer, which matter if the messages vary.
    pub(super) same_buffer: Option<Finding>,
    /// Completions without error, which show that the peer has answered.
    pub answered: u64,
    pub first_error: Option<FirstError>,
    /// The facts about both ends, from when a request had failed, or the program waited too long.
    pub evidence: Evidence,
    pub(super) async_events: u64,
    /// rdma_create_qp has created it.
    pub is_of_cm: bool,
    /// The peer as it was when this one was connected, if that was in another process.
    pub peer_seen: Option<Peer>,
    /// max_dest_rd_atomic of the peer, if that is less than max_rd_atomic here; until it is reported.
    read_limit: Option<u64>,
    /// The program has called rdma_disconnect for its id.
    pub is_disconnected: bool,
    /// It was moved to SQD without asking for the event IBV_EVENT_SQ_DRAINED.
    pub drains_unnoticed: bool,
    pub(super) resets: Resets,
    ended: Option<Ended>,
}

impl Deref for Qp {
    type Target = NewQp;

    fn deref(&self) -> &NewQp {
        &self.created
    }
}

impl Qp {
    pub fn new(address: usize, created: NewQp, single_threaded: bool) -> Qp {
        Qp {
            address,
            created,
            one_thread: OneThread::required(single_threaded),
            state: IBV_QPS_RESET,
            access: 0,
            qkey: 0,
            port_mtu: 0,
            connection: Connection::default(),
            sends: SendQueue::default(),
            receives: ReceiveQueue::default(),
            building: Building::new(Object::qp(address, created.number)),
            groups: Vec::new(),
            same_buffer: None,
            answered: 0,
            first_error: None,
            evidence: Evidence::default(),
            async_events: 0,
            is_of_cm: false,
            peer_seen: None,
            read_limit: None,
            is_disconnected: false,
            drains_unnoticed: false,
            resets: Resets::default(),
            ended: None,
        }
    }

    /// The queue pair as an object of messages.
    pub fn object(&self) -> Object {
        Object::qp(self.address, self.number)
    }

    /// The program has moved the queue pair to a state.
    pub fn enter_state(&mut self, state: ibv_qp_state) {
        let ended = Ended {
            state,
            sends: self.sends.len(),
            receives: self.receives.len(),
        };
        let ends = matches!(state, IBV_QPS_RESET | IBV_QPS_ERR);
        self.ended = ends.then_some(ended);
        self.state = state;
        if ends {
            // The program's own wish: what it posts from now on in ERR it expects to be flushed.
            self.first_error = None;
        }
        if state == IBV_QPS_RESET {
            self.connection = Connection::default();
            self.sends.clear();
            self.receives.clear();
            self.answered = 0;
            self.is_disconnected = false;
            self.peer_seen = None;
            self.read_limit = None;
            self.evidence = Evidence::default();
        }
        self.connection.receives |= state == IBV_QPS_RTR;
        self.connection.sends |= state == IBV_QPS_RTS;
    }

    /// How the program has ended the queue pair, if it was the last to change the state.
    pub(super) fn ended(&self) -> Option<Ended> {
        self.ended
    }

    /// A completion with an error was polled: it is the first, unless one came before.
    pub fn fail(&mut self, error: FirstError) {
        self.first_error.get_or_insert(error);
        if self.kind != IBV_QPT_UD {
            self.state = IBV_QPS_ERR;
        }
    }

    /// Records requests before the provider gets them; the first has the serial number `first`. Returns
    /// whether one is signaled.
    pub fn record(&mut self, mut requests: Requests, first: u64) -> bool {
        for (serial, request) in (first..).zip(&mut requests) {
            request.serial = serial;
            request.received = self.receives.completed();
            request.signaled |= self.sig_all;
        }
        self.resets.last_posted = first + requests.len() as u64;
        self.resets.reconnects = false;
        self.sends.record(requests)
    }

    /// `thread` begins to use the send queue. Reports another one that does, if the queue pair is for one.
    pub fn enter(&mut self, thread: i32, call: &'static str) -> Option<Finding> {
        let other = self.one_thread.enter(thread)?;
        let (what, flag) = ("queue pair's domain", "a TD");
        Some(overlap(self.object(), call, other, thread, what, flag))
    }

    /// `thread` calls ibv_wr_start. Reports another one that builds requests, if the queue pair is for one
    /// thread, and the same one, which has not completed what it has begun.
    pub fn begin_building(&mut self, thread: i32, call: &'static str) -> Option<Finding> {
        let unfinished = self.building.begins(thread, call);
        unfinished.or_else(|| self.enter(thread, call))
    }

    /// The peer, to which it is connected, accepts `there` READs and atomic operations at once. None fail
    /// where it is 0.
    pub fn limit_reads(&mut self, there: Option<u64>) {
        let fewer = 1..u64::from(self.connection.max_rd_atomic);
        self.read_limit = there.filter(|there| self.connection.sends && fewer.contains(there));
    }

    /// More READs and atomic operations are posted than the peer accepts at once, and max_rd_atomic allows
    /// them; once.
    pub fn exceeds_reads(&mut self, call: &'static str) -> Option<Finding> {
        let there = self.read_limit?;
        let count = self.sends.iter().filter(|of| of.returns_data()).count();
        if count as u64 <= there {
            return None;
        }
        self.read_limit = None;
        let found = Finding::new(Rule::ReadLimitRnic, self.object(), call, Outcome::Called);
        let dest_qpn = format!("{:#x}", self.connection.dest_qpn);
        let here = self.connection.max_rd_atomic;
        let found = found.with("outstanding", count).with("here", here);
        Some(found.with("there", there).with("dest_qpn", dest_qpn))
    }

    /// Functions that build requests are asked for, which the queue pair does not have.
    pub fn not_extended(&self) -> Finding {
        let object = self.object();
        let what =
            "the queue pair was created without send_ops_flags: ibv_qp_to_qp_ex returns NULL";
        let why = "only an extended queue pair has the functions ibv_wr_*";
        let todo = "create it with ibv_create_qp_ex, IBV_QP_INIT_ATTR_SEND_OPS_FLAGS in comp_mask and the \
                    operations in send_ops_flags";
        let found = Finding::new(Rule::Argument, object, "ibv_qp_to_qp_ex", Outcome::Called);
        found.with_texts(what, why, todo)
    }

    /// ibv_wr_abort was called.
    pub fn abort_building(&mut self) {
        self.building.abort();
        self.one_thread.end();
    }

    /// The queue pair has been attached to a group, or detached from it.
    pub fn attach(&mut self, group: [u8; 16], is_attached: bool) {
        self.groups.retain(|of| *of != group);
        if is_attached {
            self.groups.push(group);
        }
    }

    pub fn is_attached_to(&self, group: &[u8; 16]) -> bool {
        self.groups.contains(group)
    }

    #[cfg(test)]
    pub fn created_mut(&mut self) -> &mut NewQp {
        &mut self.created
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{new_qp, receive, request, rules};
    use super::*;

    #[test]
    fn recorded_requests_have_serial_numbers() {
        let mut created = new_qp(17);
        created.sig_all = true;
        let mut qp = Qp::new(30, created, false);
        let mut unsignaled = request(1, 7);
        unsignaled.signaled = false;
        qp.receives.finish(None);
        qp.resets.reconnects = true;
        assert!(qp.record(vec![unsignaled.clone(), unsignaled].into(), 5));
        let recorded = qp.sends.iter().map(|of| (of.serial, of.received));
        assert_eq!(recorded.collect::<Vec<_>>(), [(5, 1), (6, 1)]);
        assert_eq!((qp.resets.last_posted, qp.resets.reconnects), (7, false));
    }

    #[test]
    fn one_thread_builds_requests() {
        let mut qp = Qp::new(30, new_qp(17), true);
        assert_eq!(qp.begin_building(5, "ibv_wr_start"), None);
        let other = qp.begin_building(6, "ibv_wr_start");
        assert_eq!(rules(&other), [Rule::ThreadDomain]);
        qp.abort_building();
        assert_eq!(qp.begin_building(5, "ibv_wr_start"), None);
        qp.building.begun(5);
        let again = qp.begin_building(5, "ibv_wr_start");
        assert_eq!(rules(&again), [Rule::Argument]);
    }

    #[test]
    fn the_first_error_counts_until_the_program_changes_the_state() {
        let error = |wr_id| FirstError {
            wr_id,
            operation: "SEND",
            status: 12,
            serial: 0,
        };
        let mut qp = Qp::new(30, new_qp(17), false);
        qp.enter_state(IBV_QPS_RTS);
        qp.fail(error(1));
        qp.fail(error(2));
        assert_eq!((qp.state, qp.ended()), (IBV_QPS_ERR, None));
        assert_eq!(qp.first_error, Some(error(1)));
        qp.receives.post([receive(1, 7)]);
        qp.enter_state(IBV_QPS_ERR);
        assert_eq!(
            qp.first_error, None,
            "it flushes what is posted, as it wants"
        );
        assert_eq!(qp.ended().map(|of| (of.sends, of.receives)), Some((0, 1)));
        assert_eq!(qp.receives.len(), 1);
        qp.enter_state(IBV_QPS_RESET);
        assert!(qp.receives.is_empty() && qp.ended().is_some());
        qp.enter_state(IBV_QPS_INIT);
        assert_eq!(qp.ended(), None);
    }

    #[test]
    fn connections() {
        let mut qp = Qp::new(30, new_qp(17), false);
        let of = |qp: &Qp| (qp.connection.receives, qp.connection.sends);
        for (state, expected) in [
            (IBV_QPS_INIT, (false, false)),
            (IBV_QPS_RTR, (true, false)),
            (IBV_QPS_RTS, (true, true)),
            (IBV_QPS_ERR, (true, true)),
            (IBV_QPS_RESET, (false, false)),
        ] {
            qp.enter_state(state);
            assert_eq!(of(&qp), expected, "{state}");
        }
    }

    #[test]
    fn more_reads_than_the_peer_accepts() {
        let mut qp = Qp::new(30, new_qp(17), false);
        (qp.connection.sends, qp.connection.max_rd_atomic) = (true, 4);
        let read = |wr_id| {
            let mut read = request(wr_id, 7);
            read.opcode = IBV_WR_RDMA_READ;
            read
        };
        for there in [None, Some(0), Some(4), Some(16)] {
            qp.limit_reads(there);
            assert_eq!(qp.read_limit, None, "{there:?}");
        }
        qp.limit_reads(Some(2));
        qp.sends.record(vec![read(1), request(2, 7), read(3)]);
        assert_eq!(qp.exceeds_reads("ibv_post_send"), None);
        qp.sends.record([read(4)]);
        let found = qp.exceeds_reads("ibv_post_send");
        assert_eq!(rules(&found), [Rule::ReadLimitRnic]);
        assert_eq!(qp.exceeds_reads("ibv_post_send"), None, "once");
    }

    #[test]
    fn groups() {
        let mut qp = Qp::new(30, new_qp(17), false);
        qp.attach([1; 16], true);
        qp.attach([1; 16], true);
        qp.attach([2; 16], true);
        qp.attach([1; 16], false);
        assert!(!qp.is_attached_to(&[1; 16]) && qp.is_attached_to(&[2; 16]));
    }
}
