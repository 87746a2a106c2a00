//! Symbols of the shared library, which have GNU symbol versions.

/// Defines one version of a symbol: `default` is `name@@node`, `compat` is `name@node`.
macro_rules! bind {
    (default $node:literal $name:ident $imp:path) => {
        entry!(
            concat!("__", stringify!($name), "__", $node),
            concat!(
                ".symver __",
                stringify!($name),
                "__",
                $node,
                ",",
                stringify!($name),
                "@@",
                $node
            ),
            $imp
        );
    };
    (compat $node:literal $name:ident $imp:path) => {
        entry!(
            concat!("__", stringify!($name), "__", $node),
            concat!(
                ".symver __",
                stringify!($name),
                "__",
                $node,
                ",",
                stringify!($name),
                "@",
                $node
            ),
            $imp
        );
    };
}

/// Defines a zero-initialised object, with a default version and others. Rust accesses it like any other user
/// of the symbol, through the GOT, so that a program's copy relocation takes effect.
macro_rules! export_bss {
    (default $node:literal compat $($other:literal)+; $name:ident: $t:ty) => {
        ::core::arch::global_asm!(
            concat!(".pushsection .bss.__", stringify!($name), ",\"aw\",@nobits\n.p2align {align}\n"),
            object!("__", stringify!($name)),
            $( object!("__", stringify!($name), "__", $other), )+
            concat!("__", stringify!($name), ":\n"),
            $( concat!("__", stringify!($name), "__", $other, ":\n"), )+
            ".zero {size}",
            concat!(".symver __", stringify!($name), ",", stringify!($name), "@@", $node),
            $( concat!(
                ".symver __", stringify!($name), "__", $other, ",", stringify!($name), "@", $other
            ), )+
            ".popsection",
            size = const ::core::mem::size_of::<$t>(),
            align = const ::core::mem::align_of::<$t>().ilog2(),
        );
    };
}

/// Declares a global data symbol of `{size}` bytes.
macro_rules! object {
    ($($name:expr),+) => {
        concat!(
            ".globl ", $($name,)+ "\n.type ", $($name,)+ ",@object\n",
            ".size ", $($name,)+ ",{size}\n"
        )
    };
}

/// Defines the absolute objects that GNU ld creates for each node (`IBVERBS_1.0@@IBVERBS_1.0`) and lld does
/// not.
macro_rules! node_markers {
    ($($node:literal),+ $(,)?) => {
        ::core::arch::global_asm!(
            $( concat!(".globl ", $node, "\n.type ", $node, ",@object\n.set ", $node, ",0\n") ),+
        );
    };
}
