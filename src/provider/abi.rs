//! The provider ABIs that the library serves. What differs between them is data.

use ibverbs_abi::{SLOTS_V36, VSZ_V34, ibv_context, verbs_context};

/// One generation of providers.
pub struct ProviderAbi {
    /// `sizeof(struct verbs_context)` in the provider: newer releases have more slots in front.
    context_size: usize,
    /// For each slot of the provider's ops table, its index in the library's own.
    pub slots: &'static [u8],
}

/// Provider ABI 34, from rdma-core v36 on. (v34 and v35 have shorter ops tables; no distribution that
/// is still in use ships them.)
pub static V34: ProviderAbi = ProviderAbi {
    context_size: VSZ_V34,
    slots: &SLOTS_V36,
};

impl ProviderAbi {
    /// The public context at the end of what a provider knows as its `verbs_context`.
    #[inline]
    pub fn context(&self, provider: *mut verbs_context) -> *mut ibv_context {
        provider
            .wrapping_byte_add(self.context_size - size_of::<ibv_context>())
            .cast()
    }

    /// `sizeof(struct verbs_context)` in the provider.
    #[inline]
    pub fn context_size(&self) -> usize {
        self.context_size
    }
}

const _: () = assert!(
    VSZ_V34 - size_of::<ibv_context>() == core::mem::offset_of!(verbs_context, context),
    "the library's verbs_context is the one of provider ABI 34"
);
