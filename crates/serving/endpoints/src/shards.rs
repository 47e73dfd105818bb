//! The parameter `shardSelector`: expressions of `shardRange(path, start, end)` calls joined by `||`. They are parsed
//! but never evaluated.

use binnacle_cel::Syntax;
use binnacle_meta::{ShardKey, ShardRange, ShardSelector, go_quote};

/// The end of all hashes, 2^64, which is the only bound with so many digits.
const END: &str = "0x10000000000000000";

/// Parses a selector; the error is that of kube-apiserver.
pub(crate) fn parse(text: &str) -> Result<ShardSelector, String> {
    let text = text.trim();
    if text.is_empty() {
        return Err("empty shard selector is not allowed; omit the parameter for unfiltered lists".to_owned());
    }
    let syntax = Syntax::parse(text).map_err(|message| format!("CEL parse error: {message}"))?;
    let mut ranges = Vec::new();
    collect(&syntax, &mut ranges)?;
    // There is at least one range: every other expression is an error.
    let Some((key, _)) = ranges.first().copied() else { return Err(String::new()) };
    if let Some((other, _)) = ranges.iter().find(|(other, _)| *other != key) {
        let (key, other) = (key.path(), other.path());
        return Err(format!("all shard ranges must use the same field, got {key:?} and {other:?}"));
    }
    Ok(ShardSelector { key, ranges: ranges.into_iter().map(|(_, range)| range).collect() })
}

fn collect(syntax: &Syntax, ranges: &mut Vec<(ShardKey, ShardRange)>) -> Result<(), String> {
    match syntax {
        Syntax::Call(function, arguments) if function == "_||_" => {
            arguments.iter().try_for_each(|argument| collect(argument, ranges))
        }
        Syntax::Call(function, arguments) if function == "shardRange" => {
            ranges.push(range(arguments)?);
            Ok(())
        }
        Syntax::Call(function, _) => {
            Err(format!("unsupported function {}; only shardRange() and || are allowed", go_quote(function)))
        }
        other => Err(format!("unexpected expression kind {}; expected shardRange() call or || operator", other.kind())),
    }
}

fn range(arguments: &[Syntax]) -> Result<(ShardKey, ShardRange), String> {
    let [field, start, end] = arguments else {
        return Err(format!("shardRange() requires exactly 3 arguments, got {}", arguments.len()));
    };
    let path = path(field).map_err(|why| format!("shardRange() first argument: {why}"))?;
    let key = ShardKey::ALL.into_iter().find(|key| key.path() == path).ok_or_else(|| {
        format!("unsupported field path {}; supported: object.metadata.uid, object.metadata.namespace", go_quote(&path))
    })?;
    let (start, end) = (bound(start, "hexStart")?, bound(end, "hexEnd")?);
    if start >= end {
        return Err(format!("shard range start {start:#018x} must be less than end {end:#018x}"));
    }
    Ok((key, ShardRange { start, end }))
}

fn path(syntax: &Syntax) -> Result<String, String> {
    match syntax {
        Syntax::Ident(name) => Ok(name.to_string()),
        Syntax::Select(operand, member) => Ok(format!("{}.{member}", path(operand)?)),
        other => {
            let kind = other.kind();
            Err(format!("expected field path (e.g. object.metadata.uid), got expression kind {kind}"))
        }
    }
}

/// Parses a bound: sixteen hexadecimal digits, or [`END`].
fn bound(syntax: &Syntax, name: &str) -> Result<u128, String> {
    let text = match syntax {
        Syntax::Text(text) => text.as_str(),
        Syntax::Literal(kind) => return Err(format!("{name} must be a string literal, got {kind}")),
        other => {
            let kind = other.kind();
            return Err(format!("{name} must be a string literal (e.g. '0xff'), got expression kind {kind}"));
        }
    };
    let quoted = go_quote(text);
    let Some(digits) = text.strip_prefix("0x") else {
        return Err(format!("{name} must have '0x' prefix, got {quoted}"));
    };
    if digits.is_empty() {
        return Err(format!("{name}: hex value is required after '0x'"));
    }
    if digits.len() > 17 {
        let (length, digits) = (digits.len(), go_quote(digits));
        return Err(format!("{name}: hex value too long ({length} chars, max 17): {digits}"));
    }
    if let Some(other) = digits.chars().find(|digit| !matches!(digit, '0'..='9' | 'a'..='f')) {
        let other = go_quote(&other.to_string());
        return Err(format!("{name}: invalid hex character {other} in {quoted}"));
    }
    if digits.len() == 17 && text != END {
        return Err(format!("{name}: 17-digit hex value must be '{END}' (2^64), got {quoted}"));
    }
    if digits.len() < 16 {
        return Err(format!(
            "{name} must be a 0x-prefixed 16-digit hex value, got {quoted} (did you mean \"0x{digits:0>16}\"?)"
        ));
    }
    u128::from_str_radix(digits, 16).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOW: &str = "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')";

    #[test]
    fn parses_shard_selectors() {
        let other = "shardRange(object.metadata.namespace, '0x8000000000000000', '0x10000000000000000')";
        for (text, want) in [
            (LOW.to_owned(), Ok(LOW.to_owned())),
            (format!(" ({LOW})||{LOW} // twice"), Ok(format!("{LOW} || {LOW}"))),
            (format!("x.{other}"), Ok(other.to_owned())),
            (
                " ".to_owned(),
                Err("empty shard selector is not allowed; omit the parameter for unfiltered lists".to_owned()),
            ),
            (
                format!("{LOW} || {other}"),
                Err("all shard ranges must use the same field, got \"object.metadata.uid\" and \
                     \"object.metadata.namespace\""
                    .to_owned()),
            ),
            (
                format!("{LOW} && {LOW}"),
                Err("unsupported function \"_&&_\"; only shardRange() and || are allowed".to_owned()),
            ),
            (
                "a.b".to_owned(),
                Err("unexpected expression kind 7; expected shardRange() call or || operator".to_owned()),
            ),
            (
                LOW.replace("uid", "name"),
                Err("unsupported field path \"object.metadata.name\"; supported: object.metadata.uid, \
                     object.metadata.namespace"
                    .to_owned()),
            ),
            (
                "shardRange(a[0], 1, 2)".to_owned(),
                Err("shardRange() first argument: expected field path (e.g. object.metadata.uid), got expression kind 1"
                    .to_owned()),
            ),
            (
                LOW.replace("0x8000000000000000", "0x8"),
                Err("hexEnd must be a 0x-prefixed 16-digit hex value, got \"0x8\" (did you mean \
                     \"0x0000000000000008\"?)"
                    .to_owned()),
            ),
            (
                LOW.replace("'0x8000000000000000'", "8"),
                Err("hexEnd must be a string literal, got int64".to_owned()),
            ),
            (
                LOW.replace("0x8", "0x0"),
                Err("shard range start 0x0000000000000000 must be less than end 0x0000000000000000".to_owned()),
            ),
            (
                LOW.replace("0x8", "0x18"),
                Err("hexEnd: 17-digit hex value must be '0x10000000000000000' (2^64), got \"0x18000000000000000\""
                    .to_owned()),
            ),
            ("f(".to_owned(), Err(String::new())),
        ] {
            match (parse(&text).map(|selector| selector.to_string()), want) {
                (Err(got), Err(want)) if want.is_empty() => {
                    assert!(got.starts_with("CEL parse error: Syntax error: mismatched input '<EOF>'"), "{got}");
                }
                (got, want) => assert_eq!(got, want, "{text}"),
            }
        }
    }
}
