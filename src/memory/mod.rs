//! Memory that is registered: fork ranges, page sizes, RLIMIT_MEMLOCK.
