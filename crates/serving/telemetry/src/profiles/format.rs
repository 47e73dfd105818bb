//! The subset of pprof's `profile.proto` for stacks with counts, compressed as pprof expects.

use std::collections::HashMap;
use std::hash::Hash;
use std::io::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message;

/// The name and unit of a count: `samples` and `count`.
pub type ValueType = (&'static str, &'static str);

/// A function on a stack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Frame {
    pub function: String,
    /// The linker symbol.
    pub symbol: String,
    pub file: String,
    pub line: u32,
}

/// A profile: stacks with values.
#[derive(Clone, Debug)]
pub struct Stacks {
    types: Vec<ValueType>,
    period: (ValueType, i64),
    duration: Duration,
    /// Stacks, innermost function first, with one value per type.
    samples: Vec<(Vec<Frame>, Vec<i64>)>,
}

impl Stacks {
    /// `period` is the interval between two samples.
    pub fn new(types: Vec<ValueType>, period: (ValueType, i64)) -> Self {
        Self { types, period, duration: Duration::ZERO, samples: Vec::new() }
    }

    /// Sets the duration of sampling.
    #[must_use]
    pub fn during(self, duration: Duration) -> Self {
        Self { duration, ..self }
    }

    /// Adds a stack, innermost function first, with one value per type.
    pub fn add(&mut self, stack: Vec<Frame>, values: Vec<i64>) {
        self.samples.push((stack, values));
    }

    /// Returns the sum of the first values.
    pub fn total(&self) -> i64 {
        self.samples.iter().filter_map(|(_, values)| values.first()).sum()
    }

    /// Formats the profile as text, like Go's `debug=1`.
    pub fn text(&self, name: &str) -> String {
        let mut text = format!("{name} profile: total {}\n", self.total());
        for (stack, values) in &self.samples {
            text.push_str(&format!("{} @\n", values.first().copied().unwrap_or_default()));
            for frame in stack {
                text.push_str(&format!("#\t{}\n", frame.function));
            }
            text.push('\n');
        }
        text
    }

    /// Encodes the profile.
    pub fn encode(&self) -> Vec<u8> {
        let mut strings = Table::default();
        // The string table begins with the empty string.
        strings.index(String::new());
        let mut text = |text: &str| strings.index(text.to_owned()) - 1;
        let mut kind = |(name, unit): ValueType| Type { name: text(name), unit: text(unit) };
        let (sample_types, period_type) =
            (self.types.iter().copied().map(&mut kind).collect(), Some(kind(self.period.0)));
        let (mut functions, mut locations) = (Table::default(), Table::default());
        let mut samples = Vec::with_capacity(self.samples.len());
        for (stack, values) in &self.samples {
            let locations = stack.iter().map(|frame| {
                let function = [text(&frame.function), text(&frame.symbol), text(&frame.file)];
                locations.index((functions.index(function), i64::from(frame.line))) as u64
            });
            samples.push(Sample { locations: locations.collect(), values: values.clone() });
        }
        let located = locations.entries.iter().zip(1..);
        let named = functions.entries.iter().zip(1..);
        let profile = Profile {
            sample_types,
            samples,
            // All functions have names, so that readers resolve no symbols.
            mappings: vec![Mapping { id: 1, has_functions: true }],
            locations: located
                .map(|((function, line), id)| Location {
                    id,
                    mapping: 1,
                    lines: vec![Line { function: *function as u64, line: *line }],
                })
                .collect(),
            functions: named
                .map(|([name, symbol, file], id)| Function { id, name: *name, symbol: *symbol, file: *file })
                .collect(),
            time_nanos: nanos(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()),
            duration_nanos: nanos(self.duration),
            period_type,
            period: self.period.1,
            strings: strings.entries,
        };
        let mut compressed = GzEncoder::new(Vec::new(), Compression::fast());
        // Writing to memory cannot fail.
        let _ = compressed.write_all(&profile.encode_to_vec());
        compressed.finish().unwrap_or_default()
    }
}

/// Entries in the order of first occurrence, numbered from 1.
struct Table<T> {
    entries: Vec<T>,
    numbers: HashMap<T, i64>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { entries: Vec::new(), numbers: HashMap::new() }
    }
}

impl<T: Clone + Eq + Hash> Table<T> {
    fn index(&mut self, entry: T) -> i64 {
        if let Some(number) = self.numbers.get(&entry) {
            return *number;
        }
        self.entries.push(entry.clone());
        let number = i64::try_from(self.entries.len()).unwrap_or(i64::MAX);
        self.numbers.insert(entry, number);
        number
    }
}

fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

#[derive(Clone, PartialEq, Message)]
struct Profile {
    #[prost(message, repeated, tag = "1")]
    sample_types: Vec<Type>,
    #[prost(message, repeated, tag = "2")]
    samples: Vec<Sample>,
    #[prost(message, repeated, tag = "3")]
    mappings: Vec<Mapping>,
    #[prost(message, repeated, tag = "4")]
    locations: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    functions: Vec<Function>,
    #[prost(string, repeated, tag = "6")]
    strings: Vec<String>,
    #[prost(int64, tag = "9")]
    time_nanos: i64,
    #[prost(int64, tag = "10")]
    duration_nanos: i64,
    #[prost(message, optional, tag = "11")]
    period_type: Option<Type>,
    #[prost(int64, tag = "12")]
    period: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Type {
    #[prost(int64, tag = "1")]
    name: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Sample {
    #[prost(uint64, repeated, tag = "1")]
    locations: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    values: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct Mapping {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(bool, tag = "7")]
    has_functions: bool,
}

#[derive(Clone, PartialEq, Message)]
struct Location {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(uint64, tag = "2")]
    mapping: u64,
    #[prost(message, repeated, tag = "4")]
    lines: Vec<Line>,
}

#[derive(Clone, PartialEq, Message)]
struct Line {
    #[prost(uint64, tag = "1")]
    function: u64,
    #[prost(int64, tag = "2")]
    line: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Function {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: i64,
    #[prost(int64, tag = "3")]
    symbol: i64,
    #[prost(int64, tag = "4")]
    file: i64,
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn shares_functions_and_locations_of_stacks() {
        let frame = |name: &str, line| Frame { function: name.to_owned(), line, ..Frame::default() };
        let mut stacks = Stacks::new(vec![("samples", "count")], (("cpu", "nanoseconds"), 10));
        stacks.add(vec![frame("leaf", 1), frame("root", 7)], vec![2]);
        stacks.add(vec![frame("leaf", 2), frame("root", 7)], vec![3]);
        assert_eq!(
            (stacks.total(), stacks.text("x")),
            (5, "x profile: total 5\n2 @\n#\tleaf\n#\troot\n\n3 @\n#\tleaf\n#\troot\n\n".to_owned())
        );
        let mut plain = Vec::new();
        flate2::read::GzDecoder::new(stacks.encode().as_slice()).read_to_end(&mut plain).unwrap();
        let profile = Profile::decode(plain.as_slice()).unwrap();
        let name = |index: i64| profile.strings[usize::try_from(index).unwrap()].as_str();
        assert_eq!(profile.strings[0], "");
        assert_eq!((name(profile.sample_types[0].name), name(profile.sample_types[0].unit)), ("samples", "count"));
        let functions: Vec<_> = profile.functions.iter().map(|function| (function.id, name(function.name))).collect();
        assert_eq!(functions, [(1, "leaf"), (2, "root")]);
        let samples: Vec<_> =
            profile.samples.iter().map(|sample| (&sample.locations[..], &sample.values[..])).collect();
        assert_eq!(samples, [(&[1, 2][..], &[2][..]), (&[3, 2], &[3])]);
        assert_eq!(profile.locations[2].lines, [Line { function: 1, line: 2 }]);
    }
}
