//! The embedded storage engine: one committer, durable history, compaction, recovery.
