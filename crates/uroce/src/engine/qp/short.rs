//! A fast path for the packets that are exchanged most, SENDs of one packet and ACKs of RC queue pairs, and
//! datagrams, while nothing unusual happens. What is done here has the same effect as [`Qp::receive`] and
//! [`Qp::transmit`]; whatever is unusual is left to them.
//!
//! `now` may be some milliseconds late: no round trip is measured, no RNR wait ends here, and timers that
//! begin here may expire later.

use super::{Addresses, Host, Qp, QpState, Service, Time};
use crate::wire::{ICRC_LEN, Psn, Short, ShortContent};

impl Qp {
    /// [`Qp::receive`] for a short packet; `now` is called if it matters. False if nothing was done: then
    /// that function has it.
    #[inline]
    pub fn receive_short(
        &mut self,
        packet: &Short<'_>,
        from: &Addresses,
        now: impl FnOnce() -> Time,
        host: &mut impl Host,
    ) -> bool {
        let is_done = match (packet.content, self.attributes.config.service) {
            (ShortContent::Ack, Service::Rc) if self.is_of_peer(from) => {
                self.receive_short_ack(packet.psn, now(), host)
            }
            (ShortContent::Send { payload, .. }, Service::Rc) if self.is_of_peer(from) => {
                payload.len() <= self.attributes.mtu as usize
                    && self.receive_short_send(packet, host)
            }
            (
                ShortContent::Datagram {
                    deth,
                    solicited,
                    payload,
                },
                Service::Ud,
            ) => self.receive_short_datagram(&deth, solicited, payload, from, host),
            _ => false,
        };
        if is_done {
            self.counters.rcvd_pkts += 1;
            self.counters.rcvd_bytes += (packet.len + ICRC_LEN) as u64;
        }
        is_done
    }

    #[inline]
    fn receive_short_send(&mut self, packet: &Short<'_>, host: &mut impl Host) -> bool {
        let is_ready = match self.state {
            QpState::Rts | QpState::Sqd => true,
            QpState::Rtr => self.responder.is_established(),
            _ => false,
        };
        if !is_ready {
            return false;
        }
        let executed = self
            .responder
            .execute_short(packet.psn, packet.content, host);
        match executed {
            None => false,
            Some(Ok(())) => true,
            Some(failed) => {
                let action = self.responder.on_executed(failed, &self.attributes);
                self.on_responder_action(action, host);
                true
            }
        }
    }

    #[inline]
    fn receive_short_ack(&mut self, psn: Psn, now: Time, host: &mut impl Host) -> bool {
        // `now` may be late.
        if self.state != QpState::Rts || self.requester.measures_rtt() {
            return false;
        }
        let Qp {
            completer,
            requester,
            attributes,
            ..
        } = self;
        let Some(is_complete) = completer.on_short_ack(requester, psn, attributes, now) else {
            return false;
        };
        self.complete_sends(host);
        if !is_complete && self.state != QpState::Err {
            self.completer.retransmit(&mut self.requester, now);
        }
        true
    }

    /// [`Qp::transmit`], if it would write a short datagram, a SEND of one packet for the first time, or an
    /// ACK, and `bytes` has room for it; `now` is called if it matters. Returns its length. None if nothing
    /// was done: it would write another packet, or none.
    #[inline]
    pub fn transmit_short(
        &mut self,
        now: impl FnOnce() -> Time,
        host: &mut impl Host,
        bytes: &mut [u8],
    ) -> Option<usize> {
        let sends_request = self.state == QpState::Rts
            && self.requester.has_unsent()
            && self.responder.would_yield_to_request();
        let len = if sends_request {
            let (requester, attributes) = (&mut self.requester, &self.attributes);
            match attributes.config.service {
                Service::Rc => {
                    let len = requester.next_short(attributes, now, host, bytes)?;
                    self.responder.yields_to_request();
                    len
                }
                Service::Ud => {
                    let len = requester.next_short_datagram(attributes, now, host, bytes)?;
                    self.complete_sends(host);
                    len
                }
                _ => return None,
            }
        } else {
            let ack = self.responder.take_lone_ack(&self.attributes)?;
            *bytes.first_chunk_mut()? = ack;
            ack.len()
        };
        self.counters.sent_pkts += 1;
        self.counters.sent_bytes += (len + ICRC_LEN) as u64;
        Some(len)
    }

    /// Whether [`Qp::transmit_short`] may write a SEND next, given room for a packet of any length.
    #[inline]
    pub fn has_one_packet_send(&self) -> bool {
        self.attributes.config.service == Service::Rc
            && self.requester.has_one_packet_send(&self.attributes)
    }

    /// The traffic class of the next packet of [`Qp::transmit_short`].
    #[inline]
    pub fn next_traffic_class(&self) -> u8 {
        let datagram = self.requester.next_destination();
        datagram.map_or(self.attributes.av.traffic_class, |to| to.av.traffic_class)
    }
}
