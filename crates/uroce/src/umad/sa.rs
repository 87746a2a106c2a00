//! Subnet administration (specification, 15.2): what programs ask to find a LID, such as `ibping -G`. Pure.
//!
//! There is no subnet manager. Each process answers for itself, from what it knows without asking anybody:
//! LIDs follow from GIDs, those of multicast groups too, and of nodes it knows its own. Who is a member of a
//! group is not recorded: queue pairs are attached to it by verbs.

use super::datagram::{
    CLASS_PORT_INFO, DATA, Mad, answer, bytes, class, header_of, method, put, status,
};
use super::facts::{PREFIX, PortFacts};
use super::sma;
use roce::engine::Gid;

const NODE_RECORD: u16 = 0x11;
const PORT_INFO_RECORD: u16 = 0x12;
const PATH_RECORD: u16 = 0x35;
const MC_MEMBER_RECORD: u16 = 0x38;
const CLASS_VERSION: u8 = 2;

/// The offset of the record in a MAD of this class.
const RECORD: usize = 56;
/// Status: no record matches.
const NO_RECORDS: u16 = 3 << 8;
/// Status: the request is not supported.
const INVALID: u16 = 2 << 8;
/// A selector: exactly the value that follows it.
const EXACTLY: u8 = 2 << 6;
/// The component mask's bits of a PathRecord.
const BY_DGID: u64 = 1 << 2;
const BY_DLID: u64 = 1 << 4;
/// The component mask's first bit in the other records: the LID.
const BY_LID: u64 = 1;

/// Answers a request of a port: a MAD, or a longer one of several segments, as a program reads it. `lid_of`
/// returns the LID that a GID stands for. None for a MAD that needs no answer.
pub fn respond(
    request: &Mad,
    port: &PortFacts,
    lid_of: impl Fn(&Gid) -> Option<u16>,
) -> Option<Vec<u8>> {
    let header = header_of(request);
    let is_request = matches!(
        header.method,
        method::GET | method::GET_TABLE | method::SET | method::DELETE
    );
    if header.class != class::SUBN_ADM || !is_request {
        return None;
    }
    let refuse = |status| Some(answer(request, status, None).to_vec());
    if header.class_version != CLASS_VERSION {
        return refuse(status::BAD_VERSION);
    }
    let record = match (header.attribute, header.method) {
        (CLASS_PORT_INFO, method::GET) => {
            let mut mad = answer(request, 0, None);
            mad[RECORD..RECORD + 2].copy_from_slice(&[1, CLASS_VERSION]);
            return Some(mad.to_vec());
        }
        (MC_MEMBER_RECORD, method::SET | method::DELETE) => return Some(membership(request, port)),
        (_, method::SET | method::DELETE) => return refuse(INVALID),
        (MC_MEMBER_RECORD, _) => None,
        (PATH_RECORD, _) => path_record(request, port, lid_of),
        (NODE_RECORD, _) => own_record(request, port, node_record),
        (PORT_INFO_RECORD, _) => own_record(request, port, port_info_record),
        _ => return refuse(INVALID),
    };
    match (record, header.method) {
        (Some(record), method::GET) => Some(one(request, &record)),
        (None, method::GET) => refuse(NO_RECORDS),
        (record, _) => Some(table(request, record.as_deref().unwrap_or_default())),
    }
}

/// The answer to Get.
fn one(request: &Mad, record: &[u8]) -> Vec<u8> {
    let mut mad = answer(request, 0, None);
    mad[RECORD..].fill(0);
    put(&mut mad, RECORD, record);
    put(&mut mad, 44, &offset(record).to_be_bytes());
    mad.to_vec()
}

/// The answer to a program that joins a multicast group (Set), or leaves one (Delete): the record of the
/// request with what the group has.
fn membership(request: &Mad, port: &PortFacts) -> Vec<u8> {
    let mut record: [u8; 52] = bytes(request, RECORD);
    let mlid = mlid_of(&bytes(&record, 0));
    put(&mut record, 36, &mlid.to_be_bytes());
    // Exactly this MTU; a rate of 10 Gb/s; a lifetime of 4.096 µs · 2^18.
    put(&mut record, 38, &[EXACTLY | port.active_mtu]);
    put(&mut record, 40, &[0xff, 0xff, EXACTLY | 3, EXACTLY | 18]);
    let mut mad = one(request, &record);
    mad[3] = request[3] | method::RESPONSE;
    if header_of(request).method == method::SET {
        mad[3] = method::GET_RESP;
    }
    mad
}

/// The LID of a multicast group: from 0xc000 to 0xfffe, a function of its GID, so that all ports have the
/// same.
fn mlid_of(mgid: &Gid) -> u16 {
    const FIRST: u32 = 0xc000;
    const COUNT: u32 = 0x3fff;
    // FNV-1a
    let hash = mgid.iter().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    });
    (FIRST + hash % COUNT) as u16
}

/// The answer to GetTable, with one record or none: the only segment of its message (13.6.2).
fn table(request: &Mad, record: &[u8]) -> Vec<u8> {
    const VERSION: u8 = 1;
    const DATA_PACKET: u8 = 1;
    const ACTIVE_FIRST_LAST: u8 = 7;
    let mut mad = one(request, record);
    mad[3] = method::GET_TABLE | method::RESPONSE;
    mad[24..28].copy_from_slice(&[VERSION, DATA_PACKET, ACTIVE_FIRST_LAST, 0]);
    put(&mut mad, 28, &1_u32.to_be_bytes());
    let len = 8 * usize::from(offset(record));
    // Behind the RMPP header are 20 more bytes of header.
    put(&mut mad, 32, &(20 + len as u32).to_be_bytes());
    mad.truncate(RECORD + len);
    mad
}

/// `AttributeOffset`: the length of a record, in units of eight bytes.
fn offset(record: &[u8]) -> u16 {
    record.len().div_ceil(8) as u16
}

fn mask_of(request: &Mad) -> u64 {
    u64::from_be_bytes(bytes(request, 48))
}

/// The path from this port to the one that the request names by its GID or LID.
fn path_record(
    request: &Mad,
    port: &PortFacts,
    lid_of: impl Fn(&Gid) -> Option<u16>,
) -> Option<Vec<u8>> {
    let mask = mask_of(request);
    let asked = &request[RECORD..RECORD + 64];
    let dgid: Gid = bytes(asked, 8);
    let dlid = match mask {
        _ if mask & BY_DGID != 0 => lid_of(&dgid)?,
        _ if mask & BY_DLID != 0 => u16::from_be_bytes(bytes(asked, 40)),
        _ => port.lid,
    };
    let mut record = vec![0; 64];
    put(&mut record, 8, &dgid);
    put(&mut record, 24, &PREFIX);
    put(&mut record, 32, &port.port_guid);
    put(&mut record, 40, &dlid.to_be_bytes());
    put(&mut record, 42, &port.lid.to_be_bytes());
    // Reversible, one path, the default P_Key, service level 0.
    put(&mut record, 49, &[0x81, 0xff, 0xff]);
    // As in `membership`.
    put(
        &mut record,
        54,
        &[EXACTLY | port.active_mtu, EXACTLY | 3, EXACTLY | 18],
    );
    Some(record)
}

/// A record of this port, unless the request asks for another LID.
fn own_record(
    request: &Mad,
    port: &PortFacts,
    record: impl Fn(&PortFacts) -> Option<Vec<u8>>,
) -> Option<Vec<u8>> {
    let lid = u16::from_be_bytes(bytes(request, RECORD));
    let is_own = mask_of(request) & BY_LID == 0 || lid == port.lid;
    is_own.then(|| record(port)).flatten()
}

/// An attribute of subnet management.
fn attribute(port: &PortFacts, number: u16) -> Option<Vec<u8>> {
    let mut get = [0; 256];
    get[..4].copy_from_slice(&[1, class::SUBN_LID_ROUTED, 1, method::GET]);
    put(&mut get, 16, &number.to_be_bytes());
    let mad = sma::respond(&get, port)?;
    Some(mad[DATA..DATA + 64].to_vec())
}

fn node_record(port: &PortFacts) -> Option<Vec<u8>> {
    let mut record = vec![0; 108];
    put(&mut record, 0, &port.lid.to_be_bytes());
    put(&mut record, 4, &attribute(port, sma::NODE_INFO)?[..40]);
    put(&mut record, 44, &attribute(port, sma::NODE_DESCRIPTION)?);
    Some(record)
}

fn port_info_record(port: &PortFacts) -> Option<Vec<u8>> {
    let mut record = vec![0; 68];
    put(&mut record, 0, &port.lid.to_be_bytes());
    record[2] = port.port;
    put(&mut record, 4, &attribute(port, sma::PORT_INFO)?);
    Some(record)
}

#[cfg(test)]
mod tests {
    use super::super::datagram::tests::request;
    use super::*;

    fn port() -> PortFacts {
        PortFacts {
            description: "ib0".into(),
            port_guid: [2; 8],
            ports: 1,
            port: 1,
            lid: 7,
            active_mtu: 4,
            ..PortFacts::default()
        }
    }

    fn ask(method: u8, attribute: u16, mask: u64, record: &[u8]) -> Vec<u8> {
        let mut mad = request(class::SUBN_ADM, method, attribute, 0);
        mad[2] = CLASS_VERSION;
        put(&mut mad, 48, &mask.to_be_bytes());
        put(&mut mad, RECORD, record);
        let lid_of = |gid: &Gid| (gid[0] == 0xfe).then(|| gid[15].into());
        respond(&mad, &port(), lid_of).unwrap()
    }

    #[test]
    fn a_path_to_a_gid() {
        let mut asked = [0; 64];
        (asked[8], asked[23]) = (0xfe, 9);
        let mad = ask(method::GET, PATH_RECORD, BY_DGID, &asked);
        assert_eq!(
            (mad.len(), mad[3], mad[4..6].to_vec()),
            (256, method::GET_RESP, vec![0, 0])
        );
        let record = &mad[RECORD..RECORD + 64];
        assert_eq!(
            (&record[40..44], &record[32..40]),
            (&[0, 9, 0, 7][..], &[2; 8][..])
        );
        assert_eq!(
            (record[49..52].to_vec(), record[54]),
            (vec![0x81, 0xff, 0xff], 0x84)
        );
        asked[8] = 0xfd;
        let none = ask(method::GET, PATH_RECORD, BY_DGID, &asked);
        assert_eq!(none[4..6], NO_RECORDS.to_be_bytes());
        let mut by_lid = [0; 64];
        by_lid[41] = 3;
        let mad = ask(method::GET, PATH_RECORD, BY_DLID, &by_lid);
        assert_eq!(mad[RECORD + 40..RECORD + 42], [0, 3]);
    }

    #[test]
    fn tables_have_one_segment() {
        let mad = ask(method::GET_TABLE, NODE_RECORD, 0, &[]);
        assert_eq!(
            (mad.len(), mad[3], mad[26], mad[31]),
            (RECORD + 112, 0x92, 7, 1)
        );
        assert_eq!((mad[45], mad[35]), (14, 20 + 112));
        assert_eq!(
            (&mad[RECORD..RECORD + 2], &mad[RECORD + 44..RECORD + 47]),
            (&[0, 7][..], &b"ib0"[..])
        );
        let mad = ask(method::GET_TABLE, PORT_INFO_RECORD, BY_LID, &[0, 7]);
        assert_eq!((mad.len(), mad[RECORD + 2]), (RECORD + 72, 1));
        let none = ask(method::GET_TABLE, NODE_RECORD, BY_LID, &[0, 8]);
        assert_eq!((none.len(), none[35]), (RECORD, 20));
        let none = ask(method::GET, NODE_RECORD, BY_LID, &[0, 8]);
        assert_eq!(none[4..6], NO_RECORDS.to_be_bytes());
    }

    #[test]
    fn a_group_has_one_lid() {
        let join = |last: u8, method| {
            let mut asked = [0; 52];
            (asked[0], asked[15], asked[49]) = (0xff, last, 1);
            let mad = ask(method, MC_MEMBER_RECORD, 0, &asked);
            let kept = (mad[4..6].to_vec(), mad[RECORD + 15], mad[RECORD + 49]);
            assert_eq!(kept, (vec![0, 0], last, 1));
            (mad[3], u16::from_be_bytes(bytes(&mad, RECORD + 36)))
        };
        let (answered, mlid) = join(1, method::SET);
        assert_eq!(answered, method::GET_RESP);
        assert!((0xc000..0xffff).contains(&mlid), "{mlid:#x}");
        assert_eq!(
            join(1, method::DELETE),
            (method::DELETE | method::RESPONSE, mlid)
        );
        assert_ne!(join(2, method::SET).1, mlid);
        let none = ask(method::GET, MC_MEMBER_RECORD, 0, &[]);
        assert_eq!(none[4..6], NO_RECORDS.to_be_bytes());
    }

    #[test]
    fn other_requests() {
        assert_eq!(ask(method::GET, CLASS_PORT_INFO, 0, &[])[RECORD + 1], 2);
        assert_eq!(ask(method::GET, 0x39, 0, &[])[4..6], INVALID.to_be_bytes());
        assert_eq!(
            ask(method::SET, NODE_RECORD, 0, &[])[4..6],
            INVALID.to_be_bytes()
        );
        let old = request(class::SUBN_ADM, method::GET, PATH_RECORD, 0);
        let answered = respond(&old, &port(), |_| None).unwrap();
        assert_eq!(answered[4..6], status::BAD_VERSION.to_be_bytes());
        let trap = request(class::SUBN_ADM, 5, 2, 0);
        assert_eq!(respond(&trap, &port(), |_| None), None);
    }
}
