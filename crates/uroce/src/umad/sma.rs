//! The subnet management agent (SMA): what a port answers to a subnet manager and to smpquery(8)
//! (specification, 14.2.5). Pure.
//!
//! There is no subnet manager that configures the port, so Set is refused; the port with the LID of the
//! subnet manager says that it is one. Routes with hops lead nowhere: a
//! port of uroce has no cable to another port or a switch, but reaches all LIDs.

use super::datagram::{DATA, Mad, answer, header_of, method, put, status};
use super::facts::{PREFIX, PortFacts};

pub const NODE_DESCRIPTION: u16 = 0x10;
pub const NODE_INFO: u16 = 0x11;
const GUID_INFO: u16 = 0x14;
pub const PORT_INFO: u16 = 0x15;
const PKEY_TABLE: u16 = 0x16;
const SL_TO_VL: u16 = 0x17;
const VL_ARBITRATION: u16 = 0x18;
const SM_INFO: u16 = 0x20;

/// Bytes of an attribute.
const ATTRIBUTE_LEN: usize = 64;
type Attribute = [u8; ATTRIBUTE_LEN];

/// The route of an SMP with a directed route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// The SMP is for the port that it is sent from.
    Here,
    /// Over a cable that there is not.
    Nowhere,
}

/// Finds the route of an SMP with a directed route (14.2.2).
pub fn route_of(mad: &Mad) -> Route {
    match mad[7] {
        0 => Route::Here,
        _ => Route::Nowhere,
    }
}

/// Answers a request. None for another MAD.
pub fn respond(request: &Mad, port: &PortFacts) -> Option<Mad> {
    let header = header_of(request);
    if !header.is_smp() || header.is_response() {
        return None;
    }
    if header.class_version != 1 {
        return Some(answer(request, status::BAD_VERSION, None));
    }
    if !header.wants_answer() {
        return None;
    }
    let attribute = match header.method {
        method::GET => read(header.attribute, header.modifier, port),
        _ => Err(status::UNSUPPORTED),
    };
    Some(match attribute {
        Ok(attribute) => answer(request, 0, Some(&attribute)),
        Err(status) => answer(request, status, None),
    })
}

fn read(attribute: u16, modifier: u32, port: &PortFacts) -> Result<Attribute, u16> {
    let mut data = [0; ATTRIBUTE_LEN];
    match attribute {
        NODE_DESCRIPTION => {
            let text = port.description.as_bytes();
            let len = text.len().min(ATTRIBUTE_LEN);
            put(&mut data, 0, &text[..len]);
        }
        NODE_INFO => node_info(&mut data, port),
        // 0 is the port that the request has come to.
        PORT_INFO if modifier & 0xff > port.ports.into() => return Err(status::INVALID_VALUE),
        PORT_INFO => port_info(&mut data, port, modifier as u8),
        GUID_INFO if modifier == 0 => put(&mut data, 0, &port.port_guid),
        GUID_INFO if modifier < u32::from(port.guids).div_ceil(8) => {}
        PKEY_TABLE if modifier & 0xffff == 0 => put(&mut data, 0, &[0xff, 0xff]),
        PKEY_TABLE if modifier & 0xffff < u32::from(port.pkeys).div_ceil(32) => {}
        GUID_INFO | PKEY_TABLE => return Err(status::INVALID_VALUE),
        // All service levels are on VL 0, and there is nothing to arbitrate.
        SL_TO_VL | VL_ARBITRATION => {}
        SM_INFO if port.lid == port.sm_lid => {
            const MASTER: u8 = 3;
            put(&mut data, 0, &port.port_guid);
            data[20] = MASTER;
        }
        _ => return Err(status::UNSUPPORTED),
    }
    Ok(data)
}

fn node_info(data: &mut Attribute, port: &PortFacts) {
    const CA: u8 = 1;
    put(data, 0, &[1, 1, CA, port.ports]);
    put(data, 4, &port.node_guid);
    put(data, 12, &port.node_guid);
    put(data, 20, &port.port_guid);
    put(data, 28, &port.pkeys.to_be_bytes());
    put(data, 30, &(port.part_id as u16).to_be_bytes());
    put(data, 32, &port.hw_ver.to_be_bytes());
    put(
        data,
        36,
        &(u32::from(port.port) << 24 | port.vendor_id & 0xff_ffff).to_be_bytes(),
    );
}

/// `number`: the port, or 0 for the one that the request has come to. Another one has no cable.
fn port_info(data: &mut Attribute, port: &PortFacts, number: u8) {
    let is_this = number == 0 || number == port.port;
    let (state, phys_state) = match is_this {
        true => (port.state, port.phys_state),
        false => (1, 2),
    };
    put(data, 8, &PREFIX);
    if is_this {
        put(data, 16, &port.lid.to_be_bytes());
        put(data, 18, &port.sm_lid.to_be_bytes());
    }
    put(data, 20, &port.cap_mask.to_be_bytes());
    // The speeds from FDR on are in the extended fields, beside QDR (14.2.5.6).
    let (legacy, extended) = match port.speed {
        16.. => (4, (port.speed >> 4).min(8) as u8),
        speed => (speed as u8, 0),
    };
    // All speeds up to the active one.
    let upto = |speed: u8| (2 * speed).saturating_sub(1) & 0xf;
    let vls = vl_code(port.max_vl);
    put(data, 28, &[port.port, port.width, port.width, port.width]);
    put(
        data,
        32,
        &[upto(legacy) << 4 | state, phys_state << 4 | 2, port.lmc & 7],
    );
    put(
        data,
        35,
        &[legacy << 4 | upto(legacy), port.active_mtu << 4, vls << 4],
    );
    put(data, 39, &[8, 8, port.max_mtu & 0xf]);
    put(data, 43, &[vls << 4]);
    put(data, 50, &[port.guids]);
    put(data, 62, &[extended << 4 | upto(extended), upto(extended)]);
}

/// `PortInfo.VLCap`: 1 for VL 0, 2 for VLs 0 and 1, 3 for 0 to 3, 4 for 0 to 7, 5 for 0 to 14. It is
/// what `ibv_port_attr.max_vl_num` has.
fn vl_code(max_vl_num: u8) -> u8 {
    max_vl_num.clamp(1, 5)
}

const _: () = assert!(DATA + ATTRIBUTE_LEN == 128);

#[cfg(test)]
mod tests {
    use super::super::datagram::tests::request;
    use super::super::datagram::{bytes, class};
    use super::*;

    fn port() -> PortFacts {
        PortFacts {
            description: "ib0".into(),
            node_guid: [1; 8],
            port_guid: [2; 8],
            ports: 2,
            vendor_id: 0x02c9,
            part_id: 4123,
            hw_ver: 1,
            port: 1,
            lid: 0x4805,
            sm_lid: 1,
            cap_mask: 0x0201_0840,
            state: 4,
            phys_state: 5,
            width: 2,
            speed: 64,
            active_mtu: 5,
            max_mtu: 5,
            max_vl: 4,
            pkeys: 128,
            guids: 8,
            ..PortFacts::default()
        }
    }

    fn get(attribute: u16, modifier: u32) -> Result<Vec<u8>, u16> {
        let of = request(class::SUBN_LID_ROUTED, method::GET, attribute, modifier);
        let mad = respond(&of, &port()).unwrap();
        assert_eq!(
            (mad[3], mad[8..16].to_vec()),
            (method::GET_RESP, of[8..16].to_vec())
        );
        match u16::from_be_bytes(bytes(&mad, 4)) {
            0 => Ok(mad[DATA..DATA + 64].to_vec()),
            status => Err(status),
        }
    }

    #[test]
    fn node_info_and_description() {
        let info = get(NODE_INFO, 0).unwrap();
        assert_eq!(info[..4], [1, 1, 1, 2]);
        assert_eq!((&info[12..20], &info[20..28]), (&[1; 8][..], &[2; 8][..]));
        assert_eq!(
            info[28..40],
            [0, 128, 0x10, 0x1b, 0, 0, 0, 1, 1, 0, 0x02, 0xc9]
        );
        assert_eq!(get(NODE_DESCRIPTION, 0).unwrap()[..4], *b"ib0\0");
    }

    #[test]
    fn port_info_of_both_ports() {
        for number in [0, 1] {
            let info = get(PORT_INFO, number).unwrap();
            assert_eq!(info[8..20], [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0x48, 5, 0, 1]);
            assert_eq!(
                (info[28], info[31], info[32] & 0xf, info[33] >> 4),
                (1, 2, 4, 5)
            );
            // QDR and, extended, HDR.
            assert_eq!((info[35] >> 4, info[62] >> 4, info[36] >> 4), (4, 4, 5));
        }
        let other = get(PORT_INFO, 2).unwrap();
        assert_eq!((other[16..20].to_vec(), other[32] & 0xf), (vec![0; 4], 1));
        assert_eq!(get(PORT_INFO, 3), Err(status::INVALID_VALUE));
    }

    #[test]
    fn tables() {
        assert_eq!(get(PKEY_TABLE, 0).unwrap()[..4], [0xff, 0xff, 0, 0]);
        assert_eq!(get(PKEY_TABLE, 3).unwrap(), vec![0; 64]);
        assert_eq!(get(PKEY_TABLE, 4), Err(status::INVALID_VALUE));
        assert_eq!(get(GUID_INFO, 0).unwrap()[..9], [2, 2, 2, 2, 2, 2, 2, 2, 0]);
        assert_eq!(get(GUID_INFO, 1), Err(status::INVALID_VALUE));
    }

    #[test]
    fn what_is_refused() {
        const SWITCH_INFO: u16 = 0x12;
        assert_eq!(get(SWITCH_INFO, 0), Err(status::UNSUPPORTED));
        let set = request(class::SUBN_LID_ROUTED, method::SET, PORT_INFO, 1);
        let answered = respond(&set, &port()).unwrap();
        assert_eq!(answered[4..6], status::UNSUPPORTED.to_be_bytes());
        let mut version = request(class::SUBN_LID_ROUTED, method::GET, PORT_INFO, 1);
        version[2] = 9;
        assert_eq!(
            respond(&version, &port()).unwrap()[4..6],
            status::BAD_VERSION.to_be_bytes()
        );
        for (class, method, attribute) in [
            (class::SUBN_LID_ROUTED, method::GET_RESP, NODE_INFO),
            (class::SUBN_LID_ROUTED, 3, NODE_INFO),
            (class::PERF_MGMT, method::GET, NODE_INFO),
        ] {
            assert_eq!(
                respond(&request(class, method, attribute, 0), &port()),
                None
            );
        }
    }

    #[test]
    fn the_first_lid_is_the_subnet_managers() {
        assert_eq!(get(SM_INFO, 0), Err(status::UNSUPPORTED));
        let manager = PortFacts { lid: 1, ..port() };
        let of = request(class::SUBN_LID_ROUTED, method::GET, SM_INFO, 0);
        let mad = respond(&of, &manager).unwrap();
        assert_eq!(
            (mad[4..6].to_vec(), &mad[DATA..DATA + 8]),
            (vec![0, 0], &[2; 8][..])
        );
        assert_eq!(mad[DATA + 20] & 0xf, 3);
    }

    #[test]
    fn directed_routes() {
        let mut mad = request(class::SUBN_DIRECTED_ROUTE, method::GET, NODE_INFO, 0);
        assert_eq!(route_of(&mad), Route::Here);
        assert_eq!(respond(&mad, &port()).unwrap()[4], 0x80);
        mad[7] = 1;
        assert_eq!(route_of(&mad), Route::Nowhere);
    }
}
