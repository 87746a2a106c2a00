//! The record of a memory region.

/// A memory region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mr {
    pub context: usize,
    pub pd: usize,
    /// The I/O virtual address, which requests use.
    pub start: u64,
    pub length: u64,
    pub lkey: u32,
    pub rkey: u32,
    pub access: u32,
    /// The thread on whose stack it is, or 0.
    pub stack_of: i32,
    /// The region is memory of the process, at its own addresses.
    pub is_memory: bool,
}
