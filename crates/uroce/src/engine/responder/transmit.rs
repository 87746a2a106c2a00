//! Sends responses (9.7.5).

use super::duplicate::response_packets;
use super::{Attributes, Host, Operation, Part, Psn, Responder, Response, Time};
use crate::engine::emit::{self, ACK_LEN, Encoded, Layout, part_of};
use crate::wire::{Aeth, AethKind, Headers, ICRC_LEN, NakCode};

/// An ACK that does not count credits (9.7.7.2). docs/uroce.md, "Responses", has the reason.
const ACK: AethKind = AethKind::Ack { credits: 31 };

/// What [`Responder::next_response`] did.
pub enum NextResponse {
    /// Nothing can be sent now.
    None,
    /// Wrote a packet.
    Packet(Encoded),
    /// Wrote a NAK (None if the buffer is too small): the memory of a READ in
    /// progress is not accessible any more. The queue pair moves to ERR.
    AccessError(Option<Encoded>),
}

impl From<Option<Encoded>> for NextResponse {
    fn from(encoded: Option<Encoded>) -> NextResponse {
        encoded.map_or(NextResponse::None, NextResponse::Packet)
    }
}

impl Responder {
    /// Whether a request packet may be sent before the first response. True once for an ACK: the kernel
    /// splits one buffer into several packets (UDP_SEGMENT) only if none but the last is shorter. With
    /// the ACK last, the program's reply and the ACK of the request leave in one system call.
    pub fn yields_to_request(&mut self) -> bool {
        self.responses.yields_to_request()
    }

    /// Whether no response waits, or [`Responder::yields_to_request`] would return true and no response but
    /// the ACK waits.
    #[inline]
    pub fn would_yield_to_request(&self) -> bool {
        self.responses.would_yield_to_request()
    }

    /// Whether the next response has no payload.
    pub fn next_is_short(&self) -> bool {
        let next = self.responses.front();
        next.is_some_and(|response| !matches!(response, Response::Read(_)))
    }

    /// Takes the only response that waits, if it is an ACK. [`Responder::next_response`] would write the same
    /// packet.
    #[inline]
    pub fn take_lone_ack(&mut self, attributes: &Attributes) -> Option<[u8; ACK_LEN]> {
        let psn = self.responses.lone_ack()?;
        Some(self.take_ack(attributes, psn, ACK))
    }

    /// When the pacer allows the READ response that is next; None if the next response is no READ
    /// response.
    pub fn pacing_until(&self) -> Option<Time> {
        let paced = self.responses.read_is_next();
        paced.then(|| self.pacer.resumes_at()).flatten()
    }

    /// Writes the next response packet into `buffer`.
    pub fn next_response(
        &mut self,
        attributes: &Attributes,
        now: Time,
        host: &mut impl Host,
        buffer: &mut [u8],
    ) -> NextResponse {
        loop {
            let Some(response) = self.responses.front() else {
                return NextResponse::None;
            };
            let headers = match *response {
                Response::Ack { psn } => return self.send_ack(attributes, psn, ACK, buffer),
                Response::Nak { psn, kind } => {
                    return self.send_ack(attributes, psn, kind, buffer);
                }
                Response::Empty { psn } => {
                    self.headers(attributes, Operation::ReadResponse, psn, ACK)
                }
                Response::Atomic {
                    psn,
                    original_value,
                    ..
                } => Headers {
                    atomic_ack: Some(original_value),
                    ..self.headers(attributes, Operation::AtomicAck, psn, ACK)
                },
                Response::Read(_) => {
                    match self.send_read_response(attributes, now, host, buffer) {
                        Some(sent) => return sent,
                        // A duplicate whose memory is not accessible any more is dropped.
                        None => continue,
                    }
                }
            };
            self.responses.on_sent();
            let layout = Layout::of_datagram(headers.encoded_len(), 0);
            return layout.seal(headers, buffer).into();
        }
    }

    /// Writes the ACK or NAK that is the next response.
    fn send_ack(
        &mut self,
        attributes: &Attributes,
        psn: Psn,
        kind: AethKind,
        buffer: &mut [u8],
    ) -> NextResponse {
        let packet = self.take_ack(attributes, psn, kind);
        let written = buffer.first_chunk_mut().map(|to| *to = packet);
        let encoded = Encoded {
            len: ACK_LEN,
            packets: 1,
            gso_size: 0,
            datagrams_len: (ACK_LEN + ICRC_LEN) as u64,
        };
        written.map(|()| encoded).into()
    }

    /// Takes the next response, which is this ACK or NAK.
    #[inline]
    fn take_ack(&mut self, attributes: &Attributes, psn: Psn, kind: AethKind) -> [u8; ACK_LEN] {
        let bth = emit::connected_bth(attributes, Operation::Ack, Part::Only, psn);
        let msn = self.msn;
        self.responses.on_sent();
        emit::ack(bth, &Aeth { kind, msn })
    }

    /// The headers of a response of one packet.
    fn headers(
        &self,
        attributes: &Attributes,
        operation: Operation,
        psn: Psn,
        kind: AethKind,
    ) -> Headers {
        let msn = self.msn;
        Headers {
            aeth: Some(Aeth { kind, msn }),
            ..emit::connected_headers(attributes, operation, Part::Only, psn)
        }
    }

    /// Writes the next response packet of the READ that is the next response. None: the READ was dropped.
    fn send_read_response(
        &mut self,
        attributes: &Attributes,
        now: Time,
        host: &mut impl Host,
        buffer: &mut [u8],
    ) -> Option<NextResponse> {
        let Some(Response::Read(read)) = self.responses.front() else {
            return None;
        };
        if !self.pacer.may_send(now) {
            return Some(NextResponse::None);
        }
        let mtu = attributes.mtu;
        let most = self.link.packets_in(buffer, mtu) * mtu;
        let len = read.remaining.min(most);
        let packets = response_packets(len, mtu);
        let is_last = read.remaining <= most;
        let part = part_of(!read.started, is_last);
        let mut headers =
            emit::connected_headers(attributes, Operation::ReadResponse, part, read.psn);
        if part != Part::Middle {
            let (kind, msn) = (ACK, self.msn);
            headers.aeth = Some(Aeth { kind, msn });
        }
        let layout = Layout::new(
            self.link,
            headers.encoded_len(),
            len as usize,
            (packets, mtu),
        );
        let Some(payload) = layout.payload(buffer) else {
            return Some(NextResponse::None);
        };
        if len > 0 && read.read(payload, host).is_err() {
            if read.duplicate {
                self.responses.pop_front();
                return None;
            }
            let psn = read.psn;
            self.responses.clear();
            let kind = AethKind::Nak(NakCode::RemoteAccess);
            let nak = self.headers(attributes, Operation::Ack, psn, kind);
            let layout = Layout::of_datagram(nak.encoded_len(), 0);
            return Some(NextResponse::AccessError(layout.seal(nak, buffer)));
        }
        let Some(encoded) = layout.seal(headers, buffer) else {
            return Some(NextResponse::None);
        };
        self.pacer.on_sent(encoded.len);
        if is_last {
            let counted = (!read.duplicate).then_some(read.first_psn);
            counted.inspect(|first_psn| self.report_read(*first_psn, host));
            self.responses.pop_front();
        } else {
            self.responses.on_read_response_sent(len, packets);
        }
        Some(NextResponse::Packet(encoded))
    }
}
