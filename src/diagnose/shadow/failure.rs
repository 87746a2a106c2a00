//! Why a request has failed, by its status and what is known of both ends.

use ibverbs_abi::*;

use super::completion::Done;
use super::{FirstError, Mr, Qp, Receive, SendRequest, Shadow};
use crate::diagnose::check::connection;
use crate::diagnose::check::key::{self, Access, Side};
use crate::diagnose::check::reasons::{operation, status_text};
use crate::diagnose::facts;
use crate::diagnose::finding::{Finding, Object, Outcome};
use crate::diagnose::peer::Peer;
use crate::diagnose::rules::Rule;

impl Shadow {
    /// Why a request has failed.
    pub(super) fn explain(
        &self,
        address: usize,
        status: u32,
        done: &Done,
        call: &'static str,
    ) -> Vec<Finding> {
        let Some(qp) = self.qps.get(&address) else {
            return Vec::new();
        };
        let object = self.qp_object(address);
        let peer = self.peer(address).map(|(_, peer)| peer);
        match (status, done) {
            (IBV_WC_RETRY_EXC_ERR, _) => {
                let mut found: Vec<Finding> = connection::wrong_type(&object, call, qp)
                    .into_iter()
                    .collect();
                let gone = self.peer_is_gone(qp);
                let other = self.naming(qp.number).filter(|_| peer.is_none());
                found.push(connection::retry_exceeded(&object, call, qp, gone, other));
                found
            }
            (IBV_WC_RNR_RETRY_EXC_ERR, _) => {
                let mut found = connection::rnr_exceeded(&object, call, qp);
                found.notes.extend(self.receives_elsewhere(address));
                vec![found]
            }
            (IBV_WC_LOC_PROT_ERR, Done::Send(request)) => {
                let (_, right) = key::rights_of(request.opcode);
                let found =
                    self.local_keys(&object, (qp, qp.pd), &request.sges, right, status, call);
                let operation = operation(request.opcode);
                let of = (operation, request.wr_id);
                self.or_gone(found, &object, of, &request.sges, status, call)
            }
            (_, Done::Receive(receive)) => {
                self.explain_receive(&object, qp, peer, receive, status, call)
            }
            (IBV_WC_REM_INV_REQ_ERR | IBV_WC_REM_ACCESS_ERR, Done::Send(request)) => {
                self.refused_by_peer(&object, qp, peer, request, status, call)
            }
            _ => Vec::new(),
        }
    }

    /// Why a receive has failed.
    fn explain_receive(
        &self,
        object: &Object,
        qp: &Qp,
        peer: Option<&Qp>,
        receive: &Receive,
        status: u32,
        call: &'static str,
    ) -> Vec<Finding> {
        let right = IBV_ACCESS_LOCAL_WRITE;
        let keys = || {
            let of = (qp, self.receive_pd(qp));
            self.local_keys(object, of, &receive.sges, right, status, call)
        };
        let room = room(receive);
        let length = peer
            .and_then(oldest_message)
            .filter(|length| *length > room);
        match status {
            IBV_WC_LOC_PROT_ERR | IBV_WC_LOC_ACCESS_ERR => {
                let of = ("receive", receive.wr_id);
                self.or_gone(keys(), object, of, &receive.sges, status, call)
            }
            // rxe's status for keys and for messages that are too long.
            IBV_WC_LOC_QP_OP_ERR => match (keys(), length) {
                (found, Some(length)) if found.is_empty() && is_known(receive) => {
                    let (length, room) = (length.to_string(), room.to_string());
                    vec![too_small(object, qp, call, status, length, room)]
                }
                (found, _) => found,
            },
            IBV_WC_LOC_LEN_ERR if qp.srq == 0 || is_known(receive) => {
                // Without a length: the sender is not here, or its completion was polled before.
                let length = length.map_or("more".into(), |length| length.to_string());
                vec![too_small(
                    object,
                    qp,
                    call,
                    status,
                    length,
                    room.to_string(),
                )]
            }
            IBV_WC_REM_INV_REQ_ERR => {
                let outcome = Outcome::Completion(status);
                let found = Finding::new(Rule::Argument, object.clone(), call, outcome);
                vec![self.not_invalidated(qp, peer, found)]
            }
            _ => Vec::new(),
        }
    }

    /// The keys are right: is the memory there?
    fn or_gone(
        &self,
        found: Vec<Finding>,
        object: &Object,
        (operation, wr_id): (&'static str, u64),
        sges: &[super::Sge],
        status: u32,
        call: &'static str,
    ) -> Vec<Finding> {
        let is_memory = |sge: &super::Sge| {
            let mut regions = self.mrs.values();
            regions.any(|mr| mr.lkey == sge.lkey && mr.is_memory)
        };
        if !found.is_empty() || !sges.iter().all(is_memory) {
            return found;
        }
        match facts::digest(sges) {
            Ok(_) => found,
            Err(addr) => vec![
                Finding::new(
                    Rule::MemoryGone,
                    object.clone(),
                    call,
                    Outcome::Completion(status),
                )
                .with("operation", operation)
                .with("wr_id", wr_id)
                .with("addr", format!("{addr:#x}")),
            ],
        }
    }

    /// rxe flushes a request whose local keys it refuses, and no completion has the status of that error. So
    /// the keys are checked if no error came before, and the program has not set the state. A region may
    /// have been deregistered since: that is no error of the request then.
    pub(super) fn flushed(&self, address: usize, done: &Done, call: &'static str) -> Vec<Finding> {
        let (Some(qp), Done::Send(request)) = (self.qps.get(&address), done) else {
            return Vec::new();
        };
        // Other types are in ERR, which is said when the request is posted.
        if let (IBV_QPT_UD, Some(error)) = (qp.kind, &qp.first_error) {
            let outcome = Outcome::Completion(IBV_WC_WR_FLUSH_ERR);
            let found = Finding::new(Rule::PostInError, self.qp_object(address), call, outcome);
            let is_later = request.serial >= qp.error_serial;
            return is_later
                .then(|| in_error(found, qp.kind, error))
                .into_iter()
                .collect();
        }
        if qp.state != IBV_QPS_RTS || qp.first_error.is_some() {
            return Vec::new();
        }
        let (_, right) = key::rights_of(request.opcode);
        let object = self.qp_object(address);
        let mut found = self.local_keys(
            &object,
            (qp, qp.pd),
            &request.sges,
            right,
            IBV_WC_WR_FLUSH_ERR,
            call,
        );
        found.retain(|finding| finding.rule != Rule::KeyDeregistered);
        found
    }

    /// The domain that the keys of a queue pair's receives belong to.
    fn receive_pd(&self, qp: &Qp) -> usize {
        self.srqs.get(&qp.srq).map_or(qp.pd, |srq| srq.pd)
    }

    fn local_keys(
        &self,
        object: &Object,
        (qp, pd): (&Qp, usize),
        sges: &[super::Sge],
        right: u32,
        status: u32,
        call: &'static str,
    ) -> Vec<Finding> {
        let found = sges.iter().find_map(|sge| {
            let access = Access {
                side: Side::Local,
                key: sge.lkey,
                addr: sge.addr,
                length: sge.length.into(),
                pd,
                right,
            };
            self.judge(&access, qp.context, object, status, call)
        });
        found.into_iter().collect()
    }

    pub(super) fn judge(
        &self,
        access: &Access,
        context: usize,
        object: &Object,
        status: u32,
        call: &'static str,
    ) -> Option<Finding> {
        let of_device = |mr: &&Mr| mr.context == context;
        let mut found = key::refused(
            access,
            self.mrs.values().filter(of_device),
            self.deregistered.iter().filter(of_device),
            |a, b| self.base_pd(a) == self.base_pd(b),
            |rule| Finding::new(rule, object.clone(), call, Outcome::Completion(status)),
        )?;
        if found.rule == Rule::KeyUnknown {
            found.notes.extend(self.of_other_context(access, context));
        }
        if access.side == Side::Local {
            found.notes.extend(local_note(access, found.rule));
        }
        Some(found)
    }

    /// Whether the peer was a queue pair of this process that has been destroyed.
    fn peer_is_gone(&self, qp: &Qp) -> bool {
        let device = self.device_of(qp.context);
        let connection = &qp.connection;
        connection.sgid == connection.dgid && self.gone_qps.contains(&(device, connection.dest_qpn))
    }

    /// Describes a queue pair of this process to other processes; `rkey` is a key of its memory.
    pub fn describe(&self, address: usize, rkey: Option<u32>) -> Option<Peer> {
        let qp = self.qps.get(&address)?;
        let connection = &qp.connection;
        let receives = |value: u32| connection.receives.then_some(u64::from(value));
        let srq = self.srqs.get(&qp.srq);
        let queue = srq.map_or(&qp.receives, |srq| &srq.receives);
        let mut peer = Peer {
            place: super::IN_THIS_PROCESS.into(),
            qpn: Some(qp.number.into()),
            state: Some(qp.state.into()),
            kind: Some(qp.kind.into()),
            dest_qpn: receives(connection.dest_qpn),
            path_mtu: receives(connection.mtu),
            first_rq_psn: receives(connection.rq_psn),
            first_sq_psn: connection.sends.then_some(connection.sq_psn.into()),
            access: Some(qp.access.into()),
            max_dest_rd_atomic: receives(connection.max_dest_rd_atomic.into()),
            min_rnr_timer: receives(connection.min_rnr_timer.into()),
            has_srq: Some(srq.is_some().into()),
            sends_posted: Some(qp.sends_posted),
            sends_consuming: Some(qp.sends_consuming),
            posted: Some(queue.posted),
            consumed: Some(queue.completed),
            waits_ms: self.waits_ms(qp.recv_cq),
            posted_ms_ago: queue
                .last_posted
                .map(|last| last.elapsed().as_millis() as u64),
            room: qp.receives.list.front().map(room),
            error_status: qp.first_error.as_ref().map(|error| error.status.into()),
            knows_keys: Some(1),
            ..Peer::default()
        };
        let pd = self.base_pd(qp.pd);
        let windows = self.pds.get(&pd).is_some_and(|pd| pd.had_windows);
        peer.had_windows = Some(windows.into());
        let Some(rkey) = rkey else { return Some(peer) };
        let is_it = |mr: &&Mr| mr.context == qp.context && mr.rkey == rkey;
        let window = self.window_part(qp.context, rkey);
        peer.window_lost = self.window_state(qp.context, rkey).map(|_| 1);
        let live = self.mrs.values().find(is_it).or(window.as_ref());
        let dead = || self.deregistered.iter().rev().find(is_it);
        let mut of_context = self.mrs.values().filter(|mr| mr.context == qp.context);
        if let Some(mr) = live.or_else(dead) {
            peer.key_is_live = Some(live.is_some().into());
            peer.mr_start = Some(mr.start);
            peer.mr_length = Some(mr.length);
            peer.mr_access = Some(mr.access.into());
            peer.mr_same_pd = Some((self.base_pd(mr.pd) == pd).into());
        } else if let Some(mr) = of_context.find(|mr| mr.rkey == rkey.swap_bytes()) {
            peer.key_reversed = Some(1);
            (peer.mr_start, peer.mr_length) = (Some(mr.start), Some(mr.length));
        }
        Some(peer)
    }
}

/// A note on the likely mistake behind a local access that is refused: a key of 0, an address on
/// the stack.
fn local_note(access: &Access, rule: Rule) -> Option<String> {
    if rule == Rule::KeyUnknown && access.key == 0 {
        let note = "the key is 0: lkey was not set, or the mr of an rdma_post_* function was NULL, which is \
                    right only with IBV_SEND_INLINE";
        return Some(note.into());
    }
    let is_range = matches!(rule, Rule::KeyRange | Rule::KeyUnknown);
    (is_range && facts::is_on_stack(access.addr)).then(|| {
        "the address is on this thread's stack: it may be that of a pointer (&buffer) in place of what it \
         points to"
            .into()
    })
}

/// A request is posted after an error.
pub(super) fn in_error(finding: Finding, kind: ibv_qp_type, error: &FirstError) -> Finding {
    let (state, recovery) = match kind {
        IBV_QPT_UD => (
            "SQE (or ERR)",
            "modify the queue pair from SQE to RTS (or to RESET, if ibv_query_qp reports ERR)",
        ),
        _ => ("ERR", "modify the queue pair to RESET and connect it anew"),
    };
    finding
        .with("state", state)
        .with("recovery", recovery)
        .with("wr_id", error.wr_id)
        .with("operation", error.operation)
        .with("status", error.status)
        .with("text", status_text(error.status))
}

/// Whether the receive was recorded. Those of an SRQ are not if there were too many.
fn is_known(receive: &Receive) -> bool {
    *receive != Receive::default()
}

/// The length of the longest message that fits.
pub(super) fn room(receive: &Receive) -> u64 {
    receive.sges.iter().map(|sge| u64::from(sge.length)).sum()
}

pub(super) fn too_small(
    object: &Object,
    qp: &Qp,
    call: &'static str,
    status: u32,
    length: String,
    room: String,
) -> Finding {
    let grh = match qp.kind {
        IBV_QPT_UD => ", and with 40 bytes more for the GRH",
        _ => "",
    };
    let outcome = Outcome::Completion(status);
    Finding::new(Rule::ReceiveTooSmall, object.clone(), call, outcome)
        .with("length", length)
        .with("room", room)
        .with("grh", grh)
}

/// The length of the oldest outstanding message that consumes a receive.
fn oldest_message(peer: &Qp) -> Option<u64> {
    let consumes = |request: &&SendRequest| {
        matches!(
            request.opcode,
            IBV_WR_SEND | IBV_WR_SEND_WITH_IMM | IBV_WR_SEND_WITH_INV
        )
    };
    peer.sends.iter().find(consumes).map(SendRequest::length)
}
