//! Symbols of the static library. As in the C library's archive, each has only its default version.

macro_rules! bind {
    (default $node:literal $name:ident $imp:path) => {
        entry!(stringify!($name), "", $imp);
    };
    (compat $node:literal $name:ident $imp:path) => {};
}

/// Defines a zero-initialised object, and a second name for it, by which Rust accesses it.
macro_rules! export_bss {
    (default $node:literal compat $($other:literal)+; $name:ident: $t:ty) => {
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

/// Defines a constant C table in assembly.
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
