//! The kernel's forms of addresses, queue pair attributes and path records, and the programs'.
//! librdmacm calls these.

use crate::abi::*;

/// Assigns members by name: `dst.member = src.member`, in whatever integer type `dst` has it.
macro_rules! copy_members {
    ($dst:expr, $src:expr; $($member:ident)+) => {$(
        $dst.$member = $src.$member as _;
    )+};
}

/// The same members of a path record in both forms, but for the GIDs.
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

/// Makes a program's address attributes of the kernel's.
///
/// # Safety
///
/// `src` is readable, `dst` holds a struct that is writable.
pub unsafe extern "C" fn ibv_copy_ah_attr_from_kern(
    dst: *mut ibv_ah_attr,
    src: *mut ib_uverbs_ah_attr,
) {
    // SAFETY: the caller's promise; the two structs are different ones.
    unsafe { ah_attr(&mut *dst, &*src) }
}

/// Makes a program's queue pair attributes of the kernel's. The state and the rate limit, which the
/// kernel's have no say in or no place for, stay as they are.
///
/// # Safety
///
/// `src` is readable, `dst` holds a struct that is writable.
pub unsafe extern "C" fn ibv_copy_qp_attr_from_kern(
    dst: *mut ibv_qp_attr,
    src: *mut ib_uverbs_qp_attr,
) {
    // SAFETY: the caller's promise; the two structs are different ones.
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

/// Makes a program's path record of the kernel's.
///
/// # Safety
///
/// `src` is readable, `dst` holds a struct that is writable.
pub unsafe extern "C" fn ibv_copy_path_rec_from_kern(
    dst: *mut ibv_sa_path_rec,
    src: *mut ib_user_path_rec,
) {
    // SAFETY: the caller's promise; the two structs are different ones.
    let (dst, src) = unsafe { (&mut *dst, &*src) };
    dst.dgid = ibv_gid { raw: src.dgid };
    dst.sgid = ibv_gid { raw: src.sgid };
    copy_path_members!(dst, src);
}

/// Makes the kernel's path record of a program's.
///
/// # Safety
///
/// `src` is readable, `dst` holds a struct that is writable.
pub unsafe extern "C" fn ibv_copy_path_rec_to_kern(
    dst: *mut ib_user_path_rec,
    src: *mut ibv_sa_path_rec,
) {
    // SAFETY: the caller's promise; the two structs are different ones, and a GID is 16 bytes by
    // whichever name.
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

    /// Bytes that look random and are the same in every run (xorshift64).
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

    /// Runs our function and the C library's on the same bytes, over the same bytes, and compares
    /// all that there is then: what was to be written, and what was to be left alone.
    fn compare<D, S>(name: &str, ours: unsafe extern "C" fn(*mut D, *mut S)) {
        assert!(size_of::<D>() <= 256 && size_of::<S>() <= 256);
        let library = oracle::library();
        let theirs = oracle::symbol::<unsafe extern "C" fn(*mut D, *mut S)>(&library, name);
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        for _ in 0..1000 {
            let (src, dst) = (random.bytes(), random.bytes());
            let [our, their] = [ours, theirs].map(|copy| {
                let (mut src, mut dst) = (src, dst);
                // SAFETY: every member of these structs is a number, so that any bytes will do, and
                // there are enough of them, well aligned.
                unsafe { copy((&raw mut dst).cast(), (&raw mut src).cast()) };
                dst
            });
            assert_eq!(our, their, "{name}");
            assert_ne!(our, dst, "{name} wrote nothing");
        }
    }

    #[test]
    fn structs_are_made_as_the_c_library_makes_them() {
        compare("ibv_copy_ah_attr_from_kern", ibv_copy_ah_attr_from_kern);
        compare("ibv_copy_qp_attr_from_kern", ibv_copy_qp_attr_from_kern);
        compare("ibv_copy_path_rec_from_kern", ibv_copy_path_rec_from_kern);
        compare("ibv_copy_path_rec_to_kern", ibv_copy_path_rec_to_kern);
    }
}
