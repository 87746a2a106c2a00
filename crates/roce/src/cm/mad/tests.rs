use proptest::prelude::*;

use super::*;
use crate::engine::Gid;

fn ids() -> impl Strategy<Value = Ids> {
    any::<(u32, u32)>().prop_map(|(local, remote)| Ids { local, remote })
}

fn about() -> impl Strategy<Value = About> {
    prop_oneof![Just(About::Req), Just(About::Rep), Just(About::Other)]
}

fn private<const LEN: usize>() -> impl Strategy<Value = [u8; LEN]> {
    any::<u8>().prop_map(|seed| std::array::from_fn(|i| seed.wrapping_mul(i as u8)))
}

fn req() -> impl Strategy<Value = CmMessage> {
    let kinds = prop_oneof![
        Just(ConnectionType::Rc),
        Just(ConnectionType::Uc),
        Just(ConnectionType::Xrc),
        Just(ConnectionType::Unsupported {
            service: 2,
            extended: 0
        }),
        Just(ConnectionType::Unsupported {
            service: 3,
            extended: 7
        }),
    ];
    let numbers = any::<([u32; 4], [u64; 2], [u8; 14], [Gid; 2], [bool; 2], u16)>();
    (numbers, kinds, private()).prop_map(|((a, b, c, gids, flags, pkey), connection, private)| {
        CmMessage::Req(Box::new(Req {
            local_id: a[0],
            vendor_id: a[1] >> 8,
            service_id: b[0],
            ca_guid: b[1],
            qpn: a[2] >> 8,
            responder_resources: c[0],
            initiator_depth: c[1],
            remote_response_timeout: c[2] >> 3,
            connection,
            flow_control: flags[0],
            starting_psn: a[3] >> 8,
            local_response_timeout: c[3] >> 3,
            retry_count: c[4] >> 5,
            pkey,
            path_mtu: c[5] >> 4,
            rnr_retry_count: c[6] >> 5,
            max_cm_retries: c[7] >> 4,
            srq: flags[1],
            local_gid: gids[0],
            remote_gid: gids[1],
            flow_label: a[3] >> 12,
            packet_rate: c[8] >> 2,
            traffic_class: c[9],
            hop_limit: c[10],
            sl: c[11] >> 4,
            ack_timeout: c[12] >> 3,
            private,
        }))
    })
}

fn rep() -> impl Strategy<Value = CmMessage> {
    let numbers = any::<([u32; 4], u64, [u8; 4], [bool; 2])>();
    (ids(), numbers, private()).prop_map(|(ids, (a, ca_guid, c, flags), private)| {
        CmMessage::Rep(Box::new(Rep {
            ids,
            vendor_id: a[0] >> 8,
            qpn: a[1] >> 8,
            xrc_qpn: a[2] >> 8,
            starting_psn: a[3] >> 8,
            responder_resources: c[0],
            initiator_depth: c[1],
            target_ack_delay: c[2] >> 3,
            flow_control: flags[0],
            rnr_retry_count: c[3] >> 5,
            srq: flags[1],
            ca_guid,
            private,
        }))
    })
}

fn message() -> impl Strategy<Value = CmMessage> {
    let rej = (ids(), about(), any::<(u16, Option<u64>)>(), private());
    let sidr_req = (any::<(u32, u16, u64)>(), private());
    let sidr_rep = (any::<(u32, u8, u32, u64, u32)>(), private());
    prop_oneof![
        req(),
        rep(),
        (ids(), about(), 0_u8..32).prop_map(|(ids, about, timeout)| CmMessage::Mra {
            ids,
            about,
            timeout
        }),
        rej.prop_map(|(ids, about, (reason, info), private)| {
            CmMessage::Rej(Box::new(Rej {
                ids,
                about,
                reason,
                info,
                private,
            }))
        }),
        ids().prop_map(CmMessage::Rtu),
        (ids(), 0_u32..1 << 24).prop_map(|(ids, remote_qpn)| CmMessage::Dreq { ids, remote_qpn }),
        ids().prop_map(CmMessage::Drep),
        ids().prop_map(CmMessage::Lap),
        ids().prop_map(CmMessage::Apr),
        sidr_req.prop_map(|((request_id, pkey, service_id), private)| {
            CmMessage::SidrReq(Box::new(SidrReq {
                request_id,
                pkey,
                service_id,
                private,
            }))
        }),
        sidr_rep.prop_map(|((request_id, status, qpn, service_id, qkey), private)| {
            CmMessage::SidrRep(Box::new(SidrRep {
                request_id,
                status,
                qpn: qpn >> 8,
                service_id,
                qkey,
                private,
            }))
        }),
    ]
}

proptest! {
    #[test]
    fn what_is_written_parses_to_the_same_values(
        tid: u64,
        modifier: u32,
        message in message(),
    ) {
        let mad = CmMad { tid, modifier, message };
        prop_assert_eq!(CmMad::parse(&mad.bytes()), Some(mad));
    }

    #[test]
    fn any_bytes_may_be_parsed(body in prop::collection::vec(any::<u8>(), 240), attribute in 0_u8..40) {
        let mut mad = [0; MAD_LEN];
        mad[..4].copy_from_slice(&[1, 7, 2, 3]);
        mad[16..].copy_from_slice(&body);
        mad[16..18].copy_from_slice(&[0, attribute]);
        if let Some(parsed) = CmMad::parse(&mad) {
            prop_assert_eq!(CmMad::parse(&parsed.bytes()), Some(parsed));
        }
    }
}

/// The offsets of 12.6.5, each once, so that two errors that cancel out are noticed.
#[test]
fn a_req_has_its_fields_where_the_specification_says() {
    let req = Req {
        local_id: 0x0102_0304,
        vendor_id: 0,
        service_id: 0x0000_0000_0106_1d2f,
        ca_guid: 0x1112_1314_1516_1718,
        qpn: 0x21_2223,
        responder_resources: 0x31,
        initiator_depth: 0x32,
        remote_response_timeout: 20,
        connection: ConnectionType::Rc,
        flow_control: true,
        starting_psn: 0x41_4243,
        local_response_timeout: 19,
        retry_count: 7,
        pkey: 0xffff,
        path_mtu: 3,
        rnr_retry_count: 6,
        max_cm_retries: 15,
        srq: true,
        local_gid: [0x51; 16],
        remote_gid: [0x61; 16],
        flow_label: 0xabcde,
        packet_rate: 3,
        traffic_class: 0x71,
        hop_limit: 0x72,
        sl: 5,
        ack_timeout: 17,
        private: [0x81; REQ_PRIVATE],
    };
    let mad = CmMad {
        tid: 0x9192_9394_9596_9798,
        modifier: 0,
        message: CmMessage::Req(Box::new(req)),
    };
    let bytes = mad.bytes();
    let at = |offset: usize, len: usize| &bytes[offset..offset + len];
    assert_eq!(at(0, 4), [1, 7, 2, 3]);
    assert_eq!(at(8, 2), [0x91, 0x92]);
    assert_eq!(at(16, 2), [0, 0x10]);
    assert_eq!(at(24, 4), [1, 2, 3, 4]);
    assert_eq!(at(24 + 8, 8), [0, 0, 0, 0, 1, 6, 0x1d, 0x2f]);
    assert_eq!(at(24 + 16, 2), [0x11, 0x12]);
    assert_eq!(at(24 + 32, 4), [0x21, 0x22, 0x23, 0x31]);
    assert_eq!(at(24 + 36, 4), [0, 0, 0, 0x32]);
    assert_eq!(at(24 + 40, 4), [0, 0, 0, 20 << 3 | 1]);
    assert_eq!(at(24 + 44, 4), [0x41, 0x42, 0x43, 19 << 3 | 7]);
    assert_eq!(at(24 + 48, 4), [0xff, 0xff, 3 << 4 | 6, 0xf8]);
    assert_eq!(at(24 + 52, 5), [0, 0, 0, 0, 0x51]);
    assert_eq!(at(24 + 71, 2), [0x51, 0x61]);
    assert_eq!(at(24 + 88, 4), [0xab, 0xcd, 0xe0, 3]);
    assert_eq!(at(24 + 92, 4), [0x71, 0x72, 5 << 4, 17 << 3]);
    assert_eq!(at(24 + 96, 44), [0; 44]);
    assert_eq!(at(24 + 140, 92), [0x81; 92]);
}
