//! An HCA in plain memory. The engine's fuzz target includes this file too.

use std::cell::Cell;
use std::collections::VecDeque;

use ibverbs_abi::{IBV_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_WRITE};

use crate::engine::*;

/// The WRITEs and READs that the HCA executes.
#[derive(Default)]
pub enum Direct {
    /// None.
    #[default]
    Never,
    /// All that the peer grants.
    Granted,
    /// None, but it says that it would.
    Refused,
    /// The HCA picks one of these by chance, at each call. The state of a generator.
    Random(Cell<u64>),
}

impl Direct {
    /// Returns one of the first three.
    fn now(&self) -> &Direct {
        let Direct::Random(state) = self else {
            return self;
        };
        let next = state
            .get()
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(1);
        state.set(next);
        match next >> 61 {
            0 | 1 => &Direct::Never,
            2 => &Direct::Refused,
            _ => &Direct::Granted,
        }
    }
}

/// A memory region. Its key is both L_Key and R_Key.
pub struct Region {
    pub key: u32,
    pub base: u64,
    pub bytes: Vec<u8>,
    pub writable: bool,
    pub readable: bool,
    pub atomic: bool,
    pub valid: bool,
    /// The only XRC SRQ whose requests may access it remotely; None if any request may.
    pub xrc_srqn: Option<u32>,
}

#[derive(Default)]
pub struct TestHca {
    pub regions: Vec<Region>,
    pub shared: VecDeque<RecvWr>,
    pub xrc: Vec<(u32, VecDeque<RecvWr>)>,
    pub completions: Vec<(WorkQueue, Completion)>,
    pub events: Vec<QpEvent>,
    pub room: Option<usize>,
    /// Atomics that have been executed.
    pub atomics: u64,
    pub binds: Vec<Bind>,
    pub flushes: Vec<Access>,
    /// The value of [`Hca::may_reorder`].
    pub reorders: bool,
    /// [`Hca::begin_in_order`] has succeeded.
    pub in_order: bool,
    /// The opposite of [`Hca::sends_in_order`].
    pub overtakes: bool,
    pub direct: Direct,
    /// The access that the peer grants this side directly, and its regions, while this side runs.
    pub peer_access: Option<u32>,
    pub peer_regions: Vec<Region>,
}

impl TestHca {
    pub fn add(&mut self, key: u32, base: u64, len: usize) {
        self.regions.push(Region {
            key,
            base,
            bytes: vec![0; len],
            writable: true,
            readable: true,
            atomic: true,
            valid: true,
            xrc_srqn: None,
        });
    }

    pub fn region(&mut self, key: u32) -> &mut Region {
        self.regions
            .iter_mut()
            .find(|region| region.key == key)
            .unwrap()
    }

    fn find(&mut self, key: u32, va: u64, len: u64) -> Option<(&mut Region, usize)> {
        TestHca::find_in(&mut self.regions, key, va, len)
    }

    fn find_in(
        regions: &mut [Region],
        key: u32,
        va: u64,
        len: u64,
    ) -> Option<(&mut Region, usize)> {
        let region = regions
            .iter_mut()
            .find(|region| region.key == key && region.valid)?;
        let start = va.checked_sub(region.base)?;
        let end = start.checked_add(len)?;
        (end <= region.bytes.len() as u64).then_some((region, start as usize))
    }

    fn remote(
        &mut self,
        key: RemoteKey,
        va: u64,
        len: u64,
        access: Access,
    ) -> Result<(&mut Region, usize), RemoteError> {
        let (region, start) = self.find(key.rkey, va, len).ok_or(RemoteError)?;
        if region.xrc_srqn.is_some() && region.xrc_srqn != key.xrc_srqn {
            return Err(RemoteError);
        }
        let allowed = match access {
            Access::Read => region.readable,
            Access::Write => region.writable,
            Access::Atomic => region.atomic,
            Access::FlushGlobal | Access::FlushPersistent => true,
        };
        if allowed {
            Ok((region, start))
        } else {
            Err(RemoteError)
        }
    }

    fn local(&mut self, sge: &Sge) -> Result<(&mut Region, usize), LocalError> {
        self.find(sge.lkey, sge.addr, sge.len.into())
            .ok_or(LocalError::Protection)
    }

    /// The parts of the SGEs that hold `len` bytes from `offset` on.
    fn parts(sges: &[Sge], mut offset: u64, len: usize) -> Result<Vec<(Sge, usize)>, LocalError> {
        let mut left = len as u64;
        let mut parts = Vec::new();
        for sge in sges {
            let skip = offset.min(sge.len.into());
            offset -= skip;
            let take = (u64::from(sge.len) - skip).min(left);
            if take > 0 {
                parts.push((
                    Sge {
                        addr: sge.addr.wrapping_add(skip),
                        len: take as u32,
                        lkey: sge.lkey,
                    },
                    take as usize,
                ));
                left -= take;
            }
        }
        if left > 0 {
            return Err(LocalError::Length);
        }
        Ok(parts)
    }

    pub fn statuses(&self, queue: WorkQueue) -> Vec<(u64, u32)> {
        self.completions
            .iter()
            .filter(|(of, _)| *of == queue)
            .map(|(_, completion)| (completion.wr_id, completion.status))
            .collect()
    }
}

impl Hca for TestHca {
    fn check_local(&mut self, sges: &[Sge], _writable: bool) -> Result<u64, LocalError> {
        for sge in sges {
            self.local(sge)?;
        }
        Ok(sges.iter().map(|sge| u64::from(sge.len)).sum())
    }

    fn gather(&mut self, sges: &[Sge], offset: u64, into: &mut [u8]) -> Result<(), LocalError> {
        let mut at = 0;
        for (sge, len) in TestHca::parts(sges, offset, into.len())? {
            let (region, start) = self.local(&sge)?;
            into[at..at + len].copy_from_slice(&region.bytes[start..start + len]);
            at += len;
        }
        Ok(())
    }

    fn scatter(&mut self, sges: &[Sge], offset: u64, from: &[u8]) -> Result<(), LocalError> {
        let mut at = 0;
        for (sge, len) in TestHca::parts(sges, offset, from.len())? {
            let (region, start) = self.local(&sge)?;
            region.bytes[start..start + len].copy_from_slice(&from[at..at + len]);
            at += len;
        }
        Ok(())
    }

    fn scatter_recv(&mut self, sges: &[Sge], offset: u64, from: &[u8]) -> Result<(), LocalError> {
        self.scatter(sges, offset, from)
    }

    fn check_remote(
        &mut self,
        key: RemoteKey,
        va: u64,
        len: u64,
        access: Access,
    ) -> Result<(), RemoteError> {
        self.remote(key, va, len, access).map(|_| ())
    }

    fn write_remote(&mut self, key: RemoteKey, va: u64, from: &[u8]) -> Result<(), RemoteError> {
        let (region, start) = self.remote(key, va, from.len() as u64, Access::Write)?;
        region.bytes[start..start + from.len()].copy_from_slice(from);
        Ok(())
    }

    fn read_remote(&mut self, key: RemoteKey, va: u64, into: &mut [u8]) -> Result<(), RemoteError> {
        let (region, start) = self.remote(key, va, into.len() as u64, Access::Read)?;
        into.copy_from_slice(&region.bytes[start..start + into.len()]);
        Ok(())
    }

    fn atomic(
        &mut self,
        key: RemoteKey,
        va: u64,
        change: &mut dyn FnMut(u64) -> u64,
    ) -> Result<u64, RemoteError> {
        assert_eq!(va % 8, 0);
        let (region, start) = self.remote(key, va, 8, Access::Atomic)?;
        let bytes = &mut region.bytes[start..start + 8];
        let before = u64::from_ne_bytes((&*bytes).try_into().unwrap());
        bytes.copy_from_slice(&change(before).to_ne_bytes());
        self.atomics += 1;
        Ok(before)
    }

    fn atomic_write(&mut self, key: RemoteKey, va: u64, data: [u8; 8]) -> Result<(), RemoteError> {
        assert_eq!(va % 8, 0);
        self.atomics += 1;
        self.write_remote(key, va, &data)
    }

    fn flush(
        &mut self,
        key: RemoteKey,
        va: u64,
        len: u64,
        whole: bool,
        access: Access,
    ) -> Result<(), RemoteError> {
        self.flushes.push(access);
        let (va, len) = if whole { (va, 0) } else { (va, len) };
        self.remote(key, va, len, access).map(|_| ())
    }

    fn invalidate_remote(&mut self, key: RemoteKey) -> Result<(), RemoteError> {
        let (region, _) = self
            .regions
            .iter()
            .find(|region| region.key == key.rkey)
            .map(|region| region.base)
            .and_then(|base| self.find(key.rkey, base, 0))
            .ok_or(RemoteError)?;
        region.valid = false;
        Ok(())
    }

    fn invalidate_local(&mut self, rkey: u32) -> Result<(), LocalError> {
        let key = RemoteKey {
            rkey,
            xrc_srqn: None,
        };
        self.invalidate_remote(key).map_err(|_| LocalError::Bind)
    }

    fn bind_mw(&mut self, bind: &Bind) -> Result<(), LocalError> {
        if self.regions.iter().any(|region| region.key == bind.mr_lkey) {
            self.binds.push(*bind);
            Ok(())
        } else {
            Err(LocalError::Bind)
        }
    }

    fn can_execute_directly(&self, _: &SendWr, _: Target) -> bool {
        !matches!(self.direct.now(), Direct::Never)
    }

    fn execute_directly(&mut self, wr: &SendWr, _: Target) -> bool {
        let (va, rkey, right) = match wr.op {
            SendOp::Write { va, rkey } => (va, rkey, IBV_ACCESS_REMOTE_WRITE),
            SendOp::Read { va, rkey } => (va, rkey, IBV_ACCESS_REMOTE_READ),
            _ => unreachable!(),
        };
        let granted = self.peer_access.is_some_and(|access| access & right != 0);
        if !granted || !matches!(self.direct.now(), Direct::Granted) {
            return false;
        }
        let len = wr.message_len();
        let mut bytes = match wr.inline() {
            Some(inline) => inline.to_vec(),
            None => vec![0; len as usize],
        };
        let writes = right == IBV_ACCESS_REMOTE_WRITE;
        if writes && wr.inline().is_none() && self.gather(wr.sges(), 0, &mut bytes).is_err() {
            return false;
        }
        let Some((region, start)) = TestHca::find_in(&mut self.peer_regions, rkey, va, len) else {
            return false;
        };
        let remote = &mut region.bytes[start..][..len as usize];
        if writes && region.writable {
            remote.copy_from_slice(&bytes);
            true
        } else if !writes && region.readable {
            bytes.copy_from_slice(remote);
            self.scatter(wr.sges(), 0, &bytes).is_ok()
        } else {
            false
        }
    }

    fn take_srq_wr(&mut self) -> Option<RecvWr> {
        self.shared.pop_front()
    }

    fn take_xrc_srq_wr(&mut self, srqn: u32) -> Result<RecvWr, XrcError> {
        let queue = self.xrc.iter_mut().find(|(number, _)| *number == srqn);
        let (_, queue) = queue.ok_or(XrcError::NoSuchQueue)?;
        queue.pop_front().ok_or(XrcError::Empty)
    }

    fn complete(&mut self, queue: WorkQueue, completion: Completion) -> Result<(), Overrun> {
        if self.room.is_some_and(|room| self.completions.len() >= room) {
            return Err(Overrun);
        }
        self.completions.push((queue, completion));
        Ok(())
    }

    fn event(&mut self, event: QpEvent) {
        self.events.push(event);
    }

    fn may_reorder(&self) -> bool {
        self.reorders
    }

    fn begin_in_order(&mut self) -> bool {
        self.in_order |= !self.reorders;
        self.in_order
    }

    fn end_in_order(&mut self) {
        self.in_order = false;
    }

    fn sends_in_order(&self) -> bool {
        !self.overtakes
    }
}
