//! Why requests are refused, and what becomes of the queue pair then (9.9.3).

use ibverbs_abi::*;

use super::complete::{failed, queue_of};
use super::requester::status_of;
use super::responder::Message;
use super::response_queue::Reply;
use super::{Host, LocalError, Overrun, Qp, QpEvent, RemoteError};
use crate::wire::{AethKind, NakCode};

/// Why a request is not executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The peer may do it again.
    NotReady,
    /// Nothing of what the protocol allows, or of a kind that the queue pair does not allow its peer.
    Invalid,
    Access,
    /// Longer than the receive.
    Length,
    /// The receive's memory is not what it says.
    Local(LocalError),
    /// The window of a SEND with invalidate.
    Invalidate,
    /// It cannot be answered now.
    Drop,
    /// The completion queue is full.
    Overrun,
}

impl From<RemoteError> for Refusal {
    fn from(_: RemoteError) -> Refusal {
        Refusal::Access
    }
}

impl From<Overrun> for Refusal {
    fn from(_: Overrun) -> Refusal {
        Refusal::Overrun
    }
}

pub type Executed = Result<(), Refusal>;

impl Qp {
    /// The fault behaviour of the responder (9.9.3): classes B, C, and J.
    pub(super) fn refuse(&mut self, refusal: Refusal, host: &mut impl Host) {
        let psn = self.responder.expected;
        let (code, status, event) = match refusal {
            Refusal::Drop => return,
            Refusal::NotReady => {
                let timer = self.attributes.min_rnr_timer;
                self.responder.complained = Some(psn);
                self.replies
                    .push(Reply::Refusal(psn, AethKind::RnrNak { timer }));
                return;
            }
            Refusal::Overrun => {
                let code = NakCode::RemoteOperational;
                self.replies.push(Reply::Refusal(psn, AethKind::Nak(code)));
                self.fatal(host);
                return;
            }
            Refusal::Invalid => (
                NakCode::InvalidRequest,
                IBV_WC_REM_INV_REQ_ERR,
                QpEvent::RequestError,
            ),
            Refusal::Length => (
                NakCode::InvalidRequest,
                IBV_WC_LOC_LEN_ERR,
                QpEvent::RequestError,
            ),
            Refusal::Access => (
                NakCode::RemoteAccess,
                IBV_WC_REM_ACCESS_ERR,
                QpEvent::AccessError,
            ),
            Refusal::Invalidate => (
                NakCode::RemoteAccess,
                IBV_WC_REM_INV_REQ_ERR,
                QpEvent::AccessError,
            ),
            Refusal::Local(error) => (
                NakCode::RemoteOperational,
                status_of(error),
                QpEvent::RequestError,
            ),
        };
        self.replies.push(Reply::Refusal(psn, AethKind::Nak(code)));
        // A receive that was begun tells the program; else an event does.
        match self.responder.message.take() {
            Some(Message::Send { receive, xrc, .. }) => {
                let _ = host.complete(queue_of(xrc), failed(&receive, status));
            }
            _ => host.event(event),
        }
        self.enter_error(host);
    }
}
