//! The ports that ids of this process have. Several ids have one port if their addresses differ, or if they
//! share it.

use rustc_hash::FxHashMap;

use super::host::Port;

/// The numbers of the ids that have each port.
#[derive(Default)]
pub(super) struct PortOwners {
    owners: FxHashMap<Port, Vec<u32>>,
}

impl PortOwners {
    /// The ids that have a port.
    pub fn of(&self, port: Port) -> &[u32] {
        self.owners.get(&port).map_or(&[], Vec::as_slice)
    }

    /// The ports that ids have, in no order.
    #[cfg(test)]
    pub fn ports(&self) -> impl Iterator<Item = &Port> {
        self.owners.keys()
    }

    /// Gives a port to an id, too.
    pub fn add(&mut self, port: Port, id: u32) {
        self.owners.entry(port).or_default().push(id);
    }

    /// Takes a port from an id.
    pub fn remove(&mut self, port: Port, id: u32) {
        if let Some(owners) = self.owners.get_mut(&port) {
            owners.retain(|owner| *owner != id);
            if owners.is_empty() {
                self.owners.remove(&port);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_free_when_its_last_id_has_left_it() {
        let (port, mut owners) = (
            Port {
                space: 1,
                number: 80,
            },
            PortOwners::default(),
        );
        owners.add(port, 3);
        owners.add(port, 5);
        owners.remove(port, 3);
        assert_eq!(owners.of(port), [5]);
        owners.remove(port, 5);
        owners.remove(port, 5);
        assert!(owners.of(port).is_empty() && owners.owners.is_empty());
    }
}
