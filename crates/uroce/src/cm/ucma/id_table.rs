//! The ids of a process by number, and those of a descriptor or a device. Pure.

use ibverbs_abi::Errno;

use super::id::{Id, IdState};
use super::os::FileId;
use super::table::NumberTable;

/// The ids of a process. `R` is what reserves a port number.
pub(super) struct IdTable<R> {
    ids: NumberTable<Id<R>>,
}

impl<R> Default for IdTable<R> {
    fn default() -> IdTable<R> {
        IdTable {
            ids: NumberTable::default(),
        }
    }
}

impl<R> IdTable<R> {
    /// Adds an id and returns its number.
    pub fn insert(&mut self, id: Id<R>) -> u32 {
        self.ids.insert(id)
    }

    /// Removes an id.
    pub fn remove(&mut self, number: u32) -> Option<Id<R>> {
        self.ids.remove(number)
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
    pub fn existing(&mut self, number: u32) -> Result<&mut Id<R>, Errno> {
        self.ids.get_mut(number).ok_or(Errno(libc::ENOENT))
    }

    /// All ids with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Id<R>)> {
        self.ids.iter()
    }

    /// The number of an id that the program names at a descriptor. ENOENT if there is none, EINVAL if it is
    /// another descriptor's, EIO if its device is gone.
    pub fn find(&self, file: FileId, number: u32) -> Result<u32, Errno> {
        let number = self.find_any(file, number)?;
        match self.ids.get(number) {
            Some(id) if id.state == IdState::Removed => Err(Errno(libc::EIO)),
            _ => Ok(number),
        }
    }

    /// [`IdTable::find`], whether the device is gone or not.
    pub fn find_any(&self, file: FileId, number: u32) -> Result<u32, Errno> {
        match self.ids.get(number) {
            None => Err(Errno(libc::ENOENT)),
            Some(id) if id.file != file => Err(Errno(libc::EINVAL)),
            Some(_) => Ok(number),
        }
    }

    /// [`IdTable::find`]; EINVAL if the id is not bound to a device.
    pub fn find_bound(&self, file: FileId, number: u32) -> Result<u32, Errno> {
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
