//! Sets of tolerations.

use std::collections::{BTreeMap, HashMap};

use binnacle_fields::FieldRef;
use binnacle_fields::core::v1::Toleration;
use binnacle_schema::Value;

const EXISTS: &str = "Exists";
const EQUAL: &str = "Equal";

/// Merges both sets, without tolerations that are subsets of other ones.
pub(crate) fn merge(first: &[Value], second: &[Value]) -> Vec<Value> {
    let all: Vec<TolerationRef<'_>> = first.iter().chain(second).map(FieldRef::root).collect();
    let mut later = Tolerations::default();
    let mut included_later = vec![false; all.len()];
    for (i, toleration) in all.iter().enumerate().rev() {
        included_later[i] = later.others_include(*toleration);
        later.add(*toleration);
    }
    let mut kept = Tolerations::default();
    let mut merged = Vec::new();
    for (i, toleration) in all.into_iter().enumerate() {
        if !included_later[i] && !kept.include(toleration) {
            kept.add(toleration);
            merged.push(toleration.value().clone());
        }
    }
    merged
}

type TolerationRef<'a> = FieldRef<'static, 'a, Toleration>;

/// Tolerations by class, so that an inclusion check need not visit all of them.
#[derive(Default)]
pub(crate) struct Tolerations<'a>(HashMap<Class<'a>, BTreeMap<Seconds, Values<'a>>>);

/// The class of tolerations that only differ in their seconds. The value is ignored for `Exists`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Class<'a> {
    key: &'a str,
    effect: &'a str,
    operator: &'a str,
    value: &'a str,
}

/// The seconds of a toleration, in ascending order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Seconds {
    Some(i64),
    Forever,
}

/// The values of the tolerations with the same class and seconds.
struct Values<'a> {
    first: &'a str,
    has_others: bool,
}

impl<'a> Tolerations<'a> {
    pub(crate) fn new(tolerations: &'a [Value]) -> Self {
        let mut known = Self::default();
        tolerations.iter().for_each(|toleration| known.add(FieldRef::root(toleration)));
        known
    }

    fn add(&mut self, toleration: TolerationRef<'a>) {
        let value = toleration.at(Toleration::VALUE).str();
        let values = self.0.entry(class(toleration)).or_default().entry(seconds(toleration));
        let values = values.or_insert(Values { first: value, has_others: false });
        values.has_others |= values.first != value;
    }

    /// Returns true if a toleration of the set tolerates everything that `narrow` tolerates.
    pub(crate) fn include(&self, narrow: FieldRef<Toleration>) -> bool {
        let same = self.0.get(&class(narrow)).is_some_and(|times| times.contains_key(&seconds(narrow)));
        same || !self.matching(narrow).is_empty()
    }

    /// Returns true if a toleration of the set other than `narrow` itself tolerates everything that `narrow` tolerates.
    fn others_include(&self, narrow: FieldRef<Toleration>) -> bool {
        let (own, own_seconds, value) = (class(narrow), seconds(narrow), narrow.at(Toleration::VALUE).str());
        self.matching(narrow).into_iter().any(|(class, seconds, values)| {
            class != own || seconds != own_seconds || values.has_others || values.first != value
        })
    }

    /// Returns the tolerations that include `narrow`, at most two of each class.
    fn matching<'s>(&'s self, narrow: FieldRef<'_, 's, Toleration>) -> Vec<(Class<'s>, Seconds, &'s Values<'s>)> {
        let (own, least) = (class(narrow), seconds(narrow));
        // An empty key with `Exists` matches all keys, and an empty effect matches all effects.
        let exists = ["", own.key].map(|key| Class { key, operator: EXISTS, value: "", ..own });
        let equal = [EQUAL, ""].map(|operator| Class { operator, ..own });
        let classes = exists.into_iter().skip(usize::from(own.key.is_empty()));
        let classes = classes.chain(equal.into_iter().filter(move |_| own.operator == EQUAL));
        let effects = ["", own.effect].into_iter().skip(usize::from(own.effect.is_empty()));
        let classes = effects.flat_map(move |effect| classes.clone().map(move |class| Class { effect, ..class }));
        classes
            .filter_map(|class| self.0.get_key_value(&class))
            .flat_map(|(class, times)| {
                // Seconds only matter for the effect NoExecute.
                let from = if class.effect == "NoExecute" { least } else { Seconds::Some(i64::MIN) };
                times.range(from..).take(2).map(|(seconds, values)| (*class, *seconds, values))
            })
            .collect()
    }
}

fn class<'v>(toleration: FieldRef<'_, 'v, Toleration>) -> Class<'v> {
    let fields = [Toleration::KEY, Toleration::EFFECT, Toleration::OPERATOR, Toleration::VALUE];
    let [key, effect, operator, value] = fields.map(|field| toleration.at(field).str());
    Class { key, effect, operator, value: if operator == EXISTS { "" } else { value } }
}

fn seconds(toleration: FieldRef<Toleration>) -> Seconds {
    toleration.at(Toleration::TOLERATION_SECONDS).int().map_or(Seconds::Forever, Seconds::Some)
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use super::*;

    #[test]
    fn merges_without_included_tolerations() {
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

    #[test]
    fn agrees_with_pairwise_comparison() {
        // All pairs and a sample of triples of tolerations that vary in every field.
        let mut some = Vec::new();
        for (key, effect) in [("", ""), ("a", ""), ("a", "NoExecute"), ("b", "NoSchedule"), ("", "NoExecute")] {
            for (operator, value) in [("Exists", ""), ("Exists", "v"), ("Equal", "v"), ("", "v"), ("Lt", "1")] {
                for seconds in [None, Some(1i64), Some(5)] {
                    let mut one = value!({"key": key, "effect": effect, "operator": operator, "value": value});
                    if let Some(seconds) = seconds {
                        one.make_object().insert("tolerationSeconds", seconds);
                    }
                    some.push(one);
                }
            }
        }
        for (i, a) in some.iter().enumerate() {
            for (j, b) in some.iter().enumerate() {
                let pair = [a.clone(), b.clone()];
                let third = [some[(7 * i + 11 * j) % some.len()].clone()];
                assert_eq!(merge(&pair, &third), merge_pairwise(&pair, &third), "{pair:?} {third:?}");
                assert_eq!(
                    Tolerations::new(&pair[..1]).include(FieldRef::root(b)),
                    includes(a, b),
                    "{a:?} includes {b:?}"
                );
            }
        }
    }

    fn merge_pairwise(first: &[Value], second: &[Value]) -> Vec<Value> {
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

    /// Returns true if `wide` tolerates everything that `narrow` tolerates.
    fn includes(wide: &Value, narrow: &Value) -> bool {
        if wide == narrow {
            return true;
        }
        let (w, n) = (|member| wide.str_at(&[member]), |member| narrow.str_at(&[member]));
        // An empty key with `Exists` matches all keys, and an empty effect matches all effects.
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
}
