//! Properties of the readers and writers, tested with trees and texts from a seeded generator.

use binnacle_schema::{Limits, Object, Value, json, yaml};

/// A small generator: the same seed produces the same case.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    fn text(&mut self) -> String {
        const WORDS: [&str; 30] = [
            "",
            "a",
            "name",
            "yes",
            "null",
            "1",
            "1.5",
            "0x1",
            "2001-01-01",
            "- x",
            "a: b",
            "# no",
            "a #b",
            " lead",
            "trail ",
            "two\nlines",
            "ends\n",
            "tab\there",
            "quote\"",
            "it's",
            "<html>&",
            "é",
            "日本",
            "\u{1f600}",
            "\u{0}\u{7f}",
            "\u{2028}",
            "back\\slash",
            "1:30",
            "{x}",
            "very long words that make a line go on and on until it wraps around",
        ];
        let count = 1 + self.below(3);
        (0..count).map(|_| self.pick(&WORDS)).collect::<Vec<_>>().concat()
    }

    fn value(&mut self, depth: usize) -> Value {
        match self.below(if depth == 0 { 5 } else { 8 }) {
            0 => Value::Null,
            1 => Value::Bool(self.below(2) == 0),
            2 => Value::Int(match self.below(4) {
                0 => self.next() as i64,
                1 => i64::MIN,
                2 => i64::MAX,
                _ => self.below(1000) as i64 - 500,
            }),
            3 => {
                let n = f64::from_bits(self.next());
                // Whole numbers within 64 bits are read back as integers.
                if n.is_finite() && (n.fract() != 0.0 || n.abs() > 1e19) { Value::Float(n) } else { Value::Float(0.25) }
            }
            4 => Value::from(self.text()),
            5 => Value::List((0..self.below(5)).map(|_| self.value(depth - 1)).collect()),
            _ => {
                let members: Vec<_> = (0..self.below(6)).map(|_| (self.text(), self.value(depth - 1))).collect();
                Value::Object(members.into_iter().collect::<Object>())
            }
        }
    }
}

#[test]
fn json_round_trips() {
    let mut random = Random(0x5eed);
    for round in 0..3000 {
        let value = random.value(5);
        let text = json::to_string(&value);
        let read = json::parse(text.as_bytes(), &Limits::default());
        assert_eq!(read.as_ref(), Ok(&value), "round {round}: {text}");
        let again = json::to_string(read.as_ref().unwrap());
        assert_eq!(again, text, "round {round}: members keep their order");
        let mut pretty = Vec::new();
        json::write_pretty(&value, &mut pretty);
        assert_eq!(json::parse(&pretty, &Limits::default()), Ok(value), "round {round}");
        assert_eq!(json::compact(&pretty, &Limits::default()), Ok(text), "round {round}");
    }
}

#[test]
fn yaml_round_trips() {
    let mut random = Random(0xface);
    for round in 0..3000 {
        let mut value = random.value(4);
        let text = yaml::to_string(&value);
        let read = yaml::parse(text.as_bytes(), &Limits::default());
        let (read, finding) = read.unwrap_or_else(|error| panic!("round {round}: {error}\n{text}\n{value:?}"));
        assert_eq!(finding, None, "round {round}");
        assert_eq!(read, value, "round {round}:\n{text}");
        binnacle_schema::sort_free_form(&mut value);
        assert_eq!(json::to_string(&read), json::to_string(&value), "round {round}: members are sorted");
    }
}

/// The JSON fast path and the YAML parser, which a document marker selects, agree.
#[test]
fn yaml_parser_and_json_fast_path_agree() {
    let mut random = Random(0xfeed);
    for round in 0..3000 {
        let text = json::to_string(&random.value(4));
        let read = |text: &str| yaml::parse(text.as_bytes(), &Limits::default()).map_err(|error| error.to_string());
        assert_eq!(read(&text), read(&format!("--- {text}")), "round {round}: {text}");
    }
}

/// The reader and the scanner that produces errors accept the same texts, so every error has a message.
#[test]
fn every_json_error_has_a_message() {
    let mut random = Random(0xbad);
    let (mut accepted, mut refused) = (0, 0);
    for round in 0..6000 {
        let mut text = json::to_string(&random.value(4)).into_bytes();
        for _ in 0..1 + random.below(3) {
            if text.is_empty() {
                break;
            }
            let at = random.below(text.len());
            match random.below(4) {
                0 => text.truncate(at),
                1 => {
                    text.remove(at);
                }
                2 => text.insert(at, random.pick(b"{}[]\",:\\ \n-+.eE0123456789tfnu/\x00\xff\xc3x")),
                _ => text[at] = random.pick(b"{}[]\",:\\ \n-+.eE0123456789tfnu/\x00\xff\xc3x"),
            }
        }
        let shown = String::from_utf8_lossy(&text).into_owned();
        match json::parse(&text, &Limits::default()) {
            Ok(_) => {
                accepted += 1;
                assert!(json::compact(&text, &Limits::default()).is_ok(), "round {round}: {shown}");
            }
            Err(error) => {
                refused += 1;
                let error = error.to_string();
                let named = error.starts_with("invalid character ")
                    || error == "unexpected end of JSON input"
                    || error.starts_with("json: cannot unmarshal number ");
                assert!(named, "round {round}: {error}: {shown}");
            }
        }
    }
    assert!(accepted > 100 && refused > 1000, "{accepted} accepted, {refused} refused");
}

#[test]
fn enforces_limits() {
    let limits = Limits { max_bytes: 100, max_depth: 10, max_yaml_nodes: 10, ..Limits::default() };
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(json::parse(nested(10).as_bytes(), &limits).is_ok());
    assert_eq!(
        json::parse(nested(11).as_bytes(), &limits).map_err(|e| e.to_string()),
        Err("invalid character '[' exceeded max depth".to_owned())
    );
    assert_eq!(json::parse(&[b' '; 101], &limits).map_err(|e| e.to_string()), Err("limit is 100".to_owned()));
    assert_eq!(yaml::parse(&[b' '; 101], &limits).map_err(|e| e.to_string()), Err("limit is 100".to_owned()));
    assert!(yaml::parse(nested(9).as_bytes(), &limits).is_ok());
    assert!(yaml::parse(nested(11).as_bytes(), &limits).is_err());
    assert!(yaml::parse(b"[1,2,3,4,5,6,7,8,9,10]", &limits).is_err());
    // As deep as the defaults allow, on a stack of the size that tests and workers use.
    let limits = Limits::default();
    let deep = format!("{}1{}", r#"{"a":["#.repeat(limits.max_depth / 2), "]}".repeat(limits.max_depth / 2));
    let value = json::parse(deep.as_bytes(), &limits).unwrap();
    assert_eq!(json::to_string(&value), deep);
    assert!(yaml::parse(yaml::to_string(&value).as_bytes(), &limits).is_ok());
}
