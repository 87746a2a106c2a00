//! The names that the program has given its objects. They are known in every process that has wrapped
//! contexts, also without IBV_EXPLAIN.

use std::collections::BTreeMap;

use crate::diagnose::finding::{Kind, Label, Object};

/// More names than this are refused.
const MAX_NAMES: usize = 1 << 16;

/// An object that has a name.
#[derive(Clone, Debug)]
pub struct Named {
    pub object: Object,
    pub context: usize,
    /// The name of its device.
    pub device: String,
    pub name: String,
    /// Set by [`Names::set`]: larger than those of names before.
    pub serial: u64,
}

/// Names by the addresses of their objects.
pub struct Names {
    all: BTreeMap<usize, Named>,
    serial: u64,
}

impl Names {
    pub const fn new() -> Names {
        Names {
            all: BTreeMap::new(),
            serial: 0,
        }
    }

    /// Sets the name of an object; an empty one takes it away. Returns false if there are too many.
    pub fn set(&mut self, mut named: Named) -> bool {
        let address = named.object.address;
        if named.name.is_empty() {
            self.all.remove(&address);
            return true;
        }
        if self.all.len() >= MAX_NAMES && !self.all.contains_key(&address) {
            return false;
        }
        self.serial += 1;
        named.serial = self.serial;
        self.all.insert(address, named);
        true
    }

    /// The name of an object.
    pub fn of(&self, object: &Object) -> Option<&str> {
        let named = self.all.get(&object.address)?;
        (named.object.kind == object.kind).then_some(&named.name)
    }

    /// The name as it stands behind an object's number in a text: with a space before it, and in quotes.
    pub fn behind(&self, object: &Object) -> String {
        self.of(object)
            .map_or_else(String::new, |name| format!(" \"{name}\""))
    }

    pub fn serial_of(&self, address: usize) -> Option<u64> {
        self.all.get(&address).map(|named| named.serial)
    }

    /// The serial number of the newest name.
    pub fn last_serial(&self) -> u64 {
        self.serial
    }

    /// The object that had the name of this serial number is gone.
    pub fn forget(&mut self, address: usize, serial: u64) {
        if self.serial_of(address) == Some(serial) {
            self.all.remove(&address);
        }
    }

    /// The context is closed; later names than `before` are of another one at its address.
    pub fn forget_context(&mut self, context: usize, before: u64) {
        self.all
            .retain(|_, named| named.context != context || named.serial > before);
    }

    pub fn iter(&self) -> impl Iterator<Item = &Named> {
        self.all.values()
    }

    /// The names of queue pairs, by their devices and numbers.
    pub fn of_queue_pairs(&self) -> BTreeMap<(String, u32), String> {
        let number = |named: &Named| match (named.object.kind, &named.object.label) {
            (Kind::Qp, Label::Hex(number)) => {
                Some(((named.device.clone(), *number as u32), named.name.clone()))
            }
            _ => None,
        };
        self.all.values().filter_map(number).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(object: Object, context: usize, name: &str) -> Named {
        Named {
            object,
            context,
            device: "d".into(),
            name: name.into(),
            serial: 0,
        }
    }

    #[test]
    fn names_go_with_their_objects() {
        let mut names = Names::new();
        let (qp, cq) = (Object::qp(1, 17), Object::at(Kind::Cq, 2));
        assert!(names.set(named(qp.clone(), 9, "a")) && names.set(named(cq.clone(), 9, "b")));
        assert_eq!(names.of(&qp), Some("a"));
        assert_eq!(names.behind(&cq), " \"b\"");
        assert_eq!(names.of(&Object::at(Kind::Mr, 1)), None, "another kind");
        let old = names.serial_of(1).unwrap();
        assert!(names.set(named(qp.clone(), 9, "new")));
        names.forget(1, old);
        assert_eq!(names.of(&qp), Some("new"), "of another object");
        assert_eq!(names.of_queue_pairs()[&("d".into(), 17)], "new");
        assert!(names.set(named(qp.clone(), 9, "")));
        assert_eq!(names.behind(&qp), "");
        let before = names.last_serial();
        assert!(names.set(named(qp.clone(), 9, "later")));
        names.forget_context(9, before);
        assert_eq!((names.of(&cq), names.of(&qp)), (None, Some("later")));
    }

    #[test]
    fn names_are_bounded() {
        let mut names = Names::new();
        for address in 1..=MAX_NAMES {
            assert!(names.set(named(Object::at(Kind::Mr, address), 9, "x")));
        }
        assert!(!names.set(named(Object::at(Kind::Mr, MAX_NAMES + 1), 9, "x")));
        assert!(
            names.set(named(Object::at(Kind::Mr, 1), 9, "y")),
            "a new name"
        );
    }
}
