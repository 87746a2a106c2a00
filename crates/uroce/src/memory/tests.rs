mod lost;

use ibverbs_abi::*;

use super::*;

const PD: PdHandle = PdHandle(1);
const OTHER: PdHandle = PdHandle(2);
const ME: AccessingQp = AccessingQp { qpn: 7, pds: &[PD] };
const PEER: AccessingQp = AccessingQp { qpn: 8, pds: &[PD] };
const STRANGER: AccessingQp = AccessingQp {
    qpn: 9,
    pds: &[OTHER],
};
const ALL: u32 = IBV_ACCESS_LOCAL_WRITE
    | IBV_ACCESS_REMOTE_WRITE
    | IBV_ACCESS_REMOTE_READ
    | IBV_ACCESS_REMOTE_ATOMIC
    | IBV_ACCESS_MW_BIND;

/// A program's memory: 64 bytes, and eight on each side that must stay zero.
struct Program(Box<[u64; 10]>);

impl Program {
    fn new() -> Program {
        Program(Box::new([0; 10]))
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: 80 plain bytes.
        unsafe { core::slice::from_raw_parts(self.0.as_ptr().cast(), 80) }
    }

    fn region(&mut self, access: u32) -> MemoryRegion {
        let start = self.0.as_mut_ptr().expose_provenance() + 8;
        MemoryRegion {
            pd: PD,
            range: MrRange {
                start,
                len: 64,
                iova: 0x1000,
            },
            access,
        }
    }
}

fn sge(addr: u64, len: u32, lkey: u32) -> Sge {
    Sge { addr, len, lkey }
}

#[test]
fn sg_lists_are_gathered_and_scattered() {
    let memory = Memory::default();
    let mut program = Program::new();
    let key = memory.register(program.region(ALL));
    let sges = [
        sge(0x1000, 3, key),
        sge(0, 0, 0),
        sge(0x1020, 5, key),
        sge(0x103f, 1, key),
    ];
    assert_eq!(memory.check_local(&sges, true, PD), Ok(9));
    assert_eq!(memory.scatter(&sges, 0, b"abcdefghi", PD), Ok(()));
    assert_eq!(&program.bytes()[8..11], b"abc");
    assert_eq!(&program.bytes()[40..45], b"defgh");
    assert_eq!(program.bytes()[71], b'i');
    assert_eq!(memory.scatter(&sges, 2, b"XYZ", PD), Ok(()));
    let mut got = [0; 9];
    assert_eq!(memory.gather(&sges, 0, &mut got, PD), Ok(()));
    assert_eq!(&got, b"abXYZfghi");
    assert_eq!(
        memory.gather(&sges, 1, &mut got, PD),
        Err(LocalError::Length)
    );
    assert_eq!(
        memory.scatter(&sges, 1, b"123456789", PD),
        Err(LocalError::Length)
    );
    assert!(
        program.bytes()[..8]
            .iter()
            .chain(&program.bytes()[72..])
            .all(|b| *b == 0)
    );
}

#[test]
fn bad_sges_are_refused() {
    let memory = Memory::default();
    let mut program = Program::new();
    let key = memory.register(program.region(0));
    let check = |addr, len, key, writable, domain| {
        memory.check_local(&[sge(addr, len, key)], writable, domain)
    };
    assert_eq!(check(0x1000, 64, key, false, PD), Ok(64));
    let bad = Err(LocalError::Protection);
    assert_eq!(check(0x1000, 64, key, true, PD), bad);
    assert_eq!(check(0x1000, 64, key, false, OTHER), bad);
    assert_eq!(check(0x1000, 65, key, false, PD), bad);
    assert_eq!(check(0xfff, 1, key, false, PD), bad);
    assert_eq!(check(0x1040, 1, key, false, PD), bad);
    assert_eq!(check(u64::MAX, 1, key, false, PD), bad);
    assert_eq!(check(u64::MAX, u32::MAX, key, false, PD), bad);
    assert_eq!(check(0x1000, 1, key ^ 1, false, PD), bad);
    assert_eq!(check(0x1000, 1, key ^ 0x100, false, PD), bad);
    // Length 0 needs neither key nor protection domain.
    assert_eq!(check(0, 0, 0, true, OTHER), Ok(0));
    assert_eq!(memory.deregister(key), Ok(CachedBy::None));
    assert_eq!(check(0x1000, 1, key, false, PD), bad);
}

#[test]
fn remote_access_needs_rkey_pd_range_and_flag() {
    let memory = Memory::default();
    let mut program = Program::new();
    for (flag, access) in [
        (IBV_ACCESS_REMOTE_READ, Access::Read),
        (IBV_ACCESS_REMOTE_WRITE, Access::Write),
        (IBV_ACCESS_REMOTE_ATOMIC, Access::Atomic),
        (IBV_ACCESS_FLUSH_GLOBAL, Access::FlushGlobal),
        (IBV_ACCESS_FLUSH_PERSISTENT, Access::FlushPersistent),
    ] {
        let key = memory.register(program.region(flag));
        let without = memory.register(program.region(!flag));
        let check = |key, va, len, qp| memory.check_remote(key, va, len, access, qp);
        assert_eq!(check(key, 0x1000, 64, &ME), Ok(()));
        assert_eq!(check(without, 0x1000, 64, &ME), Err(RemoteError));
        assert_eq!(check(key, 0x1000, 64, &STRANGER), Err(RemoteError));
        assert_eq!(check(key, 0x1000, 65, &ME), Err(RemoteError));
        assert_eq!(check(key, 0xfff, 2, &ME), Err(RemoteError));
        assert_eq!(check(key, u64::MAX, 2, &ME), Err(RemoteError));
        assert_eq!(check(key, 0x1000, u64::MAX, &ME), Err(RemoteError));
        assert_eq!(check(key, 0x1008, u64::MAX - 7, &ME), Err(RemoteError));
        assert_eq!(
            check(key, 0u64.wrapping_sub(8), 0x1010, &ME),
            Err(RemoteError)
        );
        assert_eq!(check(key ^ 0x80, 0x1000, 1, &ME), Err(RemoteError));
        assert_eq!(check(key ^ 0x8000, 0, 0, &STRANGER), Ok(()));
    }
}

#[test]
fn writes_reads_and_atomics_reach_the_program() {
    let memory = Memory::default();
    let mut program = Program::new();
    let key = memory.register(program.region(ALL));
    for len in 1..=64 {
        let data: Vec<u8> = (0..len).map(|i| (i * 7 + len) as u8).collect();
        assert_eq!(memory.write_remote(key, 0x1000, &data, &ME), Ok(()));
        assert_eq!(&program.bytes()[8..8 + len], &data[..]);
        let mut back = vec![0; len];
        assert_eq!(memory.read_remote(key, 0x1000, &mut back, &ME), Ok(()));
        assert_eq!(back, data);
    }
    assert_eq!(
        memory.write_remote(key, 0x1001, &[0; 64], &ME),
        Err(RemoteError)
    );
    assert_eq!(
        memory.atomic_write(key, 0x1008, 5u64.to_ne_bytes(), &ME),
        Ok(())
    );
    assert_eq!(memory.atomic(key, 0x1008, &mut |v| v + 3, &ME), Ok(5));
    assert_eq!(program.0[2], 8);
    // Not aligned in the program's memory, though its iova is.
    let mut odd = program.region(ALL);
    odd.range.start += 1;
    odd.range.len -= 1;
    let odd = memory.register(odd);
    assert_eq!(
        memory.atomic(odd, 0x1008, &mut |v| v, &ME),
        Err(RemoteError)
    );
    assert_eq!(
        memory.atomic_write(odd, 0x1008, [0; 8], &ME),
        Err(RemoteError)
    );
    assert_eq!((program.0[0], program.0[9]), (0, 0));
}

fn bind(rkey: u32, mr_lkey: u32, addr: u64, len: u64, access: u32) -> Bind {
    Bind {
        rkey,
        mr_lkey,
        addr,
        len,
        access,
    }
}

#[test]
fn windows_of_type_1_serve_their_pd() {
    let memory = Memory::default();
    let mut program = Program::new();
    let key = memory.register(program.region(ALL & !IBV_ACCESS_REMOTE_READ));
    let first = memory.alloc_mw(MwType::Type1, PD);
    let read = |rkey, va, qp| memory.check_remote(rkey, va, 4, Access::Read, qp);
    assert_eq!(read(first, 0x1010, &ME), Err(RemoteError));
    let second = first ^ 1;
    let good = bind(second, key, 0x1010, 8, IBV_ACCESS_REMOTE_READ);
    assert_eq!(memory.bind(&good, &STRANGER), Err(LocalError::Bind));
    assert_eq!(memory.bind(&good, &ME), Ok(()));
    assert_eq!(read(second, 0x1010, &PEER), Ok(()));
    assert_eq!(read(second, 0x1014, &ME), Ok(()));
    assert_eq!(read(second, 0x1015, &ME), Err(RemoteError));
    assert_eq!(read(second, 0x100f, &ME), Err(RemoteError));
    assert_eq!(read(first, 0x1010, &ME), Err(RemoteError));
    assert_eq!(read(key, 0x1010, &ME), Err(RemoteError));
    assert_eq!(read(second, 0x1010, &STRANGER), Err(RemoteError));
    assert_eq!(
        memory.check_remote(second, 0x1010, 1, Access::Write, &ME),
        Err(RemoteError)
    );
    assert_eq!(memory.deregister(key), Err(Busy));
    assert_eq!(memory.invalidate(second, &ME), Err(LocalError::Bind));
    // Rebound with length 0, which unbinds, then zero-based.
    assert_eq!(memory.bind(&bind(first, key, 0, 0, 0), &ME), Ok(()));
    assert_eq!(read(second, 0x1010, &ME), Err(RemoteError));
    let zero = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_ZERO_BASED;
    assert_eq!(
        memory.bind(&bind(second, key, 0x1010, 8, zero), &ME),
        Ok(())
    );
    assert_eq!(read(second, 4, &ME), Ok(()));
    assert_eq!(read(second, 5, &ME), Err(RemoteError));
    assert_eq!(read(second, u64::MAX - 3, &ME), Err(RemoteError));
    assert_eq!(read(second, u64::MAX, &ME), Err(RemoteError));
    // Ranges whose end, or whose offset in the region, overflows.
    for (addr, len) in [
        (0x1010, u64::MAX),
        (u64::MAX, 8),
        (0u64.wrapping_sub(8), 0x1018),
    ] {
        let overflowing = bind(second, key, addr, len, zero);
        assert_eq!(memory.bind(&overflowing, &ME), Err(LocalError::Bind));
    }
    memory.dealloc_mw(second);
    assert_eq!(memory.deregister(key), Ok(CachedBy::None));
}

#[test]
fn windows_of_type_2_belong_to_a_queue_pair() {
    let memory = Memory::default();
    let mut program = Program::new();
    let key = memory.register(program.region(ALL));
    let fresh = memory.alloc_mw(MwType::Type2, PD);
    let rkey = fresh ^ 0x55;
    let access = IBV_ACCESS_REMOTE_WRITE;
    for wrong in [
        bind(rkey, key, 0x1000, 0, access),
        bind(rkey, key ^ 1, 0x1000, 8, access),
        bind(rkey, key, 0x1000, 65, access),
        bind(rkey, fresh, 0x1000, 8, access),
        bind(rkey ^ 0x100, key, 0x1000, 8, access),
    ] {
        assert_eq!(memory.bind(&wrong, &ME), Err(LocalError::Bind));
    }
    assert_eq!(
        memory.bind(&bind(rkey, key, 0x1000, 8, access), &ME),
        Ok(())
    );
    let write = |qp| memory.check_remote(rkey, 0x1000, 8, Access::Write, qp);
    assert_eq!(write(&ME), Ok(()));
    assert_eq!(write(&PEER), Err(RemoteError));
    // Not bound twice; invalidated only by its own queue pair.
    let again = bind(rkey ^ 1, key, 0x1000, 8, access);
    assert_eq!(memory.bind(&again, &ME), Err(LocalError::Bind));
    assert_eq!(memory.invalidate(rkey, &PEER), Err(LocalError::Bind));
    assert_eq!(memory.invalidate(rkey, &ME), Ok(()));
    assert_eq!(write(&ME), Err(RemoteError));
    assert_eq!(memory.invalidate(rkey, &ME), Err(LocalError::Bind));
    assert_eq!(memory.bind(&again, &ME), Ok(()));
    // Bound again under the key that it has.
    assert_eq!(memory.invalidate(again.rkey, &ME), Ok(()));
    assert_eq!(memory.bind(&again, &ME), Ok(()));
    memory.unbind_all_of(ME.qpn);
    assert_eq!(memory.deregister(key), Ok(CachedBy::None));
}

#[test]
fn a_region_is_no_window() {
    let memory = Memory::default();
    let mut program = Program::new();
    let key = memory.register(program.region(ALL));
    memory.dealloc_mw(key);
    let read = memory.check_remote(key, 0x1000, 8, Access::Read, &ME);
    assert_eq!(read, Ok(()));
}

/// A region that goes with its context takes no window with it, whose memory may be given back.
#[test]
fn a_region_can_leave_its_windows() {
    let memory = Memory::default();
    let mut program = Program::new();
    let [key, other] = [0; 2].map(|_| memory.register(program.region(ALL)));
    let [first, second, elsewhere] =
        [MwType::Type1, MwType::Type2, MwType::Type2].map(|mw_type| memory.alloc_mw(mw_type, PD));
    let access = IBV_ACCESS_REMOTE_WRITE;
    for (window, region) in [(first, key), (second, key), (elsewhere, other)] {
        let bound = memory.bind(&bind(window, region, 0x1000, 8, access), &ME);
        assert_eq!(bound, Ok(()));
    }
    let write = |rkey| memory.check_remote(rkey, 0x1000, 8, Access::Write, &ME);
    assert_eq!(memory.deregister(key), Err(Busy));
    assert_eq!(memory.unbind_and_deregister(key), CachedBy::None);
    for gone in [key, first, second] {
        assert_eq!(write(gone), Err(RemoteError));
    }
    // The windows are as if they were never bound, and those of other regions stay so.
    assert_eq!(write(elsewhere), Ok(()));
    for window in [first, second] {
        let again = memory.bind(&bind(window, other, 0x1000, 8, access), &ME);
        assert_eq!(again, Ok(()));
        assert_eq!(write(window), Ok(()));
    }
    for window in [first, second, elsewhere] {
        assert_eq!(memory.deregister(other), Err(Busy));
        memory.dealloc_mw(window);
    }
    assert_eq!(memory.deregister(other), Ok(CachedBy::None));
}

#[test]
fn a_writable_window_needs_a_writable_region() {
    let memory = Memory::default();
    let mut program = Program::new();
    let key = memory.register(program.region(IBV_ACCESS_MW_BIND));
    let unbindable = memory.register(program.region(ALL & !IBV_ACCESS_MW_BIND));
    let window = memory.alloc_mw(MwType::Type1, PD) ^ 1;
    let try_bind = |key, access| memory.bind(&bind(window, key, 0x1000, 8, access), &ME);
    assert!(try_bind(key, IBV_ACCESS_REMOTE_WRITE).is_err());
    assert!(try_bind(key, IBV_ACCESS_REMOTE_ATOMIC).is_err());
    assert!(try_bind(unbindable, IBV_ACCESS_REMOTE_READ).is_err());
    assert!(try_bind(key, IBV_ACCESS_REMOTE_READ).is_ok());
}

#[test]
fn reregistration_changes_what_it_names() {
    let memory = Memory::default();
    let mut program = Program::new();
    let region = program.region(ALL);
    let key = memory.register(region);
    let change = Reregistration {
        pd: Some(OTHER),
        range: Some(MrRange {
            start: region.range.start + 8,
            len: 16,
            iova: 0x8,
        }),
        access: Some(IBV_ACCESS_REMOTE_READ),
    };
    assert_eq!(memory.reregister(key, &change), Ok(CachedBy::None));
    let check = |va, len, access, qp: &AccessingQp| memory.check_remote(key, va, len, access, qp);
    assert_eq!(check(8, 16, Access::Read, &STRANGER), Ok(()));
    assert_eq!(check(8, 16, Access::Read, &ME), Err(RemoteError));
    assert_eq!(check(8, 16, Access::Write, &STRANGER), Err(RemoteError));
    assert_eq!(check(0x1000, 16, Access::Read, &STRANGER), Err(RemoteError));
}

#[test]
fn keys_do_not_repeat() {
    let memory = Memory::default();
    let mut keys: Vec<u32> = (0..10_000)
        .map(|_| memory.alloc_mw(MwType::Type1, PD) >> 8)
        .collect();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), 10_000);
}

/// A flush that takes long stops nobody but those who take its region away.
#[test]
fn deregistration_waits_for_a_flush() {
    let memory = Memory::default();
    let mut program = Program::new();
    let key = memory.register(program.region(ALL));
    let other = memory.register(program.region(ALL));
    let usable = |key| {
        memory
            .check_local(&[sge(0x1000, 8, key)], false, PD)
            .is_ok()
    };
    let deregistered = std::sync::atomic::AtomicBool::new(false);
    let order = std::sync::atomic::Ordering::SeqCst;
    let pin = memory.pins.pin(key >> 8).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert_eq!(memory.deregister(key), Ok(CachedBy::None));
            deregistered.store(true, order);
        });
        while usable(key) {
            std::thread::yield_now();
        }
        // The key is gone, the region is not; and the table is not locked.
        assert!(!deregistered.load(order));
        assert_eq!(memory.deregister(other), Ok(CachedBy::None));
        drop(pin);
    });
    assert!(deregistered.load(order));
}

#[test]
fn a_flush_of_a_window_pins_the_region() {
    let memory = Memory::default();
    let mut program = Program::new();
    let flush = IBV_ACCESS_FLUSH_GLOBAL | IBV_ACCESS_FLUSH_PERSISTENT;
    let key = memory.register(program.region(ALL | flush));
    let window = memory.alloc_mw(MwType::Type1, PD);
    memory
        .bind(&bind(window, key, 0x1000, 64, flush), &ME)
        .unwrap();
    let table = memory.read_table();
    assert_eq!(table.mr_index(window), Some(key >> 8));
    assert_eq!(table.mr_index(key), Some(key >> 8));
    drop(table);
    for rkey in [key, window] {
        let result = memory.flush(rkey, 0x1000, 64, false, Access::FlushPersistent, &ME);
        assert_eq!(result, Ok(()));
        // Nothing stays pinned.
        memory.pins.wait_for(key >> 8);
    }
}

/// The cache of a queue pair never gives it more than the table does, and the table knows every
/// queue pair that has cached a region.
#[test]
fn a_cached_region_is_that_of_the_table() {
    let memory = Memory::default();
    let mut programs = [Program::new(), Program::new()];
    let [mut key, other] = programs.each_mut().map(|p| memory.register(p.region(ALL)));
    let mut caches = [MrCache::default(), MrCache::default()];
    let mut bytes = [0; 8];
    let mut by = |qp: usize, key, pd| {
        let sges = [sge(0x1000, 8, key)];
        let qpn = 7 + qp as u32;
        let read = memory.gather_for((&mut caches[qp], qpn), &sges, 0, &mut bytes, pd);
        assert_eq!(read, memory.gather(&sges, 0, &mut [0; 8], pd));
        let written = memory.scatter_for((&mut caches[qp], qpn), &sges, 0, &[qp as u8; 8], pd);
        assert_eq!(written, memory.scatter(&sges, 0, &[qp as u8; 8], pd));
        (read.is_ok(), written.is_ok())
    };
    let change = |pd, access| Reregistration {
        pd: Some(pd),
        range: None,
        access: Some(access),
    };
    for _ in 0..3 {
        for _ in 0..2 {
            assert_eq!(by(0, key, PD), (true, true));
            assert_eq!(by(0, key ^ 1, PD), (false, false), "another key byte");
            assert_eq!(by(0, key, OTHER), (false, false));
            assert_eq!(by(0, other, PD), (true, true));
        }
        // Only one has used it.
        assert_eq!(
            memory.reregister(key, &change(OTHER, 0)),
            Ok(CachedBy::One(7))
        );
        assert_eq!(
            memory.reregister(key, &change(OTHER, 0)),
            Ok(CachedBy::None)
        );
        assert_eq!(by(0, key, PD), (false, false));
        assert_eq!(by(1, key, OTHER), (true, false));
        assert_eq!(by(0, key, OTHER), (true, false));
        assert_eq!(memory.reregister(key, &change(PD, ALL)), Ok(CachedBy::Any));
        assert_eq!(
            (by(0, key, PD), by(1, key, PD)),
            ((true, true), (true, true))
        );
        assert_eq!(memory.deregister(key), Ok(CachedBy::Any));
        assert_eq!(
            (by(0, key, PD), by(1, key, PD)),
            ((false, false), (false, false))
        );
        key = memory.register(programs[0].region(ALL));
    }
    caches[0].close();
    let sges = [sge(0x1000, 8, key)];
    for _ in 0..2 {
        let gathered = memory.gather_for((&mut caches[0], 7), &sges, 0, &mut bytes, PD);
        assert_eq!(gathered, Ok(()));
    }
    assert_eq!(
        memory.deregister(key),
        Ok(CachedBy::None),
        "a closed cache learns nothing"
    );
}
