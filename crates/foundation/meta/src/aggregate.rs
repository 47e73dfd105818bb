use std::collections::HashSet;
use std::fmt::Display;

/// Joins several errors like apimachinery's `Aggregate`: each distinct text once, in order; in brackets if there are
/// several; the empty text if there is none.
pub fn aggregate<T: Display>(errors: impl IntoIterator<Item = T>) -> String {
    let mut seen = HashSet::new();
    let mut texts = errors.into_iter().map(|error| error.to_string()).collect::<Vec<_>>();
    texts.retain(|text| seen.insert(text.clone()));
    if texts.len() > 1 { format!("[{}]", texts.join(", ")) } else { texts.pop().unwrap_or_default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joins_distinct_errors() {
        for (errors, want) in [
            (&[][..], ""),
            (&["a"], "a"),
            (&["a", "a"], "a"),
            (&["b", "a"], "[b, a]"),
            (&["a", "b", "a", "c", "b"], "[a, b, c]"),
        ] {
            assert_eq!(aggregate(errors), want);
        }
    }
}
