//! From the GIDs of an address handle to an Ethernet address: what providers call that build address
//! vectors in user space.

use crate::abi::{ibv_ah_attr, ibv_context, ibv_gid};
use crate::neigh::{Failure, Resolver};
use crate::verbs::gid::ibv_query_gid;
use ibverbs_abi::Errno;
use libc::{EHOSTUNREACH, c_int};

/// What the C library calls a VLAN id when there is none.
const NO_VLAN: u16 = 0xffff;

/// Finds the MAC address (6 bytes at `eth_mac`) that packets from the port's GID
/// `attr->grh.sgid_index` to `attr->grh.dgid` are to be sent to, and unless `vid` is NULL the id of
/// the VLAN they go through, 0xffff for none. Blocks for up to 3 seconds.
///
/// Returns 0, -1 when there is no such source GID, -EINVAL when no interface has its address, or
/// -EHOSTUNREACH. errno is set too where a system call failed.
///
/// # Safety
/// `context` is open, `attr` points to an address handle's attributes, `eth_mac` to 6 bytes and `vid`
/// to 2 or nowhere. Any thread may call it.
pub unsafe extern "C" fn ibv_resolve_eth_l2_from_gid(
    context: *mut ibv_context,
    attr: *mut ibv_ah_attr,
    eth_mac: *mut u8,
    vid: *mut u16,
) -> c_int {
    // SAFETY: the caller's attributes, which nobody changes during the call.
    let attr = unsafe { &*attr };
    let mut sgid = ibv_gid { raw: [0; 16] };
    let index = attr.grh.sgid_index.into();
    // SAFETY: the caller's context, and a GID of ours to write to.
    let ret = unsafe { ibv_query_gid(context, attr.port_num, index, &mut sgid) };
    if ret != 0 {
        return ret;
    }
    let before = Errno::last();
    // SAFETY: all members of the union are 16 bytes for which any value will do.
    let (sgid, dgid) = unsafe { (sgid.raw, attr.grh.dgid.raw) };

    let resolved = Resolver::new().and_then(|mut resolver| {
        let resolved = resolver.resolve(sgid, dgid)?;
        if !vid.is_null() {
            let id = resolver.vlan(resolved.interface).unwrap_or(NO_VLAN);
            // SAFETY: it is not NULL, so the caller has room for the id there.
            unsafe { vid.write(id) };
        }
        // A link whose addresses are shorter leaves the rest of the 6 bytes as it was.
        match resolved.address.bytes() {
            mac @ [_, ..] if mac.len() <= 6 => {
                // SAFETY: the caller has room for 6 bytes there, and it is none of ours.
                unsafe { eth_mac.copy_from_nonoverlapping(mac.as_ptr(), mac.len()) };
                Ok(())
            }
            _ => Err(Failure {
                code: -EHOSTUNREACH,
                errno: None,
            }),
        }
    });
    match resolved {
        Ok(()) => 0,
        Err(failure) => {
            // The C library's errno is what a system call of its own left, if one failed.
            failure.errno.unwrap_or(before).set();
            failure.code
        }
    }
}
