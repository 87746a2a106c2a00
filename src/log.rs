//! The verbs log: VERBS_LOG_LEVEL and VERBS_LOG_FILE.
