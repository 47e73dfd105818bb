//! Licence expressions: names joined by AND and OR, with parentheses.

/// True when the allowed licences permit code under this licence expression.
pub(super) fn permits(expression: &str, allowed: &[String]) -> bool {
    // The slash is how OR was written once.
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = &words[..];
    either(&mut rest, allowed).is_some_and(|permitted| permitted && rest.is_empty())
}

/// `None` where the expression is invalid.
fn either(rest: &mut &[&str], allowed: &[String]) -> Option<bool> {
    let mut permitted = both(rest, allowed)?;
    while take(rest, "OR") {
        permitted |= both(rest, allowed)?;
    }
    Some(permitted)
}

fn both(rest: &mut &[&str], allowed: &[String]) -> Option<bool> {
    let mut permitted = one(rest, allowed)?;
    while take(rest, "AND") {
        permitted &= one(rest, allowed)?;
    }
    Some(permitted)
}

fn one(rest: &mut &[&str], allowed: &[String]) -> Option<bool> {
    if take(rest, "(") {
        let permitted = either(rest, allowed)?;
        return take(rest, ")").then_some(permitted);
    }
    let (name, after) = rest.split_first()?;
    *rest = after;
    let mut name = (*name).to_owned();
    if take(rest, "WITH") {
        let (exception, after) = rest.split_first()?;
        *rest = after;
        name = format!("{name} WITH {exception}");
    }
    Some(allowed.contains(&name))
}

fn take(rest: &mut &[&str], word: &str) -> bool {
    match rest.split_first() {
        Some((first, after)) if *first == word => {
            *rest = after;
            true
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evaluates_licence_expressions() {
        let allowed = ["MIT", "ISC", "Apache-2.0", "Apache-2.0 WITH LLVM-exception"].map(str::to_owned);
        for (text, want) in [
            ("MIT", true),
            ("GPL-3.0", false),
            ("GPL-3.0 OR MIT", true),
            ("MIT/GPL-3.0", true),
            ("MIT AND GPL-3.0", false),
            ("Apache-2.0 AND ISC", true),
            ("(MIT OR GPL-3.0) AND ISC", true),
            ("MIT OR GPL-3.0 AND GPL-2.0", true),
            ("(MIT OR GPL-3.0) AND GPL-2.0", false),
            ("Apache-2.0 WITH LLVM-exception", true),
            ("MIT WITH LLVM-exception", false),
            ("", false),
            ("MIT OR", false),
            ("(MIT", false),
            ("MIT ISC", false),
        ] {
            assert_eq!(permits(text, &allowed), want, "{text}");
        }
    }
}
