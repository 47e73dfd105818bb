//! Claims as values for expressions: maps, whose members can also be selected by escaped names
//! (`claims.example__dot__com` for `example.com`), at any depth.

use binnacle_cel::{Error, Fields, Map, Val, escape};
use binnacle_meta::Text;
use binnacle_schema::{Object, Value as Tree};
use serde_json::Value;

/// The claims of a token, or its user, as a value for expressions.
#[derive(Debug)]
pub(super) struct Claims(Part);

#[derive(Debug)]
enum Part {
    /// A value in which no member's name needs escapes.
    Plain(Tree),
    List(Vec<Part>),
    Escaped(Escaped),
}

#[derive(Debug)]
struct Escaped(Vec<(Text, Part)>);

impl Claims {
    pub(super) fn of(claims: &Value) -> Self {
        Self(part(claims))
    }

    pub(super) fn value(&self) -> Val<'_> {
        self.0.value()
    }
}

impl Part {
    fn value(&self) -> Val<'_> {
        match self {
            Self::Plain(tree) => Val::of(tree),
            Self::List(parts) => Val::list(parts.iter().map(Self::value).collect()),
            Self::Escaped(members) => Val::Map(Map::Fields(members)),
        }
    }
}

impl Fields for Escaped {
    fn get(&self, name: &str) -> Option<Result<Val<'_>, Error>> {
        let escaped = self.0.iter().find(|(member, _)| escape(member).is_some_and(|escaped| escaped == name));
        let found = escaped.or_else(|| self.0.iter().find(|(member, _)| member == name));
        found.map(|(_, part)| Ok(part.value()))
    }

    fn names(&self) -> Vec<Text> {
        self.0.iter().map(|(name, _)| name.clone()).collect()
    }
}

fn part(value: &Value) -> Part {
    match value {
        Value::Object(members) => {
            let mut parts: Vec<(Text, Part)> = members.iter().map(|(name, value)| (name.into(), part(value))).collect();
            let is_plain = |(name, part): &(Text, Part)| {
                matches!(part, Part::Plain(_)) && escape(name).is_none_or(|escaped| escaped == *name)
            };
            if !parts.iter().all(is_plain) {
                return Part::Escaped(Escaped(parts));
            }
            let plain = parts.drain(..).filter_map(|(name, part)| match part {
                Part::Plain(tree) => Some((name, tree)),
                _ => None,
            });
            Part::Plain(Tree::Object(plain.collect::<Object>()))
        }
        Value::Array(items) => {
            let parts: Vec<Part> = items.iter().map(part).collect();
            if !parts.iter().all(|part| matches!(part, Part::Plain(_))) {
                return Part::List(parts);
            }
            let plain = parts.into_iter().filter_map(|part| match part {
                Part::Plain(tree) => Some(tree),
                _ => None,
            });
            Part::Plain(Tree::List(plain.collect()))
        }
        Value::Null => Part::Plain(Tree::Null),
        Value::Bool(flag) => Part::Plain(Tree::Bool(*flag)),
        // Go decodes every number of a claim as a double.
        Value::Number(number) => Part::Plain(Tree::Float(number.as_f64().unwrap_or_default())),
        Value::String(text) => Part::Plain(Tree::Str(text.as_str().into())),
    }
}
