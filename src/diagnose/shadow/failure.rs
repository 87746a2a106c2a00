//! Why a request has failed, by its status and what is known of both ends.

use ibverbs_abi::*;

use super::completion::Done;
use super::{Mr, Qp, Receive, SendRequest, Shadow};
use crate::diagnose::check::connection;
use crate::diagnose::check::key::{self, Access, Side};
use crate::diagnose::finding::{Finding, Object, Outcome};
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
                found.push(connection::retry_exceeded(&object, call, qp, peer));
                found
            }
            (IBV_WC_RNR_RETRY_EXC_ERR, _) => {
                let peer = peer.map(|peer| (peer, self.srqs.get(&peer.srq)));
                vec![connection::rnr_exceeded(&object, call, qp, peer)]
            }
            (IBV_WC_LOC_PROT_ERR, Done::Send(request)) => {
                let (_, right) = key::rights_of(request.opcode);
                self.local_keys(&object, qp, &request.sges, right, status, call)
            }
            (IBV_WC_LOC_PROT_ERR | IBV_WC_LOC_ACCESS_ERR, Done::Receive(receive)) => self
                .local_keys(
                    &object,
                    qp,
                    &receive.sges,
                    IBV_ACCESS_LOCAL_WRITE,
                    status,
                    call,
                ),
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
            (IBV_WC_REM_INV_REQ_ERR | IBV_WC_REM_ACCESS_ERR, Done::Send(request)) => {
                self.refused_by_peer(&object, qp, peer, request, status, call)
            }
            _ => Vec::new(),
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
        key::refused(
            access,
            self.mrs.values().filter(of_device),
            self.deregistered.iter().filter(of_device),
            |a, b| self.base_pd(a) == self.base_pd(b),
            |rule| Finding::new(rule, object.clone(), call, Outcome::Completion(status)),
        )
    }

    /// A request that the peer has refused.
    fn refused_by_peer(
        &self,
        object: &Object,
        qp: &Qp,
        peer: Option<&Qp>,
        request: &SendRequest,
        status: u32,
        call: &'static str,
    ) -> Vec<Finding> {
        let Some(remote) = request.remote else {
            let length = request.length();
            let of_peer = peer.filter(|peer| peer.srq == 0);
            let room = of_peer
                .and_then(|peer| peer.receives.front())
                .map(room)
                .filter(|room| *room < length)
                .map(|room| room.to_string());
            // The peer's own completion, which has taken the receive out, was polled before.
            let seen = of_peer.and_then(|peer| peer.first_error.as_ref());
            let seen = seen.filter(|error| error.status == IBV_WC_LOC_LEN_ERR);
            return room
                .or(seen.map(|_| "fewer".into()))
                .map(|room| too_small(object, qp, call, status, length.to_string(), room))
                .into_iter()
                .collect();
        };
        let length = remote.length.unwrap_or(request.length());
        let (right, _) = key::rights_of(request.opcode);
        let finding = |rule| Finding::new(rule, object.clone(), call, Outcome::Completion(status));
        let is_atomic = right == IBV_ACCESS_REMOTE_ATOMIC;
        if status == IBV_WC_REM_INV_REQ_ERR && is_atomic && remote.addr % 8 != 0 {
            return vec![
                finding(Rule::AtomicUnaligned).with("addr", format!("{:#x}", remote.addr)),
            ];
        }
        if let Some(peer) = peer {
            let lacking = right & !peer.access;
            if lacking != 0 {
                return vec![
                    finding(Rule::QpAccess)
                        .with("dest_qpn", format!("{:#x}", peer.number))
                        .with("right", key::rights(lacking)),
                ];
            }
            let access = Access {
                side: Side::Remote,
                key: remote.rkey,
                addr: remote.addr,
                length,
                pd: peer.pd,
                right,
            };
            let found = self.judge(&access, peer.context, object, status, call);
            let pd = self.pds.get(&self.base_pd(peer.pd));
            match found {
                // Otherwise the key may be a window's.
                Some(found) if !pd.is_some_and(|pd| pd.had_windows) => return vec![found],
                _ => {}
            }
        }
        let own = self
            .mrs
            .values()
            .find(|mr| mr.context == qp.context && mr.rkey == remote.rkey);
        let hint = match own {
            Some(mr) if peer.is_none() => {
                let region = key::region(mr);
                format!(
                    "; here {:#x} is the rkey of this side's region {region}",
                    remote.rkey
                )
            }
            _ => String::new(),
        };
        vec![
            finding(Rule::KeyRemote)
                .with("length", length)
                .with("addr", format!("{:#x}", remote.addr))
                .with("key", key::hex(remote.rkey))
                .with("hint", hint),
        ]
    }
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
