//! [`NldevClient`]: sends requests over a socket and parses the replies.

use super::{NldevAttributes, ReplyError, ReplyParser, get_system};
use crate::message::{ReplyState, Request};
use crate::socket::{Receive, Socket};
use ibverbs_abi::Errno;

/// The longest datagram accepted, as in rdma-core.
const DATAGRAM_MAX: usize = 4 * 4096;
/// The sequence number of every request: a client has one request at a time, and replies are not matched
/// with it.
const SEQUENCE: u32 = 1;

/// A connection to the kernel's RDMA netlink. For one thread at a time.
pub struct NldevClient {
    socket: Socket,
}

impl NldevClient {
    /// Opens a socket. Fails where the kernel has no RDMA subsystem, or a security policy forbids it.
    pub fn open() -> Result<NldevClient, Errno> {
        let socket = Socket::open(libc::NETLINK_RDMA, DATAGRAM_MAX)?;
        Ok(NldevClient { socket })
    }

    /// Sends a request and passes the attributes of each message of the reply to `take`, which ends the reply
    /// by returning false. Blocks until the reply is complete.
    pub fn request(
        &mut self,
        mut request: Request,
        mut take: impl FnMut(NldevAttributes) -> bool,
    ) -> Result<(), ReplyError> {
        self.socket.send(request.encode(SEQUENCE))?;
        let mut parser = ReplyParser::default();
        loop {
            let bytes = self.socket.receive(Receive::Blocking)?;
            if bytes.is_empty() || parser.datagram(bytes, &mut take)? == ReplyState::Complete {
                return Ok(());
            }
        }
    }
}

/// Whether the kernel copies pinned pages at fork, so that `ibv_fork_init` has nothing to do. False if the
/// kernel does not say so.
pub fn copy_on_fork() -> bool {
    let mut copies = false;
    let replied = NldevClient::open().is_ok_and(|mut client| {
        let take = |reply: NldevAttributes| {
            copies = reply.copy_on_fork.is_some_and(|value| value != 0);
            true
        };
        client.request(get_system(), take).is_ok()
    });
    replied && copies
}
