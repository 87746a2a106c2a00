//! Requests that come again (9.7.5.1.3 to 9.7.5.1.5): what is kept of reads and atomics to answer them once
//! more.

use super::response_queue::{ReadReply, Reply};
use super::{Host, Qp};
use crate::wire::{Operation, Packet, Psn, Reth};

/// A request whose answer may be asked for again.
#[derive(Debug)]
pub struct Resource {
    first: Psn,
    packets: u32,
    answer: Answer,
}

#[derive(Debug)]
pub enum Answer {
    Read(Reth),
    Atomic(u64),
}

impl Qp {
    /// Keeps what is needed to answer a request again.
    pub(super) fn keep(&mut self, first: Psn, packets: u32, answer: Answer) {
        let resources = &mut self.responder.resources;
        while resources.len() >= usize::from(self.attributes.max_dest_rd_atomic).max(1) {
            if let Some(old) = resources.pop_front() {
                self.replies.forget(old.first);
            }
        }
        resources.push_back(Resource {
            first,
            packets,
            answer,
        });
    }

    /// A request that has been executed before (9.7.5.1.3 to 9.7.5.1.5).
    pub(super) fn answer_again(
        &mut self,
        operation: Operation,
        packet: &Packet,
        host: &mut impl Host,
    ) {
        let psn = packet.headers.bth.psn;
        let kept = |resource: &&Resource| {
            (0..resource.packets as i32).contains(&psn.distance(resource.first))
        };
        let found = self.responder.resources.iter().find(kept);
        match operation {
            Operation::AtomicWrite | Operation::Flush => self.replies.again(Reply::Empty(psn)),
            Operation::CmpSwap | Operation::FetchAdd => {
                if let Some(Resource {
                    answer: Answer::Atomic(before),
                    ..
                }) = found
                {
                    self.replies.again(Reply::Atomic {
                        psn,
                        before: *before,
                        original: false,
                    });
                }
            }
            Operation::ReadRequest => {
                let Some(Resource {
                    first,
                    packets,
                    answer: Answer::Read(had),
                }) = found
                else {
                    return;
                };
                let Some(asked) = packet.headers.reth else {
                    return;
                };
                let skipped = psn.distance(*first) as u32;
                let mtu = self.attributes.mtu;
                let offset = u64::from(skipped) * u64::from(mtu);
                let within = asked.rkey == had.rkey
                    && asked.va == had.va.wrapping_add(offset)
                    && offset + u64::from(asked.len) <= u64::from(had.len)
                    && skipped + packets_of(asked.len, mtu) <= *packets;
                if !within {
                    return;
                }
                let reply = ReadReply {
                    first: *first,
                    psn,
                    va: asked.va,
                    rkey: asked.rkey,
                    left: asked.len,
                    began: false,
                    original: false,
                };
                // The key may have gone since, because the peer has all it asked for and the network
                // brings its request once more: no reason to break the connection.
                if self.may_read(host, asked.rkey, asked.va, asked.len) {
                    self.replies.again(Reply::Read(reply));
                }
            }
            // (Others have never come.)
            _ if psn.distance(self.responder.acknowledged) <= 0 => {
                self.replies.ack(self.responder.acknowledged);
            }
            _ => {}
        }
    }
}

/// Responses to a READ of that length.
pub fn packets_of(len: u32, mtu: u32) -> u32 {
    len.div_ceil(mtu).max(1)
}
