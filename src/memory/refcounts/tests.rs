//! The tree against an array with a count per page.

use super::*;
use proptest::prelude::*;

const PAGES: usize = 600;

/// Checks the invariants of the tree. Each node is in the tree or free, once.
fn check(counts: &Refcounts) {
    if counts.nodes.is_empty() {
        return;
    }
    let mut seen = counts.free.clone();
    check_node(counts, counts.root, counts.height, 0, usize::MAX, &mut seen);
    seen.sort_unstable();
    assert_eq!(seen, (0..counts.nodes.len()).collect::<Vec<_>>());
}

fn check_node(
    counts: &Refcounts,
    index: usize,
    height: usize,
    first: usize,
    upper: usize,
    seen: &mut Vec<usize>,
) {
    seen.push(index);
    let node = &counts.nodes[index];
    assert!((1..=CAPACITY).contains(&node.len));
    let pages = &node.pages[..node.len];
    assert_eq!(pages[0], first);
    assert!(pages.is_sorted_by(|a, b| a < b) && pages[node.len - 1] < upper);
    for i in 0..node.len {
        let end = pages.get(i + 1).copied().unwrap_or(upper);
        if height > 0 {
            let child = node.values[i] as usize;
            check_node(counts, child, height - 1, pages[i], end, seen);
        } else if i > 0 {
            assert_ne!(node.values[i], node.values[i - 1]);
        }
    }
}

fn find(
    model: &[i32],
    first: usize,
    end: usize,
    wanted: impl Fn(i32) -> bool,
) -> Option<Range<usize>> {
    let start = (first..end).find(|&page| wanted(model[page]))?;
    let stop = (start..end).find(|&page| !wanted(model[page]));
    Some(start..stop.unwrap_or(end))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..Default::default() })]

    #[test]
    fn agrees_with_a_count_per_page(
        steps in prop::collection::vec((0..PAGES, 1..40usize, -1..=1i32), 1..400),
        wide in prop::collection::vec((0..PAGES, 1..PAGES, -2..=2i32), 0..8),
        searches in prop::collection::vec((0..PAGES, 0..PAGES, -1..3i32), 1..40),
    ) {
        let mut counts = Refcounts::new();
        let mut model = vec![0; PAGES];
        for (i, &(first, len, delta)) in steps.iter().chain(&wide).chain(&steps).enumerate() {
            let end = (first + len).min(PAGES);
            match counts.locate(first, end) {
                Some(place) if delta != 0 && i % 3 > 0 => {
                    prop_assert!(model[first..end].iter().all(|&count| count == place.count));
                    counts.add_at(place, first, end, delta);
                }
                _ => {
                    prop_assert!(counts.reserve());
                    counts.add(first, end, delta);
                }
            }
            model[first..end].iter_mut().for_each(|count| *count += delta);
            if i % 16 == 0 {
                check(&counts);
            }
        }
        check(&counts);
        for (page, &count) in model.iter().enumerate() {
            prop_assert!(counts.find(page, page + 1, |other| other == count).is_some());
        }
        for (first, end, count) in searches {
            let expected = find(&model, first, end, |c| c == count);
            prop_assert_eq!(counts.find(first, end, |c| c == count), expected);
            prop_assert_eq!(counts.find(first, end, |c| c > count), find(&model, first, end, |c| c > count));
        }
    }

    /// Additions that are undone in any order leave nothing.
    #[test]
    fn nothing_is_left(
        regions in prop::collection::vec((0..PAGES, 1..9usize), 1..500).prop_flat_map(|regions| {
            (Just(regions.clone()), Just(regions).prop_shuffle())
        }),
    ) {
        let mut counts = Refcounts::new();
        for (list, delta) in [(&regions.0, 1), (&regions.1, -1)] {
            for &(first, len) in list {
                prop_assert!(counts.reserve());
                counts.add(first, first + len, delta);
            }
            check(&counts);
        }
        prop_assert_eq!(counts.find(0, usize::MAX, |count| count == 0), Some(0..usize::MAX));
    }
}

#[test]
fn a_tall_tree_comes_and_goes() {
    let mut counts = Refcounts::new();
    let many = 20_000;
    // Ascending, descending, and from both ends to the middle.
    let orders: [fn(usize, usize) -> usize; 3] = [
        |i, _| i,
        |i, n| n - 1 - i,
        |i, n| if i % 2 == 0 { i / 2 } else { n - 1 - i / 2 },
    ];
    for order in orders {
        for i in (0..many).map(|i| order(i, many)) {
            assert!(counts.reserve());
            counts.add(3 * i, 3 * i + 2, 1);
        }
        check(&counts);
        assert!(counts.height >= 4);
        assert_eq!(counts.find(1, 3 * many, |count| count == 0), Some(2..3));
        for i in (0..many).map(|i| order(i, many)) {
            assert!(counts.reserve());
            counts.add(3 * i, 3 * i + 2, -1);
        }
        check(&counts);
        assert_eq!(counts.find(0, 3 * many, |count| count != 0), None);
        let left = (counts.height, counts.nodes.len(), counts.nodes.capacity());
        assert!(left.2 <= 2 * CAPACITY, "memory goes back: {left:?}");
    }
}

#[test]
fn entries_that_come_in_order_fill_their_leaves() {
    let mut counts = Refcounts::new();
    for i in 0..1000 {
        assert!(counts.reserve());
        counts.add(2 * i, 2 * i + 1, 1);
    }
    // 2000 entries, and one for each leaf.
    assert!(counts.nodes.len() < 2000 / (CAPACITY - 2) + 2000 / (CAPACITY * (CAPACITY - 4)) + 40);
}

#[test]
fn the_ends_of_the_address_space() {
    let mut counts = Refcounts::new();
    let top = usize::MAX >> 12;
    for (first, end) in [(0, 1), (top, top + 1), (0, top + 1)] {
        assert!(counts.reserve());
        counts.add(first, end, 1);
        check(&counts);
    }
    assert_eq!(counts.find(0, top + 1, |count| count == 2), Some(0..1));
    assert_eq!(
        counts.find(1, top + 1, |count| count == 2),
        Some(top..top + 1)
    );
    assert_eq!(
        counts.find(0, usize::MAX, |count| count == 0),
        Some(top + 1..usize::MAX)
    );
}
