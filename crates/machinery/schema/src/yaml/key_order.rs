//! The order in which `yaml.v2` writes the keys of a map.

use std::cmp::Ordering;

use binnacle_meta::Text;

use crate::Value;

/// Sorts the members by name.
///
/// Go's order has cycles (`-01` < `-0a` < `-1` < `-01`), for which the sorts of the standard library may panic. A merge
/// sort accepts any comparison, and is exact if the order has no cycles.
pub(super) fn sorted<'v>(members: Vec<(&'v Text, &'v Value)>) -> Vec<(&'v Text, &'v Value)> {
    let (mut from, mut to) = (members, Vec::new());
    let mut width = 1;
    while width < from.len() {
        to.clear();
        for pair in from.chunks(2 * width) {
            let (mut left, mut right) = pair.split_at(width.min(pair.len()));
            while let (Some(a), Some(b)) = (left.first(), right.first()) {
                let half = if natural_order(b.0, a.0) == Ordering::Less { &mut right } else { &mut left };
                to.push(half[0]);
                *half = &half[1..];
            }
            to.extend_from_slice(left);
            to.extend_from_slice(right);
        }
        std::mem::swap(&mut from, &mut to);
        width *= 2;
    }
    from
}

/// Compares keys: letters after everything else, numbers by value.
fn natural_order(a: &str, b: &str) -> Ordering {
    let differing = a.char_indices().zip(b.chars()).find(|((_, x), y)| x != y);
    let Some(((at, x), y)) = differing else { return a.len().cmp(&b.len()) };
    match (x.is_alphabetic(), y.is_alphabetic()) {
        (true, true) => return x.cmp(&y),
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        (false, false) => {}
    }
    // A zero after other digits counts, a leading one does not.
    let digits_before = a[..at].bytes().rev().take_while(u8::is_ascii_digit).any(|b| b != b'0');
    let start = i128::from((x == '0' || y == '0') && digits_before);
    let number = |rest: &str| {
        let digits = rest.bytes().take_while(u8::is_ascii_digit);
        digits.fold((start, 0usize), |(value, count), b| {
            (value.saturating_mul(10).saturating_add(i128::from(b - b'0')), count + 1)
        })
    };
    number(&a[at..]).cmp(&number(&b[at..])).then(x.cmp(&y))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sorts_keys_naturally() {
        let names = ["b", "a10", "a9", "A", "a01", "a1", "10", "9", ".x", "_"].map(Text::from);
        let members = names.iter().map(|name| (name, &Value::Null)).collect();
        let names: Vec<&str> = sorted(members).into_iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, [".x", "_", "9", "10", "A", "a1", "a01", "a9", "a10", "b"]);
    }

    /// All members are written, even if the order has cycles.
    #[test]
    fn writes_all_keys_of_cyclic_orders() {
        const PARTS: [&str; 6] = ["0", "1", "-", "a", "00", "~"];
        let name = |i: usize| PARTS[i % 6].to_owned() + PARTS[i / 6 % 6] + PARTS[i / 36 % 6] + PARTS[i / 216 % 6];
        let mut names: Vec<Text> = (0..1296).map(|i| Text::from(name(i * 599 % 1296).as_str())).collect();
        let members = names.iter().map(|name| (name, &Value::Null)).collect();
        let mut written: Vec<Text> = sorted(members).into_iter().map(|(name, _)| name.clone()).collect();
        written.sort();
        names.sort();
        assert_eq!(written, names);
    }
}
