//! The public verbs, a file per object.
