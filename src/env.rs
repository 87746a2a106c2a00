//! Environment variables, as the C library reads them.
