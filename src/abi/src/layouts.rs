//! What differs between provider ABIs, as data.

/// `sizeof(struct verbs_context)` of provider ABIs 34 and 57. Newer releases only put slots in
/// front, so everything from `query_port` on keeps its distance from the end.
pub const VSZ_V34: usize = 648;
/// The same of the first provider ABI 59 (v59 to v61).
pub const VSZ_V59: usize = 672;
/// The same of the second provider ABI 59 (v62, v63).
pub const VSZ_V62: usize = 680;
/// The same of provider ABIs 64 and 65.
pub const VSZ_V64: usize = 696;
