//! Reports events of ids to the program. [`super::events`] has their bytes.

use ibverbs_abi::Result;

use super::EINVAL;
use super::event_queue::PendingEvent;
use super::events::{AddressHandle, DatagramParams, EventType, Notice, Parameters, bytes_of};
use super::id::UDP_QKEY;
use super::input::Input;
use super::manager::Manager;
use super::os::{CmOs, FileId};

impl<H: CmOs> Manager<H> {
    /// Reports an event of an id. Nothing is reported for a requested connection that the program has not
    /// accepted: it does not know the id yet.
    pub(super) fn report(&mut self, number: u32, notice: Notice) {
        let Some(id) = self.ids.get(number).filter(|id| id.uid != 0) else {
            return;
        };
        let (file, bytes) = (id.file, bytes_of(id.uid, number, &notice));
        self.events
            .push(&mut self.os, file, PendingEvent::of(number, bytes));
    }

    /// Reports that a peer asks the listening id for the connection `request`.
    pub(super) fn report_request(&mut self, listener: u32, request: u32, parameters: Parameters) {
        let Some(id) = self.ids.get(listener) else {
            return;
        };
        let notice = Notice {
            kind: EventType::ConnectRequest,
            status: 0,
            parameters,
        };
        let (file, bytes) = (id.file, bytes_of(id.uid, request, &notice));
        let event = PendingEvent {
            request: Some(request),
            ..PendingEvent::of(listener, bytes)
        };
        self.events.push(&mut self.os, file, event);
    }

    /// WRITE_CM_EVENT: an event of the program's own.
    pub(super) fn write_event(&mut self, file: FileId, input: Input<'_>) -> Result<()> {
        let kind = match input.u32(8) {
            kind if kind == EventType::User as u32 => EventType::User,
            kind if kind == EventType::Internal as u32 => EventType::Internal,
            _ => return Err(EINVAL),
        };
        let number = self.ids.find(file, input.u32(0))?;
        let notice = Notice {
            kind,
            status: input.u32(12) as i32,
            parameters: Parameters::Argument(input.u64(16)),
        };
        let uid = self.ids.existing(number)?.uid;
        let event = PendingEvent::of(number, bytes_of(uid, number, &notice));
        self.events.push(&mut self.os, file, event);
        Ok(())
    }

    /// Reports that a multicast group is joined.
    pub(super) fn report_join(&mut self, number: u32, multicast: u32, address: AddressHandle) {
        let (Some(id), Some(joined)) = (self.ids.get(number), self.memberships.get(multicast))
        else {
            return;
        };
        let notice = Notice {
            kind: EventType::MulticastJoin,
            status: 0,
            parameters: Parameters::Datagram(DatagramParams {
                qpn: roce::wire::MULTICAST_QPN,
                qkey: UDP_QKEY,
                private: Vec::new(),
                address: Some(address),
            }),
        };
        let (file, bytes) = (id.file, bytes_of(joined.uid, multicast, &notice));
        let event = PendingEvent {
            multicast: Some(multicast),
            ..PendingEvent::of(number, bytes)
        };
        self.events.push(&mut self.os, file, event);
    }
}
