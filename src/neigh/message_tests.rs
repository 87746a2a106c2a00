//! Requests as the kernel's headers say, answers as kernels send them and as they do not.

use super::*;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// An attribute with its padding.
fn attr(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; Attribute(kind, value).buffer_len()];
    Attribute(kind, value).emit(&mut bytes);
    bytes
}

fn payload(fixed: &[u8], attributes: &[Vec<u8>]) -> Vec<u8> {
    [fixed.to_vec(), attributes.concat()].concat()
}

#[test]
fn requests() {
    // On a little-endian machine.
    let mut route = Request::route(ip("10.9.9.2"), 7);
    #[rustfmt::skip]
    assert_eq!(route.numbered(3), [
        44, 0, 0, 0, 26, 0, 1, 0, 3, 0, 0, 0, 0, 0, 0, 0, // RTM_GETROUTE, NLM_F_REQUEST
        2, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,              // AF_INET, /32
        8, 0, 1, 0, 10, 9, 9, 2,                          // RTA_DST
        8, 0, 4, 0, 7, 0, 0, 0,                           // RTA_OIF
    ]);
    let mut route = Request::route(ip("fd00::2"), 7);
    let bytes = route.numbered(4);
    assert_eq!((bytes.len(), bytes[16], bytes[17]), (56, 10, 128));

    let mut neighbour = Request::neighbour(ip("10.9.9.2"), 0x1_0007);
    #[rustfmt::skip]
    assert_eq!(neighbour.numbered(1), [
        36, 0, 0, 0, 30, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0,
        2, 0, 0, 0, 7, 0, 1, 0, 0, 0, 0, 0,
        8, 0, 1, 0, 10, 9, 9, 2,
    ]);
    let mut all = Request::addresses(ip("::1"));
    assert_eq!(
        all.numbered(1)[..24],
        [
            24, 0, 0, 0, 22, 0, 1, 3, 1, 0, 0, 0, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0, 0, 0
        ]
    );
    let mut link = Request::link(5);
    assert_eq!(
        link.numbered(1)[20..],
        [5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0, 29, 0, 8, 0, 0, 0]
    );
}

#[test]
fn routes() {
    let mut fixed = [0; RTMSG];
    fixed[0] = libc::AF_INET as u8;
    fixed[7] = libc::RTN_UNICAST;
    let gateway = attr(libc::RTA_GATEWAY, &[10, 0, 0, 1]);
    let other = attr(libc::RTA_DST, &[8, 8, 8, 8]);
    let behind = Route {
        kind: libc::RTN_UNICAST,
        gateway: Some(ip("10.0.0.1")),
    };
    assert_eq!(
        route(&payload(&fixed, &[other.clone(), gateway])),
        Some(behind)
    );
    let direct = Some(Route {
        kind: libc::RTN_UNICAST,
        gateway: None,
    });
    assert_eq!(route(&payload(&fixed, &[other])), direct);
    // A gateway that is no address of this family.
    assert_eq!(
        route(&payload(&fixed, &[attr(libc::RTA_GATEWAY, &[1; 16])])),
        direct
    );
    assert_eq!(route(&fixed[..11]), None);
    assert_eq!(route(&[]), None);
}

#[test]
fn interfaces_with_an_address() {
    let fixed = [libc::AF_INET as u8, 24, 0, 0, 9, 0, 0, 0];
    let local = attr(libc::IFA_LOCAL, &[10, 0, 0, 1]);
    let other_end = attr(libc::IFA_ADDRESS, &[10, 0, 0, 2]);
    let ptp = payload(&fixed, &[other_end.clone(), local]);
    assert_eq!(interface_with(&ptp, ip("10.0.0.1")), Some(9));
    assert_eq!(interface_with(&ptp, ip("10.0.0.2")), None);
    assert_eq!(
        interface_with(&payload(&fixed, &[other_end]), ip("10.0.0.2")),
        Some(9)
    );
    assert_eq!(interface_with(&fixed, ip("10.0.0.2")), None);
    assert_eq!(interface_with(&[2], ip("10.0.0.2")), None);
}

#[test]
fn neighbours() {
    let mut fixed = [0; NDMSG];
    fixed[0] = libc::AF_INET as u8;
    fixed[4] = 9;
    let dst = attr(libc::NDA_DST, &[10, 0, 0, 2]);
    let mac = attr(libc::NDA_LLADDR, &[2, 0, 0, 0, 0, 5]);
    let known = payload(&fixed, &[dst.clone(), mac.clone()]);
    let found = address_of(&known, ip("10.0.0.2"), 9);
    assert_eq!(found.unwrap().bytes(), [2, 0, 0, 0, 0, 5]);
    assert_eq!(address_of(&known, ip("10.0.0.2"), 8), None);
    assert_eq!(address_of(&known, ip("10.0.0.3"), 9), None);
    assert_eq!(
        address_of(
            &payload(&fixed, std::slice::from_ref(&dst)),
            ip("10.0.0.2"),
            9
        ),
        None
    );
    assert_eq!(
        address_of(&payload(&fixed, &[mac]), ip("10.0.0.2"), 9),
        None
    );
    let long = attr(libc::NDA_LLADDR, &[1; 33]);
    assert_eq!(
        address_of(&payload(&fixed, &[dst, long]), ip("10.0.0.2"), 9),
        None
    );
}

#[test]
fn links() {
    let fixed = [0; IFINFOMSG];
    let mac = attr(libc::IFLA_ADDRESS, &[2, 0, 0, 0, 0, 5]);
    let info = |kind: &[u8], id: &[u8]| {
        let data = attr(libc::IFLA_INFO_DATA, &attr(IFLA_VLAN_ID, id));
        attr(
            libc::IFLA_LINKINFO,
            &[attr(libc::IFLA_INFO_KIND, kind), data].concat(),
        )
    };
    let vlan = |info: Vec<u8>| link(&payload(&fixed, &[mac.clone(), info])).unwrap().vlan;
    assert_eq!(vlan(info(b"vlan\0", &[100, 0])), Some(100));
    assert_eq!(vlan(info(b"vlan", &[0xff, 0x0f])), Some(4095));
    assert_eq!(vlan(info(b"vlan\0", &[0, 0x10])), None);
    assert_eq!(vlan(info(b"vlan\0", &[1])), None);
    assert_eq!(vlan(info(b"veth\0", &[100, 0])), None);
    assert_eq!(vlan(attr(libc::IFLA_LINKINFO, &[9, 9, 9])), None);
    assert_eq!(
        link(&payload(&fixed, &[mac]))
            .unwrap()
            .address
            .unwrap()
            .bytes(),
        [2, 0, 0, 0, 0, 5]
    );
    assert_eq!(
        link(&fixed),
        Some(Link {
            address: None,
            vlan: None
        })
    );
    assert_eq!(link(&fixed[1..]), None);
}

#[test]
fn datagrams() {
    let mut request = Request::link(5);
    let one = request.numbered(77).to_vec();
    let two = [one.clone(), one.clone()].concat();
    assert_eq!(
        messages(&two)
            .map(|m| (m.sequence, m.payload.len()))
            .collect::<Vec<_>>(),
        [(77, 24), (77, 24)]
    );
    // Cut off anywhere.
    for len in 0..two.len() {
        assert_eq!(messages(&two[..len]).count(), len / one.len());
    }
    for len in [0, 15, 41, u32::MAX] {
        let mut bad = one.clone();
        bad[..4].copy_from_slice(&u32::to_ne_bytes(len));
        assert_eq!(messages(&bad).count(), 0);
    }
}

#[test]
fn ends_of_answers() {
    let end = |kind, payload: &[u8]| {
        let message = Message {
            kind,
            sequence: 1,
            multipart: false,
            interrupted: false,
            payload,
        };
        message.status()
    };
    assert_eq!(end(NLMSG_ERROR, &i32::to_ne_bytes(-2)), Some(Err(2)));
    assert_eq!(
        end(NLMSG_ERROR, &i32::to_ne_bytes(i32::MIN)),
        Some(Err(i32::MAX))
    );
    assert_eq!(end(NLMSG_ERROR, &[0; 20]), Some(Ok(())));
    assert_eq!(end(NLMSG_DONE, &[]), Some(Ok(())));
    assert_eq!(end(libc::RTM_NEWROUTE, &[]), None);
}

proptest::proptest! {
    /// Nothing that arrives makes us read where nothing is.
    #[test]
    fn nonsense_is_survived(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
        for m in messages(&bytes) {
            let _ = m.status();
        }
        let _ = (route(&bytes), link(&bytes), interface_with(&bytes, ip("::1")), address_of(&bytes, ip("::1"), 0));
    }
}
