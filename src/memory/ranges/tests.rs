//! The ranges against a model with a count per page, and a kernel that fails at times.

use super::*;
use proptest::prelude::*;

const PAGES: usize = 48;

fn pages(first: usize, end: usize) -> Pages {
    Pages { first, end }
}

/// madvise(2) with pages that are not mapped: it fails, but is applied to the others.
struct Model<'a> {
    excluded: &'a mut [bool],
    holes: &'a [bool],
    calls: Vec<(Pages, bool)>,
}

impl Model<'_> {
    fn set(&mut self, run: Pages, to: bool) -> Result<(), ()> {
        self.calls.push((run, to));
        let mut result = Ok(());
        for page in run.first..run.end {
            match self.holes[page] {
                true => result = Err(()),
                false => self.excluded[page] = to,
            }
        }
        result
    }
}

impl MadviseCalls for Model<'_> {
    type Error = ();

    fn dontfork(&mut self, run: Pages) -> Result<(), ()> {
        self.set(run, true)
    }

    fn dofork(&mut self, run: Pages, referenced: &dyn Fn(Pages) -> bool, _deferred: &mut Deferred) {
        assert!(!referenced(run));
        let _ = self.set(run, false);
    }

    fn max_deferred(&self) -> usize {
        0
    }

    fn out_of_memory(&mut self) {
        panic!("there is memory");
    }
}

fn has_counts(ranges: &ForkRanges, model: &[i32]) -> bool {
    let has =
        |(page, &n): (usize, &i32)| ranges.refcounts.find(page, page + 1, |c| c == n).is_some();
    model.iter().enumerate().all(has)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn agrees_with_a_count_per_page(
        steps in prop::collection::vec(
            (0..PAGES, 1..PAGES, prop::bool::ANY, prop::collection::vec(0..PAGES, 0..3)),
            1..120,
        ),
    ) {
        let (mut model, mut excluded) = ([0; PAGES], [false; PAGES]);
        let mut ranges = ForkRanges::new();
        for (first, len, register, unmapped) in steps {
            let holes: Vec<_> = (0..PAGES).map(|page| unmapped.contains(&page)).collect();
            let range = pages(first, (first + len).min(PAGES));
            let inside = range.first..range.end;
            let fails = register && inside.clone().any(|page| holes[page] && model[page] == 0);
            let mut expected = excluded;
            let mut kernel = Model { excluded: &mut excluded, holes: &holes, calls: Vec::new() };
            let result = match register {
                true => ranges.dontfork(range, &mut kernel),
                false => ranges.dofork(range, &mut kernel),
            };
            let calls = kernel.calls;

            prop_assert_eq!(result.is_err(), fails);
            if fails {
                // The changes are undone. A page whose MADV_DOFORK failed earlier gets it now.
                let failed = calls.iter().position(|&(_, to)| !to).map(|i| calls[i - 1].0.end);
                for page in range.first..failed.unwrap() {
                    if model[page] == 0 && !holes[page] {
                        expected[page] = false;
                    }
                }
            } else {
                for page in inside {
                    let old = model[page];
                    model[page] += if register { 1 } else { -1 };
                    if old == i32::from(!register) && !holes[page] {
                        expected[page] = register;
                    }
                }
                // No call where nothing changes, no two calls where one does.
                for pair in calls.windows(2) {
                    prop_assert!(pair[0].0.end < pair[1].0.first);
                }
            }
            prop_assert!(has_counts(&ranges, &model));
            prop_assert_eq!(excluded, expected);
        }
    }

    /// Regions are registered and deregistered in any order.
    #[test]
    fn all_registrations_undone_leave_nothing(
        regions in prop::collection::vec((0..PAGES, 1..PAGES), 1..60).prop_flat_map(|regions| {
            (Just(regions.clone()), Just(regions).prop_shuffle())
        }),
    ) {
        let mut ranges = ForkRanges::new();
        let mut excluded = [false; PAGES];
        let mut kernel = Model { excluded: &mut excluded, holes: &[false; PAGES], calls: Vec::new() };
        for (first, len) in regions.0 {
            ranges.dontfork(pages(first, (first + len).min(PAGES)), &mut kernel).unwrap();
        }
        for (first, len) in regions.1 {
            ranges.dofork(pages(first, (first + len).min(PAGES)), &mut kernel).unwrap();
        }
        prop_assert!(has_counts(&ranges, &[0; PAGES]));
        prop_assert_eq!(excluded, [false; PAGES]);
    }
}

/// Records the calls.
#[derive(Default)]
struct Calls(Vec<(Pages, bool)>);

impl MadviseCalls for Calls {
    type Error = ();

    fn dontfork(&mut self, run: Pages) -> Result<(), ()> {
        self.0.push((run, true));
        Ok(())
    }

    fn dofork(
        &mut self,
        run: Pages,
        _referenced: &dyn Fn(Pages) -> bool,
        _deferred: &mut Deferred,
    ) {
        self.0.push((run, false));
    }

    fn max_deferred(&self) -> usize {
        0
    }

    fn out_of_memory(&mut self) {}
}

#[test]
fn neighbours_in_the_same_state_are_one() {
    let mut ranges = ForkRanges::new();
    for first in 0..1000 {
        let run = pages(first, first + 1);
        ranges.dontfork(run, &mut Calls::default()).unwrap();
    }
    // Released in one call, they cost one madvise.
    let mut calls = Calls::default();
    ranges.dofork(pages(0, 1000), &mut calls).unwrap();
    assert_eq!(calls.0, [(pages(0, 1000), false)]);
}

/// A huge page gets MADV_DOFORK when no part of it is referenced any more.
#[test]
fn dofork_can_query_references() {
    struct Neighbours(Vec<bool>);
    impl MadviseCalls for Neighbours {
        type Error = ();
        fn dontfork(&mut self, _run: Pages) -> Result<(), ()> {
            Ok(())
        }
        fn dofork(
            &mut self,
            _run: Pages,
            referenced: &dyn Fn(Pages) -> bool,
            _deferred: &mut Deferred,
        ) {
            self.0.push(referenced(pages(0, 8)));
        }
        fn max_deferred(&self) -> usize {
            0
        }
        fn out_of_memory(&mut self) {}
    }
    let (mut ranges, mut kernel) = (ForkRanges::new(), Neighbours(Vec::new()));
    for first in [1, 5, 7] {
        ranges
            .dontfork(pages(first, first + 1), &mut kernel)
            .unwrap();
    }
    // The last release leaves no page of the huge page referenced.
    ranges.dofork(pages(5, 6), &mut kernel).unwrap();
    ranges.dofork(pages(1, 2), &mut kernel).unwrap();
    ranges.dofork(pages(7, 8), &mut kernel).unwrap();
    assert_eq!(kernel.0, [true, true, false]);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    /// A MADV_DOFORK that failed or was deferred is made in the end, unless the page is referenced again.
    #[test]
    fn deferred_runs_are_flushed(
        steps in prop::collection::vec(
            (0..PAGES, 1..PAGES, any::<prop::sample::Index>(), prop::bool::weighted(0.7)),
            1..80,
        ),
        max_deferred in 0..6usize,
    ) {
        struct Full {
            excluded: [bool; PAGES],
            full: bool,
            max_deferred: usize,
        }
        impl MadviseCalls for Full {
            type Error = ();
            fn dontfork(&mut self, run: Pages) -> Result<(), ()> {
                self.excluded[run.first..run.end].fill(true);
                Ok(())
            }
            fn dofork(&mut self, run: Pages, referenced: &dyn Fn(Pages) -> bool, deferred: &mut Deferred) {
                assert!(!referenced(run));
                match self.full {
                    true => assert!(deferred.add(run)),
                    false => self.excluded[run.first..run.end].fill(false),
                }
            }
            fn max_deferred(&self) -> usize {
                self.max_deferred
            }
            fn out_of_memory(&mut self) {}
        }
        let mut ranges = ForkRanges::new();
        let mut kernel = Full { excluded: [false; PAGES], full: false, max_deferred };
        let mut live = Vec::new();
        for (first, len, index, full) in steps {
            kernel.full = full;
            let range = pages(first, (first + len).min(PAGES));
            ranges.dontfork(range, &mut kernel).unwrap();
            live.push(range);
            if first % 3 > 0 {
                ranges.dofork(live.swap_remove(index.index(live.len())), &mut kernel).unwrap();
                prop_assert!(full || ranges.deferred.0.len() <= max_deferred);
            }
            for page in live.iter().flat_map(|range| range.first..range.end) {
                prop_assert!(kernel.excluded[page]);
            }
        }
        kernel.full = false;
        ranges.flush_deferred(&mut kernel);
        for page in 0..PAGES {
            let referenced = live.iter().any(|range| (range.first..range.end).contains(&page));
            prop_assert_eq!(kernel.excluded[page], referenced);
        }
        prop_assert!(ranges.deferred.0.is_empty());
    }
}

#[test]
fn a_range_covers_whole_pages() {
    let new = |base, size| Pages::new(base, size, 12);
    assert_eq!(new(0x1000, 1), Some(pages(1, 2)));
    assert_eq!(new(0x1fff, 1), Some(pages(1, 2)));
    assert_eq!(new(0x1fff, 2), Some(pages(1, 3)));
    assert_eq!(new(0x1000, 0), None);
    // The last page of the address space, and beyond.
    let top = usize::MAX >> 12;
    assert_eq!(new(usize::MAX, 1), Some(pages(top, top + 1)));
    assert_eq!(new(usize::MAX, 2), None);
    assert_eq!(new(0x1000, usize::MAX), None);
    assert_eq!(pages(1, 3).bytes(12), (0x1000, 0x2000));
    let mut calls = Calls::default();
    ForkRanges::new()
        .dontfork(pages(top, top + 1), &mut calls)
        .unwrap();
    assert_eq!(calls.0, [(pages(top, top + 1), true)]);
}

#[test]
fn what_was_never_registered_can_be_released() {
    let (mut ranges, mut calls) = (ForkRanges::new(), Calls::default());
    ranges.dofork(pages(3, 5), &mut calls).unwrap();
    ranges.dontfork(pages(3, 5), &mut calls).unwrap();
    // No refcount goes from 0 to 1.
    assert_eq!(calls.0, []);
    ranges.dontfork(pages(3, 5), &mut calls).unwrap();
    assert_eq!(calls.0, [(pages(3, 5), true)]);
}
