//! Management datagrams (MADs) as bytes: the common header (specification, 13.4.2), and answers. Pure.

/// The length of a MAD, in bytes.
pub use crate::device::gsi::MAD_LEN;

/// A MAD.
pub type Mad = [u8; MAD_LEN];

/// Bytes of the common header.
pub const HEADER_LEN: usize = 24;
/// Bytes up to the end of the RMPP header, which a program writes at least.
pub const RMPP_HEADER_LEN: usize = 36;
/// The offset of the attribute in MADs of subnet management and of performance management.
pub const DATA: usize = 64;

/// Management classes (13.4.4).
pub mod class {
    pub const SUBN_LID_ROUTED: u8 = 0x01;
    pub const SUBN_ADM: u8 = 0x03;
    pub const PERF_MGMT: u8 = 0x04;
    pub const BM: u8 = 0x05;
    pub const SUBN_DIRECTED_ROUTE: u8 = 0x81;
}

/// Methods (13.4.5).
pub mod method {
    pub const GET: u8 = 0x01;
    pub const SET: u8 = 0x02;
    pub const TRAP_REPRESS: u8 = 0x07;
    pub const GET_TABLE: u8 = 0x12;
    pub const DELETE: u8 = 0x15;
    /// The bit of a response.
    pub const RESPONSE: u8 = 0x80;
    pub const GET_RESP: u8 = GET | RESPONSE;
}

/// Status values (13.4.7).
pub mod status {
    /// The base version or the class version is not supported.
    pub const BAD_VERSION: u16 = 1 << 2;
    /// The combination of method and attribute is not supported.
    pub const UNSUPPORTED: u16 = 3 << 2;
    /// The attribute or its modifier has an invalid value.
    pub const INVALID_VALUE: u16 = 7 << 2;
}

/// The attribute of all classes but subnet management.
pub const CLASS_PORT_INFO: u16 = 0x01;
/// The only version of the common header.
pub const BASE_VERSION: u8 = 1;
/// The direction bit in the status of an SMP with a directed route: it is on its way back (14.2.1.2).
const DIRECTION: u16 = 1 << 15;

/// The common header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub base_version: u8,
    pub class: u8,
    pub class_version: u8,
    pub method: u8,
    pub tid: u64,
    pub attribute: u16,
    pub modifier: u32,
}

impl Header {
    /// The header of a MAD.
    pub fn of(mad: &[u8; HEADER_LEN]) -> Header {
        Header {
            base_version: mad[0],
            class: mad[1],
            class_version: mad[2],
            method: mad[3],
            tid: u64::from_be_bytes(bytes(mad, 8)),
            attribute: u16::from_be_bytes(bytes(mad, 16)),
            modifier: u32::from_be_bytes(bytes(mad, 20)),
        }
    }

    /// Whether it is an answer, which belongs to the agent that has asked.
    pub fn is_response(&self) -> bool {
        self.method & method::RESPONSE != 0
            || self.method == method::TRAP_REPRESS
            || self.class == class::BM && self.modifier & 1 != 0
    }

    /// Whether it is subnet management: then it goes to queue pair 0, else to queue pair 1.
    pub fn is_smp(&self) -> bool {
        is_smp_class(self.class)
    }

    /// Whether a request that nobody wants gets an answer nevertheless (13.4.5).
    pub fn wants_answer(&self) -> bool {
        matches!(self.method, method::GET | method::SET)
    }
}

/// Whether a class is one of subnet management.
pub fn is_smp_class(class: u8) -> bool {
    matches!(class, class::SUBN_LID_ROUTED | class::SUBN_DIRECTED_ROUTE)
}

/// Whether a class is one of the vendors', whose MADs have an OUI (13.4.4).
pub fn has_oui(class: u8) -> bool {
    (0x30..=0x4f).contains(&class)
}

/// Whether MADs of a class have an RMPP header (13.6).
pub fn has_rmpp(class: u8) -> bool {
    matches!(class, class::SUBN_ADM | 0x06 | 0x10 | 0x12 | 0x13) || has_oui(class)
}

/// The OUI of a MAD of a vendor's class.
pub fn oui_of(mad: &Mad) -> [u8; 3] {
    bytes(mad, 37)
}

/// The header of a MAD.
pub fn header_of(mad: &Mad) -> Header {
    Header::of(&bytes(mad, 0))
}

/// Whether this host has a use for a MAD that has come to this queue pair.
pub fn is_valid(header: &Header, qpn: u32) -> bool {
    header.base_version == BASE_VERSION && header.is_smp() == (qpn == 0)
}

/// The answer to a request: the request with the response bit, a status and, if that is given, another
/// attribute.
pub fn answer(request: &Mad, status: u16, attribute: Option<&[u8]>) -> Mad {
    let mut mad = *request;
    mad[3] = method::GET_RESP;
    let header = header_of(request);
    let direction = match header.class {
        class::SUBN_DIRECTED_ROUTE => DIRECTION,
        _ => 0,
    };
    put(&mut mad, 4, &(status | direction).to_be_bytes());
    if let Some(attribute) = attribute {
        mad[DATA..].fill(0);
        put(&mut mad, DATA, attribute);
        if header.class == class::SUBN_DIRECTED_ROUTE {
            // The paths, behind the attribute.
            mad[128..].copy_from_slice(&request[128..]);
        }
    }
    mad
}

/// Reads as many bytes as the array has, from there.
pub fn bytes<const N: usize>(from: &[u8], at: usize) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&from[at..at + N]);
    bytes
}

/// Writes bytes there.
pub fn put(to: &mut [u8], at: usize, bytes: &[u8]) {
    to[at..at + bytes.len()].copy_from_slice(bytes);
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A request.
    pub fn request(class: u8, method: u8, attribute: u16, modifier: u32) -> Mad {
        let mut mad = [0; MAD_LEN];
        mad[..4].copy_from_slice(&[BASE_VERSION, class, 1, method]);
        put(&mut mad, 8, &0x0102_0304_0506_0708_u64.to_be_bytes());
        put(&mut mad, 16, &attribute.to_be_bytes());
        put(&mut mad, 20, &modifier.to_be_bytes());
        mad
    }

    #[test]
    fn headers() {
        let header = header_of(&request(0x32, method::GET, 0x15, 7));
        assert_eq!(
            (header.tid, header.attribute),
            (0x0102_0304_0506_0708, 0x15)
        );
        assert_eq!((header.modifier, header.class), (7, 0x32));
        assert!(header.wants_answer() && !header.is_response() && !header.is_smp());
        for (class, method, modifier, is_response) in [
            (1, method::GET_RESP, 0, true),
            (class::BM, 3, 1, true),
            (class::BM, 3, 0, false),
            (class::SUBN_ADM, method::TRAP_REPRESS, 0, true),
        ] {
            let header = header_of(&request(class, method, 0, modifier));
            assert_eq!(header.is_response(), is_response, "{class:#x} {method:#x}");
        }
        assert!(is_valid(&header_of(&request(0x81, 1, 0, 0)), 0));
        assert!(!is_valid(&header_of(&request(0x81, 1, 0, 0)), 1));
        assert!(!is_valid(&header_of(&request(0x04, 1, 0, 0)), 0));
        let mut other = request(0x04, 1, 0, 0);
        other[0] = 2;
        assert!(!is_valid(&header_of(&other), 1));
    }

    #[test]
    fn answers_keep_the_request() {
        let mut of = request(class::SUBN_DIRECTED_ROUTE, method::GET, 0x11, 3);
        of[130] = 9;
        let mad = answer(&of, status::UNSUPPORTED, Some(&[5; 40]));
        assert_eq!(mad[3..6], [method::GET_RESP, 0x80, 0x0c]);
        assert_eq!((mad[8..24].to_vec(), mad[130]), (of[8..24].to_vec(), 9));
        assert_eq!((mad[DATA + 39], mad[DATA + 40]), (5, 0));
        let perf = answer(&request(class::PERF_MGMT, method::GET, 1, 0), 0, None);
        assert_eq!(perf[4..6], [0, 0]);
    }

    #[test]
    fn classes() {
        assert!(has_oui(0x30) && has_oui(0x4f) && !has_oui(0x2f) && !has_oui(0x50));
        assert!(has_rmpp(class::SUBN_ADM) && has_rmpp(0x32) && !has_rmpp(class::PERF_MGMT));
    }
}
