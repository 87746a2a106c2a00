//! Macros that define exported symbols without `#[no_mangle]`.
//!
//! Each exported pair of name and node is a label in module-level assembly that jumps to an ordinary,
//! mangled Rust function. rustc does not know these labels, so its own anonymous version script does not
//! list them, and `libibverbs.map` alone decides what is exported in which node. The label, its `.symver`
//! and the jump are in one asm block, so neither codegen units nor LTO can separate them.
//!
//! `jump!` is the architecture's (`crate::arch`). `bind!`, `export_bss!` and `node_markers!` are defined in
//! `versions.rs` for the shared library, and in `plain.rs` for a static library, which has no symbol
//! versions.

/// Defines a function symbol: the label `$label`, its `.symver` line, and a jump to `$imp`.
macro_rules! entry {
    ($label:expr, $symver:expr, $imp:path) => {
        ::core::arch::global_asm!(
            concat!(".pushsection .text.", $label, ",\"ax\",@progbits\n.p2align 4\n"),
            concat!(".globl ", $label, "\n.type ", $label, ",@function\n"),
            concat!($label, ":\n.cfi_startproc\n"), jump!(), ".cfi_endproc\n",
            concat!(".size ", $label, ",.-", $label, "\n", $symver, "\n.popsection\n"),
            imp = sym $imp,
        );
    };
}

/// Defines the symbols of a node, by module: `export!(default "IBVERBS_1.1": [crate::verbs::pd] { … } …)`.
/// The function has the symbol's name, unless it is given by `symbol = function`. A function that is generic
/// over the provider ABI is given by `symbol = function::<number>`.
macro_rules! export {
    ($kind:ident $node:literal: $( $module:tt {
        $( $name:ident $(= $imp:ident $(::<$abi:literal>)? )? ),+ $(,)?
    } )+) => {
        $( $( export!(@one $kind $node $module $name $($imp $($abi)?)?); )+ )+
    };
    (@one $kind:ident $node:literal [$($module:tt)+] $name:ident) => {
        bind!($kind $node $name $($module)+::$name);
    };
    (@one $kind:ident $node:literal [$($module:tt)+] $name:ident $imp:ident) => {
        bind!($kind $node $name $($module)+::$imp);
    };
    (@one $kind:ident $node:literal [$($module:tt)+] $name:ident $imp:ident $abi:literal) => {
        bind!($kind $node $name $($module)+::$imp::<$abi>);
    };
}
