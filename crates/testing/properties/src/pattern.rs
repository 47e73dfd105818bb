//! Regular expressions.

use binnacle_cel::GoRegex;

use crate::work::bounded;

/// The input is a regular expression, with a text on the lines after it. An expression that compiles matches the text
/// or not, the same each time, or the work budget ends.
pub fn pattern(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (pattern, text) = text.split_once('\n').unwrap_or((text, ""));
    bounded(|| {
        let Ok(regex) = GoRegex::new(pattern) else { return };
        let (first, second) = (regex.is_match(text), regex.is_match(text));
        if let (Ok(first), Ok(second)) = (first, second) {
            assert_eq!(first, second);
        }
    });
}
