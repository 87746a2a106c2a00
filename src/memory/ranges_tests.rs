//! The ranges against a model that keeps a count per page, and a kernel that fails now and then.

use super::*;
use proptest::prelude::*;

const PAGES: usize = 48;

fn pages(first: usize, end: usize) -> Pages {
    Pages { first, end }
}

/// madvise(2) on pages of which some are not mapped: works on the others, and fails.
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

impl Kernel for Model<'_> {
    type Error = ();

    fn exclude(&mut self, run: Pages) -> Result<(), ()> {
        self.set(run, true)
    }

    fn give_back(&mut self, run: Pages, held: &dyn Fn(Pages) -> bool, _owed: &mut Owed) {
        assert!(!held(run));
        let _ = self.set(run, false);
    }

    fn put_off(&self) -> usize {
        0
    }

    fn out_of_memory(&mut self) {
        panic!("there is memory");
    }
}

fn has_counts(ranges: &Ranges, model: &[i32]) -> bool {
    let has = |(page, &n): (usize, &i32)| ranges.counts.find(page, page + 1, |c| c == n).is_some();
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
        let mut ranges = Ranges::new();
        for (first, len, hold, unmapped) in steps {
            let holes: Vec<_> = (0..PAGES).map(|page| unmapped.contains(&page)).collect();
            let range = pages(first, (first + len).min(PAGES));
            let inside = range.first..range.end;
            let fails = hold && inside.clone().any(|page| holes[page] && model[page] == 0);
            let mut expected = excluded;
            let mut kernel = Model { excluded: &mut excluded, holes: &holes, calls: Vec::new() };
            let result = match hold {
                true => ranges.hold(range, &mut kernel),
                false => ranges.release(range, &mut kernel),
            };
            let calls = kernel.calls;

            prop_assert_eq!(result.is_err(), fails);
            if fails {
                // What was done is undone: a page that could not be given back earlier is, now.
                let failed = calls.iter().position(|&(_, to)| !to).map(|i| calls[i - 1].0.end);
                for page in range.first..failed.unwrap() {
                    if model[page] == 0 && !holes[page] {
                        expected[page] = false;
                    }
                }
            } else {
                for page in inside {
                    let old = model[page];
                    model[page] += if hold { 1 } else { -1 };
                    if old == i32::from(!hold) && !holes[page] {
                        expected[page] = hold;
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

    /// Registered and deregistered in any order: nothing is left.
    #[test]
    fn all_that_was_held_is_given_back(
        regions in prop::collection::vec((0..PAGES, 1..PAGES), 1..60).prop_flat_map(|regions| {
            (Just(regions.clone()), Just(regions).prop_shuffle())
        }),
    ) {
        let mut ranges = Ranges::new();
        let mut excluded = [false; PAGES];
        let mut kernel = Model { excluded: &mut excluded, holes: &[false; PAGES], calls: Vec::new() };
        for (first, len) in regions.0 {
            ranges.hold(pages(first, (first + len).min(PAGES)), &mut kernel).unwrap();
        }
        for (first, len) in regions.1 {
            ranges.release(pages(first, (first + len).min(PAGES)), &mut kernel).unwrap();
        }
        prop_assert!(has_counts(&ranges, &[0; PAGES]));
        prop_assert_eq!(excluded, [false; PAGES]);
    }
}

/// Takes the calls down.
#[derive(Default)]
struct Calls(Vec<(Pages, bool)>);

impl Kernel for Calls {
    type Error = ();

    fn exclude(&mut self, run: Pages) -> Result<(), ()> {
        self.0.push((run, true));
        Ok(())
    }

    fn give_back(&mut self, run: Pages, _held: &dyn Fn(Pages) -> bool, _owed: &mut Owed) {
        self.0.push((run, false));
    }

    fn put_off(&self) -> usize {
        0
    }

    fn out_of_memory(&mut self) {}
}

#[test]
fn neighbours_in_the_same_state_are_one() {
    let mut ranges = Ranges::new();
    for first in 0..1000 {
        let run = pages(first, first + 1);
        ranges.hold(run, &mut Calls::default()).unwrap();
    }
    // Taken back at once, it is one call.
    let mut calls = Calls::default();
    ranges.release(pages(0, 1000), &mut calls).unwrap();
    assert_eq!(calls.0, [(pages(0, 1000), false)]);
}

/// A huge page is given back when the last one lets go who holds a part of it.
#[test]
fn who_gives_back_can_see_who_holds() {
    struct Neighbours(Vec<bool>);
    impl Kernel for Neighbours {
        type Error = ();
        fn exclude(&mut self, _run: Pages) -> Result<(), ()> {
            Ok(())
        }
        fn give_back(&mut self, _run: Pages, held: &dyn Fn(Pages) -> bool, _owed: &mut Owed) {
            self.0.push(held(pages(0, 8)));
        }
        fn put_off(&self) -> usize {
            0
        }
        fn out_of_memory(&mut self) {}
    }
    let (mut ranges, mut kernel) = (Ranges::new(), Neighbours(Vec::new()));
    for first in [1, 5, 7] {
        ranges.hold(pages(first, first + 1), &mut kernel).unwrap();
    }
    // Both pages that are left go in one call, in two runs.
    ranges.release(pages(5, 6), &mut kernel).unwrap();
    ranges.release(pages(1, 2), &mut kernel).unwrap();
    ranges.release(pages(7, 8), &mut kernel).unwrap();
    assert_eq!(kernel.0, [true, true, false]);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    /// What there was no room for, or was put off, is given back in the end, unless somebody holds it
    /// again.
    #[test]
    fn what_is_owed_is_given_back(
        steps in prop::collection::vec((0..PAGES, 1..PAGES, any::<prop::sample::Index>(), prop::bool::weighted(0.7)), 1..80),
        put_off in 0..6usize,
    ) {
        struct Full {
            excluded: [bool; PAGES],
            full: bool,
            put_off: usize,
        }
        impl Kernel for Full {
            type Error = ();
            fn exclude(&mut self, run: Pages) -> Result<(), ()> {
                self.excluded[run.first..run.end].fill(true);
                Ok(())
            }
            fn give_back(&mut self, run: Pages, held: &dyn Fn(Pages) -> bool, owed: &mut Owed) {
                assert!(!held(run));
                match self.full {
                    true => assert!(owed.add(run)),
                    false => self.excluded[run.first..run.end].fill(false),
                }
            }
            fn put_off(&self) -> usize {
                self.put_off
            }
            fn out_of_memory(&mut self) {}
        }
        let mut ranges = Ranges::new();
        let mut kernel = Full { excluded: [false; PAGES], full: false, put_off };
        let mut live = Vec::new();
        for (first, len, index, full) in steps {
            kernel.full = full;
            let range = pages(first, (first + len).min(PAGES));
            ranges.hold(range, &mut kernel).unwrap();
            live.push(range);
            if first % 3 > 0 {
                ranges.release(live.swap_remove(index.index(live.len())), &mut kernel).unwrap();
                prop_assert!(full || ranges.owed.0.len() <= put_off);
            }
            for page in live.iter().flat_map(|range| range.first..range.end) {
                prop_assert!(kernel.excluded[page]);
            }
        }
        kernel.full = false;
        ranges.settle(&mut kernel);
        for page in 0..PAGES {
            let held = live.iter().any(|range| (range.first..range.end).contains(&page));
            prop_assert_eq!(kernel.excluded[page], held);
        }
        prop_assert!(ranges.owed.0.is_empty());
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
    Ranges::new().hold(pages(top, top + 1), &mut calls).unwrap();
    assert_eq!(calls.0, [(pages(top, top + 1), true)]);
}

#[test]
fn what_was_never_held_can_be_released() {
    let (mut ranges, mut calls) = (Ranges::new(), Calls::default());
    ranges.release(pages(3, 5), &mut calls).unwrap();
    ranges.hold(pages(3, 5), &mut calls).unwrap();
    // No page changes sides.
    assert_eq!(calls.0, []);
    ranges.hold(pages(3, 5), &mut calls).unwrap();
    assert_eq!(calls.0, [(pages(3, 5), true)]);
}
