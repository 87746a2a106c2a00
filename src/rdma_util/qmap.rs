//! An ordered map from 64-bit keys to items whose memory is the caller's: libmlx5 keeps its doorbell pages in
//! one. C reads the list and the count inline (the items in the order of their keys, the map's `nil` at the end);
//! the tree is ours alone. It is a treap: a search tree by key and a heap by a hash of the key, balanced
//! without anything to keep per item.

use core::ptr::{self, null_mut};

/// `cl_map_item_t`
#[repr(C)]
pub struct Item {
    next: *mut Item,
    prev: *mut Item,
    left: *mut Item,
    right: *mut Item,
    up: *mut Item,
    colour: u32,
    key: u64,
}

/// `cl_qmap_t`
#[repr(C)]
pub struct Map {
    /// `left` is the tree.
    root: Item,
    nil: Item,
    count: usize,
}

const _: () = assert!(size_of::<Item>() == 56 && size_of::<Map>() == 120);

/// Which of two items stands nearer to the root: the one with the greater hash.
fn hash(key: u64) -> u64 {
    let mixed = (key ^ key >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed ^ mixed >> 32).wrapping_mul(0x94d0_49bb_1331_11eb)
}

/// The pointer to the place under `parent` that `key` belongs under.
///
/// # Safety
/// `parent` is an item of a map, or its root.
unsafe fn side(map: *mut Map, parent: *mut Item, key: u64) -> *mut *mut Item {
    // SAFETY: by the contract.
    unsafe {
        if ptr::eq(parent, &raw const (*map).root) || key < (*parent).key {
            &raw mut (*parent).left
        } else {
            &raw mut (*parent).right
        }
    }
}

/// Puts `item`, whose parent it is under, in its parent's place, and the parent under it.
///
/// # Safety
/// `item` is in the map, and not at the top.
unsafe fn rotate_up(map: *mut Map, item: *mut Item) {
    // SAFETY: by the contract `item` has a parent, and that one has one, at least the root; a child that is
    // NULL is not touched.
    unsafe {
        let parent = (*item).up;
        let (inner, outer) = if ptr::eq((*parent).left, item) {
            (&raw mut (*item).right, &raw mut (*parent).left)
        } else {
            (&raw mut (*item).left, &raw mut (*parent).right)
        };
        *outer = *inner;
        if !(*outer).is_null() {
            (**outer).up = parent;
        }
        *inner = parent;
        let above = (*parent).up;
        *side(map, above, (*parent).key) = item;
        (*item).up = above;
        (*parent).up = item;
    }
}

/// Makes an empty map.
///
/// # Safety
/// `map` can be written and stays where it is.
pub unsafe extern "C" fn cl_qmap_init(map: *mut Map) {
    // SAFETY: by the contract; zeroes are a valid map, to be filled in.
    unsafe {
        map.write_bytes(0, 1);
        let nil = &raw mut (*map).nil;
        (*map).nil.next = nil;
        (*map).nil.prev = nil;
    }
}

/// The item with this key, or the map's `nil`.
///
/// # Safety
/// `map` is initialised.
pub unsafe extern "C" fn cl_qmap_get(map: *const Map, key: u64) -> *mut Item {
    // SAFETY: all children are items of the map, or NULL.
    unsafe {
        let mut at = (*map).root.left;
        while !at.is_null() && (*at).key != key {
            at = if key < (*at).key {
                (*at).left
            } else {
                (*at).right
            };
        }
        if at.is_null() {
            (&raw const (*map).nil).cast_mut()
        } else {
            at
        }
    }
}

/// Adds an item. It, or the one that has the key already.
///
/// # Safety
/// `map` is initialised; `item` can be written, is in no map, and stays until it is removed.
pub unsafe extern "C" fn cl_qmap_insert(map: *mut Map, key: u64, item: *mut Item) -> *mut Item {
    // SAFETY: as in `cl_qmap_get`; the list's neighbours are items or `nil`.
    unsafe {
        let (mut parent, mut next) = (&raw mut (*map).root, &raw mut (*map).nil);
        let mut place = &raw mut (*map).root.left;
        while !(*place).is_null() {
            parent = *place;
            if (*parent).key == key {
                return parent;
            }
            if key < (*parent).key {
                next = parent;
            }
            place = side(map, parent, key);
        }
        let prev = (*next).prev;
        item.write(Item {
            next,
            prev,
            left: null_mut(),
            right: null_mut(),
            up: parent,
            colour: 0,
            key,
        });
        *place = item;
        (*prev).next = item;
        (*next).prev = item;
        (*map).count += 1;
        while !ptr::eq((*item).up, &raw const (*map).root) && hash((*(*item).up).key) < hash(key) {
            rotate_up(map, item);
        }
        item
    }
}

/// Removes an item; `nil` is no item.
///
/// # Safety
/// `map` is initialised, and `item` in it, or its `nil`.
pub unsafe extern "C" fn cl_qmap_remove_item(map: *mut Map, item: *mut Item) {
    // SAFETY: as above.
    unsafe {
        if ptr::eq(item, &raw const (*map).nil) {
            return;
        }
        // Down, until there is at most one child, which takes its place.
        let child = loop {
            let (left, right) = ((*item).left, (*item).right);
            match (left.is_null(), right.is_null()) {
                (false, false) if hash((*left).key) > hash((*right).key) => rotate_up(map, left),
                (false, false) => rotate_up(map, right),
                (true, _) => break right,
                (_, true) => break left,
            }
        };
        let parent = (*item).up;
        *side(map, parent, (*item).key) = child;
        if !child.is_null() {
            (*child).up = parent;
        }
        (*(*item).prev).next = (*item).next;
        (*(*item).next).prev = (*item).prev;
        (*map).count -= 1;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// How deep the tree is; checks order, heap and the links upwards.
    unsafe fn depth(item: *mut Item, up: *mut Item, low: u64, high: u64) -> usize {
        if item.is_null() {
            return 0;
        }
        // SAFETY: the tests' items live.
        unsafe {
            let key = (*item).key;
            assert!(low <= key && key <= high && ptr::eq((*item).up, up));
            for child in [(*item).left, (*item).right] {
                assert!(child.is_null() || hash((*child).key) <= hash(key));
            }
            let left = depth((*item).left, item, low, key);
            1 + left.max(depth((*item).right, item, key, high))
        }
    }

    /// The keys as C's inline functions walk them.
    unsafe fn walk(map: *mut Map) -> Vec<u64> {
        let mut keys = Vec::new();
        // SAFETY: as above.
        unsafe {
            let nil = &raw mut (*map).nil;
            let mut at = (*nil).next;
            while at != nil {
                assert!(ptr::eq((*(*at).next).prev, at));
                keys.push((*at).key);
                at = (*at).next;
            }
        }
        keys
    }

    fn item() -> *mut Item {
        // SAFETY: zeroes are a valid item.
        Box::into_raw(Box::new(unsafe { core::mem::zeroed() }))
    }

    proptest! {
        #[test]
        fn as_an_ordered_map(steps in prop::collection::vec((any::<bool>(), 0u64..50), 1..300)) {
            let mut model = BTreeMap::<u64, *mut Item>::new();
            let map = Box::into_raw(Box::<core::mem::MaybeUninit<Map>>::new_uninit()).cast::<Map>();
            // SAFETY: all items are boxes until they are freed here.
            unsafe {
                cl_qmap_init(map);
                let nil = &raw mut (*map).nil;
                for (insert, key) in steps {
                    if insert {
                        let new = item();
                        let got = cl_qmap_insert(map, key, new);
                        prop_assert_eq!(got, *model.entry(key).or_insert(new));
                        if got != new {
                            drop(Box::from_raw(new));
                        }
                    } else {
                        let got = cl_qmap_get(map, key);
                        let expected = model.remove(&key);
                        prop_assert_eq!(got, expected.unwrap_or(nil));
                        cl_qmap_remove_item(map, got);
                        if got != nil {
                            drop(Box::from_raw(got));
                        }
                    }
                    prop_assert_eq!((*map).count, model.len());
                    prop_assert_eq!(walk(map), model.keys().copied().collect::<Vec<_>>());
                    depth((*map).root.left, &raw mut (*map).root, 0, u64::MAX);
                }
                for (_, item) in model {
                    drop(Box::from_raw(item));
                }
                drop(Box::from_raw(map.cast::<core::mem::MaybeUninit<Map>>()));
            }
        }
    }

    #[test]
    fn pages_in_a_row_do_not_make_a_list() {
        let mut items: Vec<Item> = (0..10_000)
            // SAFETY: zeroes are a valid item.
            .map(|_| unsafe { core::mem::zeroed() })
            .collect();
        // SAFETY: the map and the items stay where they are.
        unsafe {
            let mut map = core::mem::MaybeUninit::uninit();
            let map = map.as_mut_ptr();
            cl_qmap_init(map);
            for (n, item) in items.iter_mut().enumerate() {
                cl_qmap_insert(map, n as u64 * 4096, item);
            }
            let depth = depth((*map).root.left, &raw mut (*map).root, 0, u64::MAX);
            assert!(depth < 60, "{depth}");
        }
    }
}
