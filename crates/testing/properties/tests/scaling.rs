//! The cost of a write is linear in the number of elements, not quadratic: every list and map of every built-in kind is
//! filled with few and with many elements, and the CPU times are compared. The first measurement is cheap and
//! imprecise; if the cost per element grows in it, larger objects and the best of several runs decide.

use std::collections::HashMap;
use std::time::Duration;

use binnacle_features::Features;
use binnacle_kinds::tables::KindMessage;
use binnacle_kinds::{strategy, tables};
use binnacle_meta::FieldPath;
use binnacle_schema::{Field, Limits, Message, Object, Ty, Value, decode, json};
use binnacle_scheme::StrategyContext;
use binnacle_validation::metadata;

/// The numbers of elements of the first measurement, which compares the cost per element between few and many.
const LOOK: [usize; 3] = [16, 128, 512];
/// The numbers of elements of the decisive measurement, and the allowed factor between their times: linear cost means a
/// factor of four, quadratic cost one of sixteen.
const DECIDE: [usize; 2] = [1024, 4096];
const ALLOWED: u32 = 10;
/// Shorter times are ignored: the clock of a thread has a resolution of some milliseconds.
const MIN_TIME: Duration = Duration::from_millis(10);
/// The lists of a struct that many kinds embed are only checked in this number of places.
const MAX_PATHS: usize = 2;

/// The similarity of a list's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Elements {
    /// All texts and numbers are unique.
    Distinct,
    Equal,
}

#[test]
fn validation_is_linear_in_lists_and_maps() {
    let mut paths = ListPaths::default();
    // The kinds of the groups come before options and lists.
    for kind in tables::kinds().filter(|kind| is_object(kind.message)) {
        paths.of_kind(kind);
    }
    assert!(paths.found.len() > 500, "only {} lists and maps were found", paths.found.len());
    let mut squares = Vec::new();
    for list in &paths.found {
        for elements in [Elements::Distinct, Elements::Equal] {
            if list.is_map && elements == Elements::Equal {
                continue;
            }
            if let Some(times) = list.grows(elements) {
                squares.push(format!("{list} ({elements:?}): {times:?} for {DECIDE:?} elements"));
            }
        }
    }
    assert!(squares.is_empty(), "these cost a square of their elements:\n{}", squares.join("\n"));
}

#[test]
fn distinguishes_quadratic_from_linear_cost() {
    let square = |n: usize| (0..n).map(|i| (0..n).filter(|j| std::hint::black_box(i ^ j) == 1).count()).sum::<usize>();
    let line = |n: usize| (0..n * 1000).filter(|i| std::hint::black_box(*i) % 3 == 0).count();
    assert!(is_square(|n| assert!(square(n) > 0)).is_some());
    assert!(is_square(|n| assert!(line(n) > 0)).is_none());
}

/// A list or map of a kind, and the path to it.
struct ListPath {
    kind: &'static KindMessage,
    path: Vec<&'static Field>,
    is_map: bool,
}

#[derive(Default)]
struct ListPaths {
    found: Vec<ListPath>,
    /// The number of occurrences of each list or map, by message and field.
    met: HashMap<(String, String), usize>,
}

impl ListPaths {
    fn of_kind(&mut self, kind: &'static KindMessage) {
        self.walk(kind, kind.message, &mut Vec::new());
    }

    fn walk(&mut self, kind: &'static KindMessage, message: &'static Message, path: &mut Vec<&'static Field>) {
        for field in message.fields.iter() {
            let (element, value) = (field.ty.element(), field.ty.map_value());
            path.push(field);
            if element.is_some() || value.is_some() {
                let met = self.met.entry((message.name.to_string(), field.name.to_string())).or_default();
                *met += 1;
                if *met > MAX_PATHS {
                    path.pop();
                    continue;
                }
                self.found.push(ListPath { kind, path: path.clone(), is_map: value.is_some() });
            }
            let inner = element.or(value).unwrap_or(&field.ty);
            // Schemas contain schemas: the depth is limited.
            if let Some(message) = inner.message()
                && path.len() < 9
            {
                self.walk(kind, message, path);
            }
            path.pop();
        }
    }
}

impl ListPath {
    /// Returns the two decisive times if the cost is quadratic.
    fn grows(&self, elements: Elements) -> Option<[Duration; 2]> {
        let work = |count| self.work(&self.object(count, elements));
        let times = LOOK.map(|count| cpu_time(|| work(count)));
        let an_element = |at: usize| times[at].saturating_sub(times[at - 1]) / (LOOK[at] - LOOK[at - 1]) as u32;
        if times[2] < MIN_TIME || an_element(2) < an_element(1) * 3 / 2 {
            return None;
        }
        is_square(work)
    }

    /// Returns the object with `count` elements in this place, as JSON, and a similar one with the elements reversed.
    fn object(&self, count: usize, elements: Elements) -> [String; 2] {
        [false, true].map(|reversed| {
            let (field, parents) = self.path.split_last().expect("a place is a field");
            let numbers = 0..count;
            let numbers: Vec<usize> = if reversed { numbers.rev().collect() } else { numbers.collect() };
            let number = |i: usize| if elements == Elements::Equal { 0 } else { i };
            let mut value: Value = match (field.ty.element(), field.ty.map_value()) {
                (Some(element), _) => {
                    numbers.iter().map(|i| filled(element, field, number(*i), 3)).collect::<Vec<_>>().into()
                }
                (_, value) => {
                    let value = value.expect("a list or a map");
                    numbers.iter().map(|i| (format!("k{i}"), filled(value, field, *i, 3))).collect::<Object>().into()
                }
            };
            let mut name = &field.name;
            for parent in parents.iter().rev() {
                let mut around = filled_message_of(parent, 1);
                around.insert(name.clone(), value);
                value = match (parent.ty.element(), parent.ty.map_value()) {
                    (Some(_), _) => vec![Value::from(around)].into(),
                    (_, Some(_)) => Object::from_iter([("k0", Value::from(around))]).into(),
                    _ => around.into(),
                };
                name = &parent.name;
            }
            let mut object = filled_message(self.kind.message, 0, 2);
            object.insert("apiVersion", self.kind.group_version_kind().api_version());
            object.insert("kind", self.kind.kind);
            object.insert(name.clone(), value);
            let metadata = object.entry("metadata", || Object::new().into()).make_object();
            metadata.insert("name", "a");
            json::to_string(&object.into())
        })
    }

    /// Runs all steps of a write except storing. The result is ignored.
    fn work(&self, [new, old]: &[String; 2]) {
        let limits = Limits { max_bytes: usize::MAX, max_memory: usize::MAX, ..Limits::default() };
        let decoded = |text: &str| {
            let mut value = decode::json(text.as_bytes(), self.kind.message, &limits).ok()?.value;
            strategy(self.kind.group, self.kind.kind).set_defaults(self.kind.version, &mut value);
            Some(value)
        };
        let (Some(object), Some(old)) = (decoded(new), decoded(old)) else { return };
        let api_version = self.kind.group_version_kind().api_version();
        let features = Features::default();
        let situation =
            StrategyContext { features: &features, now: 0, namespace: "a", api_version: &api_version, dry_run: false };
        let strategy = strategy(self.kind.group, self.kind.kind);
        let metadata_of = |object: &Value| object.get("metadata").cloned().unwrap_or(Value::Null);
        let path = FieldPath::new("metadata");

        let mut created = object.clone();
        strategy.prepare_for_create(&situation, &mut created);
        std::hint::black_box(strategy.validate(&situation, &created));
        std::hint::black_box(strategy.warnings(&created, None));
        std::hint::black_box(metadata::validate(&metadata_of(&created), true, |_, _| Vec::new(), &path));

        let mut changed = object.clone();
        strategy.prepare_for_update(&situation, &mut changed, &old);
        std::hint::black_box(strategy.validate_update(&situation, &changed, &old));
        std::hint::black_box(strategy.warnings(&changed, Some(&old)));
        std::hint::black_box(metadata::validate_update(&metadata_of(&changed), &metadata_of(&old), &path));

        let mut changed = object;
        strategy.prepare_for_subresource("status", &situation, &mut changed, &old);
        std::hint::black_box(strategy.validate_subresource("status", &situation, &changed, &old));
    }
}

impl std::fmt::Display for ListPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let path: Vec<&str> = self.path.iter().map(|field| field.name.as_str()).collect();
        write!(f, "{} {}", self.kind.group_version_kind(), path.join("."))
    }
}

/// Returns the times of the two sizes if all runs show a quadratic cost.
fn is_square(work: impl Fn(usize)) -> Option<[Duration; 2]> {
    let mut best = [Duration::MAX; 2];
    for _ in 0..4 {
        for (best, count) in best.iter_mut().zip(DECIDE) {
            *best = (*best).min(cpu_time(|| work(count)));
        }
        if best[1] <= best[0].max(MIN_TIME) * ALLOWED {
            return None;
        }
    }
    Some(best)
}

/// Returns the CPU time of this thread, on which other load of the machine has no influence.
fn cpu_time(work: impl FnOnce()) -> Duration {
    let before = on_processor();
    work();
    on_processor() - before
}

fn on_processor() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux tells the time of a thread");
    let nanoseconds = text.split(' ').next().and_then(|number| number.parse().ok());
    Duration::from_nanos(nanoseconds.expect("the first number is the time on the processor"))
}

/// Returns true for stored kinds and reviews; lists and options have no object metadata.
fn is_object(message: &Message) -> bool {
    let metadata = message.get("metadata").and_then(|field| field.ty.message());
    metadata.is_some_and(|metadata| metadata.get("labels").is_some())
}

fn filled_message_of(field: &Field, depth: usize) -> Object {
    let inner = field.ty.element().or(field.ty.map_value()).unwrap_or(&field.ty);
    inner.message().map(|message| filled_message(message, 0, depth)).unwrap_or_default()
}

/// Returns a struct with values made from `number` in its scalars and, up to `depth`, its structs; lists stay empty.
fn filled_message(message: &Message, number: usize, depth: usize) -> Object {
    let fields = message.fields.iter().filter(|field| {
        let is_list = field.ty.element().is_some() || field.ty.map_value().is_some();
        let is_struct = matches!(field.ty, Ty::Message(_));
        // Structs may exclude each other, so only required ones are set.
        !is_list && (!is_struct || (depth > 0 && field.required)) && field.name != "deletionTimestamp"
    });
    fields.map(|field| (field.name.clone(), filled(&field.ty, field, number, depth))).collect()
}

fn filled(ty: &Ty, field: &Field, number: usize, depth: usize) -> Value {
    match ty {
        Ty::String if !field.values.is_empty() => field.values[number % field.values.len()].to_string().into(),
        Ty::String => format!("e{number}").into(),
        Ty::Bool => false.into(),
        Ty::Int32 | Ty::Int64 | Ty::Uint32 => (number as i64 + 1).into(),
        Ty::Double => Value::Float(1.0),
        Ty::Bytes => "YQ==".into(),
        Ty::Time => "2020-01-01T00:00:00Z".into(),
        Ty::MicroTime => "2020-01-01T00:00:00.000000Z".into(),
        Ty::Duration => "1m0s".into(),
        Ty::Quantity => format!("{}", number + 1).into(),
        Ty::IntOrString => (number as i64 + 1).into(),
        Ty::RawExtension | Ty::Json | Ty::FieldsV1 => Object::new().into(),
        Ty::SchemaOrBool(_) => true.into(),
        // Schemas contain schemas: the recursion ends here.
        Ty::SchemaOrArray(_) => Object::new().into(),
        Ty::SchemaOrStrings(_) => vec![Value::from("a")].into(),
        Ty::Message(message) => filled_message(message, number, depth.saturating_sub(1)).into(),
        Ty::List(_) | Ty::ListOf(_) | Ty::StaticList(_) | Ty::StaticWrappedList(_) => Vec::<Value>::new().into(),
        Ty::Map(_) | Ty::StaticMap(_) => Object::new().into(),
    }
}
