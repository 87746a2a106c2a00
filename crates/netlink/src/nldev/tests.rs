//! Replies as kernels send them, and malformed ones.

use proptest::prelude::*;

use super::*;
use crate::testing;

const NLM_F_MULTIPART: u16 = libc::NLM_F_MULTI as u16;
const NLM_F_DUMP_INTERRUPTED: u16 = libc::NLM_F_DUMP_INTR as u16;

/// A message with attributes (type, value).
fn message(kind: u16, flags: u16, attributes: &[(u32, &[u8])]) -> Vec<u8> {
    let attributes = attributes
        .iter()
        .map(|(kind, value)| testing::attribute(*kind as u16, value));
    raw(kind, flags, &attributes.collect::<Vec<_>>().concat())
}

fn raw(kind: u16, flags: u16, payload: &[u8]) -> Vec<u8> {
    testing::message(kind, flags, 0, payload)
}

const GET: u16 = (RDMA_NL_NLDEV << 10 | 1) as u16;

fn rxe() -> Vec<u8> {
    message(
        GET,
        NLM_F_MULTIPART,
        &[
            (RDMA_NLDEV_ATTR_DEV_INDEX, &7_u32.to_ne_bytes()),
            (RDMA_NLDEV_ATTR_DEV_NAME, b"rxe0\0"),
            (RDMA_NLDEV_ATTR_PORT_INDEX, &1_u32.to_ne_bytes()),
            (4, &[0; 8]),
            (
                RDMA_NLDEV_ATTR_NODE_GUID,
                &0x0200_00ff_fe00_0901_u64.to_ne_bytes(),
            ),
            (RDMA_NLDEV_ATTR_DEV_NODE_TYPE, &[1]),
            (200, b"a future attribute"),
        ],
    )
}

fn done() -> Vec<u8> {
    raw(NLMSG_DONE, NLM_F_MULTIPART, &[0; 4])
}

fn all(datagrams: &[Vec<u8>]) -> (Vec<NldevAttributes<'_>>, Result<ReplyState, ReplyError>) {
    let mut parser = ReplyParser::default();
    let mut taken = Vec::new();
    let mut last = Ok(ReplyState::Incomplete);
    for datagram in datagrams {
        last = parser.datagram(datagram, |attributes| {
            taken.push(attributes);
            true
        });
        if last != Ok(ReplyState::Incomplete) {
            break;
        }
    }
    (taken, last)
}

#[test]
fn requests() {
    let mut request = get_devices();
    assert_eq!(request.encode(1), {
        let mut expected = raw(5 << 10 | 1, 0x301, &[]);
        expected[8] = 1;
        expected
    });
    let mut request = get_chardev(7, b"uverbs\0");
    let bytes = request.encode(1);
    assert_eq!(bytes.len(), 16 + 8 + 12);
    assert_eq!(bytes[..2], 36_u16.to_ne_bytes());
    assert_eq!(bytes[4..8], [15, 5 << 2, 1, 0]);
    assert_eq!(
        bytes[16..],
        *b"\x08\0\x01\0\x07\0\0\0\x0b\0\x45\0uverbs\0\0"
    );
    assert_eq!(get_system().encode(1)[4..8], [6, 5 << 2, 1, 0]);
}

#[test]
fn a_dump_in_one_datagram_or_several() {
    let expected = NldevAttributes {
        dev_index: Some(7),
        dev_name: Some(b"rxe0"),
        port_index: Some(1),
        node_guid: Some(0x0200_00ff_fe00_0901),
        node_type: Some(1),
        ..NldevAttributes::default()
    };
    let one = [[rxe(), rxe(), done()].concat()];
    assert_eq!(
        all(&one),
        (vec![expected, expected], Ok(ReplyState::Complete))
    );
    let many = [rxe(), rxe(), done()];
    assert_eq!(
        all(&many),
        (vec![expected, expected], Ok(ReplyState::Complete))
    );
    assert_eq!(all(&[done()]), (vec![], Ok(ReplyState::Complete)));
    assert_eq!(all(&[rxe()]).1, Ok(ReplyState::Incomplete));
}

#[test]
fn a_char_device() {
    let reply = [message(
        (RDMA_NL_NLDEV << 10 | 15) as u16,
        0,
        &[
            (RDMA_NLDEV_ATTR_CHARDEV, &0xe7c0_u64.to_ne_bytes()),
            (RDMA_NLDEV_ATTR_CHARDEV_ABI, &2_u64.to_ne_bytes()),
            (RDMA_NLDEV_ATTR_CHARDEV_NAME, b"uverbs0\0"),
            (RDMA_NLDEV_ATTR_UVERBS_DRIVER_ID, &14_u32.to_ne_bytes()),
        ],
    )];
    let (taken, end) = all(&reply);
    assert_eq!(end, Ok(ReplyState::Complete));
    assert_eq!(taken[0].chardev_name, Some(&b"uverbs0"[..]));
    assert_eq!(taken[0].chardev_abi, Some(2));
    assert_eq!(taken[0].driver_id, Some(14));
    assert_eq!(
        taken[0].chardev.map(decode_dev),
        Some(DeviceNumber {
            major: 231,
            minor: 192
        })
    );
    assert_eq!(
        decode_dev(0x1_2345_6789),
        DeviceNumber {
            major: 0x567,
            minor: 0x2_3489
        }
    );
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
        Err(ReplyError::Kernel(Errno(libc::EPERM)))
    );
    assert_eq!(
        all(&[error(i32::MIN)]).1,
        Err(ReplyError::Kernel(Errno(i32::MIN)))
    );
    assert_eq!(all(&[error(0)]).1, Ok(ReplyState::Complete));
    assert_eq!(
        all(&[raw(NLMSG_ERROR, 0, &[0; 4])]).1,
        Err(ReplyError::Malformed)
    );
    assert_eq!(
        all(&[raw(NLMSG_OVERRUN, 0, &[])]).1,
        Err(ReplyError::Malformed)
    );
    assert_eq!(all(&[raw(NLMSG_NOOP, 0, &[])]).1, Ok(ReplyState::Complete));
    let interrupted = raw(GET, NLM_F_MULTIPART | NLM_F_DUMP_INTERRUPTED, &[]);
    assert_eq!(
        all(&[interrupted, done()]).1,
        Err(ReplyError::DumpInterrupted)
    );
}

#[test]
fn wrong_lengths() {
    for (kind, len) in [
        (RDMA_NLDEV_ATTR_DEV_INDEX, 3),
        (RDMA_NLDEV_ATTR_PORT_INDEX, 0),
        (RDMA_NLDEV_ATTR_NODE_GUID, 7),
        (RDMA_NLDEV_ATTR_DEV_NODE_TYPE, 0),
        (RDMA_NLDEV_ATTR_CHARDEV, 4),
        (RDMA_NLDEV_ATTR_CHARDEV_ABI, 4),
        (RDMA_NLDEV_ATTR_UVERBS_DRIVER_ID, 2),
        (RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK, 0),
    ] {
        let short = message(GET, 0, &[(kind, &[0; 8][..len])]);
        assert_eq!(
            all(&[short]).1,
            Err(ReplyError::Malformed),
            "attribute {kind}"
        );
    }
    // Longer is fine, and so is a string without its NUL, or an empty one.
    let long = [message(
        GET,
        0,
        &[
            (RDMA_NLDEV_ATTR_DEV_NODE_TYPE, &[4, 0, 0, 0]),
            (RDMA_NLDEV_ATTR_DEV_NAME, b"rxe0"),
        ],
    )];
    let (taken, end) = all(&long);
    assert_eq!(
        (taken[0].node_type, taken[0].dev_name, end),
        (Some(4), Some(&b"rxe0"[..]), Ok(ReplyState::Complete))
    );
    let empty = [message(GET, 0, &[(RDMA_NLDEV_ATTR_DEV_NAME, b"")])];
    assert_eq!(all(&empty).0[0].dev_name, Some(&b""[..]));
    // The flag bits of an attribute's type are ignored.
    let flagged = [message(
        GET,
        0,
        &[(RDMA_NLDEV_ATTR_DEV_INDEX | 0x8000, &[9, 0, 0, 0])],
    )];
    assert_eq!(
        all(&flagged).0[0].dev_index,
        Some(u32::from_ne_bytes([9, 0, 0, 0]))
    );
}

#[test]
fn what_is_cut_off_is_ignored() {
    let mut cut = rxe();
    cut.truncate(cut.len() - 1);
    assert_eq!(all(&[cut]), (vec![], Ok(ReplyState::Complete)));
    let mut attribute = message(
        GET,
        0,
        &[
            (RDMA_NLDEV_ATTR_DEV_INDEX, &[1, 0, 0, 0]),
            (RDMA_NLDEV_ATTR_DEV_NAME, b"rxe0\0"),
        ],
    );
    attribute[24] = 200;
    assert_eq!(all(&[attribute.clone()]).0[0].dev_name, None);
    attribute[24] = 3;
    assert_eq!(
        all(&[attribute]).0[0].dev_index,
        Some(u32::from_ne_bytes([1, 0, 0, 0]))
    );
    assert_eq!(all(&[vec![]]), (vec![], Ok(ReplyState::Complete)));
}

#[test]
fn take_can_end_the_reply() {
    let two = [rxe(), rxe()].concat();
    let mut count = 0;
    let end = ReplyParser::default().datagram(&two, |_| {
        count += 1;
        false
    });
    assert_eq!((count, end), (1, Ok(ReplyState::Complete)));
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
