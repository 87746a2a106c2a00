//! The provider ABIs that the library supports. Their differences are data: one [`ProviderAbi`] each.
//!
//! A provider ABI has a number, which is part of the version node that its providers import. Number 59
//! stands for two layouts: rdma-core v62 inserted slots without a new number. The library writes the
//! layout's size to `verbs_context.sz`, so [`ProviderAbi::of`] recognises the layout of a context by it.

use core::mem::offset_of;

use ibverbs_abi::{
    SLOTS_V36, SLOTS_V59, SLOTS_V62, SLOTS_V64, SLOTS_V65, VSZ_V34, VSZ_V59, VSZ_V62, VSZ_V64,
    ibv_context, verbs_context, verbs_context_ops,
};

/// The layout of one provider ABI.
#[derive(Debug, PartialEq, Eq)]
pub struct ProviderAbi {
    /// The number in the name of the version node, IBVERBS_PRIVATE_*.
    pub number: u32,
    /// The releases of rdma-core that have this layout.
    pub releases: &'static str,
    /// `sizeof(struct verbs_context)` in the provider, in bytes. Newer releases have more slots in
    /// front.
    context_size: usize,
    /// The index of the same op in the library's table, for each slot of the provider's ops table.
    pub slots: &'static [u8],
}

/// Provider ABI 34, as in rdma-core v36 to v56. v34 and v35 have shorter ops tables; no distribution
/// that is still supported ships them.
pub static V34: ProviderAbi = ProviderAbi {
    number: 34,
    releases: "36 to 56",
    context_size: VSZ_V34,
    slots: &SLOTS_V36,
};
/// Provider ABI 57. Its structures are those of ABI 34.
pub static V57: ProviderAbi = ProviderAbi {
    number: 57,
    releases: "57 and 58",
    context_size: VSZ_V34,
    slots: &SLOTS_V36,
};
/// The first layout of provider ABI 59.
pub static V59: ProviderAbi = ProviderAbi {
    number: 59,
    releases: "59 to 61",
    context_size: VSZ_V59,
    slots: &SLOTS_V59,
};
/// The second layout of provider ABI 59.
pub static V62: ProviderAbi = ProviderAbi {
    number: 59,
    releases: "62 and 63",
    context_size: VSZ_V62,
    slots: &SLOTS_V62,
};
/// Provider ABI 64.
pub static V64: ProviderAbi = ProviderAbi {
    number: 64,
    releases: "64",
    context_size: VSZ_V64,
    slots: &SLOTS_V64,
};
/// Provider ABI 65. Its `verbs_context` is that of ABI 64.
pub static V65: ProviderAbi = ProviderAbi {
    number: 65,
    releases: "65",
    context_size: VSZ_V64,
    slots: &SLOTS_V65,
};

/// All layouts, the newest first. Providers of these ABIs can be loaded side by side.
pub static ALL: [&ProviderAbi; 6] = [&V65, &V64, &V62, &V59, &V57, &V34];

/// The numbers of [`ALL`] for messages.
pub const SUPPORTED: &str = "34, 57, 59, 64 and 65 (rdma-core 36 to 65)";

/// The layouts that one ABI number stands for.
#[derive(Clone, Copy)]
pub enum Numbered {
    One(&'static ProviderAbi),
    /// The older and the newer one.
    Two(&'static ProviderAbi, &'static ProviderAbi),
    Unsupported,
}

/// The index of an op in the library's table.
macro_rules! op {
    ($op:ident) => {
        (offset_of!(verbs_context_ops, $op) / size_of::<usize>()) as u8
    };
}

/// The ops whose public slots newer ABIs have in front of ABI 34's `verbs_context`, nearest first. No
/// inline function of verbs.h calls them; they are there for programs that read the structure.
const FRONT: [u8; 6] = [
    op!(alloc_dmah),
    op!(dealloc_dmah),
    op!(reg_mr_ex),
    op!(dm_export_dmabuf_fd),
    op!(alloc_buf),
    op!(free_buf),
];

/// Where `sz` lies, in bytes before the end of a `verbs_context`.
const SZ_FROM_END: usize = size_of::<verbs_context>() - offset_of!(verbs_context, sz);

impl ProviderAbi {
    /// The layout of a context that [`super::context`] initialised. `None` for other memory.
    ///
    /// Layouts are tried by ascending size. At the place of a shorter layout's `sz`, a longer one has a
    /// function pointer or a reserved word that stays 0, neither of which is that layout's size.
    ///
    /// # Safety
    /// `provider` is readable for the size of ABI 34's `verbs_context`, and for the whole of its own.
    pub unsafe fn of(provider: *mut verbs_context) -> Option<&'static ProviderAbi> {
        [&V34, &V59, &V62, &V64].into_iter().find(|abi| {
            let sz = provider.wrapping_byte_add(abi.context_size - SZ_FROM_END);
            // SAFETY: `sz` of ABI 34 lies within every context. Those of longer layouts are read only
            // if no shorter one fits, and lie within 360 bytes, less than any layout's size.
            unsafe { sz.cast::<usize>().read() == abi.context_size }
        })
    }

    /// The layout of a context that a provider of ABI `PABI` passes to one of that ABI's functions.
    ///
    /// # Safety
    /// As for [`ProviderAbi::of`].
    #[inline]
    pub unsafe fn of_caller<const PABI: u32>(
        provider: *mut verbs_context,
    ) -> Option<&'static ProviderAbi> {
        match ProviderAbi::numbered(PABI) {
            Numbered::One(abi) => Some(abi),
            // SAFETY: the caller passes what `ProviderAbi::of` requires.
            _ => unsafe { ProviderAbi::of(provider) },
        }
    }

    /// The layouts that have the ABI number `number`.
    #[inline]
    pub const fn numbered(number: u32) -> Numbered {
        match number {
            34 => Numbered::One(&V34),
            57 => Numbered::One(&V57),
            59 => Numbered::Two(&V59, &V62),
            64 => Numbered::One(&V64),
            65 => Numbered::One(&V65),
            _ => Numbered::Unsupported,
        }
    }

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

    /// The public slots that this layout has in front of ABI 34's, as pairs of the offset in bytes from
    /// the `ibv_context` and the index of the op in the library's table.
    pub fn front_slots(&self) -> impl Iterator<Item = (isize, usize)> {
        let count = (self.context_size - VSZ_V34) / size_of::<usize>();
        let first = -(offset_of!(verbs_context, context) as isize);
        FRONT.iter().take(count).enumerate().map(move |(i, op)| {
            let at = first - ((i + 1) * size_of::<usize>()) as isize;
            (at, usize::from(*op))
        })
    }
}

const _: () = assert!(
    VSZ_V34 - size_of::<ibv_context>() == offset_of!(verbs_context, context),
    "the library's verbs_context is the one of provider ABI 34"
);

#[cfg(test)]
mod tests {
    use ibverbs_abi::OPS_NAMES;

    use super::*;

    #[test]
    fn a_context_is_recognised_by_its_own_size() {
        for abi in ALL {
            // Function pointers in all slots, as in an open context.
            let mut memory = vec![0x7f00_1234_5678_usize; abi.context_size / size_of::<usize>()];
            let provider = memory.as_mut_ptr().cast::<verbs_context>();
            let last = abi.context_size - size_of::<ibv_context>() - SLOT;
            memory[last / SLOT] = abi.context_size;
            memory[last / SLOT - 1] = 0;
            // SAFETY: the memory has the layout's size.
            let found = unsafe { ProviderAbi::of(provider) }.unwrap();
            assert_eq!(found.context_size, abi.context_size);
        }
        let mut other = [0usize; 100];
        // SAFETY: the memory is longer than every layout.
        assert!(unsafe { ProviderAbi::of(other.as_mut_ptr().cast()) }.is_none());
    }

    #[test]
    fn each_layout_is_found_by_its_number_and_named_in_messages() {
        let (numbers, _) = SUPPORTED.split_once('(').unwrap();
        for abi in ALL {
            let found = match ProviderAbi::numbered(abi.number) {
                Numbered::One(one) => vec![one],
                Numbered::Two(old, new) => vec![old, new],
                Numbered::Unsupported => vec![],
            };
            let number = abi.number.to_string();
            assert!(
                found.contains(&abi) && numbers.contains(&number),
                "{number}"
            );
        }
    }

    const SLOT: usize = size_of::<usize>();

    #[test]
    fn the_front_slots_are_those_of_each_release() {
        let slots = |abi: &ProviderAbi| -> Vec<(isize, &str)> {
            abi.front_slots()
                .map(|(at, op)| (at, OPS_NAMES[op]))
                .collect()
        };
        assert_eq!(slots(&V34), []);
        assert_eq!(
            slots(&V59),
            [
                (-328, "alloc_dmah"),
                (-336, "dealloc_dmah"),
                (-344, "reg_mr_ex")
            ]
        );
        assert_eq!(slots(&V62)[3..], [(-352, "dm_export_dmabuf_fd")]);
        assert_eq!(slots(&V64)[4..], [(-360, "alloc_buf"), (-368, "free_buf")]);
    }
}
