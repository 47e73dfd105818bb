//! Sets of tolerations.

use binnacle_schema::Value;

/// Both sets as one, without those that another of them includes.
pub(crate) fn merge(first: &[Value], second: &[Value]) -> Vec<Value> {
    let all = [first, second].concat();
    let mut merged: Vec<Value> = Vec::new();
    for (i, toleration) in all.iter().enumerate() {
        let later = all[i + 1..].iter().any(|other| other != toleration && includes(other, toleration));
        if !later && !merged.iter().any(|kept| includes(kept, toleration)) {
            merged.push(toleration.clone());
        }
    }
    merged
}

/// Whether `wide` tolerates all that `narrow` does.
pub(crate) fn includes(wide: &Value, narrow: &Value) -> bool {
    if wide == narrow {
        return true;
    }
    let (w, n) = (|member| wide.str_at(&[member]), |member| narrow.str_at(&[member]));
    // An empty key with Exists stands for all keys, an empty effect for all effects.
    if n("key") != w("key") && !(w("key").is_empty() && w("operator") == "Exists") {
        return false;
    }
    if n("effect") != w("effect") && !w("effect").is_empty() {
        return false;
    }
    let seconds = |toleration: &Value| toleration.int_at(&["tolerationSeconds"]);
    if w("effect") == "NoExecute"
        && let Some(limit) = seconds(wide)
        && seconds(narrow).is_none_or(|seconds| seconds > limit)
    {
        return false;
    }
    match w("operator") {
        "Equal" | "" => n("operator") == "Equal" && n("value") == w("value"),
        "Exists" => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use super::*;

    #[test]
    fn merging() {
        let all = value!({"operator": "Exists"});
        let key = value!({"key": "a", "operator": "Exists"});
        let equal = value!({"key": "a", "operator": "Equal", "value": "b", "effect": "NoSchedule"});
        let long = value!({"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 9i64});
        let short = value!({"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 3i64});
        for (first, second, want) in [
            (vec![equal.clone()], vec![key.clone()], vec![key.clone()]),
            (vec![key.clone()], vec![equal.clone()], vec![key.clone()]),
            (vec![equal.clone()], vec![equal.clone()], vec![equal.clone()]),
            (vec![key.clone(), long.clone()], vec![all.clone()], vec![all.clone()]),
            (vec![short.clone()], vec![long.clone()], vec![long.clone()]),
            (vec![long.clone()], vec![short.clone(), equal.clone()], vec![long.clone(), equal.clone()]),
        ] {
            assert_eq!(merge(&first, &second), want);
        }
    }
}
