//! Providers: configuration, loading, registration, matching, contexts and their ops tables.
