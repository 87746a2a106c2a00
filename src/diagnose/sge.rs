//! An element of the list of buffers of a request or receive.

/// A scatter/gather element.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sge {
    pub addr: u64,
    pub length: u32,
    pub lkey: u32,
}

impl Sge {
    /// The address behind the element.
    pub fn end(&self) -> u128 {
        u128::from(self.addr) + u128::from(self.length)
    }
}
