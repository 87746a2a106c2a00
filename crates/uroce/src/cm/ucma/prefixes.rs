//! [`Prefixes`]: the prefixes of communication IDs that a process has reserved. Other processes of the host
//! find it by them.

use ibverbs_abi::Result;
use rustc_hash::FxHashMap;

use super::os::CmOs;
use roce::cm::agent::Agent;

/// The reserved prefixes. `R` is what reserves one.
pub(super) struct Prefixes<R> {
    reserved: FxHashMap<u32, R>,
}

impl<R> Default for Prefixes<R> {
    fn default() -> Prefixes<R> {
        Prefixes {
            reserved: FxHashMap::default(),
        }
    }
}

impl<R> Prefixes<R> {
    /// Whether messages for communication IDs with this prefix are this process's.
    pub fn has(&self, prefix: u32) -> bool {
        self.reserved.contains_key(&prefix)
    }

    /// Prepares for a new connection: the agent gets a prefix of this process for its communication ID, if it
    /// needs one. Gives up the prefixes that no connection needs. Fails if there are no descriptors left.
    pub fn reserve(
        &mut self,
        os: &mut impl CmOs<Reservation = R>,
        agent: &mut Agent,
    ) -> Result<()> {
        if !agent.needs_prefix() {
            return Ok(());
        }
        let (prefix, reservation) = os.reserve_prefix()?;
        self.reserved.retain(|prefix, _| agent.uses_prefix(*prefix));
        agent.add_prefix(prefix);
        self.reserved.insert(prefix, reservation);
        Ok(())
    }
}
