//! [`Memberships`]: the memberships of a process in multicast groups. Pure.

use ibverbs_abi::Result;

use super::id::Id;
use super::id_table::IdTable;
use super::table::NumberTable;

/// A membership in a multicast group.
pub struct Membership {
    pub id: u32,
    /// The kernel's number, if the id is the kernel's.
    pub kernel: Option<u32>,
    pub uid: u64,
    pub events_reported: u32,
}

/// The memberships of a process by number. Each id lists its own.
#[derive(Default)]
pub(super) struct Memberships {
    all: NumberTable<Membership>,
}

impl Memberships {
    /// Adds a membership of an id. Returns its number. ENOENT if there is no such id.
    pub fn add<R>(&mut self, ids: &mut IdTable<R>, id: u32, uid: u64) -> Result<u32> {
        let owner = ids.existing(id)?;
        let membership = self.all.insert(Membership {
            id,
            kernel: None,
            uid,
            events_reported: 0,
        });
        owner.multicasts.push(membership);
        Ok(membership)
    }

    /// Removes a membership.
    pub fn remove<R>(&mut self, ids: &mut IdTable<R>, number: u32) {
        let removed = self.all.remove(number);
        if let Some(id) = removed.and_then(|removed| ids.get_mut(removed.id)) {
            id.multicasts.retain(|other| *other != number);
        }
    }

    /// Removes the memberships of an id that is removed.
    pub fn remove_all<R>(&mut self, id: &Id<R>) {
        for number in &id.multicasts {
            self.all.remove(*number);
        }
    }

    /// A membership.
    pub fn get(&self, number: u32) -> Option<&Membership> {
        self.all.get(number)
    }

    /// A membership, to be changed.
    pub fn get_mut(&mut self, number: u32) -> Option<&mut Membership> {
        self.all.get_mut(number)
    }

    /// How many there are.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.all.iter().count()
    }
}

#[cfg(test)]
mod tests {
    use ibverbs_abi::Errno;

    use super::super::id::qp_type;
    use super::*;

    #[test]
    fn an_id_lists_its_memberships() {
        let (mut ids, mut all) = (IdTable::<()>::default(), Memberships::default());
        assert_eq!(all.add(&mut ids, 0, 1), Err(Errno(libc::ENOENT)));
        let id = ids.insert(Id::new(7, 0, 0x0111, qp_type::UD, 1));
        let [first, second] = [5, 6].map(|uid| all.add(&mut ids, id, uid).unwrap());
        all.remove(&mut ids, first);
        assert_eq!(ids.existing(id).unwrap().multicasts, [second]);
        assert_eq!(all.get(second).unwrap().uid, 6);
        all.remove_all(&ids.remove(id).unwrap());
        assert_eq!(all.count(), 0);
    }
}
