//! Reads what a file imports, as the library does before it loads a provider.
#![no_main]

use ibverbs::provider::load::elf::{ReadAt, imports};
use libfuzzer_sys::fuzz_target;
use std::cell::Cell;

struct File<'a>(&'a [u8], Cell<u32>);

impl ReadAt for File<'_> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Option<()> {
        self.1.set(self.1.get() + 1);
        // Each read is a system call; real providers need less than 100.
        assert!(self.1.get() < 10_000, "too many reads");
        let rest = self.0.get(usize::try_from(offset).ok()?..)?;
        buf.copy_from_slice(rest.get(..buf.len())?);
        Some(())
    }
}

fuzz_target!(|bytes: &[u8]| {
    let file = File(bytes, Cell::new(0));
    if let Some(imports) = imports(&file) {
        imports.mention(&file, &[b"MLX5_1.26"]);
    }
});
