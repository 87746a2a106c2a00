//! The other processes of the host: a MAD comes to the process that has port 4791 at its address, and is for
//! the one whose agent has asked, or has registered for such requests.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use ibverbs_abi::{Errno, Result};

use super::agents::{prefix_of, registration_of};
use super::datagram::{Header, header_of};
use super::user_mad::Registration;
use crate::cm::ucma::named::NamedSocket;
use crate::cm::ucma::names::{self, Blocking, Incoming};
use crate::descriptors::Owned;
use crate::random;
use roce::engine::Gid;

/// How many prefixes are tried.
const PREFIX_TRIES: usize = 64;
/// Prefixes are from 1 to this number.
const PREFIXES: u32 = (1 << 24) - 1;
const EADDRINUSE: Errno = Errno(libc::EADDRINUSE);

/// The names that an agent owns.
pub type Reserved = Vec<Arc<NamedSocket>>;

/// The name of the process whose agents have this prefix.
fn of_prefix(prefix: u32) -> String {
    format!("uroce-mad.ids.{prefix:06x}")
}

/// The name of the process that gets the requests of a class to an address.
pub fn of_requests(of: &Registration, gid: &Gid) -> String {
    let gid = u128::from_be_bytes(*gid);
    let [a, b, c] = of.oui;
    let (class, version) = (of.class, of.class_version);
    format!("uroce-mad.class.{class:02x}.{version:02x}.{a:02x}{b:02x}{c:02x}.{gid:032x}")
}

/// Takes the name of a prefix that no other process of the network namespace has. Fails as bind(2) does, and
/// with EADDRINUSE if other processes have all that are tried.
pub fn bind_prefix() -> Result<(u32, Owned<OwnedFd>)> {
    for _ in 0..PREFIX_TRIES {
        let prefix = 1 + random::random() % PREFIXES;
        match names::bind(&of_prefix(prefix)) {
            Err(EADDRINUSE) => {}
            result => return result.map(|socket| (prefix, socket)),
        }
    }
    Err(EADDRINUSE)
}

/// The name of the process that a MAD is for.
fn recipient_of(header: &Header, incoming: &Incoming) -> String {
    match header.is_response() {
        true => of_prefix(prefix_of(header.tid)),
        false => of_requests(&registration_of(header, &incoming.mad), &incoming.dst),
    }
}

/// Passes a MAD on to the process that it is for. ECONNREFUSED if there is none. Does not block.
pub fn forward(incoming: &Incoming) -> Result<()> {
    let header = header_of(&incoming.mad);
    let fd = names::connect(&recipient_of(&header, incoming))?;
    names::send(fd.as_raw_fd(), incoming, Blocking::No)
}

#[cfg(test)]
mod tests {
    use super::super::datagram::method;
    use super::super::datagram::tests::request;
    use super::*;

    #[test]
    fn requests_go_by_class_and_address_and_answers_by_transaction() {
        let mut incoming = Incoming {
            src: [1; 16],
            dst: [2; 16],
            mad: request(0x32, method::GET, 0, 0),
        };
        incoming.mad[37..40].copy_from_slice(&[0, 0x14, 5]);
        let name = |incoming: &Incoming| recipient_of(&header_of(&incoming.mad), incoming);
        let expected = format!("uroce-mad.class.32.01.001405.{}", "02".repeat(16));
        assert_eq!(name(&incoming), expected);
        incoming.mad[3] = method::GET_RESP;
        assert_eq!(name(&incoming), "uroce-mad.ids.010203");
        assert_eq!(forward(&incoming), Err(Errno(libc::ECONNREFUSED)));
    }
}
