//! Several errors as one.

/// Several errors in one line, none twice, as Go's aggregates write them: `a`, or `[a, b]`.
pub fn aggregate<T: ToString>(errors: impl IntoIterator<Item = T>) -> String {
    let mut once: Vec<String> = Vec::new();
    for error in errors {
        let error = error.to_string();
        if !once.contains(&error) {
            once.push(error);
        }
    }
    match &once[..] {
        [] => String::new(),
        [one] => one.clone(),
        _ => format!("[{}]", once.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn once_each() {
        for (errors, want) in [(&[][..], ""), (&["a"], "a"), (&["a", "a"], "a"), (&["a", "b", "a"], "[a, b]")] {
            assert_eq!(aggregate(errors), want);
        }
    }
}
