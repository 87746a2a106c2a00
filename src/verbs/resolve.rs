//! Resolution of the GIDs of an address handle to a destination MAC address and a VLAN. Providers that
//! build address vectors in user space call it.

use crate::abi::{ibv_ah_attr, ibv_context, ibv_gid};
use crate::neigh::{Failure, Resolver};
use crate::verbs::gid::ibv_query_gid;
use ibverbs_abi::Errno;
use libc::{EHOSTUNREACH, c_int};

/// The VLAN id that means "no VLAN", as in the C library.
const NO_VLAN: u16 = 0xffff;

/// Finds the destination MAC address (6 bytes at `eth_mac`) of packets from the port's GID
/// `attr->grh.sgid_index` to `attr->grh.dgid`. Unless `vid` is NULL, also finds their VLAN id, 0xffff for
/// none. Blocks for up to 3 seconds. Any thread may call it.
///
/// Returns 0; -1 if the source GID does not exist; -EINVAL if no interface has its address; or
/// -EHOSTUNREACH. errno is set only if a system call failed.
///
/// # Safety
/// `context` is open, `attr` is readable, 6 bytes at `eth_mac` are writable, and `vid` is NULL or writable.
pub unsafe extern "C" fn ibv_resolve_eth_l2_from_gid(
    context: *mut ibv_context,
    attr: *mut ibv_ah_attr,
    eth_mac: *mut u8,
    vid: *mut u16,
) -> c_int {
    // SAFETY: `attr` is readable, as the caller promises.
    let attr = unsafe { &*attr };
    let mut sgid = ibv_gid { raw: [0; 16] };
    let index = attr.grh.sgid_index.into();
    // SAFETY: the context is open, as the caller promises, and `sgid` is writable.
    let ret = unsafe { ibv_query_gid(context, attr.port_num, index, &mut sgid) };
    if ret != 0 {
        return ret;
    }
    let before = Errno::last();
    // SAFETY: all members of the union have the same 16 bytes, of any value.
    let (sgid, dgid) = unsafe { (sgid.raw, attr.grh.dgid.raw) };

    let resolved = Resolver::new().and_then(|mut resolver| {
        let resolved = resolver.resolve(sgid, dgid)?;
        if !vid.is_null() {
            let id = resolver.vlan(resolved.interface).unwrap_or(NO_VLAN);
            // SAFETY: `vid` is not NULL, so it is writable, as the caller promises.
            unsafe { vid.write(id) };
        }
        // An interface with shorter addresses leaves the rest of the 6 bytes unchanged.
        match resolved.address.bytes() {
            mac @ [_, ..] if mac.len() <= 6 => {
                // SAFETY: 6 bytes at `eth_mac` are writable, as the caller promises, and `mac` is local.
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
            // The C library's errno is that of the system call that failed, if one did.
            failure.errno.unwrap_or(before).set();
            failure.code
        }
    }
}
