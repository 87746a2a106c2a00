//! The device of a simulated queue pair: memory and a list of completions. Memory is only checked
//! for its length: nothing is copied, as no run depends on the bytes.

use uroce::engine::*;

/// The device of one queue pair.
#[derive(Debug, Default)]
pub struct Memory {
    /// Completions that the program has not polled.
    pub completions: Vec<Completion>,
}

impl Host for Memory {
    fn check_local(&mut self, sges: &[Sge], _writable: bool) -> Result<u64, LocalError> {
        Ok(sges.iter().map(|sge| u64::from(sge.len)).sum())
    }

    fn gather(&mut self, _: &[Sge], _: u64, _: &mut [u8]) -> Result<(), LocalError> {
        Ok(())
    }

    fn scatter(&mut self, _: &[Sge], _: u64, _: &[u8]) -> Result<(), LocalError> {
        Ok(())
    }

    fn scatter_recv(&mut self, _: &[Sge], _: u64, _: &[u8]) -> Result<(), LocalError> {
        Ok(())
    }

    fn check_remote(&mut self, _: RemoteKey, _: u64, _: u64, _: Access) -> Result<(), RemoteError> {
        Ok(())
    }

    fn write_remote(&mut self, _: RemoteKey, _: u64, _: &[u8]) -> Result<(), RemoteError> {
        Ok(())
    }

    fn read_remote(&mut self, _: RemoteKey, _: u64, _: &mut [u8]) -> Result<(), RemoteError> {
        Ok(())
    }

    fn atomic(
        &mut self,
        _: RemoteKey,
        _: u64,
        _: &mut dyn FnMut(u64) -> u64,
    ) -> Result<u64, RemoteError> {
        Err(RemoteError)
    }

    fn atomic_write(&mut self, _: RemoteKey, _: u64, _: [u8; 8]) -> Result<(), RemoteError> {
        Err(RemoteError)
    }

    fn flush(
        &mut self,
        _: RemoteKey,
        _: u64,
        _: u64,
        _: bool,
        _: Access,
    ) -> Result<(), RemoteError> {
        Err(RemoteError)
    }

    fn invalidate_remote(&mut self, _: RemoteKey) -> Result<(), RemoteError> {
        Err(RemoteError)
    }

    fn invalidate_local(&mut self, _: u32) -> Result<(), LocalError> {
        Err(LocalError::Bind)
    }

    fn bind_mw(&mut self, _: &Bind) -> Result<(), LocalError> {
        Err(LocalError::Bind)
    }

    fn take_srq_wr(&mut self) -> Option<RecvWr> {
        None
    }

    fn take_xrc_srq_wr(&mut self, _: u32) -> Result<RecvWr, XrcError> {
        Err(XrcError::NoSuchQueue)
    }

    fn complete(&mut self, _: WorkQueue, completion: Completion) -> Result<(), Overrun> {
        self.completions.push(completion);
        Ok(())
    }

    fn event(&mut self, _: QpEvent) {}

    fn may_reorder(&self) -> bool {
        false
    }
}
