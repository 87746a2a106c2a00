//! XRC domains (XRCDs): the shared receive queues that requests to an XRC target may name.
//!
//! An XRC domain exists in this process only, even if a file names it. (A kernel's is shared by the
//! processes that open the same file.)

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use super::shared_queue::SharedReceiveQueue;
use crate::sync::RwLock;

/// A file's identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inode {
    /// `st_dev`.
    pub device: u64,
    /// `st_ino`.
    pub inode: u64,
}

/// An XRC domain. Thread-safe.
#[derive(Default)]
pub struct XrcDomain {
    /// By SRQ number.
    srqs: RwLock<HashMap<u32, Arc<SharedReceiveQueue>>>,
    /// The file that names it.
    pub file: Option<Inode>,
}

impl XrcDomain {
    /// A domain without SRQs.
    pub fn new(file: Option<Inode>) -> XrcDomain {
        XrcDomain {
            file,
            ..XrcDomain::default()
        }
    }

    /// Adds an SRQ that was created in the domain.
    pub fn add(&self, srq: &Arc<SharedReceiveQueue>) {
        self.srqs.write().insert(srq.number, srq.clone());
    }

    /// Removes an SRQ that is being destroyed.
    pub fn remove(&self, srq: &SharedReceiveQueue) {
        self.srqs.write().remove(&srq.number);
    }

    /// The SRQ of this number.
    pub fn srq(&self, number: u32) -> Option<Arc<SharedReceiveQueue>> {
        self.srqs.read().get(&number).cloned()
    }
}

/// The XRC domains of a device that a file names. They exist as long as a context has them open.
#[derive(Default)]
pub struct NamedDomains(Vec<Weak<XrcDomain>>);

impl NamedDomains {
    /// The open domain that the file names.
    pub fn find(&mut self, file: Inode) -> Option<Arc<XrcDomain>> {
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
