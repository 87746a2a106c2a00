//! Attributes that a program passes, of which older programs have fewer.

use core::mem::{MaybeUninit, offset_of};
use core::ptr;

use ibverbs_abi::*;

use super::super::shadow::Change;

/// A copy of the attributes, without `rate_limit`, which older programs do not have.
///
/// # Safety
/// `attr` is readable up to `rate_limit`.
pub unsafe fn copy(attr: *const ibv_qp_attr, mask: u32) -> Change {
    let mut copy = MaybeUninit::<ibv_qp_attr>::zeroed();
    // SAFETY: the attributes are readable up to `rate_limit`, as the caller promises; the rest of the copy is
    // zeros, and all members are integers and bytes.
    unsafe {
        let length = offset_of!(ibv_qp_attr, rate_limit);
        ptr::copy_nonoverlapping(attr.cast::<u8>(), copy.as_mut_ptr().cast(), length);
        let attr = copy.assume_init();
        let dgid = attr.ah_attr.grh.dgid.raw;
        Change { mask, attr, dgid }
    }
}
