//! XRC domains (XRCDs): the shared receive queues that requests to an XRC target may name.
//!
//! An XRC domain exists in this process only, even if a file names it. (A kernel's is shared by the
//! processes that open the same file.)

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use super::shared_queue::SharedReceiveQueue;
use crate::memory::PdHandle;
use crate::sync::RwLock;

#[derive(Default)]
struct State {
    /// By SRQ number.
    srqs: HashMap<u32, Arc<SharedReceiveQueue>>,
    /// The protection domain of each SRQ: peers may access their memory through the XRC domain.
    pds: Vec<PdHandle>,
}

/// A file's identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileId {
    /// `st_dev`.
    pub device: u64,
    /// `st_ino`.
    pub inode: u64,
}

/// An XRC domain. Thread-safe.
#[derive(Default)]
pub struct XrcDomain {
    state: RwLock<State>,
    /// The file that names it.
    pub file: Option<FileId>,
}

impl XrcDomain {
    /// A domain without SRQs.
    pub fn new(file: Option<FileId>) -> XrcDomain {
        XrcDomain {
            file,
            ..XrcDomain::default()
        }
    }

    /// Adds an SRQ that was created in the domain.
    pub fn add(&self, srq: &Arc<SharedReceiveQueue>) {
        let mut state = self.state.write();
        state.srqs.insert(srq.number, srq.clone());
        state.pds.push(srq.pd);
    }

    /// Removes an SRQ that is being destroyed.
    pub fn remove(&self, srq: &SharedReceiveQueue) {
        let mut state = self.state.write();
        state.srqs.remove(&srq.number);
        if let Some(at) = state.pds.iter().position(|pd| *pd == srq.pd) {
            state.pds.swap_remove(at);
        }
    }

    /// The SRQ of this number.
    pub fn srq(&self, number: u32) -> Option<Arc<SharedReceiveQueue>> {
        self.state.read().srqs.get(&number).cloned()
    }

    /// Calls with the protection domains of the SRQs; one that has several SRQs is there several times.
    pub fn with_pds<T>(&self, call: impl FnOnce(&[PdHandle]) -> T) -> T {
        call(&self.state.read().pds)
    }
}

/// The XRC domains of a device that a file names. They exist as long as a context has them open.
#[derive(Default)]
pub struct NamedDomains(Vec<Weak<XrcDomain>>);

impl NamedDomains {
    /// The open domain that the file names.
    pub fn find(&mut self, file: FileId) -> Option<Arc<XrcDomain>> {
        self.0.retain(|domain| domain.strong_count() > 0);
        self.0
            .iter()
            .filter_map(Weak::upgrade)
            .find(|domain| domain.file == Some(file))
    }

    /// Adds a domain; [`XrcDomain::file`] is Some.
    pub fn add(&mut self, domain: &Arc<XrcDomain>) {
        self.0.push(Arc::downgrade(domain));
    }
}
