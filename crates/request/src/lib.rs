//! What is known of one request: its info, its user, its record.
