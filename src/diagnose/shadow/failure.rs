//! Why a request has failed, by its status and what is known of both ends.

use ibverbs_abi::*;

use super::completion::Done;
use super::{Mr, Qp, Receive, SendRequest, Shadow};
use crate::diagnose::check::connection;
use crate::diagnose::check::key::{self, Access, Side};
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
                let found = self.local_keys(&object, qp, &request.sges, right, status, call);
                let operation = super::completion::operation(request.opcode);
                let of = (operation, request.wr_id);
                self.or_gone(found, &object, of, &request.sges, status, call)
            }
            (IBV_WC_LOC_PROT_ERR | IBV_WC_LOC_ACCESS_ERR, Done::Receive(receive)) => {
                let right = IBV_ACCESS_LOCAL_WRITE;
                let found = self.local_keys(&object, qp, &receive.sges, right, status, call);
                let of = ("receive", receive.wr_id);
                self.or_gone(found, &object, of, &receive.sges, status, call)
            }
            // rxe's status for keys and for messages that are too long.
            (IBV_WC_LOC_QP_OP_ERR, Done::Receive(receive)) => {
                let found = self.local_keys(
                    &object,
                    qp,
                    &receive.sges,
                    IBV_ACCESS_LOCAL_WRITE,
                    status,
                    call,
                );
                match peer.and_then(oldest_message) {
                    Some(length) if found.is_empty() && length > room(receive) && qp.srq == 0 => {
                        let (length, room) = (length.to_string(), room(receive).to_string());
                        vec![too_small(&object, qp, call, status, length, room)]
                    }
                    _ => found,
                }
            }
            (IBV_WC_LOC_LEN_ERR, Done::Receive(receive)) if qp.srq == 0 => {
                let room = room(receive);
                let length = peer.and_then(oldest_message);
                // The sender is not here, or its completion was polled before.
                let length = length.filter(|length| *length > room);
                let length = length.map_or("more".into(), |length| length.to_string());
                vec![too_small(
                    &object,
                    qp,
                    call,
                    status,
                    length,
                    room.to_string(),
                )]
            }
            (IBV_WC_REM_INV_REQ_ERR, Done::Receive(_)) => {
                let found = Finding::new(Rule::Argument, object, call, Outcome::Completion(status));
                vec![self.not_invalidated(qp, peer, found)]
            }
            (IBV_WC_REM_INV_REQ_ERR | IBV_WC_REM_ACCESS_ERR, Done::Send(request)) => {
                self.refused_by_peer(&object, qp, peer, request, status, call)
            }
            _ => Vec::new(),
        }
    }

    /// A message has come to this queue pair that names a key of it, which cannot be invalidated.
    fn not_invalidated(&self, qp: &Qp, peer: Option<&Qp>, finding: Finding) -> Finding {
        let mut sent = peer.into_iter().flat_map(|peer| &peer.sends);
        let rkey = sent.find(|of| of.invalidates != 0).map(|of| of.invalidates);
        let of = |mr: &&Mr| mr.context == qp.context && Some(mr.rkey) == rkey;
        if let Some(mr) = self.mrs.values().find(of) {
            let rkey = rkey.unwrap_or(0);
            return super::requests::invalidates_region(finding, rkey, &key::region(mr));
        }
        finding
            .with(
                "what",
                "the message that consumed the receive names a key of this side to invalidate, and that was \
                 not possible",
            )
            .with(
                "why",
                "only the key of a memory window of type 2 that is bound, by this queue pair or in its PD, can \
                 be invalidated, and not that of a region that ibv_reg_mr has made",
            )
            .with(
                "todo",
                "bind a window and send its rkey to the peer; or let the peer use SEND in place of SEND with \
                 invalidate",
            )
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
        if qp.state != IBV_QPS_RTS || qp.first_error.is_some() {
            return Vec::new();
        }
        let (_, right) = key::rights_of(request.opcode);
        let object = self.qp_object(address);
        let mut found =
            self.local_keys(&object, qp, &request.sges, right, IBV_WC_WR_FLUSH_ERR, call);
        found.retain(|finding| finding.rule != Rule::KeyDeregistered);
        found
    }

    fn local_keys(
        &self,
        object: &Object,
        qp: &Qp,
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
                pd: qp.pd,
                right,
            };
            self.judge(&access, qp.context, object, status, call)
        });
        found.into_iter().collect()
    }

    fn judge(
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

    /// A SEND that the peer has refused: its receive is too small, if that is seen there.
    fn refused_send(
        &self,
        object: &Object,
        qp: &Qp,
        request: &SendRequest,
        status: u32,
        call: &'static str,
    ) -> Vec<Finding> {
        let Some(peer) = &qp.evidence.peer else {
            return Vec::new();
        };
        let length = request.length();
        let room = match peer.error_status {
            // The peer's own completion, which has taken the receive out, was polled before.
            Some(status) if status == u64::from(IBV_WC_LOC_LEN_ERR) => Some("fewer".into()),
            _ => peer
                .room
                .filter(|room| *room < length)
                .map(|room| room.to_string()),
        };
        room.filter(|_| peer.has_srq != Some(1))
            .map(|room| too_small(object, qp, call, status, length.to_string(), room))
            .into_iter()
            .collect()
    }

    /// A request that the peer has refused.
    fn refused_by_peer(
        &self,
        object: &Object,
        qp: &Qp,
        in_process: Option<&Qp>,
        request: &SendRequest,
        status: u32,
        call: &'static str,
    ) -> Vec<Finding> {
        let Some(remote) = request.remote else {
            let found = self.refused_send(object, qp, request, status, call);
            let key = || {
                refused_key(object, qp, request, status, call)
                    .into_iter()
                    .collect()
            };
            return if found.is_empty() { key() } else { found };
        };
        let (right, _) = key::rights_of(request.opcode);
        let operation = super::completion::operation(request.opcode);
        let finding = |rule| {
            Finding::new(rule, object.clone(), call, Outcome::Completion(status))
                .with("operation", operation)
                .with("wr_id", request.wr_id)
                .with("addr", format!("{:#x}", remote.addr))
        };
        let is_atomic = right == IBV_ACCESS_REMOTE_ATOMIC;
        if status == IBV_WC_REM_INV_REQ_ERR && is_atomic && remote.addr % 8 != 0 {
            return vec![finding(Rule::AtomicUnaligned)];
        }
        let access = Access {
            side: Side::Remote,
            key: remote.rkey,
            addr: remote.addr,
            length: remote.length.unwrap_or(request.length()),
            pd: in_process.map_or(0, |peer| peer.pd),
            right,
        };
        let seen = qp.evidence.peer.as_ref().and_then(|peer| {
            by_queue_pair(qp, peer, right, status, &finding).or_else(|| match in_process {
                Some(of)
                    if self.window_part(of.context, access.key).is_some()
                        || self.window_state(of.context, access.key).is_some() =>
                {
                    self.judge_window(&access, of.context, |rule| {
                        Finding::new(rule, object.clone(), call, Outcome::Completion(status))
                    })
                }
                Some(in_process) if peer.had_windows != Some(1) => {
                    self.judge(&access, in_process.context, object, status, call)
                }
                Some(_) => self.judge_known(&access, in_process?, object, status, call),
                None => by_key(peer, &access, |rule| {
                    Finding::new(rule, object.clone(), call, Outcome::Completion(status))
                }),
            })
        });
        if let Some(found) = seen {
            return vec![found];
        }
        let own = self
            .mrs
            .values()
            .find(|mr| mr.context == qp.context && mr.rkey == remote.rkey);
        let hint = match own {
            Some(mr) if in_process.is_none() => {
                let region = key::region(mr);
                format!(
                    "; here {:#x} is the rkey of this side's region {region}",
                    remote.rkey
                )
            }
            _ => String::new(),
        };
        let known = match &qp.evidence.peer {
            Some(peer) if peer.had_windows == Some(1) => {
                "the key may be that of a memory window, which are not observed"
            }
            Some(peer) if peer.knows_keys == Some(1) => {
                "nothing is wrong with the key, range and rights that is known here"
            }
            Some(_) => "the peer's regions are not known: IBV_EXPLAIN is not set there",
            None => "the peer is not in a process that is observed here",
        };
        vec![
            finding(Rule::KeyRemote)
                .with("length", access.length)
                .with("key", key::hex(remote.rkey))
                .with("right", key::rights(right))
                .with("known", known)
                .with("hint", hint),
        ]
    }

    /// What the regions say of a key, if it is that of one. Others may be windows.
    fn judge_known(
        &self,
        access: &Access,
        peer: &Qp,
        object: &Object,
        status: u32,
        call: &'static str,
    ) -> Option<Finding> {
        let known = self
            .mrs
            .values()
            .any(|mr| mr.context == peer.context && mr.rkey == access.key);
        known.then(|| self.judge(access, peer.context, object, status, call))?
    }

    /// Whether the peer was a queue pair of this process that has been destroyed.
    fn peer_is_gone(&self, qp: &Qp) -> bool {
        let device = self.device_of(qp.context);
        let connection = &qp.connection;
        connection.sgid == connection.dgid && self.gone_qps.contains(&(device, connection.dest_qpn))
    }

    /// What other processes may know of a queue pair of this one; `rkey` is a key of its memory.
    pub fn describe(&self, address: usize, rkey: Option<u32>) -> Option<Peer> {
        let qp = self.qps.get(&address)?;
        let connection = &qp.connection;
        let receives = |value: u32| connection.receives.then_some(u64::from(value));
        let srq = self.srqs.get(&qp.srq);
        let (posted, consumed, last) = match srq {
            Some(srq) => (srq.posted, srq.completed, srq.last_posted),
            None => (
                qp.receives_posted,
                qp.receives_completed,
                qp.last_receive_posted,
            ),
        };
        let mut peer = Peer {
            place: super::IN_THIS_PROCESS.into(),
            qpn: Some(qp.number.into()),
            state: Some(qp.state.into()),
            kind: Some(qp.kind.into()),
            dest_qpn: receives(connection.dest_qpn),
            path_mtu: receives(connection.mtu),
            first_rq_psn: receives(connection.rq_psn),
            access: Some(qp.access.into()),
            max_dest_rd_atomic: receives(connection.max_dest_rd_atomic.into()),
            min_rnr_timer: receives(connection.min_rnr_timer.into()),
            has_srq: Some(srq.is_some().into()),
            sends_posted: Some(qp.sends_posted),
            sends_consuming: Some(qp.sends_consuming),
            posted: Some(posted),
            consumed: Some(consumed),
            waits_ms: self.waits_ms(qp.recv_cq),
            posted_ms_ago: last.map(|last| last.elapsed().as_millis() as u64),
            room: qp.receives.front().map(room),
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
        if let Some(mr) = live.or_else(dead) {
            peer.key_is_live = Some(live.is_some().into());
            peer.mr_start = Some(mr.start);
            peer.mr_length = Some(mr.length);
            peer.mr_access = Some(mr.access.into());
            peer.mr_same_pd = Some((self.base_pd(mr.pd) == pd).into());
        }
        Some(peer)
    }
}

const NO_DEPTH: &str = "librdmacm sets the flag if initiator_depth of this side's rdma_conn_param and \
                        responder_resources of the peer's are 1 at least";

/// What the attributes of the peer's queue pair refuse.
fn by_queue_pair(
    qp: &Qp,
    peer: &Peer,
    right: u32,
    status: u32,
    finding: &impl Fn(Rule) -> Finding,
) -> Option<Finding> {
    let dest_qpn = format!("{:#x}", peer.qpn.unwrap_or(0));
    let lacking = right & !(peer.access.unwrap_or(right.into()) as u32);
    if lacking != 0 {
        let mut found = finding(Rule::QpAccess).with("dest_qpn", dest_qpn);
        let by_depth = qp.is_of_cm && right & IBV_ACCESS_REMOTE_WRITE == 0;
        found.notes.extend(by_depth.then(|| NO_DEPTH.into()));
        return Some(
            found
                .with("right", key::rights(lacking))
                .with("place", &peer.place),
        );
    }
    let reads = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    let here = qp.connection.max_rd_atomic;
    let there = peer.max_dest_rd_atomic?;
    let too_many = status == IBV_WC_REM_INV_REQ_ERR && right & reads != 0 && there < here.into();
    too_many.then(|| {
        finding(Rule::DestRdAtomic)
            .with("dest_qpn", dest_qpn)
            .with("place", &peer.place)
            .with("there", there)
            .with("here", here)
    })
}

/// The peer refuses the key that a SEND with invalidate names, or the SRQ that a request of XRC names.
fn refused_key(
    object: &Object,
    qp: &Qp,
    request: &SendRequest,
    status: u32,
    call: &'static str,
) -> Option<Finding> {
    let outcome = Outcome::Completion(status);
    let finding = Finding::new(Rule::Argument, object.clone(), call, outcome);
    let peer = qp.evidence.peer.as_ref();
    let key_is_live = peer.is_some_and(|peer| peer.key_is_live == Some(1));
    if request.invalidates != 0 && key_is_live {
        let start = peer.and_then(|peer| peer.mr_start).unwrap_or(0);
        let region = format!("of the peer at {start:#x}");
        return Some(super::requests::invalidates_region(
            finding,
            request.invalidates,
            &region,
        ));
    }
    (qp.kind == IBV_QPT_XRC_SEND).then(|| {
        let number = request.remote_srqn;
        let hint = match number {
            0 => ": it was not set",
            _ => "",
        };
        let what = format!(
            "the peer refused the message (wr_id {}), which names the SRQ number {number:#x}{hint}",
            request.wr_id
        );
        finding
            .with("what", what)
            .with(
                "why",
                "possible: the number is not that of an SRQ of the XRC domain of the peer's queue pair; or \
                 the message does not fit the receive of that SRQ",
            )
            .with(
                "todo",
                "have the peer send the number that ibv_get_srq_num returns, and put it into \
                 qp_type.xrc.remote_srqn of each request",
            )
    })
}

/// What the peer's process says of its region.
fn by_key(peer: &Peer, access: &Access, finding: impl Fn(Rule) -> Finding) -> Option<Finding> {
    if peer.window_lost == Some(1) {
        let state = "before it was bound again or invalidated";
        return Some(super::windows::lost(
            finding(Rule::Argument),
            access.key,
            state,
        ));
    }
    let mr = Mr {
        context: 0,
        pd: 1 - peer.mr_same_pd.unwrap_or(1) as usize,
        start: peer.mr_start.unwrap_or(0),
        length: peer.mr_length.unwrap_or(0),
        lkey: 0,
        rkey: access.key,
        access: peer.mr_access.unwrap_or(0) as u32,
        stack_of: 0,
        is_memory: true,
    };
    let (live, dead) = match peer.key_is_live {
        Some(1) => (Some(&mr), None),
        Some(_) => (None, Some(&mr)),
        None if peer.knows_keys == Some(1) && peer.had_windows != Some(1) => (None, None),
        None => return None,
    };
    let same = |a: usize, b: usize| a == b;
    key::refused(access, live.into_iter(), dead.into_iter(), same, finding)
}

/// What a local access that is refused looks like.
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

/// The length of the longest message that fits.
pub(super) fn room(receive: &Receive) -> u64 {
    receive.sges.iter().map(|sge| u64::from(sge.length)).sum()
}

fn too_small(
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
