//! Port 4791 for management datagrams (MADs), which all implementations send there.
//!
//! A process that had to take another port for its queue pairs still takes port 4791 at each address where
//! it is free, for queue pair 1 alone: its queue pair numbers belong to the other port.

use std::sync::Arc;

use super::{Net, has_socket};
use crate::transport::socket::Socket;
use crate::transport::socket_table::PortSockets;
use roce::wire::{PORT, first_qpn};

/// The number of the queue pair of subnet management.
pub const SMI_QPN: u32 = 0;
/// The number of the queue pair of general services.
pub const GSI_QPN: u32 = 1;

impl Net {
    /// Takes port 4791 at the device's addresses where no other process has it. Returns whether this
    /// process has it at all of them now.
    pub fn claim_mad_port(&self) -> bool {
        let control = self.control.lock();
        let table = self.table();
        let at = table.find_port(PORT);
        let had = at.ok().and_then(|at| table.ports.get(at));
        let mut opened = Vec::new();
        let mut complete = true;
        for (index, local) in control.gids.iter().enumerate() {
            let has = had.and_then(|port| port.sockets.get(index)?.as_ref());
            let Some(local) = local.filter(has_socket).filter(|_| has.is_none()) else {
                continue;
            };
            match Socket::open(local, PORT, self.ifindex) {
                Ok(socket) => opened.push((index, Arc::new(socket))),
                Err(_) => complete = false,
            }
        }
        if opened.is_empty() {
            return complete;
        }
        let gids = control.gids.len();
        self.replace_table(|table| {
            let mut port = match at {
                Ok(at) => table.ports.remove(at),
                Err(_) => PortSockets::new(PORT, Vec::new(), &[]),
            };
            port.sockets.resize(gids, None);
            for (index, socket) in opened {
                match self.add_receiver(table, &socket) {
                    Ok(_) => port.sockets[index] = Some(socket),
                    Err(_) => complete = false,
                }
            }
            port.update_senders(&control.gids);
            table.gids.clone_from(&control.gids);
            let (Ok(at) | Err(at)) = at;
            table.ports.insert(at, port);
        });
        complete
    }

    /// A queue pair number of a port that this process has at an entry of the GID table: port 4791 if
    /// possible. None if it has none.
    pub fn mad_source(&self, gid_index: u8) -> Option<u32> {
        let table = self.table();
        if table.sender(PORT, gid_index).is_some() {
            return Some(GSI_QPN);
        }
        let mut others = table.ports.iter().filter(|port| port.port != PORT);
        let other = others.find(|port| table.sender(port.port, gid_index).is_some())?;
        Some(first_qpn(other.port))
    }
}
