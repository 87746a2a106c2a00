//! The ranges against a model that keeps a count per page, and a kernel that fails now and then.

use super::*;
use proptest::prelude::*;

const PAGES: usize = 48;

fn pages(first: usize, end: usize) -> Pages {
    Pages { first, end }
}

/// What the process looks like, page by page.
struct Model {
    counts: [i32; PAGES],
    excluded: [bool; PAGES],
}

/// madvise(2) on pages of which some are not mapped: works on the others, and fails.
fn madvise(excluded: &mut [bool], holes: &[bool], run: Pages, change: Change) -> Result<(), ()> {
    let mut result = Ok(());
    for page in run.first..run.end {
        match holes[page] {
            true => result = Err(()),
            false => excluded[page] = change == Change::Hold,
        }
    }
    // Like the library's: giving back page by page never fails.
    if change == Change::Release {
        Ok(())
    } else {
        result
    }
}

/// The boundaries are as few as they can be, and the last one ends everything.
fn tidy(ranges: &Ranges) -> bool {
    let mut before = 0;
    for &count in ranges.bounds.values() {
        if count == before {
            return false;
        }
        before = count;
    }
    before == 0
}

fn counts(ranges: &Ranges) -> Vec<i32> {
    let at = |page| {
        ranges
            .bounds
            .range(..=page)
            .next_back()
            .map_or(0, |(_, &count)| count)
    };
    (0..PAGES).map(at).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn agrees_with_a_count_per_page(
        steps in prop::collection::vec(
            (0..PAGES, 1..PAGES, prop::bool::ANY, prop::collection::vec(prop::bool::weighted(0.02), PAGES)),
            1..120,
        ),
    ) {
        let mut model = Model { counts: [0; PAGES], excluded: [false; PAGES] };
        let mut ranges = Ranges::new();
        for (first, len, hold, holes) in steps {
            let range = pages(first, (first + len).min(PAGES));
            let change = if hold { Change::Hold } else { Change::Release };
            let mut before = model.excluded;

            let inside = range.first..range.end;
            let fails = hold && inside.clone().any(|page| holes[page] && model.counts[page] == 0);
            let mut calls = Vec::new();
            let result = ranges.apply(range, change, |run, change| {
                calls.push((run, change));
                madvise(&mut model.excluded, &holes, run, change)
            });

            prop_assert_eq!(result.is_err(), fails);
            if !fails {
                for page in inside {
                    let old = model.counts[page];
                    model.counts[page] += change.delta();
                    if old == change.flips_at() && !holes[page] {
                        before[page] = hold;
                    }
                }
                // No call where nothing changes, no two calls where one does.
                for pair in calls.windows(2) {
                    prop_assert!(pair[0].0.end < pair[1].0.first);
                }
            }
            prop_assert_eq!(counts(&ranges), model.counts.to_vec());
            prop_assert!(tidy(&ranges));
            for (page, &expected) in before.iter().enumerate() {
                // After a failure, a page that could not be given back earlier may have been now.
                let freed = fails && model.counts[page] == 0 && !model.excluded[page];
                prop_assert!(model.excluded[page] == expected || freed, "page {}", page);
            }
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
        let holes = [false; PAGES];
        for (list, change) in [(&regions.0, Change::Hold), (&regions.1, Change::Release)] {
            for &(first, len) in list {
                let range = pages(first, (first + len).min(PAGES));
                ranges.apply(range, change, |run, change| madvise(&mut excluded, &holes, run, change)).unwrap();
            }
        }
        prop_assert!(ranges.bounds.is_empty());
        prop_assert_eq!(excluded, [false; PAGES]);
    }
}

#[test]
fn neighbours_in_the_same_state_are_one() {
    let mut ranges = Ranges::new();
    for first in 0..1000 {
        ranges
            .apply(pages(first, first + 1), Change::Hold, |_, _| {
                Ok::<(), ()>(())
            })
            .unwrap();
    }
    assert_eq!(ranges.bounds.len(), 2);
    // Taken back at once, it is one call.
    let mut calls = Vec::new();
    let keep = |run, change| {
        calls.push((run, change));
        Ok::<(), ()>(())
    };
    ranges.apply(pages(0, 1000), Change::Release, keep).unwrap();
    assert_eq!(calls, [(pages(0, 1000), Change::Release)]);
    assert!(ranges.bounds.is_empty());
}

#[test]
fn a_range_covers_whole_pages() {
    let new = |base, size, granule| Pages::new(base, size, granule, 12);
    assert_eq!(new(0x1000, 1, 0x1000), Some(pages(1, 2)));
    assert_eq!(new(0x1fff, 1, 0x1000), Some(pages(1, 2)));
    assert_eq!(new(0x1fff, 2, 0x1000), Some(pages(1, 3)));
    assert_eq!(new(0x20_1000, 1, 0x20_0000), Some(pages(0x200, 0x400)));
    assert_eq!(new(0x1000, 0, 0x1000), None);
    // The last page of the address space, and beyond.
    let top = usize::MAX >> 12;
    assert_eq!(new(usize::MAX, 1, 0x1000), Some(pages(top, top + 1)));
    assert_eq!(new(usize::MAX, 2, 0x1000), None);
    assert_eq!(new(0x1000, usize::MAX, 0x1000), None);
    assert_eq!(pages(1, 3).bytes(12), (0x1000, 0x2000));
    let mut ranges = Ranges::new();
    let mut all = Vec::new();
    let keep = |run, _| {
        all.push(run);
        Ok::<(), ()>(())
    };
    ranges
        .apply(pages(top, top + 1), Change::Hold, keep)
        .unwrap();
    assert_eq!(all, [pages(top, top + 1)]);
}

#[test]
fn what_was_never_held_can_be_released() {
    let mut ranges = Ranges::new();
    let none = |_, _| -> Result<(), ()> { panic!("no page changes sides") };
    ranges.apply(pages(3, 5), Change::Release, none).unwrap();
    ranges.apply(pages(3, 5), Change::Hold, none).unwrap();
    assert!(ranges.bounds.is_empty());
}
