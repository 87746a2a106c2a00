//! Conversion of address attributes, queue pair attributes and path records between the kernel's structs
//! and those of verbs.h. librdmacm calls these functions.

use crate::abi::*;

/// Assigns members by name: `dst.member = src.member`, converted to the integer type of `dst`'s member.
macro_rules! copy_members {
    ($dst:expr, $src:expr; $($member:ident)+) => {$(
        $dst.$member = $src.$member as _;
    )+};
}

/// Copies the members of a path record, which both structs have by the same names, except the GIDs.
macro_rules! copy_path_members {
    ($dst:expr, $src:expr) => {
        copy_members!($dst, $src;
            dlid slid raw_traffic flow_label hop_limit traffic_class reversible numb_path pkey sl
            mtu_selector mtu rate_selector rate packet_life_time_selector packet_life_time
            preference)
    };
}

fn ah_attr(dst: &mut ibv_ah_attr, src: &ib_uverbs_ah_attr) {
    dst.grh.dgid = ibv_gid { raw: src.grh.dgid };
    copy_members!(dst.grh, src.grh; flow_label sgid_index hop_limit traffic_class);
    copy_members!(dst, src; dlid sl src_path_bits static_rate is_global port_num);
}

/// Converts the kernel's address attributes to those of verbs.h (ibv_copy_ah_attr_from_kern(3)).
///
/// # Safety
///
/// `src` is readable, `dst` is initialised and writable, and they do not overlap.
pub unsafe extern "C" fn ibv_copy_ah_attr_from_kern(
    dst: *mut ibv_ah_attr,
    src: *mut ib_uverbs_ah_attr,
) {
    // SAFETY: `src` is readable and `dst` writable, as the caller promises; they do not overlap.
    unsafe { ah_attr(&mut *dst, &*src) }
}

/// Converts the kernel's queue pair attributes to those of verbs.h (ibv_copy_qp_attr_from_kern(3)).
/// `qp_state` and `rate_limit` stay unchanged, as in the C library.
///
/// # Safety
///
/// `src` is readable, `dst` is initialised and writable, and they do not overlap.
pub unsafe extern "C" fn ibv_copy_qp_attr_from_kern(
    dst: *mut ibv_qp_attr,
    src: *mut ib_uverbs_qp_attr,
) {
    // SAFETY: `src` is readable and `dst` writable, as the caller promises; they do not overlap.
    let (dst, src) = unsafe { (&mut *dst, &*src) };
    copy_members!(dst.cap, src;
        max_send_wr max_recv_wr max_send_sge max_recv_sge max_inline_data);
    ah_attr(&mut dst.ah_attr, &src.ah_attr);
    ah_attr(&mut dst.alt_ah_attr, &src.alt_ah_attr);
    copy_members!(dst, src;
        cur_qp_state path_mtu path_mig_state qkey rq_psn sq_psn dest_qp_num qp_access_flags
        pkey_index alt_pkey_index en_sqd_async_notify sq_draining max_rd_atomic max_dest_rd_atomic
        min_rnr_timer port_num timeout retry_cnt rnr_retry alt_port_num alt_timeout);
}

/// Converts the kernel's path record to that of sa.h (ibv_copy_path_rec_from_kern(3)).
///
/// # Safety
///
/// `src` is readable, `dst` is initialised and writable, and they do not overlap.
pub unsafe extern "C" fn ibv_copy_path_rec_from_kern(
    dst: *mut ibv_sa_path_rec,
    src: *mut ib_user_path_rec,
) {
    // SAFETY: `src` is readable and `dst` writable, as the caller promises; they do not overlap.
    let (dst, src) = unsafe { (&mut *dst, &*src) };
    dst.dgid = ibv_gid { raw: src.dgid };
    dst.sgid = ibv_gid { raw: src.sgid };
    copy_path_members!(dst, src);
}

/// Converts a path record of sa.h to the kernel's (ibv_copy_path_rec_to_kern(3)).
///
/// # Safety
///
/// `src` is readable, `dst` is initialised and writable, and they do not overlap.
pub unsafe extern "C" fn ibv_copy_path_rec_to_kern(
    dst: *mut ib_user_path_rec,
    src: *mut ibv_sa_path_rec,
) {
    // SAFETY: `src` is readable and `dst` writable, as the caller promises; they do not overlap. All
    // members of a GID have the same 16 bytes, of any value.
    let (dst, src) = unsafe {
        let (dst, src) = (&mut *dst, &*src);
        dst.dgid = src.dgid.raw;
        dst.sgid = src.sgid.raw;
        (dst, src)
    };
    copy_path_members!(dst, src);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::oracle;

    /// Room for any of the structs.
    #[repr(C, align(8))]
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    struct Bytes([u8; 256]);

    /// Pseudo-random bytes, the same in every run (xorshift64).
    struct Random(u64);

    impl Random {
        fn bytes(&mut self) -> Bytes {
            Bytes([0; 256].map(|_: u8| {
                self.0 ^= self.0 << 13;
                self.0 ^= self.0 >> 7;
                self.0 ^= self.0 << 17;
                self.0 as u8
            }))
        }
    }

    /// Runs our function and the C library's with the same random source and destination, and compares the
    /// whole destinations, including bytes that neither should write.
    fn compare<D, S>(name: &str, ours: unsafe extern "C" fn(*mut D, *mut S)) {
        assert!(size_of::<D>() <= 256 && size_of::<S>() <= 256);
        let library = oracle::library();
        let theirs = oracle::symbol::<unsafe extern "C" fn(*mut D, *mut S)>(&library, name);
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        for _ in 0..1000 {
            let (src, dst) = (random.bytes(), random.bytes());
            let [our, their] = [ours, theirs].map(|copy| {
                let (mut src, mut dst) = (src, dst);
                // SAFETY: all members of these structs are integers, so any bytes are valid; there are
                // enough of them, and they are aligned.
                unsafe { copy((&raw mut dst).cast(), (&raw mut src).cast()) };
                dst
            });
            assert_eq!(our, their, "{name}");
            assert_ne!(our, dst, "{name} wrote nothing");
        }
    }

    #[test]
    fn structs_are_converted_as_by_the_c_library() {
        compare("ibv_copy_ah_attr_from_kern", ibv_copy_ah_attr_from_kern);
        compare("ibv_copy_qp_attr_from_kern", ibv_copy_qp_attr_from_kern);
        compare("ibv_copy_path_rec_from_kern", ibv_copy_path_rec_from_kern);
        compare("ibv_copy_path_rec_to_kern", ibv_copy_path_rec_to_kern);
    }
}
