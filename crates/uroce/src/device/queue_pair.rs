//! Queue pairs: the engine's, and what is around it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use ibverbs_abi::*;
use parking_lot::Mutex;

use super::completion::CompletionQueue;
use super::events::AsyncEvents;
use super::qp_host::QpHost;
use super::shared_queue::SharedQueue;
use super::xrc::XrcDomain;
use crate::engine::{Qp, QpConfig, QpEvent, Service};
use crate::memory::{Memory, PdHandle};

/// What a queue pair works with.
pub struct QueuePairConfig {
    pub engine: QpConfig,
    /// Of an XRC receiver: none.
    pub domain: Option<PdHandle>,
    pub send_cq: Option<Arc<CompletionQueue>>,
    pub recv_cq: Option<Arc<CompletionQueue>>,
    pub srq: Option<Arc<SharedQueue>>,
    pub xrcd: Option<Arc<XrcDomain>>,
    pub memory: Arc<Memory>,
}

/// A program's `ibv_qp`, to be told of events. An XRC receiver can have several.
pub struct Listener {
    /// The address of the `ibv_qp`.
    pub handle: u64,
    pub events: Arc<AsyncEvents>,
    reported: AtomicU32,
}

impl Listener {
    pub fn new(handle: u64, events: Arc<AsyncEvents>) -> Listener {
        Listener {
            handle,
            events,
            reported: AtomicU32::new(0),
        }
    }

    /// Takes back unread events. What the program has read, and must acknowledge.
    pub fn withdraw_events(&self) -> u32 {
        let unread = self.events.remove(self.handle);
        self.reported.load(Ordering::Relaxed).wrapping_sub(unread)
    }
}

/// What only the thread that runs the queue pair uses.
pub struct Inner {
    engine: Qp,
    /// The domain of the XRC receive that is being filled.
    xrc_domain: Option<PdHandle>,
    /// A receive has completed.
    received: bool,
    /// It is among those that the device sends from later.
    pub deferred: bool,
}

/// A queue pair.
pub struct QueuePair {
    pub qpn: u32,
    pub service: Service,
    pub domain: Option<PdHandle>,
    pub send_cq: Option<Arc<CompletionQueue>>,
    pub recv_cq: Option<Arc<CompletionQueue>>,
    pub srq: Option<Arc<SharedQueue>>,
    pub xrcd: Option<Arc<XrcDomain>>,
    pub memory: Arc<Memory>,
    pub listeners: Mutex<Vec<Arc<Listener>>>,
    /// It has bound windows of type 2, which go with it.
    pub binds: AtomicBool,
    /// When it is due in the device's timers; `u64::MAX` if it is not there.
    pub due: AtomicU64,
    /// In an `Arc` of its own for guards that outlive a borrow.
    pub inner: Arc<Mutex<Inner>>,
}

impl QueuePair {
    pub fn new(config: QueuePairConfig) -> QueuePair {
        QueuePair {
            qpn: config.engine.qpn,
            service: config.engine.service,
            domain: config.domain,
            send_cq: config.send_cq,
            recv_cq: config.recv_cq,
            srq: config.srq,
            xrcd: config.xrcd,
            memory: config.memory,
            listeners: Mutex::default(),
            binds: AtomicBool::new(false),
            due: AtomicU64::new(u64::MAX),
            inner: Arc::new(Mutex::new(Inner {
                engine: Qp::new(config.engine),
                xrc_domain: None,
                received: false,
                deferred: false,
            })),
        }
    }

    /// Tells all that have the queue pair open.
    pub fn raise(&self, event: QpEvent) {
        let event_type = match event {
            QpEvent::Fatal => IBV_EVENT_QP_FATAL,
            QpEvent::RequestError => IBV_EVENT_QP_REQ_ERR,
            QpEvent::AccessError => IBV_EVENT_QP_ACCESS_ERR,
            QpEvent::CommunicationEstablished => IBV_EVENT_COMM_EST,
            QpEvent::SendQueueDrained => IBV_EVENT_SQ_DRAINED,
            QpEvent::LastWqeReached => IBV_EVENT_QP_LAST_WQE_REACHED,
        };
        for listener in self.listeners.lock().iter() {
            listener.reported.fetch_add(1, Ordering::Relaxed);
            listener.events.push(ib_uverbs_async_event_desc {
                element: listener.handle,
                event_type,
                reserved: 0,
            });
        }
    }
}

impl Inner {
    /// The engine and the world around it, as its calls take them.
    pub fn split<'a>(&'a mut self, qp: &'a QueuePair) -> (&'a mut Qp, QpHost<'a>) {
        (
            &mut self.engine,
            QpHost {
                qp,
                xrc_domain: &mut self.xrc_domain,
                received: &mut self.received,
            },
        )
    }

    /// Whether a receive has completed since this was last asked.
    pub fn take_received(&mut self) -> bool {
        core::mem::take(&mut self.received)
    }

    pub fn engine(&self) -> &Qp {
        &self.engine
    }
}
