//! Devices: the lists that have them, the contexts that are open, and the process that opened these.

use std::collections::BTreeMap;

use crate::diagnose::facts;
use crate::diagnose::finding::{Finding, Kind, Object, Outcome};
use crate::diagnose::rules::Rule;

/// An open device.
#[derive(Clone, Debug, Default)]
pub struct Context {
    pub device: String,
    /// The process that opened it.
    pub pid: u32,
    /// The descriptor of its asynchronous events.
    pub async_fd: i32,
    /// The name of the device's driver.
    pub driver: String,
}

/// The devices that are open, or in lists.
pub struct Devices {
    open: BTreeMap<usize, Context>,
    /// The process that has opened all of them; 0 if it was not one.
    opened_by: u32,
    /// The devices that a device list has had, by their addresses, and how many lists have them now.
    lists_of: BTreeMap<usize, usize>,
}

impl Devices {
    pub const fn new() -> Devices {
        Devices {
            open: BTreeMap::new(),
            opened_by: 0,
            lists_of: BTreeMap::new(),
        }
    }

    pub fn opened(&mut self, context: usize, device: String, driver: String, async_fd: i32) {
        let pid = facts::pid();
        self.opened_by = match self.open.is_empty() || self.opened_by == pid {
            true => pid,
            false => 0,
        };
        let opened = Context {
            device,
            pid,
            async_fd,
            driver,
        };
        self.open.insert(context, opened);
    }

    /// The descriptor of a device that this process has open, if the program has closed it.
    pub fn lost_descriptor(&self, context: usize) -> Option<i32> {
        let of = self
            .open
            .get(&context)
            .filter(|of| of.pid == facts::pid())?;
        (of.async_fd >= 0 && !facts::is_open(of.async_fd)).then_some(of.async_fd)
    }

    /// The device is closed. Returns what was known of it.
    pub fn close(&mut self, context: usize) -> Context {
        self.open.remove(&context).unwrap_or_default()
    }

    /// The open contexts, by their addresses.
    pub fn iter(&self) -> impl Iterator<Item = (&usize, &Context)> {
        self.open.iter()
    }

    /// The name of a context's device; empty if it is not open.
    pub fn name(&self, context: usize) -> &str {
        self.open.get(&context).map_or("", |of| &of.device)
    }

    /// The name of the driver of a context's device; empty if it is not open.
    pub fn driver(&self, context: usize) -> &str {
        self.open.get(&context).map_or("", |of| &of.driver)
    }

    /// The context as messages name it.
    pub fn object(&self, context: usize) -> Object {
        match self.open.get(&context) {
            Some(of) => Object::device(context, &of.device),
            None => Object::at(Kind::Context, context),
        }
    }

    /// Reports a child of fork that uses an object of its parent.
    #[inline]
    pub fn check_process(&self, context: usize, verb: &'static str) -> Option<Finding> {
        match self.opened_by == facts::pid() {
            true => None,
            false => self.is_of_child(context, verb),
        }
    }

    fn is_of_child(&self, context: usize, verb: &'static str) -> Option<Finding> {
        let pid = facts::pid();
        let opened = self.open.get(&context).filter(|opened| opened.pid != pid)?;
        let object = Object::device(context, &opened.device);
        Some(
            Finding::new(Rule::ChildVerb, object, verb, Outcome::Called)
                .with("pid", pid)
                .with("parent", opened.pid)
                .with("verb", verb),
        )
    }

    /// A list that has the device is about to be returned.
    pub fn listed(&mut self, device: usize) {
        *self.lists_of.entry(device).or_default() += 1;
    }

    /// A list that has the device is freed.
    pub fn unlisted(&mut self, device: usize) {
        if let Some(lists) = self.lists_of.get_mut(&device) {
            *lists = lists.saturating_sub(1);
        }
    }

    /// The devices that a list has now.
    pub fn in_lists(&self) -> impl Iterator<Item = usize> {
        let listed = self.lists_of.iter().filter(|(_, lists)| **lists > 0);
        listed.map(|(device, _)| *device)
    }

    /// Whether all lists that had the device are freed.
    pub fn is_of_freed_list(&self, device: usize) -> bool {
        self.lists_of.get(&device) == Some(&0)
    }

    /// As if another process had opened all.
    #[cfg(test)]
    pub fn opened_by_another_process(&mut self) {
        self.opened_by += 1;
        for opened in self.open.values_mut() {
            opened.pid += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_two() -> Devices {
        let mut devices = Devices::new();
        devices.opened(1, "uroce0".into(), "uroce".into(), -1);
        devices.opened(2, "rxe0".into(), "rxe".into(), 5);
        devices
    }

    #[test]
    fn open_devices_have_names() {
        let mut devices = with_two();
        assert_eq!((devices.name(1), devices.driver(2)), ("uroce0", "rxe"));
        assert_eq!(devices.object(2).label.to_string(), "rxe0");
        assert_eq!(devices.close(2).async_fd, 5);
        assert_eq!((devices.name(2), devices.iter().count()), ("", 1));
        assert_eq!(devices.object(2), Object::at(Kind::Context, 2));
    }

    #[test]
    fn a_child_is_another_process() {
        let mut devices = with_two();
        assert_eq!(devices.check_process(1, "ibv_post_send"), None);
        devices.opened_by_another_process();
        let found = devices.check_process(1, "ibv_post_send");
        assert_eq!(found.unwrap().rule, Rule::ChildVerb);
        assert_eq!(devices.check_process(3, "x"), None, "not open");
        // The child opens it, too.
        devices.opened(1, "uroce0".into(), "uroce".into(), -1);
        assert_eq!(devices.check_process(1, "ibv_post_send"), None);
        assert!(devices.check_process(2, "ibv_post_send").is_some());
    }

    #[test]
    fn freed_lists() {
        let mut devices = Devices::new();
        assert!(!devices.is_of_freed_list(9), "in no list that is known");
        devices.listed(9);
        devices.listed(9);
        devices.unlisted(9);
        assert!(!devices.is_of_freed_list(9) && devices.in_lists().eq([9]));
        devices.unlisted(9);
        assert!(devices.is_of_freed_list(9) && devices.in_lists().next().is_none());
    }
}
