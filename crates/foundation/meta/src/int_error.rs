//! Integer parse errors with Go's messages, which are part of API messages.

use std::num::{IntErrorKind, ParseIntError};

/// Returns the message of Go's `strconv` for the same error.
pub fn int_error(error: &ParseIntError) -> &'static str {
    match error.kind() {
        IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
        _ => "invalid syntax",
    }
}
