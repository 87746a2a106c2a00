//! Why a request has failed, by its status and what is known of both ends.

use ibverbs_abi::*;

use super::qp::FirstError;
use super::{Completion, Mr, Qp, Receive, SendRequest, Sge, Shadow};
use crate::diagnose::check::key::{self, Access, Side};
use crate::diagnose::check::memory::Mapping;
use crate::diagnose::check::reasons::{self, status_text};
use crate::diagnose::facts;
use crate::diagnose::finding::{Finding, Outcome};
use crate::diagnose::rules::Rule;
use crate::diagnose::shadow::connection;

/// The work queue that a completion is of.
pub(super) enum Done {
    Send(SendRequest),
    Receive(Receive),
    /// The request is not known.
    Unknown,
}

impl Done {
    /// The thread that has posted it, or 0.
    pub(super) fn poster(&self) -> i32 {
        match self {
            Done::Send(request) => request.poster,
            Done::Receive(receive) => receive.poster,
            Done::Unknown => 0,
        }
    }
}

/// A request or receive that has completed with an error.
pub(super) struct Failure<'a> {
    pub(super) all: &'a Shadow,
    pub(super) qp: &'a Qp,
    pub(super) status: u32,
    pub(super) call: &'static str,
}

impl Failure<'_> {
    pub(super) fn of<'a>(
        all: &'a Shadow,
        address: usize,
        status: u32,
        call: &'static str,
    ) -> Option<Failure<'a>> {
        let qp = all.qps.get(&address)?;
        Some(Failure {
            all,
            qp,
            status,
            call,
        })
    }

    /// The queue pair at the other end, if it is in this process.
    pub(super) fn peer(&self) -> Option<&Qp> {
        self.all.peer(self.qp)
    }

    pub(super) fn finding(&self, rule: Rule) -> Finding {
        let outcome = Outcome::Completion(self.status);
        Finding::new(rule, self.qp.object(), self.call, outcome)
    }

    /// Finds the reasons that are known.
    pub(super) fn explain(&self, done: &Done) -> Vec<Finding> {
        let (qp, object, call) = (self.qp, &self.qp.object(), self.call);
        match (self.status, done) {
            (IBV_WC_RETRY_EXC_ERR, _) if self.all.devices.lost_descriptor(qp.context).is_some() => {
                let lost = self.all.devices.lost_descriptor(qp.context);
                vec![self.descriptor_closed(lost.unwrap_or(-1))]
            }
            (IBV_WC_RETRY_EXC_ERR, _) => {
                let gone = self.all.qps.peer_is_gone(qp, &self.all.devices);
                let other = self.all.qps.naming(qp.number);
                let other = other.filter(|_| self.peer().is_none());
                let wrong_type = connection::wrong_type(object, call, qp);
                let exceeded = connection::retry_exceeded(object, call, qp, gone, other);
                wrong_type.into_iter().chain([exceeded]).collect()
            }
            (IBV_WC_RNR_RETRY_EXC_ERR, _) => {
                let mut found = connection::rnr_exceeded(object, call, qp);
                found.notes.extend(self.receives_elsewhere());
                vec![found]
            }
            (IBV_WC_LOC_PROT_ERR, Done::Send(request)) => {
                let (_, right) = key::rights_of(request.opcode);
                let found = self.local_keys(qp.pd, &request.sges, right);
                let found = found.or_else(|| {
                    self.memory_gone(request.operation(), request.wr_id, &request.sges)
                });
                let writes = request.returns_data();
                let found = found.or_else(|| {
                    let of = (request.operation(), request.wr_id);
                    writes.then(|| self.read_only(of.0, of.1, &request.sges))?
                });
                found.into_iter().collect()
            }
            (_, Done::Receive(receive)) => self.explain_receive(receive).into_iter().collect(),
            (IBV_WC_REM_INV_REQ_ERR | IBV_WC_REM_ACCESS_ERR, Done::Send(request)) => {
                self.refused_by_peer(request).into_iter().collect()
            }
            _ => Vec::new(),
        }
    }

    /// Why a receive has failed.
    fn explain_receive(&self, receive: &Receive) -> Option<Finding> {
        let keys = || {
            let srq = self.all.srqs.get(&self.qp.srq);
            let pd = srq.map_or(self.qp.pd, |srq| srq.pd);
            self.local_keys(pd, &receive.sges, IBV_ACCESS_LOCAL_WRITE)
        };
        let room = receive.room();
        let length = self.peer().and_then(oldest_message);
        let length = length.filter(|length| *length > room);
        match self.status {
            IBV_WC_LOC_PROT_ERR | IBV_WC_LOC_ACCESS_ERR => {
                let gone = || self.memory_gone("receive", receive.wr_id, &receive.sges);
                let read_only = || self.read_only("receive", receive.wr_id, &receive.sges);
                keys().or_else(gone).or_else(read_only)
            }
            // rxe's status for keys and for messages that are too long.
            IBV_WC_LOC_QP_OP_ERR => keys().or_else(|| {
                let length = length.filter(|_| is_known(receive))?;
                Some(self.too_small(length.to_string(), room.to_string()))
            }),
            IBV_WC_LOC_LEN_ERR if self.qp.srq == 0 || is_known(receive) => {
                // Without a length: the sender is not here, or its completion was polled before.
                let length = length.map_or("more".into(), |length| length.to_string());
                Some(self.too_small(length, room.to_string()))
            }
            IBV_WC_REM_INV_REQ_ERR => Some(self.not_invalidated()),
            _ => None,
        }
    }

    /// The keys are right: is the memory there?
    fn memory_gone(&self, operation: &'static str, wr_id: u64, sges: &[Sge]) -> Option<Finding> {
        if !sges.iter().all(|sge| self.all.mrs.is_memory(sge.lkey)) {
            return None;
        }
        let addr = facts::digest(sges).err()?;
        Some(self.gone_at(operation, wr_id, addr))
    }

    fn gone_at(&self, operation: &'static str, wr_id: u64, addr: u64) -> Finding {
        self.finding(Rule::MemoryGone)
            .with("operation", operation)
            .with("wr_id", wr_id)
            .with("addr", format!("{addr:#x}"))
    }

    /// The keys are right, and the memory is there: may it be written to?
    fn read_only(&self, operation: &'static str, wr_id: u64, sges: &[Sge]) -> Option<Finding> {
        if !sges.iter().all(|sge| self.all.mrs.is_memory(sge.lkey)) {
            return None;
        }
        let maps = facts::mappings();
        let fixed = |sge: &Sge| {
            let meets = |of: &&Mapping| u128::from(of.start) < sge.end() && sge.addr < of.end;
            let found = maps.iter().filter(meets).find(|of| !of.writable)?;
            // The library has mapped memory of its own where the program's was.
            let is_own = found.file.starts_with("/memfd:uroce-");
            Some((sge.addr, (!is_own).then(|| found.rights.clone())))
        };
        let (addr, rights) = sges.iter().find_map(fixed)?;
        let Some(rights) = rights else {
            return Some(self.gone_at(operation, wr_id, addr));
        };
        Some(self.finding(Rule::Argument).with_texts(
            format!(
                "the memory at {addr:#x} of the {operation} (wr_id {wr_id}) is mapped {rights}: the device \
                 cannot write to it"
            ),
            "it was made read-only after it was registered, by mprotect for example",
            "keep memory writable while it is registered, or register it without IBV_ACCESS_LOCAL_WRITE",
        ))
    }

    /// The program has closed a descriptor of the device, which then sends and receives nothing.
    fn descriptor_closed(&self, fd: i32) -> Finding {
        self.finding(Rule::Argument).with_texts(
            format!("the descriptor {fd} of the device is closed, and the program has not closed the device"),
            "descriptors that the program did not open belong to libraries: without them the device neither \
             sends nor receives",
            "close only descriptors that the program has opened; a daemon closes all others before it opens \
             the device",
        )
    }

    /// Why the keys of a list are refused here, in a domain.
    fn local_keys(&self, pd: usize, sges: &[Sge], right: u32) -> Option<Finding> {
        sges.iter().find_map(|sge| {
            let access = Access {
                side: Side::Local,
                key: sge.lkey,
                addr: sge.addr,
                length: sge.length.into(),
                pd,
                right,
            };
            self.judge(&access, self.qp.context)
        })
    }

    /// Why the regions of a context refuse an access.
    pub(super) fn judge(&self, access: &Access, context: usize) -> Option<Finding> {
        let same = |a, b| self.all.pds.are_same(a, b);
        let finding = |rule| self.finding(rule);
        let mut found = self.all.mrs.refused(access, context, same, finding)?;
        if found.rule == Rule::KeyUnknown {
            found.notes.extend(self.of_other_context(access, context));
        }
        if access.side == Side::Local {
            found.notes.extend(local_note(access, found.rule));
            let mut regions = self.all.mrs.of_context(context);
            let mr = regions.find(|mr| mr.lkey == access.key);
            let gone = mr.filter(|mr| found.rule == Rule::KeyRange && is_unmapped(mr));
            found.notes.extend(gone.map(|_| MOVED.into()));
        }
        Some(found)
    }

    /// A region of another context that has the key.
    fn of_other_context(&self, access: &Access, context: usize) -> Option<String> {
        let mr = self.all.mrs.of_other_context(access, context)?;
        Some(format!(
            "it is the key of the region {} of another context, that of {}: each ibv_open_device makes a \
             context of its own",
            key::region(mr),
            self.all.devices.name(mr.context)
        ))
    }

    /// The peer, in this process, has no receive, and another queue pair of its program has some, which no
    /// message has consumed.
    fn receives_elsewhere(&self) -> Option<String> {
        let peer = self.peer()?;
        if peer.receives.posted() != 0 {
            return None;
        }
        let mut others = self.all.qps.values().filter(|other| {
            let is_candidate =
                other.address != peer.address && other.context == peer.context && other.srq == 0;
            is_candidate && other.receives.completed() == 0 && other.kind == peer.kind
        });
        let other = others.find(|other| !other.receives.is_empty())?;
        Some(format!(
            "{} receives are posted to another queue pair of that program, {:#x}, and none of them was \
             consumed",
            other.receives.len(),
            other.number
        ))
    }

    pub(super) fn too_small(&self, length: String, room: String) -> Finding {
        let grh = match self.qp.kind {
            IBV_QPT_UD => ", and with 40 bytes more for the GRH",
            _ => "",
        };
        self.finding(Rule::ReceiveTooSmall)
            .with("length", length)
            .with("room", room)
            .with("grh", grh)
    }

    /// An error for which no rule knows the cause.
    pub(super) fn unexplained(&self, completion: &Completion, operation: &'static str) -> Finding {
        let (why, todo) = reasons::of_status(self.status);
        let peer = self.qp.evidence.peer.as_ref();
        let at_peer = peer.and_then(|peer| Some((peer, peer.error_status?)));
        let why = match at_peer {
            Some((peer, status)) if self.status == IBV_WC_REM_OP_ERR => format!(
                "the peer's queue pair, {}, reports status {status} ({}) for its receive",
                peer.place,
                status_text(status as u32)
            ),
            _ => why.into(),
        };
        self.finding(Rule::RequestFailed)
            .with("operation", operation)
            .with("wr_id", completion.wr_id)
            .with("status", self.status)
            .with("text", status_text(self.status))
            .with("why", why)
            .with("todo", todo)
    }
}

impl Shadow {
    /// rxe flushes a request whose local keys it refuses, and no completion has the status of that error. So
    /// the keys are checked if no error came before, and the program has not set the state. A region may
    /// have been deregistered since: that is no error of the request then.
    pub(super) fn flushed(
        &self,
        address: usize,
        done: &Done,
        call: &'static str,
    ) -> Option<Finding> {
        let failure = Failure::of(self, address, IBV_WC_WR_FLUSH_ERR, call)?;
        let (qp, Done::Send(request)) = (failure.qp, done) else {
            return None;
        };
        // Other types are in ERR, which is said when the request is posted.
        if let (IBV_QPT_UD, Some(error)) = (qp.kind, &qp.first_error) {
            let found = failure.finding(Rule::PostInError);
            let is_later = request.serial >= error.serial;
            return is_later.then(|| in_error(found, qp.kind, error));
        }
        if qp.state != IBV_QPS_RTS || qp.first_error.is_some() {
            return None;
        }
        let (_, right) = key::rights_of(request.opcode);
        let found = failure.local_keys(qp.pd, &request.sges, right);
        found.filter(|found| found.rule != Rule::KeyDeregistered)
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

const MOVED: &str = "the region's own memory is not mapped any more: it was freed, or realloc() has moved \
                     it, after it was registered";

/// Whether the memory of a region is not there any more.
pub(super) fn is_unmapped(mr: &Mr) -> bool {
    let whole = Sge {
        addr: mr.start,
        length: u32::try_from(mr.length).unwrap_or(u32::MAX),
        lkey: mr.lkey,
    };
    mr.is_memory && facts::digest(&[whole]).is_err()
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

/// The length of the oldest outstanding message whose data goes into a receive.
fn oldest_message(peer: &Qp) -> Option<u64> {
    let consumes = |request: &&SendRequest| {
        matches!(
            request.opcode,
            IBV_WR_SEND | IBV_WR_SEND_WITH_IMM | IBV_WR_SEND_WITH_INV
        )
    };
    peer.sends.iter().find(consumes).map(SendRequest::length)
}
