//! A region that queue pairs know is not used once its deregistration has returned.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use ibverbs_abi::*;

use super::super::*;
use super::preemption::queue_pair_with;
use super::{BACKGROUND_THREADS, loopback};
use crate::memory::{MemoryRegion, MrRange, PdHandle};
use roce::engine::{Hca, LocalError, Service, Sge};

/// Reads the first eight bytes of the region as a queue pair that is locked.
fn read(qp: &QueuePair, inner: &mut queue_pair::Inner, key: u32) -> Result<(), LocalError> {
    let sges = [Sge {
        addr: 0,
        len: 8,
        lkey: key,
    }];
    inner.split(qp).1.gather(&sges, 0, &mut [0; 8])
}

#[test]
fn deregistration_waits_for_queue_pairs_that_know_the_region() {
    let _background_threads = BACKGROUND_THREADS.lock();
    let device = Device::open(&loopback("regions")).unwrap();
    let mut bytes = Box::new([0_u64; 8]);
    let region = MemoryRegion {
        pd: PdHandle(1),
        range: MrRange {
            start: bytes.as_mut_ptr().expose_provenance(),
            len: 64,
            iova: 0,
        },
        access: IBV_ACCESS_LOCAL_WRITE,
    };
    for (users, is_ending) in [(1, false), (2, false), (1, true), (2, true)] {
        let qps = [(); 2].map(|()| queue_pair_with(&device, Service::Rc, None));
        let key = device.memory.register(region);
        for qp in &qps[..users] {
            assert_eq!(read(qp, &mut qp.inner.lock(), key), Ok(()));
        }
        let returned = AtomicBool::new(false);
        let mut inner = qps[0].inner.lock();
        std::thread::scope(|scope| {
            if is_ending {
                scope.spawn(|| device.remove_queue_pair(&qps[0]));
                while device.queue_pair(qps[0].qpn).is_some() {
                    std::thread::yield_now();
                }
            }
            scope.spawn(|| {
                assert!(device.deregister(key).is_ok());
                returned.store(true, Ordering::SeqCst);
            });
            while read(&qps[0], &mut inner, key).is_ok() {
                std::thread::yield_now();
            }
            std::thread::sleep(Duration::from_millis(20));
            let is_early = returned.load(Ordering::SeqCst);
            assert!(!is_early, "the access may be in progress");
            drop(inner);
        });
        assert!(returned.load(Ordering::SeqCst));
        if is_ending {
            device.remove_queue_pair(&qps[1]);
            continue;
        }
        // Destruction has waited for the access itself.
        let key = device.memory.register(region);
        assert_eq!(read(&qps[0], &mut qps[0].inner.lock(), key), Ok(()));
        device.remove_queue_pair(&qps[0]);
        let held = qps[0].inner.lock();
        assert!(device.deregister(key).is_ok(), "it does not wait for this");
        drop(held);
        device.remove_queue_pair(&qps[1]);
    }
    device.close();
}
