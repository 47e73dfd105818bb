//! The difference between two structs as messages show it: a unified diff of their internal JSON, by the algorithm of
//! Python's `difflib`, which kube-apiserver uses.

use std::collections::HashMap;

use binnacle_fields::{FieldRef, Message};
use binnacle_schema::{Value, json};

use crate::internal::internal;

/// Unchanged lines around a change.
const CONTEXT: usize = 3;
/// With at least this number of lines, frequent lines do not begin a match.
const FREQUENT_FROM: usize = 200;

/// Returns the diff between two structures.
pub(crate) fn between<M: Message>(old: FieldRef<M>, new: FieldRef<M>) -> String {
    of(M::DEFINITION, Some(old.value()), Some(new.value()))
}

/// Returns the diff between two structs of a definition.
pub(crate) fn of(definition: &str, old: Option<&Value>, new: Option<&Value>) -> String {
    of_values(&internal(definition, old), &internal(definition, new))
}

/// Returns the diff between two values.
pub(crate) fn of_values(old: &Value, new: &Value) -> String {
    let (old, new) = (pretty(old), pretty(new));
    let (old, new): (Vec<&str>, Vec<&str>) = (old.split('\n').collect(), new.split('\n').collect());
    let mut text = String::new();
    for group in groups(&changes(&old, &new)) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
        let ranges = (range(first.old.0, last.old.1), range(first.new.0, last.new.1));
        text.push_str(&format!("@@ -{} +{} @@\n", ranges.0, ranges.1));
        for change in &group {
            let mut lines = |prefix: char, lines: &[&str]| {
                for line in lines {
                    text.push(prefix);
                    text.push_str(line);
                    text.push('\n');
                }
            };
            if change.same {
                lines(' ', &old[change.old.0..change.old.1]);
            } else {
                lines('-', &old[change.old.0..change.old.1]);
                lines('+', &new[change.new.0..change.new.1]);
            }
        }
    }
    text
}

/// A range of old lines and the range of new lines in its place: equal, or changed.
#[derive(Clone, Copy, Debug)]
struct Change {
    same: bool,
    old: (usize, usize),
    new: (usize, usize),
}

fn changes(old: &[&str], new: &[&str]) -> Vec<Change> {
    let (mut i, mut j) = (0, 0);
    let mut changes = Vec::new();
    for (a, b, length) in matching_blocks(old, new) {
        if i < a || j < b {
            changes.push(Change { same: false, old: (i, a), new: (j, b) });
        }
        (i, j) = (a + length, b + length);
        if length > 0 {
            changes.push(Change { same: true, old: (a, i), new: (b, j) });
        }
    }
    changes
}

/// Returns groups of nearby changes with the lines around them.
fn groups(changes: &[Change]) -> Vec<Vec<Change>> {
    let mut changes = changes.to_vec();
    if let Some(first) = changes.first_mut().filter(|change| change.same) {
        first.old.0 = first.old.0.max(first.old.1.saturating_sub(CONTEXT));
        first.new.0 = first.new.0.max(first.new.1.saturating_sub(CONTEXT));
    }
    if let Some(last) = changes.last_mut().filter(|change| change.same) {
        last.old.1 = last.old.1.min(last.old.0 + CONTEXT);
        last.new.1 = last.new.1.min(last.new.0 + CONTEXT);
    }
    let mut groups = Vec::new();
    let mut group = Vec::new();
    for mut change in changes {
        if change.same && change.old.1 - change.old.0 > 2 * CONTEXT {
            let (old, new) = (change.old, change.new);
            group.push(Change {
                same: true,
                old: (old.0, old.1.min(old.0 + CONTEXT)),
                new: (new.0, new.1.min(new.0 + CONTEXT)),
            });
            groups.push(std::mem::take(&mut group));
            change.old.0 = old.0.max(old.1 - CONTEXT);
            change.new.0 = new.0.max(new.1 - CONTEXT);
        }
        group.push(change);
    }
    if !(group.is_empty() || (group.len() == 1 && group[0].same)) {
        groups.push(group);
    }
    groups
}

/// Returns the blocks of equal lines in order, followed by an empty one.
fn matching_blocks(old: &[&str], new: &[&str]) -> Vec<(usize, usize, usize)> {
    let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
    for (j, line) in new.iter().enumerate() {
        places.entry(line).or_default().push(j);
    }
    if new.len() >= FREQUENT_FROM {
        let limit = new.len() / 100 + 1;
        places.retain(|_, at| at.len() <= limit);
    }
    let mut blocks = Vec::new();
    let mut open = vec![(0, old.len(), 0, new.len())];
    while let Some((old_from, old_to, new_from, new_to)) = open.pop() {
        let (i, j, length) = longest_match(old, new, &places, (old_from, old_to), (new_from, new_to));
        if length > 0 {
            blocks.push((i, j, length));
            if old_from < i && new_from < j {
                open.push((old_from, i, new_from, j));
            }
            if i + length < old_to && j + length < new_to {
                open.push((i + length, old_to, j + length, new_to));
            }
        }
    }
    blocks.sort_unstable();
    let mut merged: Vec<(usize, usize, usize)> = Vec::new();
    for (i, j, length) in blocks {
        match merged.last_mut() {
            Some(last) if last.0 + last.2 == i && last.1 + last.2 == j => last.2 += length,
            _ => merged.push((i, j, length)),
        }
    }
    merged.push((old.len(), new.len(), 0));
    merged
}

fn longest_match(
    old: &[&str],
    new: &[&str],
    places: &HashMap<&str, Vec<usize>>,
    (old_from, old_to): (usize, usize),
    (new_from, new_to): (usize, usize),
) -> (usize, usize, usize) {
    let mut best = (old_from, new_from, 0);
    // The lengths of runs of equal lines, by the index of the last line in the new text.
    let mut runs: HashMap<usize, usize> = HashMap::new();
    for (i, line) in old.iter().enumerate().take(old_to).skip(old_from) {
        let mut next = HashMap::new();
        for &j in places.get(line).map_or(&[][..], Vec::as_slice) {
            if j < new_from {
                continue;
            }
            if j >= new_to {
                break;
            }
            let run = j.checked_sub(1).and_then(|before| runs.get(&before)).copied().unwrap_or(0) + 1;
            next.insert(j, run);
            if run > best.2 {
                best = (i + 1 - run, j + 1 - run, run);
            }
        }
        runs = next;
    }
    // Frequent lines can extend a match, but not begin one.
    while best.0 > old_from && best.1 > new_from && old[best.0 - 1] == new[best.1 - 1] {
        best = (best.0 - 1, best.1 - 1, best.2 + 1);
    }
    while best.0 + best.2 < old_to && best.1 + best.2 < new_to && old[best.0 + best.2] == new[best.1 + best.2] {
        best.2 += 1;
    }
    best
}

fn range(from: usize, to: usize) -> String {
    match to - from {
        1 => format!("{}", from + 1),
        0 => format!("{from},0"),
        length => format!("{},{length}", from + 1),
    }
}

/// Returns JSON as `json.MarshalIndent` writes it, indented by one space.
fn pretty(value: &Value) -> String {
    let mut text = String::new();
    write(value, 0, &mut text);
    text
}

fn write(value: &Value, depth: usize, text: &mut String) {
    let line = |depth: usize, text: &mut String| {
        text.push('\n');
        text.extend(std::iter::repeat_n(' ', depth));
    };
    match value {
        Value::Object(members) if !members.is_empty() => {
            text.push('{');
            for (i, (name, member)) in members.iter().enumerate() {
                if i > 0 {
                    text.push(',');
                }
                line(depth + 1, text);
                text.push_str(&json::to_string(&Value::Str(name.clone())));
                text.push_str(": ");
                write(member, depth + 1, text);
            }
            line(depth, text);
            text.push('}');
        }
        Value::List(items) if !items.is_empty() => {
            text.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    text.push(',');
                }
                line(depth + 1, text);
                write(item, depth + 1, text);
            }
            line(depth, text);
            text.push(']');
        }
        other => text.push_str(&json::to_string(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_schema::value;

    #[test]
    fn formats_differences_as_unified_diff() {
        for (old, new, want) in [
            (value!({"a": 1i64}), value!({"a": 1i64}), ""),
            (value!({"a": 1i64}), value!({"a": 2i64}), "@@ -1,3 +1,3 @@\n {\n- \"a\": 1\n+ \"a\": 2\n }\n"),
            (
                value!({"a": 1i64, "b": 1i64, "c": 1i64, "d": 1i64, "e": 1i64, "f": 1i64, "g": 1i64, "h": 1i64, "i": 1i64}),
                value!({"a": 2i64, "b": 1i64, "c": 1i64, "d": 1i64, "e": 1i64, "f": 1i64, "g": 1i64, "h": 1i64, "i": 2i64}),
                "@@ -1,5 +1,5 @@\n {\n- \"a\": 1,\n+ \"a\": 2,\n  \"b\": 1,\n  \"c\": 1,\n  \"d\": 1,\n@@ -7,5 +7,5 @@\n  \"f\": 1,\n  \"g\": 1,\n  \"h\": 1,\n- \"i\": 1\n+ \"i\": 2\n }\n",
            ),
            (value!([]), value!([1i64]), "@@ -1 +1,3 @@\n-[]\n+[\n+ 1\n+]\n"),
        ] {
            assert_eq!(of_values(&old, &new), want);
        }
    }
}
