//! The provider ABIs that the library supports. Their differences are data.

use ibverbs_abi::{SLOTS_V36, VSZ_V34, ibv_context, verbs_context};

/// The layout of one provider ABI.
pub struct ProviderAbi {
    /// `sizeof(struct verbs_context)` in the provider, in bytes. Newer releases have more slots in
    /// front.
    context_size: usize,
    /// For each slot of the provider's ops table, the index of the same op in the library's table.
    pub slots: &'static [u8],
}

/// Provider ABI 34, as in rdma-core v36 to v56. v34 and v35 have shorter ops tables; no distribution
/// that is still supported ships them.
pub static V34: ProviderAbi = ProviderAbi {
    context_size: VSZ_V34,
    slots: &SLOTS_V36,
};

impl ProviderAbi {
    /// The public `ibv_context` at the end of a provider's `verbs_context`.
    #[inline]
    pub fn context(&self, provider: *mut verbs_context) -> *mut ibv_context {
        provider
            .wrapping_byte_add(self.context_size - size_of::<ibv_context>())
            .cast()
    }

    /// `sizeof(struct verbs_context)` in the provider, in bytes.
    #[inline]
    pub fn context_size(&self) -> usize {
        self.context_size
    }
}

const _: () = assert!(
    VSZ_V34 - size_of::<ibv_context>() == core::mem::offset_of!(verbs_context, context),
    "the library's verbs_context is the one of provider ABI 34"
);
