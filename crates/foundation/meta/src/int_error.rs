//! Errors of parsing integers, in Go's words, which are part of messages.

use std::num::{IntErrorKind, ParseIntError};

/// Returns the error text of Go's `strconv` for the same error.
pub fn int_error(error: &ParseIntError) -> &'static str {
    match error.kind() {
        IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
        _ => "invalid syntax",
    }
}
