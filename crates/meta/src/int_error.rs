//! Numbers that are none, in Go's words, which are part of messages.

use std::num::{IntErrorKind, ParseIntError};

/// The reason of Go's `strconv` for the same text.
pub fn int_error(error: &ParseIntError) -> &'static str {
    match error.kind() {
        IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
        _ => "invalid syntax",
    }
}
