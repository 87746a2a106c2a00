//! The names of a static library: of each symbol the default version only, as the C library's has it.

macro_rules! bind {
    (default $node:literal $name:ident $imp:path) => {
        entry!(stringify!($name), "", $imp);
    };
    (compat $node:literal $name:ident $imp:path) => {};
}

/// A zero-initialised object, also under the name by which Rust reaches it.
macro_rules! export_bss {
    ($kind:ident $node:literal $name:ident: $t:ty) => {
        ::core::arch::global_asm!(
            concat!(".pushsection .bss.", stringify!($name), ",\"aw\",@nobits\n.p2align {align}\n"),
            concat!(".globl ", stringify!($name), "\n.type ", stringify!($name), ",@object\n"),
            concat!(".globl __", stringify!($name), "\n.type __", stringify!($name), ",@object\n"),
            concat!("__", stringify!($name), ":\n", stringify!($name), ":\n.zero {size}\n"),
            concat!(".size ", stringify!($name), ",{size}\n.popsection\n"),
            size = const ::core::mem::size_of::<$t>(),
            align = const ::core::mem::align_of::<$t>().ilog2(),
        );
    };
}

macro_rules! node_markers {
    ($($node:literal),+ $(,)?) => {};
}

/// A constant table of C's, in assembly.
macro_rules! table {
    ($name:literal, $section:literal: $($line:tt)+) => {
        ::core::arch::global_asm!(
            concat!(".pushsection ", $section, ".", $name, ",\"aw\",@progbits\n.p2align 3\n"),
            concat!(".globl ", $name, "\n.type ", $name, ",@object\n", $name, ":\n"),
            concat!($($line)+),
            concat!("\n.size ", $name, ",.-", $name, "\n.popsection\n"),
        );
    };
}
