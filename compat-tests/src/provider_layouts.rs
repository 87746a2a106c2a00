//! The provider ABIs that the library serves, and their layouts. Cases that run for each of them, or look for
//! their numbers in a message, take these from here.

/// A layout of the structures that a provider contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// The release of rdma-core that introduced it.
    pub release: u32,
    /// The number of the provider ABI.
    pub abi: u32,
    /// The sizes of `struct verbs_context` and of its ops table on x86-64, in bytes.
    pub context: u32,
    pub ops: u32,
}

const fn layout(release: u32, abi: u32, context: u32, ops: u32) -> Layout {
    Layout {
        release,
        abi,
        context,
        ops,
    }
}

/// All layouts, oldest first. Release 34 stands for the layout of 36, whose ABI has that number.
pub const LAYOUTS: [Layout; 6] = [
    layout(34, 34, 648, 608),
    layout(57, 57, 648, 608),
    layout(59, 59, 672, 632),
    layout(62, 59, 680, 648),
    layout(64, 64, 696, 664),
    layout(65, 65, 696, 744),
];

/// The newest layout.
pub const NEWEST: Layout = LAYOUTS[LAYOUTS.len() - 1];

/// The numbers of the provider ABIs, oldest first.
pub fn abis() -> Vec<u32> {
    let mut abis = LAYOUTS.map(|layout| layout.abi).to_vec();
    abis.dedup();
    abis
}

/// The end of the library's message about a provider of another ABI.
pub fn supported() -> String {
    let abis: Vec<String> = abis().iter().map(u32::to_string).collect();
    let (newest, older) = abis.split_last().expect("there are layouts");
    let older = older.join(", ");
    format!("supported are {older} and {newest} (rdma-core 36 to {newest})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_layouts_of_59_have_one_number() {
        assert_eq!(abis().iter().filter(|abi| **abi == 59).count(), 1);
        assert!(supported().starts_with("supported are 34, 57, 59, "));
    }
}
