//! Validation of the options of a request: field managers, dry runs, field validation, deletes.

use binnacle_meta::{ErrorValue, FieldError, FieldErrors, FieldPath, Location};

const FIELD_MANAGER_MAX: usize = 128;

/// Validates a field manager: at most 128 bytes, all characters printable.
pub fn field_manager(manager: &str, path: &dyn Location, errors: &mut FieldErrors) {
    if manager.len() > FIELD_MANAGER_MAX {
        errors.push(FieldError::too_long(path, FIELD_MANAGER_MAX));
    }
    for (i, c) in errors.while_room(manager.char_indices().filter(|(_, c)| !is_print(*c))) {
        errors.push(FieldError::invalid(
            path,
            manager,
            format!("invalid character U+{:04X} (at position {i})", c as u32),
        ));
    }
}

/// Validates `dryRun`, whose only value is `All`.
pub fn dry_run(values: &[String], errors: &mut FieldErrors) {
    if values.iter().any(|v| v != "All") {
        let list: Vec<String> = values.iter().map(|v| binnacle_meta::go_quote(v)).collect();
        let shown = ErrorValue::raw(format!("[{}]", list.join(",")));
        errors.push(FieldError::not_supported(&FieldPath::new("dryRun"), shown, &["All"]));
    }
}

/// Validates `fieldValidation`: empty, `Ignore`, `Warn` or `Strict`.
pub fn field_validation(value: &str, errors: &mut FieldErrors) {
    const KNOWN: [&str; 4] = ["", "Ignore", "Strict", "Warn"];
    if !KNOWN.contains(&value) {
        errors.push(FieldError::not_supported(&FieldPath::new("fieldValidation"), value, &KNOWN));
    }
}

/// Returns true for characters that are printable to Go's `unicode.IsPrint`: letters, marks, numbers, punctuation,
/// symbols and the ASCII space.
fn is_print(c: char) -> bool {
    c == ' '
        || !(c.is_control()
            || c.is_whitespace()
            || matches!(c as u32, 0xad | 0x200b..=0x200f | 0x202a..=0x202e | 0x2060..=0x206f | 0xfeff | 0xe000..=0xf8ff | 0xfff0..=0xfffb))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn validates_field_managers() {
        for (manager, want) in [
            ("kubectl", vec![]),
            ("a\tb", vec!["fieldManager: Invalid value: \"a\\tb\": invalid character U+0009 (at position 1)"]),
        ] {
            let mut errors = FieldErrors::new();
            field_manager(manager, &FieldPath::new("fieldManager"), &mut errors);
            assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), want);
        }
    }
}
