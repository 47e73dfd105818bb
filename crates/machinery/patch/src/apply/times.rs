//! Detection of writes that only change the timestamps of managers.

use binnacle_schema::{Object, Value};

/// The result of a comparison, with kube-apiserver's names for its code paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimestampComparison {
    /// The managers differ in more than their timestamps.
    UnequalFast,
    /// The whole objects were compared.
    UnequalSlow,
    /// Only times differ.
    Equal,
}

/// Copies the timestamps of `live` to `metadata.managedFields` of `object` if nothing else differs, so that the write
/// is recognized as a no-op. Both must be in the same version. Called after admission, which may have reverted the
/// changes of the request. Returns which comparison decided.
pub fn keep_unchanged_times(live: &Value, object: &mut Value) -> TimestampComparison {
    let before = live.list_at(&["metadata", "managedFields"]);
    let after = object.list_at(&["metadata", "managedFields"]);
    if before.len() != after.len() || before == after {
        return TimestampComparison::UnequalFast;
    }
    let pairs = || before.iter().zip(after);
    if !pairs().all(|(before, after)| equal_but(before, after, |name, _, _| name == "time")) {
        return TimestampComparison::UnequalFast;
    }
    let metadata = |name: &str, before: Option<&Value>, after: Option<&Value>| {
        name == "metadata"
            && matches!((before, after), (Some(before), Some(after))
                if equal_but(before, after, |name, _, _| name == "managedFields"))
    };
    if !equal_but(live, object, metadata) {
        return TimestampComparison::UnequalSlow;
    }
    if let Some(list) = object.at_mut(&["metadata", "managedFields"]) {
        *list = Value::List(before.to_vec());
    }
    TimestampComparison::Equal
}

/// Returns true if two objects are equal except for members that may differ by `passes`.
fn equal_but(a: &Value, b: &Value, passes: impl Fn(&str, Option<&Value>, Option<&Value>) -> bool) -> bool {
    let (Value::Object(a), Value::Object(b)) = (a, b) else { return a == b };
    let same = |name: &str, a: Option<&Value>, b: Option<&Value>| a == b || passes(name, a, b);
    let absent = |object: &Object, other: &Object| {
        other.iter().all(|(name, value)| object.contains(name) || same(name, None, Some(value)))
    };
    a.iter().all(|(name, value)| same(name, Some(value), b.get(name))) && absent(a, b)
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use super::*;

    #[test]
    fn ignores_changed_timestamps_only() {
        let object = |time: &str, manager: &str, data: &str| {
            let entry = value!({"manager": manager, "time": time});
            value!({"metadata": {"name": "a", "managedFields": [entry]}, "data": {"k": data}})
        };
        let live = object("old", "m", "1");
        for (written, outcome) in [
            (object("new", "m", "1"), TimestampComparison::Equal),
            (object("old", "m", "1"), TimestampComparison::UnequalFast),
            (object("new", "m", "2"), TimestampComparison::UnequalSlow),
            (object("new", "other", "1"), TimestampComparison::UnequalFast),
        ] {
            let mut got = written.clone();
            assert_eq!(keep_unchanged_times(&live, &mut got), outcome);
            assert_eq!(got, if outcome == TimestampComparison::Equal { live.clone() } else { written });
        }
    }
}
