//! Validation of ports.

use binnacle_meta::{FieldError, FieldErrors, Location};

pub use crate::names::port_name as name;
use crate::names::port_number;

/// Validates a port number.
pub fn number(path: &dyn Location, value: i64, errors: &mut FieldErrors) {
    errors.extend(port_number(value).iter().map(|message| FieldError::invalid(path, value, message)));
}
