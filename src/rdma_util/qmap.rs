//! An ordered map from 64-bit keys to items that the caller allocates. libmlx5 keeps its doorbell pages in
//! one.
//!
//! Inline functions of C read the count and the list, which has the items in the order of their keys and the
//! map's `nil` at the end. Only this file uses the tree. It is a treap: a search tree by key and a heap by a
//! hash of the key, which keeps it balanced without a further member per item.

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
    /// The sentinel, whose member `left` is the root of the tree.
    root: Item,
    nil: Item,
    count: usize,
}

const _: () = assert!(size_of::<Item>() == 56 && size_of::<Map>() == 120);

/// The priority in the heap: a parent has a greater hash than its children.
fn hash(key: u64) -> u64 {
    let mixed = (key ^ key >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed ^ mixed >> 32).wrapping_mul(0x94d0_49bb_1331_11eb)
}

/// The child pointer of `parent` on the side of `key`.
///
/// # Safety
/// `parent` is an item of `map`, or its root.
unsafe fn side(map: *mut Map, parent: *mut Item, key: u64) -> *mut *mut Item {
    // SAFETY: `parent` is alive, as the caller promises.
    unsafe {
        if ptr::eq(parent, &raw const (*map).root) || key < (*parent).key {
            &raw mut (*parent).left
        } else {
            &raw mut (*parent).right
        }
    }
}

/// Rotates `item` and its parent, so that `item` takes the parent's place.
///
/// # Safety
/// `item` is in the map and is not the root of the tree.
unsafe fn rotate_up(map: *mut Map, item: *mut Item) {
    // SAFETY: `item` is not the root of the tree, so its parent is an item, whose own parent is an item or
    // the map's root. A NULL child is not accessed.
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

/// Initialises an empty map.
///
/// # Safety
/// `map` is writable and is not moved afterwards, since its items point to it.
pub unsafe extern "C" fn cl_qmap_init(map: *mut Map) {
    // SAFETY: `map` is writable, as the caller promises; zeros are a valid `Map`.
    unsafe {
        map.write_bytes(0, 1);
        let nil = &raw mut (*map).nil;
        (*map).nil.next = nil;
        (*map).nil.prev = nil;
    }
}

/// Returns the item with this key, or the map's `nil`.
///
/// # Safety
/// `map` is initialised, and no other thread changes it during the call.
pub unsafe extern "C" fn cl_qmap_get(map: *const Map, key: u64) -> *mut Item {
    // SAFETY: the map is initialised, so each child pointer is NULL or an item of the map.
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

/// Adds an item and returns it. If the map has an item with this key, returns that and adds nothing.
///
/// # Safety
/// `map` is initialised, and no other thread uses it during the call. `item` is writable, is in no map, and
/// stays valid and in place until it is removed.
pub unsafe extern "C" fn cl_qmap_insert(map: *mut Map, key: u64, item: *mut Item) -> *mut Item {
    // SAFETY: the map is initialised, so each child pointer is NULL or an item of the map.
    let (parent, next) = unsafe {
        let (mut parent, mut next) = (&raw mut (*map).root, &raw mut (*map).nil);
        let mut child = (*parent).left;
        while !child.is_null() {
            parent = child;
            if (*parent).key == key {
                return parent;
            }
            if key < (*parent).key {
                next = parent;
            }
            child = *side(map, parent, key);
        }
        (parent, next)
    };
    // SAFETY: `parent` is an item without a child on this side, or the root of an empty tree; `next` is an
    // item or `nil`, and so is its `prev`. `item` is writable, as the caller promises.
    unsafe {
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
        *side(map, parent, key) = item;
        (*prev).next = item;
        (*next).prev = item;
        (*map).count += 1;
        while !ptr::eq((*item).up, &raw const (*map).root) && hash((*(*item).up).key) < hash(key) {
            rotate_up(map, item);
        }
    }
    item
}

/// Removes an item. Does nothing if it is the map's `nil`.
///
/// # Safety
/// `map` is initialised, and no other thread uses it during the call. `item` is in it, or is its `nil`.
pub unsafe extern "C" fn cl_qmap_remove_item(map: *mut Map, item: *mut Item) {
    // SAFETY: `item` is in the map or its `nil`, as the caller promises. The parent and the list's
    // neighbours of an item are items, the map's root or `nil`.
    unsafe {
        if ptr::eq(item, &raw const (*map).nil) {
            return;
        }
        let child = rotate_down(map, item);
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

/// Rotates an item down until it has at most one child, and returns that child or NULL.
///
/// # Safety
/// `map` is initialised, and `item` is in it.
unsafe fn rotate_down(map: *mut Map, item: *mut Item) -> *mut Item {
    loop {
        // SAFETY: `item` is in the map, so its children are NULL or items of the map below the root.
        unsafe {
            let (left, right) = ((*item).left, (*item).right);
            match (left.is_null(), right.is_null()) {
                (false, false) if hash((*left).key) > hash((*right).key) => rotate_up(map, left),
                (false, false) => rotate_up(map, right),
                (true, _) => return right,
                (_, true) => return left,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// The depth of the tree. Checks the order of keys, the heap and the parent pointers.
    unsafe fn depth(item: *mut Item, up: *mut Item, low: u64, high: u64) -> usize {
        if item.is_null() {
            return 0;
        }
        // SAFETY: the tests' items are alive.
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

    /// The keys in the order in which C's inline functions walk the list.
    unsafe fn walk(map: *mut Map) -> Vec<u64> {
        let mut keys = Vec::new();
        // SAFETY: the tests' items are alive.
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
        // SAFETY: zeros are a valid item.
        Box::into_raw(Box::new(unsafe { core::mem::zeroed() }))
    }

    /// Inserts or removes an item, and compares the result with `model`.
    unsafe fn step(map: *mut Map, model: &mut BTreeMap<u64, *mut Item>, insert: bool, key: u64) {
        // SAFETY: the map is initialised; its items are boxes, which are freed when they are not in it.
        unsafe {
            if insert {
                let new = item();
                let got = cl_qmap_insert(map, key, new);
                assert_eq!(got, *model.entry(key).or_insert(new));
                if got != new {
                    drop(Box::from_raw(new));
                }
            } else {
                let nil = &raw mut (*map).nil;
                let got = cl_qmap_get(map, key);
                assert_eq!(got, model.remove(&key).unwrap_or(nil));
                cl_qmap_remove_item(map, got);
                if got != nil {
                    drop(Box::from_raw(got));
                }
            }
        }
    }

    proptest! {
        #[test]
        fn as_an_ordered_map(steps in prop::collection::vec((any::<bool>(), 0u64..50), 1..300)) {
            let mut model = BTreeMap::<u64, *mut Item>::new();
            let map = Box::into_raw(Box::<core::mem::MaybeUninit<Map>>::new_uninit()).cast::<Map>();
            // SAFETY: the map and all items are boxes, which are freed only here.
            unsafe {
                cl_qmap_init(map);
                for (insert, key) in steps {
                    step(map, &mut model, insert, key);
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
    fn consecutive_pages_keep_the_tree_balanced() {
        let mut items: Vec<Item> = (0..10_000)
            // SAFETY: zeros are a valid item.
            .map(|_| unsafe { core::mem::zeroed() })
            .collect();
        // SAFETY: the map and the items are not moved.
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
