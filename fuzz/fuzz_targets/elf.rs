//! Reads what a file imports, as the library does before it loads a provider.
#![no_main]

use ibverbs::provider::elf::{ReadAt, imports};
use libfuzzer_sys::fuzz_target;

struct File<'a>(&'a [u8], u32);

impl ReadAt for File<'_> {
    fn bytes(&mut self, offset: u64, len: usize) -> Option<&[u8]> {
        self.1 += 1;
        // Each read may be a system call; real providers need less than 100.
        assert!(self.1 < 10_000, "too many reads");
        self.0.get(usize::try_from(offset).ok()?..)?.get(..len)
    }
}

fuzz_target!(|bytes: &[u8]| {
    let mut file = File(bytes, 0);
    if let Some(imports) = imports(&mut file) {
        imports.mention(&mut file, &[b"MLX5_1.26"]);
    }
});
