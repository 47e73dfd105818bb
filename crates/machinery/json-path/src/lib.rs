//! JSONPath with the syntax and errors of Go's `jsonpath` package: names, slices, unions, wildcards, recursive descents
//! and filters with comparisons.

mod parser;

use binnacle_meta::Text;
use binnacle_schema::Value;
use binnacle_work::{charge, pace};

pub use self::parser::InvalidPath;

/// A parsed path.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath(Vec<Node>);

#[derive(Clone, Debug, PartialEq)]
enum Node {
    Member(Text),
    Slice(Slice),
    All,
    /// The value itself, and all non-empty lists and objects below it.
    Descend,
    Union(Vec<JsonPath>),
    Filter(Filter),
    /// A literal in a filter.
    Literal(Value),
    /// An unknown word, whose evaluation fails.
    Word,
}

/// `[start:end:step]`, and `[index]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slice {
    start: Option<i64>,
    end: Option<i64>,
    step: Option<i64>,
    /// True for a single index.
    single: bool,
}

#[derive(Clone, Debug, PartialEq)]
struct Filter {
    left: JsonPath,
    /// `None` for a filter by existence of the left value.
    compare: Option<(Operator, JsonPath)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    /// An operator that Go parses but does not support.
    Unknown,
}

/// The error of a path that cannot be evaluated on an object.
#[derive(Debug)]
struct InvalidTraversal;

type Matches<'v> = Vec<&'v Value>;

/// The maximum number of values visited for one cell: about as many as an object can have.
const MAX_VISITS: usize = 1 << 18;

/// The steps of evaluating one node, excluding the values.
const STEP: u64 = 4;

impl JsonPath {
    /// Parses a path, without the braces of kubectl's templates.
    pub fn parse(text: &str) -> Result<Self, InvalidPath> {
        parser::read(text).map(Self)
    }

    /// Returns the values at the path, in order; none if it cannot be evaluated. The number of visited values is
    /// bounded, because several descents in one path visit the same values repeatedly.
    pub fn find<'v>(&'v self, object: &'v Value) -> Vec<&'v Value> {
        let mut left = MAX_VISITS;
        let (found, failed) = self.evaluate(vec![object], &mut left);
        pace((MAX_VISITS - left) as u64);
        if failed { Vec::new() } else { found }
    }

    /// Evaluates the path. The boolean is true on failure. As in Go, the values before the failed step are returned as
    /// well.
    fn evaluate<'v>(&'v self, mut found: Matches<'v>, left: &mut usize) -> (Matches<'v>, bool) {
        for node in &self.0 {
            if charge(STEP + found.len() as u64).is_err() {
                return (found, true);
            }
            match node.evaluate(&found, left) {
                Ok(next) => found = next,
                Err(InvalidTraversal) => return (found, true),
            }
        }
        (found, false)
    }
}

impl Node {
    fn evaluate<'v>(&'v self, input: &[&'v Value], left: &mut usize) -> Result<Matches<'v>, InvalidTraversal> {
        let mut found = Vec::new();
        match self {
            Self::Literal(value) => found.extend(input.iter().map(|_| value)),
            Self::Word => return Err(InvalidTraversal),
            Self::Union(paths) => {
                for path in paths {
                    let (some, failed) = path.evaluate(input.to_vec(), left);
                    if failed {
                        return Err(InvalidTraversal);
                    }
                    found.extend(some);
                }
            }
            Self::Member(name) => found.extend(input.iter().filter_map(|value| value.get(name))),
            Self::All => {
                for value in input {
                    let room = left.saturating_sub(found.len());
                    match value {
                        Value::List(items) => found.extend(items.iter().take(room)),
                        Value::Object(members) => found.extend(members.values().take(room)),
                        _ => {}
                    }
                }
            }
            Self::Descend => {
                input.iter().for_each(|value| descend(value, &mut found, left));
                return Ok(found);
            }
            Self::Slice(slice) => {
                for value in input.iter().filter(|value| !value.is_null()) {
                    let Value::List(items) = value else { return Err(InvalidTraversal) };
                    found.extend(slice.of(items)?);
                }
            }
            Self::Filter(filter) => {
                for value in input {
                    let Value::List(items) = value else { return Err(InvalidTraversal) };
                    for item in items {
                        if *left == 0 {
                            return Ok(found);
                        }
                        *left -= 1;
                        if filter.takes(item, left)? {
                            found.push(item);
                        }
                    }
                }
                return Ok(found);
            }
        }
        found.truncate(*left);
        *left -= found.len();
        Ok(found)
    }
}

fn descend<'v>(value: &'v Value, found: &mut Matches<'v>, left: &mut usize) {
    let is_empty = match value {
        Value::List(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => true,
    };
    if is_empty || *left == 0 {
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

impl Slice {
    fn of<'v>(&self, items: &'v [Value]) -> Result<impl Iterator<Item = &'v Value>, InvalidTraversal> {
        let length = i64::try_from(items.len()).map_err(|_| InvalidTraversal)?;
        let from_end = |at: i64| if at < 0 { at.saturating_add(length) } else { at };
        let start = from_end(self.start.unwrap_or(0));
        let end = match self.end {
            _ if self.single => start.saturating_add(1),
            Some(end) => from_end(end),
            None => length,
        };
        if start == end {
            return Ok(items[..0].iter().step_by(1));
        }
        let at = |at: i64| usize::try_from(at).map_err(|_| InvalidTraversal);
        let items = items.get(at(start)?..at(end)?).filter(|_| start < length).ok_or(InvalidTraversal)?;
        let step = self.step.map_or(Ok(1), at)?;
        if step == 0 { Err(InvalidTraversal) } else { Ok(items.iter().step_by(step)) }
    }
}

impl Filter {
    fn takes(&self, item: &Value, left: &mut usize) -> Result<bool, InvalidTraversal> {
        let (found, failed) = self.left.evaluate(vec![item], left);
        let Some((operator, right)) = &self.compare else { return Ok(!found.is_empty()) };
        if failed {
            return Err(InvalidTraversal);
        }
        let Some(value) = single(&found)? else { return Ok(false) };
        let (operand, failed) = right.evaluate(vec![item], left);
        if failed {
            return Err(InvalidTraversal);
        }
        let Some(operand) = single(&operand)? else { return Ok(false) };
        operator.holds(value, operand)
    }
}

/// Returns the only value, if any. Several values cannot be compared.
fn single<'v>(found: &[&'v Value]) -> Result<Option<&'v Value>, InvalidTraversal> {
    match found {
        [] => Ok(None),
        [value] => Ok(Some(value)),
        _ => Err(InvalidTraversal),
    }
}

impl Operator {
    /// Compares two values. Values of different types are an error, as are types without an order.
    fn holds(self, value: &Value, operand: &Value) -> Result<bool, InvalidTraversal> {
        let order = match (value, operand) {
            (Value::Bool(a), Value::Bool(b)) if matches!(self, Self::Equal | Self::NotEqual) => Some(a.cmp(b)),
            (Value::Int(a), Value::Int(b)) => Some(a.cmp(b)),
            (Value::Float(a), Value::Float(b)) => a.partial_cmp(b),
            (a, b) => match (a.as_str(), b.as_str()) {
                (Some(a), Some(b)) => Some(a.cmp(b)),
                _ => return Err(InvalidTraversal),
            },
        };
        let Some(order) = order else { return Ok(self == Self::NotEqual) };
        Ok(match self {
            Self::Equal => order.is_eq(),
            Self::NotEqual => order.is_ne(),
            Self::Less => order.is_lt(),
            Self::LessOrEqual => order.is_le(),
            Self::Greater => order.is_gt(),
            Self::GreaterOrEqual => order.is_ge(),
            Self::Unknown => return Err(InvalidTraversal),
        })
    }
}

#[cfg(test)]
mod tests {
    use binnacle_schema::{json, value};

    use super::*;

    #[test]
    fn repeated_descents_are_bounded() {
        let mut object = value!({"a": 1i64});
        for _ in 0..100 {
            object = value!({"a": object});
        }
        for path in ["..a".repeat(50), "..[*]".repeat(50), format!("{}[?(@..a)]", "..a".repeat(20))] {
            let path = JsonPath::parse(&path).unwrap();
            assert!(path.find(&object).len() <= MAX_VISITS);
        }
    }

    #[test]
    fn finds_values() {
        let object = value!({
            "spec": {
                "size": 3i64, "a.b": "dotted", "a": {"b": "nested"}, "list": [1i64, 2i64, 3i64], "none": null,
                "mixed": [{"n": 1i64}, {"n": "x"}], "floats": [{"n": 1.5f64}], "bools": [{"n": true}]
            },
            "status": {"conditions": [{"type": "Ready", "status": "True", "n": 2i64}, {"type": "Old", "status": "False"}]},
        });
        for (path, want) in [
            (".spec.size", "[3]"),
            ("$.spec.size", "[3]"),
            ("@.spec.size", "[3]"),
            (".spec['size']", "[3]"),
            (".spec['a.b']", r#"["nested"]"#),
            (".spec['a\\.b']", r#"["dotted"]"#),
            (".spec.a\\.b", r#"["dotted"]"#),
            (".spec['size','a.b']", r#"[3,"nested"]"#),
            (".spec.list[0]", "[1]"),
            (".spec.list[-1]", "[3]"),
            (".spec.list[*]", "[1,2,3]"),
            (".spec.list[:]", "[1,2,3]"),
            (".spec.list[0:2]", "[1,2]"),
            (".spec.list[-2:]", "[2,3]"),
            (".spec.list[:-1]", "[1,2]"),
            (".spec.list[::2]", "[1,3]"),
            (".spec.list[0,2]", "[1,3]"),
            (".spec.list[1:1]", "[]"),
            (".spec.list[9]", "[]"),
            (".spec.list[0:9]", "[]"),
            (".spec.list[::0]", "[]"),
            (".spec.list[2:1]", "[]"),
            (".spec[*]", "[]"),
            (".spec.none", "[null]"),
            (".spec.none[0]", "[]"),
            (".status.conditions[?(@.type==\"Ready\")].status", r#"["True"]"#),
            (".status.conditions[?(@.type == 'Old')].status", r#"["False"]"#),
            (".status.conditions[?(@.type!='Ready')].status", r#"["False"]"#),
            (".status.conditions[?(@.status==@.type)].status", "[]"),
            (".status.conditions[?(@.n>=2)].type", r#"["Ready"]"#),
            (".status.conditions[?(@.n>=2.0)].type", "[]"),
            (".status.conditions[?(@.n)].type", r#"["Ready"]"#),
            (".status.conditions[?(@.n==word)].type", "[]"),
            (".spec.mixed[?(@.n==1)].n", "[]"),
            (".spec.floats[?(@.n>1.0)].n", "[1.5]"),
            (".spec.bools[?(@.n==true)].n", "[true]"),
            (".spec.bools[?(@.n<=true)].n", "[]"),
            ("..type", r#"["Ready","Old"]"#),
            (".nowhere.at.all", "[]"),
            (".spec.size}", "[3]"),
            (".spec.size} words", "[3]"),
            (".spec.size} {.spec.list}", "[3]"),
        ] {
            let read = JsonPath::parse(path).unwrap_or_else(|error| panic!("{path}: {error}"));
            let found = Value::List(read.find(&object).into_iter().cloned().collect());
            assert_eq!(json::to_string(&found), want, "{path}");
        }
    }
}
