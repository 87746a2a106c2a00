//! Sends responses through shared memory.
//!
//! Not here: their order (`response_queue`). As packets they are sent by `transmit`.

use super::transmit::ACK;
use super::{NextResponse, Responses};
use crate::engine::Hca;
use crate::engine::attributes::Attributes;
use crate::engine::emit::part_of;
use crate::engine::response_queue::Response;
use crate::engine::shm::{FragmentWriter, HEAD_LEN};
use crate::wire::{AethKind, NakCode, Operation, Part, Psn};

impl Responses {
    /// Writes the next fragment of a response into `buffer`, which has room for [`HEAD_LEN`] bytes or
    /// more. With exactly that many: only a response without payload.
    #[inline]
    pub fn next_fragment(
        &mut self,
        attributes: &Attributes,
        hca: &mut impl Hca,
        buffer: &mut [u8],
    ) -> NextResponse<usize> {
        loop {
            let Some(response) = self.queue.front() else {
                return NextResponse::None;
            };
            let len = match *response {
                Response::Ack { psn } => write(attributes, Operation::Ack, psn, buffer, |to| {
                    to.acknowledgment(ACK)
                }),
                Response::Read(_) => match self.next_read_data(attributes, hca, buffer) {
                    Some(next) => return next,
                    // A duplicate whose memory is not accessible any more is dropped.
                    None => continue,
                },
                Response::Nak { psn, kind } => {
                    write(attributes, Operation::Ack, psn, buffer, |to| {
                        to.acknowledgment(kind)
                    })
                }
                Response::Atomic {
                    psn,
                    original_value,
                    ..
                } => write(attributes, Operation::AtomicAck, psn, buffer, |to| {
                    to.original_value(original_value);
                }),
                Response::Empty { psn } => {
                    write(attributes, Operation::ReadResponse, psn, buffer, |_| ())
                }
            };
            self.queue.on_sent();
            return len.into();
        }
    }

    /// Writes the next bytes of the READ that is the next response. None: the READ was dropped.
    fn next_read_data(
        &mut self,
        attributes: &Attributes,
        hca: &mut impl Hca,
        buffer: &mut [u8],
    ) -> Option<NextResponse<usize>> {
        let Some(Response::Read(read)) = self.queue.front() else {
            return None;
        };
        let most = buffer.len().saturating_sub(HEAD_LEN) as u32;
        if most == 0 && read.remaining > 0 {
            return Some(NextResponse::None);
        }
        let len = read.remaining.min(most);
        let is_last = len == read.remaining;
        let to = (attributes.dest_qpn, read.psn);
        let part = part_of(read.sent == 0, is_last);
        let fragment = FragmentWriter::new(Operation::ReadResponse, part, to, read.sent, buffer);
        let Some(mut fragment) = fragment else {
            return Some(NextResponse::None);
        };
        let Some(payload) = fragment.payload(len as usize) else {
            return Some(NextResponse::None);
        };
        if len > 0 && read.read(payload, hca).is_err() {
            let psn = self.on_read_failed()?;
            let kind = AethKind::Nak(NakCode::RemoteAccess);
            let nak = write(attributes, Operation::Ack, psn, buffer, |to| {
                to.acknowledgment(kind)
            });
            return Some(NextResponse::AccessError(nak));
        }
        let size = fragment.len(len as usize);
        self.on_read_sent(len, 0, hca);
        Some(NextResponse::Sent(size))
    }
}

/// Writes a response without payload. Returns its length.
#[inline(always)]
fn write(
    attributes: &Attributes,
    operation: Operation,
    psn: Psn,
    buffer: &mut [u8],
    fill: impl FnOnce(&mut FragmentWriter<'_>),
) -> Option<usize> {
    let to = (attributes.dest_qpn, psn);
    let mut fragment = FragmentWriter::new(operation, Part::Only, to, 0, buffer)?;
    fill(&mut fragment);
    Some(fragment.len(0))
}
