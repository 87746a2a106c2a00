//! Unreliable connections (9.8.2): nothing is acknowledged.

use super::{Host, Qp, Time};
use crate::wire::{Operation, Packet, Part};

impl Qp {
    /// Writes the next packet into `buffer` and returns its length.
    pub(super) fn next_uc_packet(
        &mut self,
        now: Time,
        host: &mut impl Host,
        buffer: &mut [u8],
    ) -> Option<usize> {
        while self.prepare_unreliable(now, host) {
            match self.requester.send_uc(&self.attributes, host, buffer) {
                Ok(Some(len)) => {
                    self.complete_sends(host);
                    return Some(len);
                }
                Ok(None) => return None,
                Err(status) => self.fail_oldest_send(status, host),
            }
        }
        None
    }

    /// A packet from the peer.
    pub(super) fn receive_uc_packet(
        &mut self,
        operation: Operation,
        part: Part,
        packet: &Packet,
        host: &mut impl Host,
    ) {
        self.check_established(host);
        let action = self
            .responder
            .on_uc_request(operation, part, packet, &self.attributes, host);
        self.on_responder_action(action, host);
    }
}
