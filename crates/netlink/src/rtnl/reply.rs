//! [`Reply`]: the reply to a request, datagram by datagram. Pure.

use ibverbs_abi::Errno;

use crate::message::{ReplyState, messages};

/// The contents of a reply's messages.
pub(super) struct Reply<T> {
    pub parsed: Vec<T>,
    /// The table changed during the dump: entries may be missing.
    pub interrupted: bool,
}

impl<T> Reply<T> {
    pub fn new() -> Reply<T> {
        Reply {
            parsed: Vec::new(),
            interrupted: false,
        }
    }

    /// Adds a datagram. Of the messages with the request's sequence number, keeps what `parse` makes of those
    /// of type `kind`. The error is the kernel's reply to the request.
    pub fn datagram(
        &mut self,
        bytes: &[u8],
        sequence: u32,
        kind: u16,
        parse: impl Fn(&[u8]) -> Option<T>,
    ) -> Result<ReplyState, Errno> {
        // Notifications have the sequence number 0.
        for message in messages(bytes).filter(|message| message.sequence == sequence) {
            self.interrupted |= message.is_dump_interrupted();
            if let Some(status) = message.status() {
                return status.map(|()| ReplyState::Complete);
            }
            if message.kind == kind {
                self.parsed.extend(parse(message.payload));
            }
            if !message.is_multipart() {
                return Ok(ReplyState::Complete);
            }
        }
        Ok(ReplyState::Incomplete)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{NLMSG_DONE, NLMSG_ERROR};
    use crate::testing;

    const MULTI: u16 = libc::NLM_F_MULTI as u16;
    const INTERRUPTED: u16 = libc::NLM_F_DUMP_INTR as u16;
    const KIND: u16 = libc::RTM_NEWLINK;
    const SEQUENCE: u32 = 7;

    /// Adds a datagram of messages to the reply; their payloads are one byte each, and 0 does not parse.
    fn add(reply: &mut Reply<u8>, parts: &[Vec<u8>]) -> Result<ReplyState, Errno> {
        let parse = |payload: &[u8]| payload.first().copied().filter(|byte| *byte != 0);
        reply.datagram(&parts.concat(), SEQUENCE, KIND, parse)
    }

    fn entry(flags: u16, byte: u8) -> Vec<u8> {
        testing::message(KIND, flags, SEQUENCE, &[byte])
    }

    fn end(kind: u16, code: i32) -> Vec<u8> {
        testing::message(kind, MULTI, SEQUENCE, &code.to_ne_bytes())
    }

    #[test]
    fn a_dump_ends_with_done() {
        let mut reply = Reply::new();
        let first = add(&mut reply, &[entry(MULTI, 1), entry(MULTI, 0)]);
        assert_eq!(first, Ok(ReplyState::Incomplete));
        let done = end(NLMSG_DONE, 0);
        let second = add(&mut reply, &[entry(MULTI, 2), done, entry(MULTI, 3)]);
        assert_eq!(second, Ok(ReplyState::Complete));
        assert_eq!((&reply.parsed[..], reply.interrupted), (&[1, 2][..], false));
    }

    #[test]
    fn another_reply_is_one_message() {
        let mut reply = Reply::new();
        let state = add(&mut reply, &[entry(0, 1), entry(0, 2)]);
        assert_eq!((state, reply.parsed), (Ok(ReplyState::Complete), vec![1]));
        // Also one of another type, which is not parsed.
        let mut reply = Reply::new();
        let other = testing::message(libc::RTM_NEWADDR, 0, SEQUENCE, &[1]);
        assert_eq!(add(&mut reply, &[other]), Ok(ReplyState::Complete));
        assert!(reply.parsed.is_empty());
    }

    #[test]
    fn messages_with_another_sequence_number_are_ignored() {
        let mut reply = Reply::new();
        let notification = testing::message(KIND, 0, 0, &[1]);
        let stale = testing::message(NLMSG_DONE, MULTI, SEQUENCE - 1, &[0; 4]);
        let state = add(&mut reply, &[notification, stale, entry(MULTI, 2)]);
        assert_eq!(state, Ok(ReplyState::Incomplete));
        assert_eq!(reply.parsed, [2]);
    }

    #[test]
    fn errors_end_a_reply() {
        for kind in [NLMSG_ERROR, NLMSG_DONE] {
            let state = add(&mut Reply::new(), &[end(kind, -libc::EPERM), entry(0, 1)]);
            assert_eq!(state, Err(Errno(libc::EPERM)));
        }
        let acknowledged = add(&mut Reply::new(), &[end(NLMSG_ERROR, 0)]);
        assert_eq!(acknowledged, Ok(ReplyState::Complete));
    }

    #[test]
    fn an_interrupted_dump() {
        let mut reply = Reply::new();
        let parts = [entry(MULTI | INTERRUPTED, 1), end(NLMSG_DONE, 0)];
        assert_eq!(add(&mut reply, &parts), Ok(ReplyState::Complete));
        assert!(reply.interrupted);
    }
}
