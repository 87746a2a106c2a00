//! Management datagrams (MADs) of the communication management class: the messages of the specification's
//! chapter 12 (12.6, 12.11), as bytes and as values. Pure: any bytes may be parsed, and what is written
//! parses to the same values.
//!
//! Fields that an Ethernet port does not use (LIDs, EE contexts of RD, the alternate path) are written as
//! zeros and not parsed.

mod messages;
#[cfg(test)]
mod tests;

pub use messages::{About, ConnectionType, Ids, Rej, Rep, Req, SidrRep, SidrReq};
use messages::{Fields, put, put24};

/// The length of every MAD, in bytes.
pub const MAD_LEN: usize = 256;
/// A MAD, as the payload of a packet to queue pair 1.
pub type Mad = [u8; MAD_LEN];

/// Bytes of private data in a REQ.
pub const REQ_PRIVATE: usize = 92;
/// Bytes of private data in a REP.
pub const REP_PRIVATE: usize = 196;
/// Bytes of private data in a REJ.
pub const REJ_PRIVATE: usize = 148;
/// Bytes of private data in a SIDR_REQ.
pub const SIDR_REQ_PRIVATE: usize = 216;
/// Bytes of private data in a SIDR_REP.
pub const SIDR_REP_PRIVATE: usize = 136;

/// Where the message begins, behind the MAD's common header.
const BODY: usize = 24;
const BASE_VERSION: u8 = 1;
const CLASS: u8 = 7;
const CLASS_VERSION: u8 = 2;
const METHOD_SEND: u8 = 3;

const REQ: u16 = 0x10;
const MRA: u16 = 0x11;
const REJ: u16 = 0x12;
const REP: u16 = 0x13;
const RTU: u16 = 0x14;
const DREQ: u16 = 0x15;
const DREP: u16 = 0x16;
const SIDR_REQ: u16 = 0x17;
const SIDR_REP: u16 = 0x18;
const LAP: u16 = 0x19;
const APR: u16 = 0x1a;

/// Why a REJ was sent (12.6.7.2).
pub mod reason {
    /// The sender gave up waiting.
    pub const TIMEOUT: u16 = 4;
    /// The sender has no connection with the communication ID of a REP.
    pub const INVALID_COMM_ID: u16 = 6;
    /// The service ID has no listener.
    pub const INVALID_SERVICE_ID: u16 = 8;
    /// The transport service of a REQ is not supported.
    pub const INVALID_TRANSPORT: u16 = 9;
    /// The peer has a connection of the same queue pair.
    pub const STALE_CONNECTION: u16 = 10;
    /// The program rejects.
    pub const CONSUMER: u16 = 28;
    /// The program does not support the vendor's option (enhanced connection establishment).
    pub const VENDOR_OPTION: u16 = 35;
}

/// The status of a SIDR_REP (12.11.2.1).
pub mod sidr_status {
    /// The queue pair number and the Q_Key are valid.
    pub const SUCCESS: u8 = 0;
    /// The service ID has no listener.
    pub const UNSUPPORTED: u8 = 1;
    /// The program rejects.
    pub const REJECT: u8 = 2;
}

/// The status of an APR: the responder has no alternate paths (12.8.4.1).
const APR_UNSUPPORTED: u8 = 2;

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CmMessage {
    /// A request for a connection.
    Req(Box<Req>),
    /// The receiver needs more time: up to 4.096 µs · 2^`timeout`.
    Mra {
        /// The communication IDs.
        ids: Ids,
        /// The message that needs time.
        about: About,
        /// The time, encoded.
        timeout: u8,
    },
    /// A rejection.
    Rej(Box<Rej>),
    /// A reply: the connection is accepted.
    Rep(Box<Rep>),
    /// Ready to use: confirms a REP.
    Rtu(Ids),
    /// A request to disconnect.
    Dreq {
        /// The communication IDs.
        ids: Ids,
        /// The receiver's queue pair.
        remote_qpn: u32,
    },
    /// The answer to a DREQ.
    Drep(Ids),
    /// A request for the queue pair of a datagram service.
    SidrReq(Box<SidrReq>),
    /// The answer to a SIDR_REQ.
    SidrRep(Box<SidrRep>),
    /// A request to load an alternate path.
    Lap(Ids),
    /// The answer to a LAP: alternate paths are not supported.
    Apr(Ids),
}

/// A message, and the fields of the common header that are not constant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CmMad {
    /// Transaction ID: an answer has that of the request.
    pub tid: u64,
    /// Attribute modifier: part of the options of enhanced connection establishment.
    pub modifier: u32,
    /// The message.
    pub message: CmMessage,
}

/// The recipient of a message: a service, or a connection by its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recipient {
    /// The process that has this communication ID.
    Id(u32),
    /// The process that listens for this service ID.
    Service(u64),
}

impl CmMad {
    /// Parses a MAD. None if it is not a message of this class, version and method.
    pub fn parse(mad: &Mad) -> Option<CmMad> {
        if mad[..4] != [BASE_VERSION, CLASS, CLASS_VERSION, METHOD_SEND] {
            return None;
        }
        let body = Fields(&mad[BODY..]);
        let ids = Ids {
            local: body.u32(0),
            remote: body.u32(4),
        };
        let message = match u16::from_be_bytes([mad[16], mad[17]]) {
            REQ => CmMessage::Req(Box::new(Req::parse(body))),
            MRA => CmMessage::Mra {
                ids,
                about: About::parse(body.u8(8) >> 6),
                timeout: body.u8(9) >> 3,
            },
            REJ => CmMessage::Rej(Box::new(Rej {
                ids,
                about: About::parse(body.u8(8) >> 6),
                reason: body.u16(10),
                info: (body.u8(9) >> 1 >= 8).then(|| body.u64(12)),
                private: body.bytes(84),
            })),
            REP => CmMessage::Rep(Box::new(Rep::parse(body))),
            RTU => CmMessage::Rtu(ids),
            DREQ => CmMessage::Dreq {
                ids,
                remote_qpn: body.u24(8),
            },
            DREP => CmMessage::Drep(ids),
            SIDR_REQ => CmMessage::SidrReq(Box::new(SidrReq {
                request_id: body.u32(0),
                pkey: body.u16(4),
                service_id: body.u64(8),
                private: body.bytes(16),
            })),
            SIDR_REP => CmMessage::SidrRep(Box::new(SidrRep {
                request_id: body.u32(0),
                status: body.u8(4),
                qpn: body.u24(8),
                service_id: body.u64(12),
                qkey: body.u32(20),
                private: body.bytes(96),
            })),
            LAP => CmMessage::Lap(ids),
            APR => CmMessage::Apr(ids),
            _ => return None,
        };
        let header = Fields(mad);
        Some(CmMad {
            tid: header.u64(8),
            modifier: header.u32(20),
            message,
        })
    }

    /// The MAD's bytes.
    pub fn bytes(&self) -> Mad {
        let mut mad = [0; MAD_LEN];
        mad[..4].copy_from_slice(&[BASE_VERSION, CLASS, CLASS_VERSION, METHOD_SEND]);
        put(&mut mad, 8, &self.tid.to_be_bytes());
        put(&mut mad, 20, &self.modifier.to_be_bytes());
        let body = &mut mad[BODY..];
        let attribute = match &self.message {
            CmMessage::Req(req) => req.write(body),
            CmMessage::Mra {
                ids,
                about,
                timeout,
            } => {
                ids.write(body);
                body[8] = about.bits() << 6;
                body[9] = timeout << 3;
                MRA
            }
            CmMessage::Rej(rej) => rej.write(body),
            CmMessage::Rep(rep) => rep.write(body),
            CmMessage::Rtu(ids) => ids.write_as(RTU, body),
            CmMessage::Dreq { ids, remote_qpn } => {
                ids.write(body);
                put24(body, 8, *remote_qpn);
                DREQ
            }
            CmMessage::Drep(ids) => ids.write_as(DREP, body),
            CmMessage::SidrReq(req) => {
                put(body, 0, &req.request_id.to_be_bytes());
                put(body, 4, &req.pkey.to_be_bytes());
                put(body, 8, &req.service_id.to_be_bytes());
                put(body, 16, &req.private);
                SIDR_REQ
            }
            CmMessage::SidrRep(rep) => {
                put(body, 0, &rep.request_id.to_be_bytes());
                body[4] = rep.status;
                put24(body, 8, rep.qpn);
                put(body, 12, &rep.service_id.to_be_bytes());
                put(body, 20, &rep.qkey.to_be_bytes());
                put(body, 96, &rep.private);
                SIDR_REP
            }
            CmMessage::Lap(ids) => ids.write_as(LAP, body),
            CmMessage::Apr(ids) => {
                body[9] = APR_UNSUPPORTED;
                ids.write_as(APR, body)
            }
        };
        put(&mut mad, 16, &attribute.to_be_bytes());
        mad
    }

    /// The sender's communication ID; 0 if the message has none.
    pub fn sender(&self) -> u32 {
        match &self.message {
            CmMessage::Req(req) => req.local_id,
            CmMessage::SidrReq(_) | CmMessage::SidrRep(_) => 0,
            CmMessage::Rej(rej) => rej.ids.local,
            CmMessage::Rep(rep) => rep.ids.local,
            CmMessage::Mra { ids, .. }
            | CmMessage::Rtu(ids)
            | CmMessage::Dreq { ids, .. }
            | CmMessage::Drep(ids)
            | CmMessage::Lap(ids)
            | CmMessage::Apr(ids) => ids.local,
        }
    }

    /// The recipient that the message names.
    pub fn recipient(&self) -> Recipient {
        match &self.message {
            CmMessage::Req(req) => Recipient::Service(req.service_id),
            CmMessage::SidrReq(req) => Recipient::Service(req.service_id),
            CmMessage::SidrRep(rep) => Recipient::Id(rep.request_id),
            CmMessage::Rej(rej) => Recipient::Id(rej.ids.remote),
            CmMessage::Rep(rep) => Recipient::Id(rep.ids.remote),
            CmMessage::Mra { ids, .. }
            | CmMessage::Rtu(ids)
            | CmMessage::Dreq { ids, .. }
            | CmMessage::Drep(ids)
            | CmMessage::Lap(ids)
            | CmMessage::Apr(ids) => Recipient::Id(ids.remote),
        }
    }
}
