//! Answers as kernels give them, and as nobody should.

use proptest::prelude::*;

use super::*;

/// A message with attributes (type, value).
pub fn message(kind: u16, flags: u16, attributes: &[(u16, &[u8])]) -> Vec<u8> {
    let mut payload = Vec::new();
    for (kind, value) in attributes {
        payload.extend_from_slice(&(4 + value.len() as u16).to_ne_bytes());
        payload.extend_from_slice(&kind.to_ne_bytes());
        payload.extend_from_slice(value);
        payload.resize(payload.len().next_multiple_of(4), 0);
    }
    raw(kind, flags, &payload)
}

fn raw(kind: u16, flags: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = ((HEADER_LEN + payload.len()) as u32).to_ne_bytes().to_vec();
    bytes.extend_from_slice(&kind.to_ne_bytes());
    bytes.extend_from_slice(&flags.to_ne_bytes());
    bytes.extend_from_slice(&[0; 8]);
    bytes.extend_from_slice(payload);
    bytes
}

const GET: u16 = RDMA_NL_NLDEV << 10 | 1;

fn rxe() -> Vec<u8> {
    message(
        GET,
        NLM_F_MULTIPART,
        &[
            (DEV_INDEX, &7_u32.to_ne_bytes()),
            (DEV_NAME, b"rxe0\0"),
            (PORT_INDEX, &1_u32.to_ne_bytes()),
            (4, &[0; 8]),
            (NODE_GUID, &0x0200_00ff_fe00_0901_u64.to_ne_bytes()),
            (DEV_NODE_TYPE, &[1]),
            (200, b"a future attribute"),
        ],
    )
}

fn done() -> Vec<u8> {
    raw(NLMSG_DONE, NLM_F_MULTIPART, &[0; 4])
}

fn all(datagrams: &[Vec<u8>]) -> (Vec<Attributes<'_>>, Result<Next, Refused>) {
    let mut reply = Reply::default();
    let mut taken = Vec::new();
    let mut last = Ok(Next::More);
    for datagram in datagrams {
        last = reply.datagram(datagram, |attributes| {
            taken.push(attributes);
            true
        });
        if last != Ok(Next::More) {
            break;
        }
    }
    (taken, last)
}

#[test]
fn requests() {
    let bytes = Request::Devices.encode();
    assert_eq!(bytes.as_slice(), {
        let mut expected = raw(5 << 10 | 1, 0x301, &[]);
        expected[8] = 1;
        expected
    });
    let bytes = Request::CharDevice {
        index: 7,
        name: b"uverbs\0",
    }
    .encode();
    assert_eq!(bytes.len(), 16 + 8 + 12);
    assert_eq!(bytes[..2], 36_u16.to_ne_bytes());
    assert_eq!(bytes[4..8], [15, 5 << 2, 1, 0]);
    assert_eq!(
        bytes[16..],
        *b"\x08\0\x01\0\x07\0\0\0\x0b\0\x45\0uverbs\0\0"
    );
    assert_eq!(Request::System.encode()[4..8], [6, 5 << 2, 1, 0]);
}

#[test]
fn a_dump_in_one_datagram_or_several() {
    let expected = Attributes {
        dev_index: Some(7),
        dev_name: Some(b"rxe0"),
        port_index: Some(1),
        node_guid: Some(0x0200_00ff_fe00_0901),
        node_type: Some(1),
        ..Attributes::default()
    };
    let one = [[rxe(), rxe(), done()].concat()];
    assert_eq!(all(&one), (vec![expected, expected], Ok(Next::Done)));
    let many = [rxe(), rxe(), done()];
    assert_eq!(all(&many), (vec![expected, expected], Ok(Next::Done)));
    assert_eq!(all(&[done()]), (vec![], Ok(Next::Done)));
    assert_eq!(all(&[rxe()]).1, Ok(Next::More));
}

#[test]
fn a_char_device() {
    let reply = [message(
        RDMA_NL_NLDEV << 10 | 15,
        0,
        &[
            (CHARDEV, &0xe7c0_u64.to_ne_bytes()),
            (CHARDEV_ABI, &2_u64.to_ne_bytes()),
            (CHARDEV_NAME, b"uverbs0\0"),
            (UVERBS_DRIVER_ID, &14_u32.to_ne_bytes()),
        ],
    )];
    let (taken, end) = all(&reply);
    assert_eq!(end, Ok(Next::Done));
    assert_eq!(taken[0].chardev_name, Some(&b"uverbs0"[..]));
    assert_eq!(taken[0].chardev_abi, Some(2));
    assert_eq!(taken[0].driver_id, Some(14));
    assert_eq!(taken[0].chardev.map(device_number), Some((231, 192)));
    assert_eq!(device_number(0x1_2345_6789), (0x567, 0x2_3489));
}

#[test]
fn errors() {
    let error = |code: i32| {
        raw(
            NLMSG_ERROR,
            0,
            &[&code.to_ne_bytes()[..], &[0; 16]].concat(),
        )
    };
    assert_eq!(
        all(&[error(-libc::EPERM)]).1,
        Err(Refused::Kernel(Errno(libc::EPERM)))
    );
    assert_eq!(
        all(&[error(i32::MIN)]).1,
        Err(Refused::Kernel(Errno(i32::MIN)))
    );
    assert_eq!(all(&[error(0)]).1, Ok(Next::Done));
    assert_eq!(
        all(&[raw(NLMSG_ERROR, 0, &[0; 4])]).1,
        Err(Refused::Invalid)
    );
    assert_eq!(all(&[raw(NLMSG_OVERRUN, 0, &[])]).1, Err(Refused::Invalid));
    assert_eq!(all(&[raw(NLMSG_NOOP, 0, &[])]).1, Ok(Next::Done));
    let interrupted = raw(GET, NLM_F_MULTIPART | NLM_F_DUMP_INTERRUPTED, &[]);
    assert_eq!(all(&[interrupted, done()]).1, Err(Refused::Interrupted));
}

#[test]
fn wrong_lengths() {
    for (kind, len) in [
        (DEV_INDEX, 3),
        (PORT_INDEX, 0),
        (NODE_GUID, 7),
        (DEV_NODE_TYPE, 0),
        (CHARDEV, 4),
        (CHARDEV_ABI, 4),
        (UVERBS_DRIVER_ID, 2),
        (COPY_ON_FORK, 0),
    ] {
        let short = message(GET, 0, &[(kind, &[0; 8][..len])]);
        assert_eq!(all(&[short]).1, Err(Refused::Invalid), "attribute {kind}");
    }
    // Longer is fine, and so is a string without its NUL, or an empty one.
    let long = [message(
        GET,
        0,
        &[(DEV_NODE_TYPE, &[4, 0, 0, 0]), (DEV_NAME, b"rxe0")],
    )];
    let (taken, end) = all(&long);
    assert_eq!(
        (taken[0].node_type, taken[0].dev_name, end),
        (Some(4), Some(&b"rxe0"[..]), Ok(Next::Done))
    );
    let empty = [message(GET, 0, &[(DEV_NAME, b"")])];
    assert_eq!(all(&empty).0[0].dev_name, Some(&b""[..]));
    // The flag bits of an attribute's type do not count.
    let flagged = [message(GET, 0, &[(DEV_INDEX | 0x8000, &[9, 0, 0, 0])])];
    assert_eq!(
        all(&flagged).0[0].dev_index,
        Some(u32::from_ne_bytes([9, 0, 0, 0]))
    );
}

#[test]
fn what_is_cut_off_is_ignored() {
    let mut cut = rxe();
    cut.truncate(cut.len() - 1);
    assert_eq!(all(&[cut]), (vec![], Ok(Next::Done)));
    let mut attribute = message(GET, 0, &[(DEV_INDEX, &[1, 0, 0, 0]), (DEV_NAME, b"rxe0\0")]);
    attribute[24] = 200;
    assert_eq!(all(&[attribute.clone()]).0[0].dev_name, None);
    attribute[24] = 3;
    assert_eq!(
        all(&[attribute]).0[0].dev_index,
        Some(u32::from_ne_bytes([1, 0, 0, 0]))
    );
    assert_eq!(all(&[vec![]]), (vec![], Ok(Next::Done)));
}

#[test]
fn a_message_that_is_not_wanted_stops_the_answer() {
    let two = [rxe(), rxe()].concat();
    let mut count = 0;
    let end = Reply::default().datagram(&two, |_| {
        count += 1;
        false
    });
    assert_eq!((count, end), (1, Ok(Next::Done)));
}

proptest! {
    #[test]
    fn takes_any_bytes(datagrams: Vec<Vec<u8>>) {
        let _ = all(&datagrams);
    }

    #[test]
    fn takes_any_damage(at in 0_usize..200, to: u8, cut in 0_usize..200) {
        let mut bytes = [rxe(), done()].concat();
        let at = at % bytes.len();
        bytes[at] = to;
        bytes.truncate(bytes.len() - cut % bytes.len());
        let _ = all(&[bytes]);
    }
}
