//! Messages and attributes as a kernel writes them, for the tests.

use crate::message::HEADER_LEN;

/// An attribute with its padding.
pub fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = [(4 + value.len() as u16).to_ne_bytes(), kind.to_ne_bytes()].concat();
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// A message with its padding.
pub fn message(kind: u16, flags: u16, sequence: u32, payload: &[u8]) -> Vec<u8> {
    let len = (HEADER_LEN + payload.len()) as u32;
    let mut bytes = [
        &len.to_ne_bytes()[..],
        &kind.to_ne_bytes(),
        &flags.to_ne_bytes(),
        &sequence.to_ne_bytes(),
        &[0; 4],
        payload,
    ]
    .concat();
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// A family's fixed part and attributes.
pub fn payload(fixed: &[u8], attributes: &[Vec<u8>]) -> Vec<u8> {
    [fixed.to_vec(), attributes.concat()].concat()
}

pub fn ip(text: &str) -> std::net::IpAddr {
    text.parse().unwrap()
}
