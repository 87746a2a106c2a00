//! The messages as values, and where their fields are (12.6, 12.11).

use super::{
    REJ, REJ_PRIVATE, REP, REP_PRIVATE, REQ, REQ_PRIVATE, SIDR_REP_PRIVATE, SIDR_REQ_PRIVATE,
};
use crate::engine::Gid;

/// The message that an MRA or a REJ is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// A REQ.
    Req,
    /// A REP.
    Rep,
    /// Another message.
    Other,
}

impl About {
    /// Decodes the two bits of the field. The value 3 is reserved, and read as [`About::Other`].
    pub fn parse(bits: u8) -> About {
        match bits {
            0 => About::Req,
            1 => About::Rep,
            _ => About::Other,
        }
    }

    /// The two bits of the field.
    pub fn bits(self) -> u8 {
        match self {
            About::Req => 0,
            About::Rep => 1,
            About::Other => 2,
        }
    }
}

/// The transport service of a connection that a REQ asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionType {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Extended reliable connection.
    Xrc,
    /// Other types, such as RD: the values of the field, and of the field for extended services.
    Unsupported {
        /// The transport service type, 2 bits.
        service: u8,
        /// The extended transport type, 3 bits.
        extended: u8,
    },
}

/// The communication IDs of a message. `local` is the sender's, `remote` the receiver's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ids {
    /// The sender's.
    pub local: u32,
    /// The receiver's; 0 if it is not known.
    pub remote: u32,
}

/// A request for a connection (12.6.5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Req {
    /// The sender's communication ID.
    pub local_id: u32,
    /// The vendor ID, 24 bits.
    pub vendor_id: u32,
    /// The service ID that it is for.
    pub service_id: u64,
    /// The GUID of the sender's device.
    pub ca_guid: u64,
    /// The queue pair number of the sender.
    pub qpn: u32,
    /// READs and atomics that the sender takes at a time.
    pub responder_resources: u8,
    /// READs and atomics that the sender starts at a time.
    pub initiator_depth: u8,
    /// Encoded time in which the receiver answers, as 4.096 µs · 2^n.
    pub remote_response_timeout: u8,
    /// The transport service.
    pub connection: ConnectionType,
    /// Whether the sender has end-to-end flow control.
    pub flow_control: bool,
    /// The first PSN of the sender's requests.
    pub starting_psn: u32,
    /// Encoded time in which the sender answers, as 4.096 µs · 2^n.
    pub local_response_timeout: u8,
    /// The other end's retries.
    pub retry_count: u8,
    /// The partition key.
    pub pkey: u16,
    /// As in `ibv_qp_attr.path_mtu`.
    pub path_mtu: u8,
    /// The other end's RNR retries.
    pub rnr_retry_count: u8,
    /// How often a message of the communication manager is retransmitted.
    pub max_cm_retries: u8,
    /// Whether the queue pair has a shared receive queue.
    pub srq: bool,
    /// The sender's GID.
    pub local_gid: Gid,
    /// The receiver's GID.
    pub remote_gid: Gid,
    /// The flow label, 20 bits.
    pub flow_label: u32,
    /// The static rate, 6 bits.
    pub packet_rate: u8,
    /// The traffic class.
    pub traffic_class: u8,
    /// The hop limit.
    pub hop_limit: u8,
    /// The service level, 4 bits.
    pub sl: u8,
    /// As in `ibv_qp_attr.timeout`.
    pub ack_timeout: u8,
    /// Private data.
    pub private: [u8; REQ_PRIVATE],
}

/// A reply: the connection is accepted (12.6.8).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rep {
    /// The communication IDs.
    pub ids: Ids,
    /// The vendor ID, 24 bits.
    pub vendor_id: u32,
    /// The queue pair number of the sender.
    pub qpn: u32,
    /// The number of an XRC target, in the place of the EE context number.
    pub xrc_qpn: u32,
    /// The first PSN of the sender's requests.
    pub starting_psn: u32,
    /// READs and atomics that the sender takes at a time.
    pub responder_resources: u8,
    /// READs and atomics that the sender starts at a time.
    pub initiator_depth: u8,
    /// The encoded time that the sender takes for an ACK.
    pub target_ack_delay: u8,
    /// Whether the sender has end-to-end flow control.
    pub flow_control: bool,
    /// The other end's RNR retries.
    pub rnr_retry_count: u8,
    /// Whether the queue pair has a shared receive queue.
    pub srq: bool,
    /// The GUID of the sender's device.
    pub ca_guid: u64,
    /// Private data.
    pub private: [u8; REP_PRIVATE],
}

/// A rejection (12.6.7).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rej {
    /// The communication IDs.
    pub ids: Ids,
    /// The message that is rejected.
    pub about: About,
    /// One of [`reason`](super::reason), or another number (12.6.7.2).
    pub reason: u16,
    /// The GUID in the additional information, which a REJ for [`TIMEOUT`](super::reason::TIMEOUT) has.
    pub info: Option<u64>,
    /// Private data.
    pub private: [u8; REJ_PRIVATE],
}

/// A request for the queue pair of a datagram service (12.11.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SidrReq {
    /// The sender's number of the request.
    pub request_id: u32,
    /// The partition key.
    pub pkey: u16,
    /// The service ID.
    pub service_id: u64,
    /// Private data.
    pub private: [u8; SIDR_REQ_PRIVATE],
}

/// The answer to a [`SidrReq`] (12.11.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SidrRep {
    /// The number of the request.
    pub request_id: u32,
    /// One of [`sidr_status`](super::sidr_status), or another number.
    pub status: u8,
    /// The queue pair number of the service.
    pub qpn: u32,
    /// The service ID.
    pub service_id: u64,
    /// The Q_Key of the queue pair.
    pub qkey: u32,
    /// Private data.
    pub private: [u8; SIDR_REP_PRIVATE],
}

impl Ids {
    /// Writes the IDs, which all messages but REQ and the SIDR messages begin with.
    pub(super) fn write(self, body: &mut [u8]) {
        put(body, 0, &self.local.to_be_bytes());
        put(body, 4, &self.remote.to_be_bytes());
    }

    /// Writes a message that has only the IDs; returns its attribute ID.
    pub(super) fn write_as(self, attribute: u16, body: &mut [u8]) -> u16 {
        self.write(body);
        attribute
    }
}

impl Req {
    /// Parses the body of a REQ.
    pub(super) fn parse(body: Fields<'_>) -> Req {
        // Transport service type, and the extended one if that is 3.
        let connection = match (body.u8(43) >> 1 & 3, body.u8(51) & 7) {
            (0, _) => ConnectionType::Rc,
            (1, _) => ConnectionType::Uc,
            (3, 1) => ConnectionType::Xrc,
            (service, extended) => ConnectionType::Unsupported { service, extended },
        };
        Req {
            local_id: body.u32(0),
            vendor_id: body.u24(5),
            service_id: body.u64(8),
            ca_guid: body.u64(16),
            qpn: body.u24(32),
            responder_resources: body.u8(35),
            initiator_depth: body.u8(39),
            remote_response_timeout: body.u8(43) >> 3,
            connection,
            flow_control: body.u8(43) & 1 != 0,
            starting_psn: body.u24(44),
            local_response_timeout: body.u8(47) >> 3,
            retry_count: body.u8(47) & 7,
            pkey: body.u16(48),
            path_mtu: body.u8(50) >> 4,
            rnr_retry_count: body.u8(50) & 7,
            max_cm_retries: body.u8(51) >> 4,
            srq: body.u8(51) & 8 != 0,
            local_gid: body.bytes(56),
            remote_gid: body.bytes(72),
            flow_label: body.u32(88) >> 12,
            packet_rate: body.u8(91) & 0x3f,
            traffic_class: body.u8(92),
            hop_limit: body.u8(93),
            sl: body.u8(94) >> 4,
            ack_timeout: body.u8(95) >> 3,
            private: body.bytes(140),
        }
    }

    /// Writes the body; returns the attribute ID.
    pub(super) fn write(&self, body: &mut [u8]) -> u16 {
        let (service, extended) = match self.connection {
            ConnectionType::Rc => (0, 0),
            ConnectionType::Uc => (1, 0),
            ConnectionType::Xrc => (3, 1),
            ConnectionType::Unsupported { service, extended } => (service, extended),
        };
        put(body, 0, &self.local_id.to_be_bytes());
        put24(body, 5, self.vendor_id);
        put(body, 8, &self.service_id.to_be_bytes());
        put(body, 16, &self.ca_guid.to_be_bytes());
        put24(body, 32, self.qpn);
        body[35] = self.responder_resources;
        body[39] = self.initiator_depth;
        body[43] = self.remote_response_timeout << 3 | service << 1 | u8::from(self.flow_control);
        put24(body, 44, self.starting_psn);
        body[47] = self.local_response_timeout << 3 | self.retry_count & 7;
        put(body, 48, &self.pkey.to_be_bytes());
        body[50] = self.path_mtu << 4 | self.rnr_retry_count & 7;
        body[51] = self.max_cm_retries << 4 | u8::from(self.srq) << 3 | extended;
        put(body, 56, &self.local_gid);
        put(body, 72, &self.remote_gid);
        let label = self.flow_label << 12 | u32::from(self.packet_rate & 0x3f);
        put(body, 88, &label.to_be_bytes());
        body[92] = self.traffic_class;
        body[93] = self.hop_limit;
        // "Subnet local" is clear, as RoCE has no subnets.
        body[94] = self.sl << 4;
        body[95] = self.ack_timeout << 3;
        put(body, 140, &self.private);
        REQ
    }
}

impl Rep {
    /// Parses the body of a REP.
    pub(super) fn parse(body: Fields<'_>) -> Rep {
        Rep {
            ids: Ids {
                local: body.u32(0),
                remote: body.u32(4),
            },
            vendor_id: u32::from_be_bytes([0, body.u8(15), body.u8(19), body.u8(23)]),
            qpn: body.u24(12),
            xrc_qpn: body.u24(16),
            starting_psn: body.u24(20),
            responder_resources: body.u8(24),
            initiator_depth: body.u8(25),
            target_ack_delay: body.u8(26) >> 3,
            flow_control: body.u8(26) & 1 != 0,
            rnr_retry_count: body.u8(27) >> 5,
            srq: body.u8(27) & 0x10 != 0,
            ca_guid: body.u64(28),
            private: body.bytes(36),
        }
    }

    /// Writes the body; returns the attribute ID.
    pub(super) fn write(&self, body: &mut [u8]) -> u16 {
        self.ids.write(body);
        let [_, high, middle, low] = self.vendor_id.to_be_bytes();
        put24(body, 12, self.qpn);
        body[15] = high;
        put24(body, 16, self.xrc_qpn);
        body[19] = middle;
        put24(body, 20, self.starting_psn);
        body[23] = low;
        body[24] = self.responder_resources;
        body[25] = self.initiator_depth;
        body[26] = self.target_ack_delay << 3 | u8::from(self.flow_control);
        body[27] = self.rnr_retry_count << 5 | u8::from(self.srq) << 4;
        put(body, 28, &self.ca_guid.to_be_bytes());
        put(body, 36, &self.private);
        REP
    }
}

impl Rej {
    /// Writes the body; returns the attribute ID.
    pub(super) fn write(&self, body: &mut [u8]) -> u16 {
        self.ids.write(body);
        body[8] = self.about.bits() << 6;
        if let Some(info) = self.info {
            body[9] = 8 << 1;
            put(body, 12, &info.to_be_bytes());
        }
        put(body, 10, &self.reason.to_be_bytes());
        put(body, 84, &self.private);
        REJ
    }
}

/// Big-endian fields of a message by their offset, which the layouts of this file keep within it.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a>(pub &'a [u8]);

impl Fields<'_> {
    /// `LEN` bytes at offset `at`.
    pub fn bytes<const LEN: usize>(self, at: usize) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        bytes.copy_from_slice(&self.0[at..at + LEN]);
        bytes
    }

    /// The byte at offset `at`.
    pub fn u8(self, at: usize) -> u8 {
        self.0[at]
    }

    /// The 16-bit field at offset `at`.
    pub fn u16(self, at: usize) -> u16 {
        u16::from_be_bytes(self.bytes(at))
    }

    /// The 24-bit field at offset `at`.
    pub fn u24(self, at: usize) -> u32 {
        let [a, b, c] = self.bytes(at);
        u32::from_be_bytes([0, a, b, c])
    }

    /// The 32-bit field at offset `at`.
    pub fn u32(self, at: usize) -> u32 {
        u32::from_be_bytes(self.bytes(at))
    }

    /// The 64-bit field at offset `at`.
    pub fn u64(self, at: usize) -> u64 {
        u64::from_be_bytes(self.bytes(at))
    }
}

/// Copies `bytes` to offset `at`.
pub(super) fn put(to: &mut [u8], at: usize, bytes: &[u8]) {
    to[at..at + bytes.len()].copy_from_slice(bytes);
}

/// Writes a 24-bit field at offset `at`.
pub(super) fn put24(to: &mut [u8], at: usize, value: u32) {
    put(to, at, &value.to_be_bytes()[1..]);
}
