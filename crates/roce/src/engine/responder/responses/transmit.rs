//! Sends responses as packets (9.7.5).
//!
//! Not here: their order (`response_queue`). Through shared memory they are sent by `fragments`.

use super::{NextResponse, Responses};
use crate::engine::attributes::Attributes;
use crate::engine::emit::{self, Encoded, Layout, part_of};
use crate::engine::response_queue::Response;
use crate::engine::{Clock, Hca, Time};
use crate::wire::{Aeth, AethKind, HeaderWriter, NakCode, Operation, Part, Psn};

/// An ACK that does not count credits (9.7.7.2). docs/uroce/protocol.md has the reason.
pub(super) const ACK: AethKind = AethKind::Ack { credits: 31 };

impl Responses {
    /// When the pacer allows the READ response that is next; None if the next response is no READ
    /// response.
    pub fn pacing_until(&self) -> Option<Time> {
        let paced = self.queue.read_is_next();
        paced.then(|| self.pacer.resumes_at())
    }

    /// Writes the next response packet into `buffer`.
    #[inline]
    pub fn next_response(
        &mut self,
        attributes: &Attributes,
        clock: impl Clock,
        hca: &mut impl Hca,
        buffer: &mut [u8],
    ) -> NextResponse<Encoded> {
        loop {
            let Some(response) = self.queue.front() else {
                return NextResponse::None;
            };
            match *response {
                Response::Ack { psn } => {
                    let headers = self.headers(attributes, Operation::Ack, psn, ACK, buffer);
                    return self.respond(headers);
                }
                // Another thread may still have the first response. The peer asks for a duplicate once more.
                Response::Read(ref read) if read.repeats && !hca.sends_in_order() => {
                    if !read.duplicate {
                        return NextResponse::None;
                    }
                    self.queue.pop_front();
                }
                Response::Read(_) => {
                    let now = clock.time();
                    // A duplicate whose memory is not accessible any more is dropped.
                    if let Some(sent) = self.send_read_response(attributes, now, hca, buffer) {
                        return sent;
                    }
                }
                _ => return self.next_rare_response(attributes, buffer),
            }
        }
    }

    /// [`Responses::next_response`], if that is neither an ACK nor of a READ.
    fn next_rare_response(
        &mut self,
        attributes: &Attributes,
        buffer: &mut [u8],
    ) -> NextResponse<Encoded> {
        let headers = match self.queue.front() {
            Some(&Response::Nak { psn, kind }) => {
                self.headers(attributes, Operation::Ack, psn, kind, buffer)
            }
            Some(&Response::Empty { psn }) => {
                self.headers(attributes, Operation::ReadResponse, psn, ACK, buffer)
            }
            Some(&Response::Atomic {
                psn,
                original_value,
                ..
            }) => {
                let mut headers = self.headers(attributes, Operation::AtomicAck, psn, ACK, buffer);
                headers.atomic_ack(original_value);
                headers
            }
            Some(Response::Ack { .. } | Response::Read(_)) | None => return NextResponse::None,
        };
        self.respond(headers)
    }

    /// Sends the next response, which has these headers and no payload.
    #[inline(always)]
    fn respond(&mut self, headers: HeaderWriter<'_>) -> NextResponse<Encoded> {
        self.queue.on_sent();
        let layout = Layout::new(headers.size(), 0);
        layout.seal(headers).into()
    }

    /// The headers of a response of one packet.
    #[inline(always)]
    fn headers<'a>(
        &self,
        attributes: &Attributes,
        operation: Operation,
        psn: Psn,
        kind: AethKind,
        buffer: &'a mut [u8],
    ) -> HeaderWriter<'a> {
        let mut headers = emit::connected_headers(attributes, operation, Part::Only, psn, buffer);
        let msn = self.msn.get();
        headers.aeth(&Aeth { kind, msn });
        headers
    }

    /// Writes the next response packet of the READ that is the next response. None: the READ was dropped.
    fn send_read_response(
        &mut self,
        attributes: &Attributes,
        now: Time,
        hca: &mut impl Hca,
        buffer: &mut [u8],
    ) -> Option<NextResponse<Encoded>> {
        let Some(Response::Read(read)) = self.queue.front() else {
            return None;
        };
        if !self.pacer.may_send(now) {
            return Some(NextResponse::None);
        }
        let mtu = attributes.mtu;
        let len = read.remaining.min(mtu);
        let is_last = read.remaining <= mtu;
        let part = part_of(read.sent == 0, is_last);
        let mut headers =
            emit::connected_headers(attributes, Operation::ReadResponse, part, read.psn, buffer);
        if part != Part::Middle {
            let (kind, msn) = (ACK, self.msn.get());
            headers.aeth(&Aeth { kind, msn });
        }
        let layout = Layout::new(headers.size(), len as usize);
        let Some(payload) = layout.payload(headers.buffer()) else {
            return Some(NextResponse::None);
        };
        if len > 0 && read.read(payload, hca).is_err() {
            let psn = self.on_read_failed()?;
            let kind = AethKind::Nak(NakCode::RemoteAccess);
            let nak = self.headers(attributes, Operation::Ack, psn, kind, buffer);
            let layout = Layout::new(nak.size(), 0);
            return Some(NextResponse::AccessError(layout.seal(nak)));
        }
        let Some(encoded) = layout.seal(headers) else {
            return Some(NextResponse::None);
        };
        self.pacer.on_sent(encoded.len);
        self.on_read_sent(len, 1, hca);
        Some(NextResponse::Sent(encoded))
    }

    /// The memory of the READ that is the next response is not accessible any more. Returns the PSN of the
    /// NAK; None for a duplicate, which is dropped.
    pub(super) fn on_read_failed(&mut self) -> Option<Psn> {
        let Some(Response::Read(read)) = self.queue.front() else {
            return None;
        };
        let psn = (!read.duplicate).then_some(read.psn);
        match psn {
            Some(_) => self.queue.clear(),
            None => self.queue.pop_front(),
        }
        psn
    }

    /// `len` bytes of the READ that is the next response have been sent, which take that number of PSNs if
    /// more of them follow.
    pub(super) fn on_read_sent(&mut self, len: u32, psns: u32, hca: &mut impl Hca) {
        let Some(Response::Read(read)) = self.queue.front() else {
            return;
        };
        if len < read.remaining {
            return self.queue.on_read_response_sent(len, psns);
        }
        if !read.duplicate {
            self.report_read(read.first_psn, hca);
        }
        self.queue.pop_front();
    }
}
