//! The queue pair at the other end, as far as it can be asked: in this process, or in another one
//! of the same user that has a control socket. Asked for when a request has failed or a program
//! waits too long, and never with a lock held: the other process may ask this one at the same time.

use core::sync::atomic::{AtomicU32, Ordering};

use ibverbs_abi::{IBV_QPS_ERR, IBV_QPT_UD, disable_cancellation};

use super::ask;
use super::check::state::state_name;
use super::peer_facts::{Evidence, Peer};
use super::shadow::{self, Shadow};
use crate::provider::software;
use crate::provider::status::QpStatus;

/// A queue pair, and what is asked about its peer.
struct Question {
    device: String,
    number: u32,
    dest_qpn: u32,
    /// The peer, if it is in this process.
    peer: Option<(usize, u32, String)>,
}

fn question(shadow: &Shadow, address: usize) -> Option<Question> {
    let qp = shadow.qps.get(&address)?;
    let peer = shadow.peer(qp).map(|peer| {
        let device = shadow.devices.name(peer.context).to_string();
        (peer.address, peer.number, device)
    });
    Some(Question {
        device: shadow.devices.name(qp.context).to_string(),
        number: qp.number,
        dest_qpn: qp.connection.dest_qpn,
        peer,
    })
}

/// Finds out about both ends of a queue pair of this process; `rkey` is a key of the peer's memory, and
/// `misplaced` one that the request has in a wrong place: it matters if the peer does not know `rkey`.
pub fn look(address: usize, rkey: Option<u32>, misplaced: Option<u32>) -> Evidence {
    let _not_cancelled = disable_cancellation();
    let asked = shadow::with(|shadow| question(shadow, address)).flatten();
    let Some(question) = asked else {
        return Evidence::default();
    };
    let devices = software::status();
    let status = |device: &str, number: u32| {
        let device = devices.iter().find(|of| of.name == device)?;
        device.queue_pairs.iter().find(|qp| qp.qpn == number)
    };
    let own = status(&question.device, question.number);
    let mut found = Evidence {
        own: own.map(|own| own.counters.clone()).unwrap_or_default(),
        has_failed: own.is_some_and(|own| own.state == state_name(IBV_QPS_ERR)),
        ..Evidence::default()
    };
    if let Some((at, number, device)) = &question.peer {
        let described = shadow::with(|shadow| shadow.describe(*at, rkey)).flatten();
        found.peer = described.map(|mut peer| {
            if let Some(status) = status(device, *number) {
                peer.add(status);
            }
            peer
        });
    } else if own.is_some() && question.dest_qpn != 0 {
        let ask = |key| ask::ask(question.dest_qpn, question.number, key);
        found.peer = ask(rkey);
        found.searched = true;
        let is_unknown = |peer: &Peer| peer.knows_keys == Some(1) && peer.key_is_live.is_none();
        if misplaced.is_some() && found.peer.as_ref().is_some_and(is_unknown) {
            found.knows_misplaced = ask(misplaced).is_some_and(|of| of.key_is_live == Some(1));
        }
    }
    found
}

/// Finds out more if the peer was not found: what has become of its process, and the queue pair of another
/// process that names this one as its peer.
pub fn look_for_naming(address: usize, found: &mut Evidence) {
    let _not_cancelled = disable_cancellation();
    if !found.searched || found.peer.is_some() {
        return;
    }
    let known = shadow::with(|shadow| {
        let qp = shadow.qps.get(&address)?;
        let process = qp.peer_seen.as_ref().and_then(|peer| peer.process.clone());
        Some((qp.number, qp.connection.dest_qpn, process))
    });
    if let Some((number, dest_qpn, process)) = known.flatten() {
        found.naming = ask::naming(number);
        let has = |socket: &str| ask::has(socket, dest_qpn, number);
        found.fate = process.and_then(|process| process.fate(has));
    }
}

/// The most queue pairs of a process whose peers in other processes are compared when they are connected.
const MAX_COMPARED: u32 = 64;

/// A queue pair has gone to RTS: compares it with its peer, if that is in another process. It works on one
/// host, perhaps, and fails between two.
pub fn compare(address: usize) {
    static COMPARED: AtomicU32 = AtomicU32::new(0);
    let is_new = shadow::with(|shadow| shadow.is_new_connection(address)).unwrap_or(false);
    if !is_new || COMPARED.fetch_add(1, Ordering::Relaxed) >= MAX_COMPARED {
        return;
    }
    if let Some(peer) = look(address, None, None).peer {
        shadow::observe(|shadow| {
            let found = shadow.compared(address, &peer);
            shadow.qps.change(address, |qp| {
                if peer.dest_qpn == Some(qp.number.into()) {
                    qp.limit_reads(peer.max_dest_rd_atomic);
                }
                qp.peer_seen = Some(peer);
            });
            found
        });
    }
}

/// Finds out about both ends of these queue pairs, and remembers it there.
pub fn examine(addresses: &[usize]) {
    for address in addresses {
        let mut evidence = look(*address, None, None);
        look_for_naming(*address, &mut evidence);
        evidence.senders = senders(*address);
        shadow::with(|shadow| shadow.qps.change(*address, |qp| qp.evidence = evidence));
    }
}

/// Queue pairs of other processes that have sent datagrams to a group, or to a queue pair of this host that
/// no process has. None if one of them has sent to this queue pair, or it is none for datagrams.
fn senders(address: usize) -> Vec<Peer> {
    let _not_cancelled = disable_cancellation();
    let number = shadow::with(|shadow| {
        let qp = shadow.qps.get(&address)?;
        (qp.kind == IBV_QPT_UD).then_some(qp.number)
    });
    let Some(number) = number.flatten() else {
        return Vec::new();
    };
    let mut found = ask::senders(number);
    if found.iter().any(|of| of.datagram_to == Some(number.into())) {
        return Vec::new();
    }
    found.retain(|of| {
        let to = of.datagram_to.unwrap_or(0) as u32;
        let is_own = || shadow::with(|shadow| shadow.qps.values().any(|qp| qp.number == to));
        let is_nobodys = || is_own() != Some(true) && ask::ask(to, 0, None).is_none();
        // QP 0 and QP 1 are those of the SMI and the GSI, not a program's.
        of.group_high.is_some() || of.datagram_is_local == Some(1) && to > 1 && is_nobodys()
    });
    found
}

/// How many completions of a CQ the program has not polled; None if the device does not say. The shadow's
/// lock is held: a CQ that it knows is not destroyed.
pub fn unread(cq: usize) -> Option<usize> {
    let cq = core::ptr::with_exposed_provenance_mut(cq);
    // SAFETY: the caller has found the CQ in the shadow, from which it is taken before it is destroyed.
    unsafe { software::unread_completions(cq) }
}

/// The answer to another process: what is known here of the queue pair `qpn`, connected to `dest_qpn`, and of
/// a key of its memory. None if it is not of this process.
pub fn answer(qpn: u32, dest_qpn: u32, rkey: Option<u32>) -> Option<Peer> {
    let devices = software::status();
    let all = devices.iter().flat_map(|device| &device.queue_pairs);
    let mut having: Vec<&QpStatus> = all.filter(|qp| qp.qpn == qpn).collect();
    having.sort_by_key(|qp| qp.peer.map(|(_, qpn)| qpn) != Some(dest_qpn));
    let status = having.first()?;
    let described = shadow::with(|shadow| {
        let of = shadow.qps.iter().find(|(_, qp)| qp.number == qpn)?;
        shadow.describe(*of.0, rkey)
    });
    let mut peer = described.flatten().unwrap_or_default();
    peer.add(status);
    Some(peer)
}

/// The answer to another process: a queue pair of this process that names `number` as its peer.
pub fn naming(number: u32) -> Option<Peer> {
    let devices = software::status();
    let mut all = devices.iter().flat_map(|device| &device.queue_pairs);
    let of = all.find(|qp| qp.peer.is_some_and(|(_, dest_qpn)| dest_qpn == number))?;
    let mut peer = Peer::default();
    peer.add(of);
    Some(peer)
}

/// The answer to another process: a queue pair of this process that has sent datagrams, best to `qpn`.
pub fn sender(qpn: u32) -> Option<Peer> {
    shadow::with(|shadow| shadow.datagram_sender(qpn)).flatten()
}
