//! The engine's [`Hca`] for a queue pair of the device: memory, receive queues, completion queues and
//! events. It holds no state of its own; keys are checked against the memory table at each call.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::polled::PolledCompletions;
use super::queue_pair::{Export, HcaState, Inner, QueuePair};
use super::shared_queue::SharedReceiveQueue;
use crate::memory::{AccessingQp, PdHandle};
use crate::shm::Channel;
use roce::engine::{
    Access, Bind, Completion, Hca, LocalError, Overrun, PolledSends, Qp, QpEvent, RecvWr,
    RemoteError, RemoteKey, SendWr, Service, Sge, Target, WorkQueue, XrcError,
};

/// The device as one queue pair's engine sees it, while a thread runs the queue pair.
pub struct QpHca<'a> {
    /// The queue pair.
    pub qp: &'a QueuePair,
    /// The queue pair's state that these calls change.
    pub state: &'a mut HcaState,
    /// The channel of its last lookup.
    pub channel: Option<&'a Arc<Channel>>,
    /// The unreported completions of a program that is polling.
    pub polled: Option<&'a mut PolledCompletions>,
    /// Packets that are written now may leave before earlier ones.
    pub overtakes: bool,
}

impl Inner {
    /// The engine, and the HCA that its calls take.
    #[inline]
    pub fn split<'a>(&'a mut self, qp: &'a QueuePair) -> (&'a mut Qp, QpHca<'a>) {
        let (engine, hca, _) = self.split_with_channel(qp);
        (engine, hca)
    }

    /// [`Inner::split`], and the channel of the last lookup.
    #[inline]
    pub fn split_with_channel<'a>(
        &'a mut self,
        qp: &'a QueuePair,
    ) -> (&'a mut Qp, QpHca<'a>, Option<&'a Arc<Channel>>) {
        let (engine, state, channel) = self.parts();
        let hca = QpHca {
            qp,
            state,
            channel,
            polled: None,
            overtakes: false,
        };
        (engine, hca, channel)
    }
}

impl QpHca<'_> {
    /// The protection domain that the L_Keys of send requests belong to.
    fn pd(&self) -> Result<PdHandle, LocalError> {
        self.qp.pd.ok_or(LocalError::Protection)
    }

    /// The protection domain that the L_Keys of receives belong to: of a shared receive queue its own.
    fn recv_pd(&self) -> Result<PdHandle, LocalError> {
        let pd = match &self.qp.srq {
            Some(srq) => Some(srq.pd),
            None => self.qp.pd,
        };
        pd.ok_or(LocalError::Protection)
    }

    /// Calls `call` with what R_Keys are checked against: the queue pair's protection domain, or, for an XRC
    /// target, that of the SRQ that the request names. Without such an SRQ every key is wrong.
    pub(super) fn as_accessing_qp<T>(
        &self,
        xrc_srqn: Option<u32>,
        call: impl FnOnce(&AccessingQp) -> T,
    ) -> T {
        let pd = self.qp.pd.or_else(|| {
            let srq = self.qp.xrcd.as_ref()?.srq(xrc_srqn?)?;
            Some(srq.pd)
        });
        call(&AccessingQp {
            qpn: self.qp.qpn,
            pds: pd.as_slice(),
        })
    }
}

impl Hca for QpHca<'_> {
    fn check_local(&mut self, sges: &[Sge], writable: bool) -> Result<u64, LocalError> {
        self.qp.memory.check_local(sges, writable, self.pd()?)
    }

    fn gather(&mut self, sges: &[Sge], offset: u64, into: &mut [u8]) -> Result<(), LocalError> {
        let (pd, by) = (self.pd()?, (&mut self.state.regions, self.qp.qpn));
        self.qp.memory.gather_for(by, sges, offset, into, pd)
    }

    fn scatter(&mut self, sges: &[Sge], offset: u64, from: &[u8]) -> Result<(), LocalError> {
        self.qp.memory.scatter(sges, offset, from, self.pd()?)
    }

    fn scatter_recv(&mut self, sges: &[Sge], offset: u64, from: &[u8]) -> Result<(), LocalError> {
        let memory = &self.qp.memory;
        if self.qp.service != Service::XrcRecv {
            let (pd, by) = (self.recv_pd()?, (&mut self.state.regions, self.qp.qpn));
            return memory.scatter_for(by, sges, offset, from, pd);
        }
        // The receive's SRQ may have been destroyed since the receive was taken.
        let srq = self.state.xrc_srq.as_ref().ok_or(LocalError::Protection)?;
        srq.while_open(|srq| memory.scatter(sges, offset, from, srq.pd))
            .unwrap_or(Err(LocalError::Protection))
    }

    fn check_remote(
        &mut self,
        key: RemoteKey,
        va: u64,
        len: u64,
        access: Access,
    ) -> Result<(), RemoteError> {
        self.as_accessing_qp(key.xrc_srqn, |qp| {
            self.qp.memory.check_remote(key.rkey, va, len, access, qp)
        })
    }

    fn write_remote(&mut self, key: RemoteKey, va: u64, from: &[u8]) -> Result<(), RemoteError> {
        self.as_accessing_qp(key.xrc_srqn, |qp| {
            self.qp.memory.write_remote(key.rkey, va, from, qp)
        })
    }

    fn read_remote(&mut self, key: RemoteKey, va: u64, into: &mut [u8]) -> Result<(), RemoteError> {
        self.as_accessing_qp(key.xrc_srqn, |qp| {
            self.qp.memory.read_remote(key.rkey, va, into, qp)
        })
    }

    fn atomic(
        &mut self,
        key: RemoteKey,
        va: u64,
        change: &mut dyn FnMut(u64) -> u64,
    ) -> Result<u64, RemoteError> {
        self.as_accessing_qp(key.xrc_srqn, |qp| {
            self.qp.memory.atomic(key.rkey, va, change, qp)
        })
    }

    fn atomic_write(&mut self, key: RemoteKey, va: u64, data: [u8; 8]) -> Result<(), RemoteError> {
        self.as_accessing_qp(key.xrc_srqn, |qp| {
            self.qp.memory.atomic_write(key.rkey, va, data, qp)
        })
    }

    fn flush(
        &mut self,
        key: RemoteKey,
        va: u64,
        len: u64,
        whole: bool,
        access: Access,
    ) -> Result<(), RemoteError> {
        self.as_accessing_qp(key.xrc_srqn, |qp| {
            self.qp.memory.flush(key.rkey, va, len, whole, access, qp)
        })
    }

    fn invalidate_remote(&mut self, key: RemoteKey) -> Result<(), RemoteError> {
        self.as_accessing_qp(key.xrc_srqn, |qp| self.qp.memory.invalidate(key.rkey, qp))
            .map_err(|_| RemoteError)
    }

    fn invalidate_local(&mut self, rkey: u32) -> Result<(), LocalError> {
        self.as_accessing_qp(None, |qp| self.qp.memory.invalidate(rkey, qp))
    }

    fn bind_mw(&mut self, bind: &Bind) -> Result<(), LocalError> {
        self.qp.has_bound_mws.store(true, Ordering::Relaxed);
        self.as_accessing_qp(None, |qp| self.qp.memory.bind(bind, qp))
    }

    fn can_execute_directly(&self, wr: &SendWr, target: Target) -> bool {
        self.may_access_directly(wr, target)
    }

    #[inline]
    fn execute_directly(&mut self, wr: &SendWr, target: Target) -> bool {
        self.access_directly(wr, target)
    }

    fn take_srq_wr(&mut self) -> Option<RecvWr> {
        self.qp.srq.as_ref()?.take()
    }

    fn take_xrc_srq_wr(&mut self, srqn: u32) -> Result<RecvWr, XrcError> {
        let xrcd = self.qp.xrcd.as_ref().ok_or(XrcError::NoSuchQueue)?;
        let srq = xrcd.srq(srqn).ok_or(XrcError::NoSuchQueue)?;
        let receive = srq.while_open(SharedReceiveQueue::take);
        self.state.xrc_srq = Some(srq);
        receive.ok_or(XrcError::NoSuchQueue)?.ok_or(XrcError::Empty)
    }

    fn complete(&mut self, queue: WorkQueue, mut completion: Completion) -> Result<(), Overrun> {
        let qp = self.qp;
        self.state.recv_completed |= queue != WorkQueue::Send;
        qp.counters.on_completion(queue, &completion);
        let cq = match queue {
            WorkQueue::Send => qp.send_cq.as_ref(),
            WorkQueue::Recv => {
                completion.covered_before = self.state.receives;
                self.state.receives = self.state.receives.wrapping_add(1);
                qp.recv_cq.as_ref()
            }
            WorkQueue::XrcSrq { .. } => {
                let push = |srq: &SharedReceiveQueue| match &srq.cq {
                    Some(cq) => cq.push(completion, qp.qpn, srq.number),
                    None => Ok(()),
                };
                // If the SRQ was destroyed meanwhile, its receives went with it.
                let pushed = self
                    .state
                    .xrc_srq
                    .as_ref()
                    .and_then(|srq| srq.while_open(push));
                return pushed.unwrap_or(Ok(()));
            }
        };
        let Some(cq) = cq else { return Ok(()) };
        if let Some(polled) = &mut self.polled {
            if polled.put(cq, completion, qp.qpn) {
                return Ok(());
            }
        }
        let srq = qp.srq.as_ref().filter(|_| queue == WorkQueue::Recv);
        cq.push(completion, qp.qpn, srq.map_or(0, |srq| srq.number))
    }

    fn on_unsignaled(&mut self, completion: &Completion) {
        self.qp.counters.on_completion(WorkQueue::Send, completion);
    }

    fn on_peer_request(&mut self, access: Access, len: Option<u32>) {
        self.qp.counters.on_peer_request(access, len);
    }

    #[cold]
    fn polled_sends(&self) -> PolledSends {
        let Some(cq) = self
            .qp
            .send_cq
            .as_ref()
            .filter(|_| !self.qp.slots_by_completion)
        else {
            return PolledSends::Ignored;
        };
        let oldest = cq.oldest_unpolled(self.qp.qpn, false);
        oldest.map_or(PolledSends::All, PolledSends::Before)
    }

    #[cold]
    fn unpolled_receives(&self) -> u32 {
        let cq = self.qp.recv_cq.as_ref();
        let oldest = cq
            .filter(|_| !self.qp.slots_by_completion)
            .and_then(|cq| cq.oldest_unpolled(self.qp.qpn, true));
        oldest.map_or(0, |oldest| self.state.receives.wrapping_sub(oldest))
    }

    fn event(&mut self, event: QpEvent) {
        if event == QpEvent::CommunicationEstablished && self.state.export == Export::None {
            self.state.export = Export::Due;
        }
        self.qp.raise(event);
    }

    fn may_reorder(&self) -> bool {
        self.qp.receive_order.may_reorder()
    }

    fn begin_in_order(&mut self) -> bool {
        if self.state.in_order.is_none() {
            self.state.in_order = self.qp.receive_order.require();
        }
        self.state.in_order.is_some()
    }

    fn end_in_order(&mut self) {
        self.state.in_order = None;
    }

    fn sends_in_order(&self) -> bool {
        !self.overtakes
    }
}

#[cfg(test)]
mod tests {
    use ibverbs_abi::*;

    use super::*;
    use crate::device::events::AsyncEvents;
    use crate::device::queue_pair::QueuePairConfig;
    use crate::device::shared_queue::{SrqConfig, SrqSizes};
    use crate::device::tests::bare_config;
    use crate::device::wait::Waker;
    use crate::device::xrc::XrcDomain;
    use crate::memory::{Memory, MemoryRegion, MrRange};

    fn srq(number: u32, pd: PdHandle) -> Arc<SharedReceiveQueue> {
        let (events, _file) = AsyncEvents::new(Arc::new(Waker::new().unwrap())).unwrap();
        let sizes = SrqSizes {
            max_wr: 1,
            limit: 0,
        };
        Arc::new(SharedReceiveQueue::new(SrqConfig {
            handle: number.into(),
            sizes,
            max_sge: 1,
            pd,
            number,
            cq: None,
            slots_by_completion: false,
            events: Arc::new(events),
        }))
    }

    /// The R_Key of a request to an XRC target belongs to the domain of the SRQ that the request names, not
    /// to that of any SRQ of the XRC domain.
    #[test]
    fn xrc_keys_are_of_the_named_srqs_domain() {
        let memory = Arc::new(Memory::default());
        let mut bytes = Box::new([0_u64; 8]);
        let [pds, srqns] = [[1, 2], [8, 9]];
        let keys = pds.map(|pd| {
            memory.register(MemoryRegion {
                pd: PdHandle(pd),
                range: MrRange {
                    start: bytes.as_mut_ptr().expose_provenance(),
                    len: 64,
                    iova: 0,
                },
                access: IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
            })
        });
        let xrcd = Arc::new(XrcDomain::new(None, None));
        let srqs = [0, 1].map(|i| srq(srqns[i], PdHandle(pds[i])));
        srqs.iter().for_each(|srq| xrcd.add(srq));
        let qp = QueuePair::new(QueuePairConfig {
            xrcd: Some(xrcd.clone()),
            memory,
            ..bare_config(Service::XrcRecv, 5, 0, false)
        });
        let mut inner = qp.inner.lock();
        let (_, mut hca) = inner.split(&qp);
        let mut write = |rkey, xrc_srqn| {
            let key = RemoteKey { rkey, xrc_srqn };
            hca.write_remote(key, 0, b"12345678")
        };
        for (rkey, own, other) in [(keys[0], 8, 9), (keys[1], 9, 8)] {
            assert_eq!(write(rkey, Some(own)), Ok(()));
            assert_eq!(write(rkey, Some(other)), Err(RemoteError));
            assert_eq!(write(rkey, Some(7)), Err(RemoteError));
            assert_eq!(write(rkey, None), Err(RemoteError));
        }
        xrcd.remove(&srqs[0]);
        assert_eq!(write(keys[0], Some(8)), Err(RemoteError));
    }
}
