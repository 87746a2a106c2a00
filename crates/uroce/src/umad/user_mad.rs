//! Messages and requests of programs as bytes (rdma/ib_user_mad.h, ABI version 5). Pure.

use ibverbs_abi::{Errno, Result};

use super::datagram::{HEADER_LEN, MAD_LEN, Mad, RMPP_HEADER_LEN, bytes, put};
use roce::engine::Gid;

const EINVAL: Errno = Errno(libc::EINVAL);

/// An ioctl(2) request: `_IOC` of the kernel.
const fn request(direction: u32, number: u32, len: usize) -> u32 {
    const MAGIC: u32 = 0x1b;
    direction << 30 | (len as u32) << 16 | MAGIC << 8 | number
}

/// Bytes of `ib_user_mad_reg_req`.
pub const REGISTER_LEN: usize = 28;
/// Bytes of `ib_user_mad_reg_req2`.
pub const REGISTER2_LEN: usize = 40;
/// The offset of the flags in `ib_user_mad_reg_req2`.
pub const FLAGS_AT: usize = 12;
/// `IB_USER_MAD_USER_RMPP`: the only flag.
pub const FLAG_USER_RMPP: u32 = 1;

pub const REGISTER_AGENT: u32 = request(3, 1, REGISTER_LEN);
pub const UNREGISTER_AGENT: u32 = request(1, 2, 4);
pub const ENABLE_PKEY: u32 = request(0, 3, 0);
pub const REGISTER_AGENT2: u32 = request(3, 4, REGISTER2_LEN);

/// The requests that an agent wants to get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registration {
    pub class: u8,
    pub class_version: u8,
    /// The OUI of a vendor's class.
    pub oui: [u8; 3],
    /// A bit for each method.
    pub methods: u128,
}

/// A request to register an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Register {
    pub qpn: u32,
    pub rmpp_version: u8,
    /// The program segments and reassembles messages itself.
    pub user_rmpp: bool,
    /// None for an agent that only asks.
    pub registration: Option<Registration>,
}

impl Register {
    /// Parses `ib_user_mad_reg_req`.
    pub fn parse(request: &[u8; REGISTER_LEN]) -> Register {
        let registration = Registration {
            class: request[21],
            class_version: request[22],
            oui: bytes(request, 23),
            methods: u128::from_ne_bytes(bytes(request, 4)),
        };
        Register {
            qpn: request[20].into(),
            rmpp_version: request[26],
            user_rmpp: false,
            registration: Some(registration).filter(|of| of.class != 0),
        }
    }

    /// Parses `ib_user_mad_reg_req2`. None if it has unknown flags or an OUI of more than 24 bits.
    pub fn parse2(request: &[u8; REGISTER2_LEN]) -> Option<Register> {
        let u32_at = |at| u32::from_ne_bytes(bytes(request, at));
        let (flags, oui) = (u32_at(FLAGS_AT), u32_at(32));
        let class = request[8];
        if flags & !FLAG_USER_RMPP != 0 || class != 0 && oui >> 24 != 0 {
            return None;
        }
        let [_, a, b, c] = oui.to_be_bytes();
        let registration = Registration {
            class,
            class_version: request[9],
            oui: [a, b, c],
            methods: u128::from_ne_bytes(bytes(request, 16)),
        };
        Some(Register {
            qpn: u32_at(4),
            rmpp_version: request[36],
            user_rmpp: flags & FLAG_USER_RMPP != 0,
            registration: Some(registration).filter(|of| of.class != 0),
        })
    }
}

/// Bytes of a message's header: `ib_user_mad_hdr`, or without the P_Key index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    Old,
    WithPkey,
}

impl Layout {
    /// Bytes of the header.
    pub fn len(self) -> usize {
        match self {
            Layout::Old => 56,
            Layout::WithPkey => 64,
        }
    }
}

/// The other end of a MAD.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Address {
    pub qpn: u32,
    pub lid: u16,
    /// The remote GID of a GRH, and the index of the local one.
    pub grh: Option<(Gid, u8)>,
    pub traffic_class: u8,
}

/// A message that a program sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The number of the agent.
    pub id: u32,
    pub timeout_ms: u32,
    pub retries: u32,
    pub to: Address,
    pub mad: Mad,
    /// The message's header, as it was.
    header: Vec<u8>,
}

impl Message {
    /// The fewest bytes that a program writes.
    pub fn min_len(layout: Layout) -> usize {
        layout.len() + RMPP_HEADER_LEN
    }

    /// The most bytes that are read of what a program writes: with the length of a MAD, all counts.
    pub fn max_len(layout: Layout) -> usize {
        layout.len() + MAD_LEN
    }

    /// Parses what a program writes. EINVAL for a message that is too short, and for one that is longer than
    /// a MAD: it would have to be sent in segments.
    pub fn parse(message: &[u8], layout: Layout) -> Result<Message> {
        if !(Message::min_len(layout)..=Message::max_len(layout)).contains(&message.len()) {
            return Err(EINVAL);
        }
        let (header, data) = message.split_at(layout.len());
        let u32_at = |at| u32::from_ne_bytes(bytes(header, at));
        let mut mad = [0; MAD_LEN];
        put(&mut mad, 0, data);
        Ok(Message {
            id: u32_at(0),
            timeout_ms: u32_at(8),
            retries: u32_at(12),
            to: Address {
                qpn: u32_at(20).swap_bytes(),
                lid: u16::from_be_bytes(bytes(header, 28)),
                grh: (header[32] != 0).then(|| (bytes(header, 36), header[33])),
                traffic_class: header[35],
            },
            mad,
            header: header.to_vec(),
        })
    }

    /// The message that reports that there is no answer: its own header with ETIMEDOUT, and the MAD's header.
    pub fn timed_out(&self) -> Vec<u8> {
        let mut message = self.header.clone();
        put(&mut message, 4, &(libc::ETIMEDOUT as u32).to_ne_bytes());
        message.extend_from_slice(&self.mad[..HEADER_LEN]);
        message
    }
}

/// A message that a program reads: a MAD, or several of one message as one, for agent `id`.
pub fn received(layout: Layout, id: u32, from: &Address, data: &[u8]) -> Vec<u8> {
    let mut message = vec![0; layout.len()];
    put(&mut message, 0, &id.to_ne_bytes());
    let len = (layout.len() + data.len()) as u32;
    put(&mut message, 16, &len.to_ne_bytes());
    put(&mut message, 20, &from.qpn.to_be_bytes());
    put(&mut message, 28, &from.lid.to_be_bytes());
    if let Some((gid, index)) = from.grh {
        message[32..36].copy_from_slice(&[1, index, HOP_LIMIT, from.traffic_class]);
        put(&mut message, 36, &gid);
    }
    message.extend_from_slice(data);
    message
}

/// The hop limit that answers are to have.
const HOP_LIMIT: u8 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_have_the_kernels_numbers() {
        assert_eq!(REGISTER_AGENT, 0xc01c_1b01);
        assert_eq!(UNREGISTER_AGENT, 0x4004_1b02);
        assert_eq!(ENABLE_PKEY, 0x1b03);
        assert_eq!(REGISTER_AGENT2, 0xc028_1b04);
    }

    #[test]
    fn registrations() {
        let mut request = [0; REGISTER_LEN];
        (request[4], request[20], request[21], request[22]) = (6, 1, 0x32, 1);
        request[23..27].copy_from_slice(&[0, 0x14, 5, 1]);
        let expected = Registration {
            class: 0x32,
            class_version: 1,
            oui: [0, 0x14, 5],
            methods: 6,
        };
        let parsed = Register::parse(&request);
        assert_eq!(parsed.registration, Some(expected));
        assert_eq!((parsed.qpn, parsed.rmpp_version), (1, 1));
        request[21] = 0;
        assert_eq!(Register::parse(&request).registration, None);

        let mut request = [0; REGISTER2_LEN];
        (request[4], request[8], request[9], request[16]) = (1, 0x32, 1, 6);
        put(&mut request, 32, &0x1405_u32.to_ne_bytes());
        (request[FLAGS_AT], request[36]) = (1, 1);
        let parsed = Register::parse2(&request).unwrap();
        assert_eq!(parsed.registration, Some(expected));
        assert!(parsed.user_rmpp && parsed.qpn == 1 && parsed.rmpp_version == 1);
        request[35] = 1;
        assert_eq!(Register::parse2(&request), None);
        (request[35], request[FLAGS_AT]) = (0, 2);
        assert_eq!(Register::parse2(&request), None);
    }

    #[test]
    fn messages() {
        let layout = Layout::WithPkey;
        let mut bytes = vec![0; layout.len() + 40];
        (bytes[0], bytes[8], bytes[12], bytes[23], bytes[29]) = (3, 100, 2, 1, 9);
        (bytes[64], bytes[103]) = (1, 7);
        let message = Message::parse(&bytes, layout).unwrap();
        assert_eq!(
            (message.id, message.timeout_ms, message.retries),
            (3, 100, 2)
        );
        assert_eq!(
            (message.to.qpn, message.to.lid, message.to.grh),
            (1, 9, None)
        );
        assert_eq!(
            (message.mad[0], message.mad[39], message.mad[40]),
            (1, 7, 0)
        );
        let read = message.timed_out();
        assert_eq!((read.len(), read[4], read[64]), (64 + 24, 110, 1));
        bytes[32] = 1;
        bytes[36] = 0xfe;
        let gid = Message::parse(&bytes, layout).unwrap().to.grh.unwrap().0;
        assert_eq!(gid[0], 0xfe);
        assert_eq!(Message::parse(&bytes[..99], layout), Err(EINVAL));
        bytes.resize(64 + 257, 0);
        assert_eq!(Message::parse(&bytes, layout), Err(EINVAL));
    }

    #[test]
    fn what_a_program_reads() {
        let from = Address {
            qpn: 1,
            lid: 0x102,
            grh: Some(([5; 16], 2)),
            traffic_class: 8,
        };
        let message = received(Layout::Old, 4, &from, &[9; 256]);
        assert_eq!((message.len(), message[0], message[56]), (312, 4, 9));
        assert_eq!(message[16..20], 312_u32.to_ne_bytes());
        assert_eq!((message[23], &message[28..30]), (1, &[1, 2][..]));
        assert_eq!((&message[32..36], message[51]), (&[1, 2, 64, 8][..], 5));
        let local = received(Layout::WithPkey, 4, &Address::default(), &[]);
        assert_eq!((local.len(), local[32]), (64, 0));
    }
}
