//! [`IdTable`]: the ids of a process by number, those of a descriptor or a device, and the ports that ids
//! have. Pure. [`super::listeners`] looks for the id that a port belongs to.
//!
//! Invariant: a port is listed for an id from [`IdTable::take_port`] until the id is removed or leaves it,
//! and for no other one.

use ibverbs_abi::{Errno, Result};

use super::id::{Id, IdState};
use super::os::{FileId, Port};
use super::port_owners::PortOwners;
use super::table::NumberTable;

/// The ids of a process. `R` is what reserves a port number.
pub(super) struct IdTable<R> {
    ids: NumberTable<Id<R>>,
    ports: PortOwners,
}

impl<R> Default for IdTable<R> {
    fn default() -> IdTable<R> {
        IdTable {
            ids: NumberTable::default(),
            ports: PortOwners::default(),
        }
    }
}

impl<R> IdTable<R> {
    /// Adds an id and returns its number.
    pub fn insert(&mut self, id: Id<R>) -> u32 {
        self.ids.insert(id)
    }

    /// Removes an id, which leaves its port.
    pub fn remove(&mut self, number: u32) -> Option<Id<R>> {
        let id = self.ids.remove(number)?;
        if let Some(port) = id.port {
            self.ports.remove(port, number);
        }
        Some(id)
    }

    /// Gives a port to an id. Others may have it, too: [`IdTable::check_port`] says which.
    pub fn take_port(&mut self, number: u32, port: Port) {
        if let Some(id) = self.ids.get_mut(number) {
            id.port = Some(port);
            self.ports.add(port, number);
        }
    }

    /// Takes its port from an id.
    pub fn leave_port(&mut self, number: u32) {
        let port = self.ids.get_mut(number).and_then(|id| id.port.take());
        if let Some(port) = port {
            self.ports.remove(port, number);
        }
    }

    /// The numbers of the ids that have a port.
    pub fn with_port(&self, port: Port) -> &[u32] {
        self.ports.of(port)
    }

    /// The ports that ids have, in no order.
    #[cfg(test)]
    pub fn ports(&self) -> impl Iterator<Item = &Port> {
        self.ports.ports()
    }

    /// The id with this number.
    pub fn get(&self, number: u32) -> Option<&Id<R>> {
        self.ids.get(number)
    }

    /// The id with this number, to be changed.
    pub fn get_mut(&mut self, number: u32) -> Option<&mut Id<R>> {
        self.ids.get_mut(number)
    }

    /// The id with this number, to be changed. ENOENT if there is none.
    pub fn existing(&mut self, number: u32) -> Result<&mut Id<R>> {
        self.ids.get_mut(number).ok_or(Errno(libc::ENOENT))
    }

    /// All ids with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Id<R>)> {
        self.ids.iter()
    }

    /// The number of an id that the program names at a descriptor. ENOENT if there is none, EINVAL if it is
    /// another descriptor's, EIO if its device is gone.
    pub fn find(&self, file: FileId, number: u32) -> Result<u32> {
        let number = self.find_any(file, number)?;
        match self.ids.get(number) {
            Some(id) if id.state == IdState::Removed => Err(Errno(libc::EIO)),
            _ => Ok(number),
        }
    }

    /// [`IdTable::find`], whether the device is gone or not.
    pub fn find_any(&self, file: FileId, number: u32) -> Result<u32> {
        match self.ids.get(number) {
            None => Err(Errno(libc::ENOENT)),
            Some(id) if id.file != file => Err(Errno(libc::EINVAL)),
            Some(_) => Ok(number),
        }
    }

    /// [`IdTable::find`]; EINVAL if the id is not bound to a device.
    pub fn find_bound(&self, file: FileId, number: u32) -> Result<u32> {
        let number = self.find(file, number)?;
        match self.ids.get(number) {
            Some(id) if id.device.is_some() => Ok(number),
            _ => Err(Errno(libc::EINVAL)),
        }
    }

    /// The numbers of a descriptor's ids, and their states.
    pub fn of_file(&self, file: FileId) -> Vec<(u32, IdState)> {
        let all = self.ids.iter().filter(|(_, id)| id.file == file);
        all.map(|(number, id)| (number, id.state)).collect()
    }

    /// The numbers of the ids that are bound to a device which is not gone.
    pub fn of_device(&self, device: usize) -> Vec<u32> {
        let bound = |id: &Id<R>| id.device == Some(device) && id.state != IdState::Removed;
        let found = self.ids.iter().filter(|(_, id)| bound(id));
        found.map(|(number, _)| number).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removed_id_leaves_its_port() {
        let mut ids = IdTable::<()>::default();
        let port = Port {
            space: 0x0106,
            number: 80,
        };
        let [first, second] = [1, 2].map(|file| ids.insert(Id::new(file, 0, 0x0106, 2, 1)));
        ids.take_port(first, port);
        ids.take_port(second, port);
        assert_eq!(ids.with_port(port), [first, second]);
        ids.leave_port(first);
        assert_eq!(ids.existing(first).unwrap().port, None);
        ids.remove(second);
        assert!(ids.with_port(port).is_empty());
        ids.take_port(second, port);
        assert!(ids.with_port(port).is_empty());
    }

    #[test]
    fn an_id_belongs_to_its_descriptor_and_device() {
        let mut ids = IdTable::<()>::default();
        let number = ids.insert(Id::new(7, 0, 0x0106, 2, 1));
        assert_eq!(ids.find(7, number), Ok(number));
        assert_eq!(ids.find(7, 5), Err(Errno(libc::ENOENT)));
        assert_eq!(ids.find(8, number), Err(Errno(libc::EINVAL)));
        assert_eq!(ids.find_bound(7, number), Err(Errno(libc::EINVAL)));
        ids.existing(number).unwrap().device = Some(0);
        assert_eq!(ids.find_bound(7, number), Ok(number));
        assert_eq!(ids.of_device(0), [number]);
        ids.existing(number).unwrap().state = IdState::Removed;
        assert_eq!(ids.find(7, number), Err(Errno(libc::EIO)));
        assert_eq!(ids.find_any(7, number), Ok(number));
        assert!(ids.of_device(0).is_empty());
        assert_eq!(ids.of_file(7), [(number, IdState::Removed)]);
    }
}
