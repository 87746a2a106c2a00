//! The symbol table: what stands in which version node. A C symbol is born here and nowhere else.

#[macro_use]
mod versions;
