//! XRC domains (XRCDs): the shared receive queues that requests to an XRC target may name.
//!
//! An XRC domain exists in one process only, even if a file names it. A kernel's is shared by the processes
//! that open the same file; here the queues are memory of their process, and so is the thread that fills
//! them. A process that opens the domain of another one ([`Claim`]) is refused, as a peer's requests to the
//! other process's queues would fail. But one that would also create the domain gets one of its own: programs
//! whose two ends open the same file on one host share nothing in it (ibv_xsrq_pingpong).

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};

use ibverbs_os::unix;

use super::shared_queue::SharedReceiveQueue;
use crate::descriptors::{self, Owned};
use crate::sync::RwLock;

/// A file's identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inode {
    /// `st_dev`.
    pub device: u64,
    /// `st_ino`.
    pub inode: u64,
}

/// The sole right of a process to the domain that a file names: an abstract name, which no two sockets have.
pub struct Claim {
    _name: Owned<OwnedFd>,
}

impl Claim {
    /// The right to a file's domain of the device with that interface. EADDRINUSE if another process has it.
    pub fn take(file: Inode, ifindex: u32) -> io::Result<Claim> {
        let Inode { device, inode } = file;
        let name = format!("uroce-xrcd.{ifindex}.{device:x}.{inode:x}");
        let _name = descriptors::open(|| unix::bind(&name))?;
        Ok(Claim { _name })
    }
}

/// An XRC domain. Thread-safe.
#[derive(Default)]
pub struct XrcDomain {
    /// The shared receive queues by SRQ number.
    srqs: RwLock<HashMap<u32, Arc<SharedReceiveQueue>>>,
    /// The file that names it.
    file: Option<Inode>,
    /// This process was the first one that opened the file's.
    _claim: Option<Claim>,
}

impl XrcDomain {
    /// A domain without SRQs.
    pub fn new(file: Option<Inode>, claim: Option<Claim>) -> XrcDomain {
        XrcDomain {
            file,
            _claim: claim,
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

    /// Adds a domain that a file names.
    pub fn add(&mut self, domain: &Arc<XrcDomain>) {
        self.0.push(Arc::downgrade(domain));
    }
}
