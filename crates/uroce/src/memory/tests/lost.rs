//! Accesses to regions whose memory the program has taken away.

use ibverbs_abi::*;

use super::super::*;
use crate::nofault::tests::{LOSSES, Loss, Pages};

const PD: PdHandle = PdHandle(1);
const PEER: AccessingQp = AccessingQp { qpn: 8, pds: &[PD] };
const ACCESS: u32 = IBV_ACCESS_LOCAL_WRITE
    | IBV_ACCESS_REMOTE_WRITE
    | IBV_ACCESS_REMOTE_READ
    | IBV_ACCESS_REMOTE_ATOMIC
    | IBV_ACCESS_FLUSH_GLOBAL
    | IBV_ACCESS_FLUSH_PERSISTENT;
/// The bytes of a region, half of which are lost.
const LEN: u64 = 512;
/// The first lost byte, as requests address it.
const LOST: u64 = LEN / 2;

/// A region that begins before the border of the pages.
fn register(memory: &Memory, pages: &Pages) -> u32 {
    let start = pages.border().expose_provenance() - LOST as usize;
    let range = MrRange {
        start,
        len: LEN,
        iova: 0,
    };
    memory.register(MemoryRegion {
        pd: PD,
        range,
        access: ACCESS,
    })
}

fn sge(addr: u64, len: u32, lkey: u32) -> Sge {
    Sge { addr, len, lkey }
}

/// The lists: one scatter/gather entry that reaches over the border, and one entry on each side of
/// it; by a queue pair that has the region in its cache, and by one that does not.
#[test]
fn lists_with_lost_memory_are_refused() {
    for loss in LOSSES {
        let (memory, pages) = (Memory::default(), Pages::new(loss));
        let key = register(&memory, &pages);
        let lists = [
            vec![sge(LOST - 3, 100, key)],
            vec![sge(0, 3, key), sge(LOST, 97, key)],
            vec![sge(LOST, 97, key), sge(0, 3, key)],
        ];
        let mut cache = MrCache::default();
        for is_lost in [false, true] {
            let written = if is_lost {
                Err(LocalError::Protection)
            } else {
                Ok(())
            };
            let read = if loss == Loss::ReadOnly {
                Ok(())
            } else {
                written
            };
            for sges in &lists {
                let mut bytes = [1; 100];
                assert_eq!(memory.scatter(sges, 0, &bytes, PD), written, "{loss:?}");
                assert_eq!(memory.gather(sges, 0, &mut bytes, PD), read);
                let by = (&mut cache, 7);
                assert_eq!(memory.scatter_for(by, sges, 0, &bytes, PD), written);
                let by = (&mut cache, 7);
                assert_eq!(memory.gather_for(by, sges, 0, &mut bytes, PD), read);
            }
            // The rest of the region is accessible.
            let rest = [sge(LOST - 8, 8, key)];
            assert_eq!(memory.scatter(&rest, 0, b"12345678", PD), Ok(()));
            pages.lose(loss);
        }
        assert!(memory.deregister(key).is_ok());
    }
}

#[test]
fn peers_get_errors_for_lost_memory() {
    for loss in LOSSES {
        let (memory, pages) = (Memory::default(), Pages::new(loss));
        let key = register(&memory, &pages);
        for is_lost in [false, true] {
            let written = if is_lost { Err(RemoteError) } else { Ok(()) };
            let read = if loss == Loss::ReadOnly {
                Ok(())
            } else {
                written
            };
            for (va, len) in [(LOST - 1, 2), (LOST - 8, 16), (LOST, 8), (LOST - 200, 300)] {
                let mut bytes = vec![7; len];
                assert_eq!(
                    memory.write_remote(key, va, &bytes, &PEER),
                    written,
                    "{loss:?}"
                );
                assert_eq!(memory.read_remote(key, va, &mut bytes, &PEER), read);
            }
            assert_eq!(memory.atomic_write(key, LOST, [0; 8], &PEER), written);
            let added = memory.atomic(key, LOST, &mut |value| value + 1, &PEER);
            assert_eq!(added, written.map(|()| 0));
            // A comparison that fails stores nothing, but needs the right to.
            let compared = memory.atomic(key, LOST, &mut |value| value, &PEER);
            assert_eq!(compared, written.map(|()| 1));
            assert_eq!(
                memory.write_remote(key, LOST - 8, b"12345678", &PEER),
                Ok(())
            );
            pages.lose(loss);
        }
    }
}

/// Visible is what was written; the kernel cannot write to a file what is not mapped.
#[test]
fn flushes_of_lost_memory() {
    for loss in LOSSES {
        let (memory, pages) = (Memory::default(), Pages::new(loss));
        let key = register(&memory, &pages);
        let flush = |access| memory.flush(key, LOST, 8, false, access, &PEER);
        assert_eq!(flush(Access::FlushPersistent), Ok(()));
        pages.lose(loss);
        assert_eq!(flush(Access::FlushGlobal), Ok(()));
        let expected = match loss {
            Loss::Unmapped => Err(RemoteError),
            _ => Ok(()),
        };
        assert_eq!(flush(Access::FlushPersistent), expected, "{loss:?}");
    }
}
