//! Requests that the peer has refused: what is known of its queue pair, its regions and windows.

use ibverbs_abi::*;

use super::failure::Failure;
use super::{Mr, Qp, SendRequest};
use crate::diagnose::check::key::{self, Access, Side};
use crate::diagnose::finding::Finding;
use crate::diagnose::peer_facts::Peer;
use crate::diagnose::rules::Rule;

impl Failure<'_> {
    /// A message has come to this queue pair that names a key of it, which cannot be invalidated.
    pub(super) fn not_invalidated(&self) -> Finding {
        let finding = self.finding(Rule::Argument);
        let sent = self.peer().into_iter().flat_map(|peer| peer.sends.iter());
        let rkey = sent.map(|of| of.invalidates).find(|rkey| *rkey != 0);
        let region = rkey.and_then(|rkey| Some((rkey, self.own_region(rkey)?)));
        if let Some((rkey, mr)) = region {
            return super::requests::invalidates_region(finding, rkey, &key::region(mr));
        }
        finding
            .with_texts(
                "the message that consumed the receive names a key of this side to invalidate, and that was \
                 not possible",
                "only the key of a memory window of type 2 that is bound, in the PD of this queue pair, can \
                 be invalidated, and not that of a region that ibv_reg_mr has made",
                "bind a window and send its rkey to the peer; or let the peer use SEND in place of SEND with \
                 invalidate",
            )
    }

    /// A SEND that the peer has refused: its receive is too small, if that is seen there.
    fn refused_send(&self, request: &SendRequest) -> Option<Finding> {
        let peer = self.qp.evidence.peer.as_ref()?;
        let length = request.length();
        let room = match peer.error_status {
            // The peer's own completion, which has taken the receive out, was polled before.
            Some(status) if status == u64::from(IBV_WC_LOC_LEN_ERR) => "fewer".into(),
            // Of an SRQ it is not known which receive comes next.
            _ if peer.has_srq == Some(1) => return None,
            _ => peer.room.filter(|room| *room < length)?.to_string(),
        };
        Some(self.too_small(length.to_string(), room))
    }

    /// A request that the peer has refused.
    pub(super) fn refused_by_peer(&self, request: &SendRequest) -> Option<Finding> {
        let Some(remote) = request.remote else {
            let found = self.refused_send(request);
            return found.or_else(|| self.refused_key(request));
        };
        let right = match request.opcode {
            IBV_WR_FLUSH => key::rights_of_flush(request.placement),
            opcode => key::rights_of(opcode).0,
        };
        let finding = |rule| {
            self.finding(rule)
                .with("operation", request.operation())
                .with("wr_id", request.wr_id)
                .with("addr", format!("{:#x}", remote.addr))
        };
        let is_atomic = right == IBV_ACCESS_REMOTE_ATOMIC;
        if self.status == IBV_WC_REM_INV_REQ_ERR && is_atomic && remote.addr % 8 != 0 {
            return Some(finding(Rule::AtomicUnaligned));
        }
        let in_process = self.peer();
        let access = Access {
            side: Side::Remote,
            key: remote.rkey,
            addr: remote.addr,
            length: remote.length.unwrap_or(request.length()),
            pd: in_process.map_or(0, |peer| peer.pd),
            right,
        };
        let seen = self.qp.evidence.peer.as_ref().and_then(|peer| {
            let by_queue_pair = by_queue_pair(self.qp, peer, right, self.status, &finding);
            by_queue_pair.or_else(|| match in_process {
                Some(of) => self.judge_here(&access, of, peer),
                None => by_key(peer, &access, |rule| self.finding(rule)),
            })
        });
        let own = self.own_region(remote.rkey);
        let own = own.filter(|_| in_process.is_none());
        let seen = seen.or_else(|| self.peer_freed(finding(Rule::MemoryGone)));
        let is_seen = seen.is_some();
        let mut found =
            seen.unwrap_or_else(|| unseen(finding(Rule::KeyRemote), self.qp, &access, own));
        match self.key_note(request, remote.addr, found.rule, own) {
            // Where the address is, is no proof of the mistake.
            Some(note) if is_seen && found.rule != Rule::KeyRange => found.notes = vec![note],
            note => found.notes.extend(note),
        }
        if let (Rule::KeyUnknown, Some(origin)) = (found.rule, self.origin(request, own)) {
            found.set("origin", origin);
        }
        Some(found)
    }

    /// Where a key that is unknown to the peer comes from. `own` as below.
    fn origin(&self, request: &SendRequest, own: Option<&Mr>) -> Option<&'static str> {
        match own {
            _ if self.is_misplaced(request.misplaced_rkey) => {
                Some("the rkey of the peer is in another member of the request")
            }
            Some(_) => Some("it is one of this side, and each side has keys of its own"),
            None => None,
        }
    }

    /// A note on the likely mistake behind a remote key or range; that on a key replaces others. `own`: the
    /// region of this side that has the key, if the peer is another process.
    fn key_note(
        &self,
        request: &SendRequest,
        addr: u64,
        rule: Rule,
        own: Option<&Mr>,
    ) -> Option<String> {
        let misplaced = request.misplaced_rkey;
        match rule {
            Rule::KeyUnknown | Rule::KeyRemote if self.is_misplaced(misplaced) => {
                Some(in_rdma(misplaced))
            }
            _ if self.peer().is_some() => None,
            Rule::KeyUnknown => own.map(own_key),
            // Of two processes, one often has memory where the other has: after fork(2), for example.
            Rule::KeyRange if self.is_at_peer(addr) => None,
            Rule::KeyRange => self.own_memory(addr).map(own_address),
            _ => None,
        }
    }

    /// Why the regions and windows of this process refuse an access that came to a queue pair of it.
    fn judge_here(&self, access: &Access, of: &Qp, peer: &Peer) -> Option<Finding> {
        let windows = &self.all.mws;
        if windows.has_key(of.context, access.key) {
            let finding = |rule| self.finding(rule);
            return windows.refused(access, of.context, of.number, finding);
        }
        // Of a key that no region has, others may be windows.
        let is_known = || self.all.mrs.by_rkey(of.context, access.key).is_some();
        let judges = peer.had_windows != Some(1) || is_known();
        judges.then(|| self.judge(access, of.context))?
    }

    /// The peer's region allows the access, and its memory is not there any more.
    fn peer_freed(&self, mut found: Finding) -> Option<Finding> {
        let peer = self.qp.evidence.peer.as_ref()?;
        let is_refused = self.status == IBV_WC_REM_ACCESS_ERR && peer.key_is_live == Some(1);
        (is_refused && peer.mr_unmapped == Some(1)).then(|| {
            let note = format!("the memory is that of the peer, {}", peer.place);
            found.notes.push(note);
            found
        })
    }

    /// Whether an address is in the region of the peer that has the key of the request.
    fn is_at_peer(&self, addr: u64) -> bool {
        let peer = self.qp.evidence.peer.as_ref();
        let at = peer.and_then(|peer| addr.checked_sub(peer.mr_start?).zip(peer.mr_length));
        at.is_some_and(|(at, length)| at < length)
    }

    /// The region of this side that contains an address.
    fn own_memory(&self, addr: u64) -> Option<&Mr> {
        let contains = |mr: &&Mr| addr.checked_sub(mr.start).is_some_and(|at| at < mr.length);
        let mut all = self.all.mrs.of_context(self.qp.context);
        all.find(|mr| mr.is_memory && contains(mr))
    }

    /// The region of this side that has a key.
    fn own_region(&self, rkey: u32) -> Option<&Mr> {
        self.all.mrs.by_rkey(self.qp.context, rkey)
    }

    /// Whether an atomic operation, whose own key is unknown, has a key where those of READs and WRITEs have
    /// theirs.
    fn is_misplaced(&self, rkey: u32) -> bool {
        let at_peer = match self.peer() {
            Some(of) => self.all.mrs.by_rkey(of.context, rkey).is_some(),
            None => self.qp.evidence.knows_misplaced,
        };
        rkey != 0 && (at_peer || self.own_region(rkey).is_some())
    }

    /// The peer refuses the key that a SEND with invalidate names, or the SRQ that a request of XRC names.
    fn refused_key(&self, request: &SendRequest) -> Option<Finding> {
        let finding = self.finding(Rule::Argument);
        let peer = self.qp.evidence.peer.as_ref();
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
        (self.qp.kind == IBV_QPT_XRC_SEND).then(|| {
            let number = request.remote_srqn;
            let hint = match number {
                0 => ": it was not set",
                _ => "",
            };
            let what = format!(
                "the peer refused the message (wr_id {}), which names the SRQ number {number:#x}{hint}",
                request.wr_id
            );
            finding.with_texts(
                what,
                "possible: the number is not that of an SRQ of the XRC domain of the peer's queue pair; \
                 or the message does not fit the receive of that SRQ",
                "have the peer send the number that ibv_get_srq_num returns, and put it into \
                 qp_type.xrc.remote_srqn of each request",
            )
        })
    }
}

/// An atomic operation has its key in the wrong member of the union.
fn in_rdma(rkey: u32) -> String {
    format!(
        "compare_add has {} in its lower half, which is the rkey of a region: wr.rdma was filled in, and \
         an atomic operation has its address and its rkey in wr.atomic",
        key::hex(rkey)
    )
}

/// A request names this side's own region.
fn own_key(mr: &Mr) -> String {
    format!(
        "the key is the rkey of this side's own region {}: address and key of the region that the peer has \
         sent are needed here",
        key::region(mr)
    )
}

/// A request names an address of this side's own memory.
fn own_address(mr: &Mr) -> String {
    format!(
        "the address is in this side's own region {}: if it was taken from there, the one that the peer has \
         sent is needed",
        key::region(mr)
    )
}

/// A request that was refused for a reason that is not seen. `own`: the region of this side that has its key.
fn unseen(finding: Finding, qp: &Qp, access: &Access, own: Option<&Mr>) -> Finding {
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
    let hint = own.map_or_else(String::new, |mr| {
        let region = key::region(mr);
        format!(
            "; here {:#x} is the rkey of this side's region {region}",
            access.key
        )
    });
    finding
        .with("length", access.length)
        .with("key", key::hex(access.key))
        .with("right", key::rights(access.right))
        .with("known", known)
        .with("hint", hint)
}

const NO_DEPTH: &str = "librdmacm sets the flag if initiator_depth of this side's rdma_conn_param and \
                        responder_resources of the peer's are 1 at least";

/// Judges an access by the attributes of the peer's queue pair.
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

/// Judges an access by what the peer's process reports of its region.
fn by_key(peer: &Peer, access: &Access, finding: impl Fn(Rule) -> Finding) -> Option<Finding> {
    if peer.window_lost == Some(1) {
        let state = "before it was bound again, invalidated or deallocated";
        return Some(super::windows::lost(
            finding(Rule::Argument),
            access.key,
            state,
        ));
    }
    let mr = Mr {
        context: 0,
        pd: usize::from(peer.mr_same_pd.unwrap_or(1) != 1),
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
    let mut found = key::refused(access, live.into_iter(), dead.into_iter(), same, finding)?;
    if peer.key_reversed == Some(1) {
        let note = key::reversed_note(access.key, "rkey", &mr);
        found.notes.push(note);
    }
    Some(found)
}
