//! Claims as CEL values: maps whose keys can also be selected by their escaped names (`claims.example__dot__com` for
//! `example.com`), at any depth.

use binnacle_cel::{Error, Fields, Map, Val, escape};
use binnacle_meta::Text;
use binnacle_schema::{Object, Value as Tree};
use serde_json::Value;

/// The claims of a token, or its user, as a CEL value.
#[derive(Debug)]
pub(super) struct Claims(ClaimValue);

#[derive(Debug)]
enum ClaimValue {
    /// A value in which no key needs to be escaped.
    Plain(Tree),
    List(Vec<ClaimValue>),
    Escaped(EscapedFields),
}

#[derive(Debug)]
struct EscapedFields(Vec<(Text, ClaimValue)>);

impl Claims {
    pub(super) fn of(claims: &Value) -> Self {
        Self(part(claims))
    }

    pub(super) fn value(&self) -> Val<'_> {
        self.0.value()
    }
}

impl ClaimValue {
    fn value(&self) -> Val<'_> {
        match self {
            Self::Plain(tree) => Val::of(tree),
            Self::List(parts) => Val::list(parts.iter().map(Self::value).collect()),
            Self::Escaped(members) => Val::Map(Map::Fields(members)),
        }
    }
}

impl Fields for EscapedFields {
    fn get(&self, name: &str) -> Option<Result<Val<'_>, Error>> {
        let escaped = self.0.iter().find(|(member, _)| escape(member).is_some_and(|escaped| escaped == name));
        let found = escaped.or_else(|| self.0.iter().find(|(member, _)| member == name));
        found.map(|(_, part)| Ok(part.value()))
    }

    fn names(&self) -> Vec<Text> {
        self.0.iter().map(|(name, _)| name.clone()).collect()
    }
}

fn part(value: &Value) -> ClaimValue {
    match value {
        Value::Object(members) => {
            let mut parts: Vec<(Text, ClaimValue)> =
                members.iter().map(|(name, value)| (name.into(), part(value))).collect();
            let is_plain = |(name, part): &(Text, ClaimValue)| {
                matches!(part, ClaimValue::Plain(_)) && escape(name).is_none_or(|escaped| escaped == *name)
            };
            if !parts.iter().all(is_plain) {
                return ClaimValue::Escaped(EscapedFields(parts));
            }
            let plain = parts.drain(..).filter_map(|(name, part)| match part {
                ClaimValue::Plain(tree) => Some((name, tree)),
                _ => None,
            });
            ClaimValue::Plain(Tree::Object(plain.collect::<Object>()))
        }
        Value::Array(items) => {
            let parts: Vec<ClaimValue> = items.iter().map(part).collect();
            if !parts.iter().all(|part| matches!(part, ClaimValue::Plain(_))) {
                return ClaimValue::List(parts);
            }
            let plain = parts.into_iter().filter_map(|part| match part {
                ClaimValue::Plain(tree) => Some(tree),
                _ => None,
            });
            ClaimValue::Plain(Tree::List(plain.collect()))
        }
        Value::Null => ClaimValue::Plain(Tree::Null),
        Value::Bool(flag) => ClaimValue::Plain(Tree::Bool(*flag)),
        // kube-apiserver decodes all numbers in claims as doubles.
        Value::Number(number) => ClaimValue::Plain(Tree::Float(number.as_f64().unwrap_or_default())),
        Value::String(text) => ClaimValue::Plain(Tree::Str(text.as_str().into())),
    }
}
