//! What the engine finds around a queue pair.

use std::sync::atomic::Ordering;

use super::queue_pair::QueuePair;
use crate::engine::{
    Access, Bind, Completion, Host, LocalError, Overrun, QpEvent, RecvWr, RemoteError, Service,
    Sge, WorkQueue, XrcError,
};
use crate::memory::{AccessingQp, PdHandle};

/// The world of one queue pair.
pub struct QpHost<'a> {
    pub qp: &'a QueuePair,
    /// See [`super::queue_pair::Inner`].
    pub xrc_domain: &'a mut Option<PdHandle>,
    pub received: &'a mut bool,
}

impl QpHost<'_> {
    /// Whose local keys are good.
    fn domain(&self) -> Result<PdHandle, LocalError> {
        let domain = if self.qp.service == Service::XrcRecv {
            *self.xrc_domain
        } else {
            self.qp.domain
        };
        domain.ok_or(LocalError::Protection)
    }

    /// Calls with what remote keys are checked against. The memory that an XRC receiver's peer may
    /// reach is that of the XRC domain's shared receive queues.
    fn holding<T>(&self, call: impl FnOnce(&AccessingQp) -> T) -> T {
        let qpn = self.qp.qpn;
        match (&self.qp.domain, &self.qp.xrcd) {
            (Some(domain), _) => call(&AccessingQp {
                qpn,
                pds: core::slice::from_ref(domain),
            }),
            (None, Some(xrcd)) => xrcd.with_domains(|pds| call(&AccessingQp { qpn, pds })),
            (None, None) => call(&AccessingQp { qpn, pds: &[] }),
        }
    }
}

impl Host for QpHost<'_> {
    fn check_local(&mut self, sges: &[Sge], writable: bool) -> Result<u64, LocalError> {
        self.qp.memory.check_local(sges, writable, self.domain()?)
    }

    fn gather(&mut self, sges: &[Sge], offset: u64, into: &mut [u8]) -> Result<(), LocalError> {
        self.qp.memory.gather(sges, offset, into, self.domain()?)
    }

    fn scatter(&mut self, sges: &[Sge], offset: u64, from: &[u8]) -> Result<(), LocalError> {
        self.qp.memory.scatter(sges, offset, from, self.domain()?)
    }

    fn check_remote(
        &mut self,
        rkey: u32,
        va: u64,
        len: u64,
        access: Access,
    ) -> Result<(), RemoteError> {
        self.holding(|holder| self.qp.memory.check_remote(rkey, va, len, access, holder))
    }

    fn write_remote(&mut self, rkey: u32, va: u64, from: &[u8]) -> Result<(), RemoteError> {
        self.holding(|holder| self.qp.memory.write_remote(rkey, va, from, holder))
    }

    fn read_remote(&mut self, rkey: u32, va: u64, into: &mut [u8]) -> Result<(), RemoteError> {
        self.holding(|holder| self.qp.memory.read_remote(rkey, va, into, holder))
    }

    fn atomic(
        &mut self,
        rkey: u32,
        va: u64,
        change: &mut dyn FnMut(u64) -> u64,
    ) -> Result<u64, RemoteError> {
        self.holding(|holder| self.qp.memory.atomic(rkey, va, change, holder))
    }

    fn atomic_write(&mut self, rkey: u32, va: u64, data: [u8; 8]) -> Result<(), RemoteError> {
        self.holding(|holder| self.qp.memory.atomic_write(rkey, va, data, holder))
    }

    fn flush(
        &mut self,
        rkey: u32,
        va: u64,
        len: u64,
        whole: bool,
        access: Access,
    ) -> Result<(), RemoteError> {
        self.holding(|holder| self.qp.memory.flush(rkey, va, len, whole, access, holder))
    }

    fn invalidate_remote(&mut self, rkey: u32) -> Result<(), RemoteError> {
        self.holding(|holder| self.qp.memory.invalidate(rkey, holder))
            .map_err(|_| RemoteError)
    }

    fn invalidate_local(&mut self, rkey: u32) -> Result<(), LocalError> {
        self.holding(|holder| self.qp.memory.invalidate(rkey, holder))
    }

    fn bind_mw(&mut self, bind: &Bind) -> Result<(), LocalError> {
        self.qp.binds.store(true, Ordering::Relaxed);
        self.holding(|holder| self.qp.memory.bind(bind, holder))
    }

    fn take_srq_wr(&mut self) -> Option<RecvWr> {
        self.qp.srq.as_ref()?.take()
    }

    fn take_xrc_srq_wr(&mut self, srqn: u32) -> Result<RecvWr, XrcError> {
        let xrcd = self.qp.xrcd.as_ref().ok_or(XrcError::NoSuchQueue)?;
        let queue = xrcd.queue(srqn).ok_or(XrcError::NoSuchQueue)?;
        *self.xrc_domain = Some(queue.domain);
        queue.take().ok_or(XrcError::Empty)
    }

    fn complete(&mut self, queue: WorkQueue, completion: Completion) -> Result<(), Overrun> {
        let qp = self.qp;
        *self.received |= queue != WorkQueue::Send;
        match queue {
            WorkQueue::Send => qp.send_cq.as_ref(),
            WorkQueue::Recv => qp.recv_cq.as_ref(),
            WorkQueue::XrcSrq { srqn } => {
                let queue = qp.xrcd.as_ref().and_then(|xrcd| xrcd.queue(srqn));
                return match queue.as_ref().and_then(|queue| queue.cq.as_ref()) {
                    Some(cq) => cq.push(completion, qp.qpn),
                    // Destroyed meanwhile, with all its receives.
                    None => Ok(()),
                };
            }
        }
        .map_or(Ok(()), |cq| cq.push(completion, qp.qpn))
    }

    fn event(&mut self, event: QpEvent) {
        self.qp.raise(event);
    }
}
