//! The IBVERBS_1.0 layer: the same verbs for programs linked before libibverbs 1.1.
