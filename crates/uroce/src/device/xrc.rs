//! XRC domains: which shared receive queues an XRC queue pair may be told to take from.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::RwLock;

use super::shared_queue::SharedQueue;
use crate::memory::PdHandle;

#[derive(Default)]
struct State {
    queues: HashMap<u32, Arc<SharedQueue>>,
    /// The protection domains of the queues: whose memory peers may reach through the domain.
    domains: Vec<PdHandle>,
}

/// An XRC domain. It exists in this process only, even if a file names it.
#[derive(Default)]
pub struct XrcDomain {
    state: RwLock<State>,
    /// The file that names it, as device and inode.
    pub file: Option<(u64, u64)>,
}

impl XrcDomain {
    pub fn new(file: Option<(u64, u64)>) -> XrcDomain {
        XrcDomain {
            file,
            ..XrcDomain::default()
        }
    }

    pub fn add(&self, queue: &Arc<SharedQueue>) {
        let mut state = self.state.write();
        state.queues.insert(queue.number, queue.clone());
        state.domains.push(queue.domain);
    }

    pub fn remove(&self, queue: &SharedQueue) {
        let mut state = self.state.write();
        state.queues.remove(&queue.number);
        if let Some(at) = state.domains.iter().position(|d| *d == queue.domain) {
            state.domains.swap_remove(at);
        }
    }

    pub fn queue(&self, number: u32) -> Option<Arc<SharedQueue>> {
        self.state.read().queues.get(&number).cloned()
    }

    pub fn with_domains<T>(&self, use_them: impl FnOnce(&[PdHandle]) -> T) -> T {
        use_them(&self.state.read().domains)
    }
}

/// The domains of a device that files name, and that somebody has open.
#[derive(Default)]
pub struct NamedDomains(Vec<Weak<XrcDomain>>);

impl NamedDomains {
    pub fn find(&mut self, file: (u64, u64)) -> Option<Arc<XrcDomain>> {
        self.0.retain(|domain| domain.strong_count() > 0);
        self.0
            .iter()
            .filter_map(Weak::upgrade)
            .find(|domain| domain.file == Some(file))
    }

    pub fn add(&mut self, domain: &Arc<XrcDomain>) {
        self.0.push(Arc::downgrade(domain));
    }
}
