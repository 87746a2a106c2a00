//! Why a request is not executed, which NAK the peer gets, and what the queue pair does (9.9.3).

use ibverbs_abi::*;

use super::{Attributes, Completion, QpEvent, RecvWr, Responder, WorkQueue};
use crate::engine::{LocalError, Overrun, RemoteError};
use crate::wire::{AethKind, NakCode};

/// Why a request is not executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NakCause {
    /// The receive queue has no WQE: RNR NAK, the peer retransmits the request.
    ReceiverNotReady,
    /// The request violates the protocol, or is of a kind that the queue pair does not grant its peer.
    InvalidRequest,
    /// R_Key, range, domain or access right of the request is wrong.
    RemoteAccess,
    /// The message is longer than the receive WQE.
    MessageTooLong,
    /// The memory of the receive WQE cannot be written.
    RecvMemory(LocalError),
    /// The R_Key of a SEND with invalidate cannot be invalidated.
    Invalidate {
        /// The packet requests an acknowledgment.
        ack_request: bool,
    },
    /// Dropped without a NAK, because there is no room for the response: the peer retransmits.
    Drop,
    /// The completion queue is full.
    CqOverrun,
    /// READs have to be answered first: the peer retransmits the request when it has the answers.
    ReadsWait,
}

impl From<RemoteError> for NakCause {
    fn from(_: RemoteError) -> NakCause {
        NakCause::RemoteAccess
    }
}

impl From<Overrun> for NakCause {
    fn from(_: Overrun) -> NakCause {
        NakCause::CqOverrun
    }
}

/// The outcome of a request.
pub type Executed = Result<(), NakCause>;

/// The reaction of the queue pair to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponderAction {
    None,
    /// Report the error, then move to ERR.
    Fail(ErrorReport),
    /// Raise the fatal event and move to ERR: a completion was lost.
    Fatal,
}

/// How the program learns of an error: through the receive WR that the message took, if it took one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorReport {
    Completion {
        queue: WorkQueue,
        completion: Completion,
    },
    Event(QpEvent),
}

/// The completion of a receive WR with an error.
pub fn failed(wr: &RecvWr, status: ibv_wc_status) -> Completion {
    Completion::new(wr.wr_id, status, IBV_WC_RECV)
}

/// An error that moves the queue pair to ERR.
struct Fault {
    /// The peer gets a NAK.
    code: NakCode,
    /// The status of the receive WR that the message took.
    status: ibv_wc_status,
    /// Raised if the message took none.
    event: QpEvent,
}

impl Fault {
    fn new(code: NakCode, status: ibv_wc_status, event: QpEvent) -> Fault {
        Fault {
            code,
            status,
            event,
        }
    }
}

impl Responder {
    /// Takes the outcome of a request that was executed.
    #[inline(always)]
    pub fn on_executed(&mut self, executed: Executed, attributes: &Attributes) -> ResponderAction {
        match executed {
            Ok(()) => ResponderAction::None,
            Err(cause) => self.on_fault(cause, attributes),
        }
    }

    /// The fault behavior of the responder, classes B, C and J of 9.9.3: queues the NAK, which unreliable
    /// connections do not have.
    #[cold]
    fn on_fault(&mut self, cause: NakCause, attributes: &Attributes) -> ResponderAction {
        use NakCode::{InvalidRequest, RemoteAccess, RemoteOperational};
        use QpEvent::{AccessError, RequestError};
        let fault = match cause {
            NakCause::Drop => return ResponderAction::None,
            NakCause::ReceiverNotReady => {
                let timer = attributes.min_rnr_timer;
                self.sequence.on_nak();
                self.counters.send_rnr_err += 1;
                self.push_nak(AethKind::RnrNak { timer }, attributes);
                return ResponderAction::None;
            }
            NakCause::ReadsWait => {
                self.sequence.on_nak();
                self.push_nak(AethKind::Nak(NakCode::PsnSequence), attributes);
                return ResponderAction::None;
            }
            NakCause::CqOverrun => {
                self.push_nak(AethKind::Nak(RemoteOperational), attributes);
                return ResponderAction::Fatal;
            }
            NakCause::InvalidRequest => {
                Fault::new(InvalidRequest, IBV_WC_REM_INV_REQ_ERR, RequestError)
            }
            NakCause::MessageTooLong => {
                Fault::new(InvalidRequest, IBV_WC_LOC_LEN_ERR, RequestError)
            }
            // Only a WRITE with immediate data has taken a receive WR before its R_Key is checked.
            NakCause::RemoteAccess => Fault::new(RemoteAccess, IBV_WC_LOC_ACCESS_ERR, AccessError),
            // Class J sends no NAK: the peer's data has arrived. It gets its ACK, as from kernel rxe.
            NakCause::Invalidate { ack_request } => {
                if ack_request {
                    let epsn = self.sequence.epsn();
                    self.responses.queue_mut().push_ack(epsn);
                }
                return self.fail(IBV_WC_REM_INV_REQ_ERR, AccessError);
            }
            NakCause::RecvMemory(error) => {
                Fault::new(RemoteOperational, error.status(), RequestError)
            }
        };
        self.push_nak(AethKind::Nak(fault.code), attributes);
        self.fail(fault.status, fault.event)
    }

    /// The receive WR of the message reports the status; if the message took none, the event is raised.
    fn fail(&mut self, status: ibv_wc_status, event: QpEvent) -> ResponderAction {
        ResponderAction::Fail(match self.inbound.take_message_recv() {
            Some(recv) => ErrorReport::Completion {
                queue: recv.queue,
                completion: failed(&recv.wr, status),
            },
            None => ErrorReport::Event(event),
        })
    }

    fn push_nak(&mut self, kind: AethKind, attributes: &Attributes) {
        if attributes.config.service.is_reliable() {
            self.responses.push_nak(self.sequence.epsn(), kind);
        }
    }
}
