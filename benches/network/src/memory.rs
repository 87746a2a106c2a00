//! The device of a simulated queue pair: memory and a list of completions. Memory is only checked
//! for its length: nothing is copied, as no run depends on the bytes.

use roce::engine::*;

/// The device of one queue pair.
#[derive(Debug, Default)]
pub struct Memory {
    /// Completions that the program has not polled.
    pub completions: Vec<Completion>,
}

impl Hca for Memory {
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

    fn complete(&mut self, _: WorkQueue, completion: Completion) -> Result<(), Overrun> {
        self.completions.push(completion);
        Ok(())
    }

    fn event(&mut self, _: QpEvent) {}
}
