//! JSONPath as `additionalPrinterColumns` use it: names, quoted names, indexes, wildcards, and filters that compare.

use binnacle_meta::Text;
use binnacle_schema::Value;

/// A path that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath(Vec<Step>);

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Member(Text),
    /// From the end where negative.
    Index(i64),
    All,
    /// This value and all below it.
    Descend,
    Filter(Filter),
}

#[derive(Clone, Debug, PartialEq)]
struct Filter {
    path: JsonPath,
    /// Without one, what the path leads to must be there.
    compare: Option<(Operator, Value)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl JsonPath {
    /// Reads a path that begins with a dot, as definitions write it. `None` for what it cannot be.
    pub fn parse(text: &str) -> Option<Self> {
        let mut reader = Reader { rest: text.strip_prefix('$').unwrap_or(text) };
        let path = reader.steps()?;
        reader.rest.is_empty().then_some(path)
    }

    /// What the path leads to, in order. Paths that descend again and again come by the same values so often that no more
    /// than a bounded number count.
    pub fn find<'v>(&self, object: &'v Value) -> Vec<&'v Value> {
        let mut left = MAX_VISITS;
        self.find_within(object, &mut left)
    }

    fn find_within<'v>(&self, object: &'v Value, left: &mut usize) -> Vec<&'v Value> {
        let mut found = vec![object];
        for step in &self.0 {
            let mut next = Vec::new();
            found.into_iter().for_each(|value| step.follow(value, &mut next, left));
            found = next;
        }
        found
    }
}

impl Step {
    fn follow<'v>(&self, value: &'v Value, found: &mut Vec<&'v Value>, left: &mut usize) {
        let before = found.len();
        match (self, value) {
            (Self::Member(name), Value::Object(members)) => found.extend(members.get(name)),
            (Self::Index(index), Value::List(items)) => {
                let index = if *index < 0 { *index + items.len() as i64 } else { *index };
                found.extend(usize::try_from(index).ok().and_then(|index| items.get(index)));
            }
            (Self::All, Value::List(items)) => found.extend(items.iter().take(*left)),
            (Self::All, Value::Object(members)) => found.extend(members.values().take(*left)),
            (Self::Descend, value) => return descend(value, found, left),
            (Self::Filter(filter), Value::List(items)) => {
                for item in items {
                    if *left == 0 {
                        return;
                    }
                    *left -= 1;
                    if filter.takes(item, left) {
                        found.push(item);
                    }
                }
                return;
            }
            _ => {}
        }
        *left = left.saturating_sub(found.len() - before);
    }
}

fn descend<'v>(value: &'v Value, found: &mut Vec<&'v Value>, left: &mut usize) {
    if *left == 0 {
        return;
    }
    *left -= 1;
    found.push(value);
    match value {
        Value::List(items) => items.iter().for_each(|item| descend(item, found, left)),
        Value::Object(members) => members.values().for_each(|member| descend(member, found, left)),
        _ => {}
    }
}

impl Filter {
    fn takes(&self, item: &Value, left: &mut usize) -> bool {
        let found = self.path.find_within(item, left);
        let Some((operator, wanted)) = &self.compare else { return !found.is_empty() };
        let Some(value) = found.first() else { return false };
        let order = match (value, wanted) {
            (Value::Str(a), Value::Str(b)) => a.as_str().partial_cmp(b.as_str()),
            (Value::Bool(a), Value::Bool(b)) => a.partial_cmp(b),
            (a, b) => match (a.as_f64(), b.as_f64()) {
                (Some(a), Some(b)) => a.partial_cmp(&b),
                _ => None,
            },
        };
        let Some(order) = order else { return false };
        match operator {
            Operator::Equal => order.is_eq(),
            Operator::NotEqual => order.is_ne(),
            Operator::Less => order.is_lt(),
            Operator::LessOrEqual => order.is_le(),
            Operator::Greater => order.is_gt(),
            Operator::GreaterOrEqual => order.is_ge(),
        }
    }
}

/// How many values are looked at for one cell: about as many as an object can have.
const MAX_VISITS: usize = 1 << 18;
/// How many filters stand in each other at most.
const MAX_LENGTH: usize = 4096;

struct Reader<'t> {
    rest: &'t str,
}

impl<'t> Reader<'t> {
    fn steps(&mut self) -> Option<JsonPath> {
        if self.rest.len() > MAX_LENGTH {
            return None;
        }
        let mut steps = Vec::new();
        if !matches!(self.rest.as_bytes().first(), None | Some(b'.' | b'[' | b')' | b' ' | b'=' | b'!' | b'<' | b'>')) {
            return None;
        }
        loop {
            if self.take("..") {
                steps.push(Step::Descend);
                if !self.rest.starts_with('[') {
                    steps.push(self.member()?);
                }
            } else if self.take(".") {
                if self.rest.is_empty() || self.rest.starts_with('[') {
                    continue;
                }
                steps.push(self.member()?);
            } else if self.take("[") {
                steps.push(self.bracket()?);
            } else {
                return Some(JsonPath(steps));
            }
        }
    }

    fn take(&mut self, word: &str) -> bool {
        match self.rest.strip_prefix(word) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn member(&mut self) -> Option<Step> {
        if self.take("*") {
            return Some(Step::All);
        }
        let mut name = String::new();
        let mut chars = self.rest.char_indices();
        let mut end = self.rest.len();
        while let Some((at, c)) = chars.next() {
            match c {
                // A dot in a name.
                '\\' => name.push(chars.next()?.1),
                '.' | '[' | ' ' | ')' | '=' | '!' | '<' | '>' => {
                    end = at;
                    break;
                }
                c => name.push(c),
            }
        }
        self.rest = &self.rest[end..];
        (!name.is_empty()).then(|| Step::Member(name.into()))
    }

    fn bracket(&mut self) -> Option<Step> {
        let step = if self.take("*") {
            Step::All
        } else if self.take("?(") {
            let filter = self.filter()?;
            self.take(")").then_some(Step::Filter(filter))?
        } else if let Some(text) = self.quoted() {
            Step::Member(text.into())
        } else {
            let end = self.rest.find(']')?;
            let index = self.rest[..end].trim().parse().ok()?;
            self.rest = &self.rest[end..];
            Step::Index(index)
        };
        self.take("]").then_some(step)
    }

    fn quoted(&mut self) -> Option<&'t str> {
        let quote = self.rest.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
        let inner = &self.rest[1..];
        let end = inner.find(quote)?;
        self.rest = &inner[end + 1..];
        Some(&inner[..end])
    }

    fn filter(&mut self) -> Option<Filter> {
        self.rest = self.rest.trim_start();
        if !self.take("@") {
            return None;
        }
        let path = self.steps()?;
        self.rest = self.rest.trim_start();
        let operators = [
            ("==", Operator::Equal),
            ("!=", Operator::NotEqual),
            ("<=", Operator::LessOrEqual),
            (">=", Operator::GreaterOrEqual),
            ("<", Operator::Less),
            (">", Operator::Greater),
        ];
        let Some((_, operator)) = operators.into_iter().find(|(word, _)| self.take(word)) else {
            return Some(Filter { path, compare: None });
        };
        self.rest = self.rest.trim_start();
        let wanted = match self.quoted() {
            Some(text) => Value::from(text),
            None => {
                let end = self.rest.find(')')?;
                let word = self.rest[..end].trim();
                self.rest = &self.rest[end..];
                match word {
                    "true" => Value::Bool(true),
                    "false" => Value::Bool(false),
                    word => match word.parse::<i64>() {
                        Ok(n) => Value::Int(n),
                        Err(_) => Value::Float(word.parse().ok()?),
                    },
                }
            }
        };
        self.rest = self.rest.trim_start();
        Some(Filter { path, compare: Some((operator, wanted)) })
    }
}

#[cfg(test)]
mod tests {
    use binnacle_schema::{json, value};

    use super::*;

    #[test]
    fn descending_again_and_again_ends() {
        let mut object = value!({"a": 1i64});
        for _ in 0..100 {
            object = value!({"a": object});
        }
        for path in ["..a".repeat(50), "..*".repeat(50), format!("{}[?(@..a)]", "..*".repeat(20))] {
            let found = JsonPath::parse(&path).unwrap();
            assert!(found.find(&object).len() <= MAX_VISITS);
        }
    }

    #[test]
    fn paths() {
        let object = value!({
            "spec": {"size": 3i64, "a.b": "dotted", "list": [1i64, 2i64, 3i64]},
            "status": {"conditions": [{"type": "Ready", "status": "True", "n": 2i64}, {"type": "Old", "status": "False"}]},
        });
        for (path, want) in [
            (".spec.size", "[3]"),
            ("$.spec.size", "[3]"),
            (".spec['a.b']", r#"["dotted"]"#),
            (".spec.a\\.b", r#"["dotted"]"#),
            (".spec.list[0]", "[1]"),
            (".spec.list[-1]", "[3]"),
            (".spec.list[*]", "[1,2,3]"),
            (".spec.list[9]", "[]"),
            (".status.conditions[?(@.type==\"Ready\")].status", r#"["True"]"#),
            (".status.conditions[?(@.type == 'Old')].status", r#"["False"]"#),
            (".status.conditions[?(@.type!='Ready')].status", r#"["False"]"#),
            (".status.conditions[?(@.n>=2)].type", r#"["Ready"]"#),
            (".status.conditions[?(@.n)].type", r#"["Ready"]"#),
            ("..type", r#"["Ready","Old"]"#),
            (".nowhere.at.all", "[]"),
        ] {
            let found = JsonPath::parse(path).unwrap_or_else(|| panic!("{path}"));
            let found = Value::List(found.find(&object).into_iter().cloned().collect());
            assert_eq!(json::to_string(&found), want, "{path}");
        }
        for path in ["spec", ".a[", ".a[b]", ".a[?(b)]", ".a[?(@.b==)]"] {
            assert_eq!(JsonPath::parse(path), None, "{path}");
        }
    }
}
