//! The differences between provider ABIs, as data. Releases (v36, ...) are rdma-core's.

use crate::*;

/// The layouts of `verbs_context_ops`, oldest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum OpsLayout {
    /// Provider ABIs 34 (from v36) and 57: v36 to v58.
    V36,
    /// The first provider ABI 59: v59 to v61.
    V59,
    /// The second provider ABI 59: v62 and v63.
    V62,
    /// Provider ABI 64: v64.
    V64,
    /// Provider ABI 65: v65.
    V65,
}

/// The slots of a layout: for each slot, its index in [`verbs_context_ops`]. Releases have only inserted
/// slots, so an older table is the newest one without some.
const fn slots<const N: usize>(layout: OpsLayout) -> [u8; N] {
    let mut out = [0; N];
    let (mut from, mut to) = (0, 0);
    while from < OPS {
        if OPS_SINCE[from] as u8 <= layout as u8 {
            out[to] = from as u8;
            to += 1;
        }
        from += 1;
    }
    assert!(to == N);
    out
}

/// Slots of provider ABIs 34 and 57.
pub const SLOTS_V36: [u8; 76] = slots(OpsLayout::V36);
/// Slots of the first provider ABI 59 (v59 to v61).
pub const SLOTS_V59: [u8; 79] = slots(OpsLayout::V59);
/// Slots of the second provider ABI 59 (v62, v63).
pub const SLOTS_V62: [u8; 81] = slots(OpsLayout::V62);
/// Slots of provider ABI 64.
pub const SLOTS_V64: [u8; 83] = slots(OpsLayout::V64);
/// Slots of provider ABI 65.
pub const SLOTS_V65: [u8; 93] = slots(OpsLayout::V65);

const SLOT: usize = size_of::<usize>();

/// `sizeof(struct verbs_context)` of provider ABIs 34 and 57 (648 on x86-64, 656 on arm64). Newer releases
/// only insert slots at the front, so everything from `query_port` on keeps its distance from the end.
pub const VSZ_V34: usize = size_of::<verbs_context>();
/// The size in the first provider ABI 59 (v59 to v61): three slots more.
pub const VSZ_V59: usize = VSZ_V34 + 3 * SLOT;
/// The size in the second provider ABI 59 (v62, v63): one slot more.
pub const VSZ_V62: usize = VSZ_V59 + SLOT;
/// The size in provider ABIs 64 and 65: two slots more.
pub const VSZ_V64: usize = VSZ_V62 + 2 * SLOT;

/// Offset of `comp_mask` in [`verbs_qp`] of v34 to v43, of v44, and of v45 and later: it follows
/// [`ibv_qp_ex`], which grew by a slot each time (344, 352, 360 bytes on x86-64, 8 more on arm64).
pub const VERBS_QP_COMP_MASK_OFFSETS: [usize; 3] = {
    let newest = size_of::<ibv_qp_ex>();
    [newest - 2 * SLOT, newest - SLOT, newest]
};
