//! Notices for the library's IBV_EXPLAIN: commands that fail, events that report an error, and the ids of a
//! descriptor on which a thread waits.

use std::os::fd::RawFd;
use std::sync::OnceLock;

use ibverbs_abi::{CmFailure, CmNotice, Result};

use super::Failure;
use super::id::IdState;
use super::input::{Command, Input};
use super::state;

/// Bytes in a response to GET_EVENT before the number of the event, and before its status.
const EVENT_AT: usize = 12;
const STATUS_AT: usize = 16;

/// The first bytes of a response, which [`executed`] gets.
pub const EXCERPT: usize = 24;

static HOOK: OnceLock<fn(&CmNotice)> = OnceLock::new();

/// Calls `hook` for each failure and event from now on. No lock of uroce is held when it is called.
pub fn set_cm_hook(hook: fn(&CmNotice)) {
    // The same at each call.
    let _ = HOOK.set(hook);
}

/// The function of librdmacm. None for commands that programs probe with, and for queries.
fn function(command: Command) -> Option<&'static str> {
    Some(match command {
        Command::BindIp | Command::Bind => "rdma_bind_addr",
        Command::ResolveIp | Command::ResolveAddr => "rdma_resolve_addr",
        Command::ResolveRoute => "rdma_resolve_route",
        Command::Connect => "rdma_connect",
        Command::Listen => "rdma_listen",
        Command::Accept => "rdma_accept",
        Command::Reject => "rdma_reject",
        Command::Disconnect => "rdma_disconnect",
        Command::InitQpAttr => "rdma_create_qp, or rdma_init_qp_attr",
        Command::JoinIpMcast | Command::JoinMcast => "rdma_join_multicast",
        _ => return None,
    })
}

/// The id that a command names.
fn id_of(command: Command, input: &Input<'_>) -> Option<u32> {
    Some(input.u32(command.id_at()?))
}

/// The number of bytes of private data.
fn private_data_len(command: Command, input: &Input<'_>) -> Option<u8> {
    match command {
        Command::Connect => Some(input.u8(264)),
        Command::Accept => Some(input.u8(8 + 264)),
        Command::Reject => Some(input.u8(4)),
        _ => None,
    }
}

/// A command has been executed; `response` is what the program has got.
pub fn executed(command: Command, input: &Input<'_>, result: Result<(), Failure>, response: &[u8]) {
    let Some(hook) = HOOK.get() else { return };
    let word = |at: usize| {
        let bytes = response.get(at..at + 4)?;
        Some(u32::from_ne_bytes(bytes.try_into().ok()?))
    };
    match result {
        Ok(()) if command == Command::GetEvent => {
            if let (Some(id), Some(event), Some(status)) =
                (word(8), word(EVENT_AT), word(STATUS_AT))
            {
                let status = status as i32;
                hook(&CmNotice::Event { event, status, id });
            }
        }
        Ok(()) => hook_lifetime(*hook, command, input, word(0)),
        Err(Failure::NoEvent | Failure::Closed) => {}
        Err(Failure::Errno(errno)) => {
            let (Some(call), Some(id)) = (function(command), id_of(command, input)) else {
                return;
            };
            let known = state::id_state(id);
            hook(&CmNotice::Failed(CmFailure {
                call,
                errno: errno.0,
                id,
                state: known.map(|(state, _)| name(state)),
                private_data_len: private_data_len(command, input),
                is_datagram: known.is_some_and(|(_, is_datagram)| is_datagram),
            }));
        }
    }
}

/// Ids that come and go. `word` is the first of the response.
fn hook_lifetime(hook: fn(&CmNotice), command: Command, input: &Input<'_>, word: Option<u32>) {
    let uid = input.u64(0);
    if let (Command::CreateId, Some(id)) = (command, word) {
        return hook(&CmNotice::Known { id, uid });
    }
    let Some(id) = id_of(command, input) else {
        return;
    };
    match (command, word) {
        // A client's second ACCEPT, which answers the event CONNECT_RESPONSE, has no parameters
        // (rdma_ucm_conn_param.valid is 0) and no uid.
        (Command::Accept, _) if input.u8(8 + 271) != 0 => hook(&CmNotice::Known { id, uid }),
        (Command::Accept, _) => hook(&CmNotice::Confirmed { id }),
        (Command::Reject, _) => hook(&CmNotice::Rejected { id }),
        (Command::DestroyId, Some(events)) => hook(&CmNotice::Destroyed { id, events }),
        _ => {}
    }
}

/// The name of a state in messages.
fn name(state: IdState) -> &'static str {
    match state {
        IdState::Idle => "new",
        IdState::Bound => "bound",
        IdState::AddressQuery => "resolving its address",
        IdState::AddressResolved => "address resolved",
        IdState::RouteResolved => "route resolved",
        IdState::Connect => "connected or connecting",
        IdState::Disconnect => "disconnected",
        IdState::Listen => "listening",
        IdState::Removed => "without its device",
    }
}

/// The ids of a descriptor of the device file, and their states; None if it is another file.
pub fn ids_of_descriptor(fd: RawFd) -> Option<Vec<(u32, &'static str)>> {
    let file = state::file_of(fd)?;
    let ids = state::ids_of(file)?;
    Some(
        ids.into_iter()
            .map(|(id, state)| (id, name(state)))
            .collect(),
    )
}

/// The id and the type of an event that the program has not read, of any descriptor.
pub fn unread_event() -> Option<(u32, u32)> {
    state::unread_event()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_name_their_functions() {
        assert_eq!(function(Command::Connect), Some("rdma_connect"));
        assert_eq!(function(Command::Query), None);
        let mut bytes = [0; 288];
        bytes[264] = 60;
        assert_eq!(private_data_len(Command::Connect, &Input(&bytes)), Some(60));
        assert_eq!(private_data_len(Command::Listen, &Input(&bytes)), None);
    }

    /// `rdma_ucm_bind_ip` and `rdma_ucm_join_ip_mcast` have it behind the address.
    #[test]
    fn commands_name_their_ids() {
        for (command, at) in [
            (Command::BindIp, 36),
            (Command::JoinIpMcast, 44),
            (Command::JoinMcast, 16),
        ] {
            let mut bytes = vec![0; command.len()];
            bytes[at] = 7;
            assert_eq!(id_of(command, &Input(&bytes)), Some(7), "{command:?}");
        }
        assert_eq!(id_of(Command::GetEvent, &Input(&[0; 8])), None);
    }
}
