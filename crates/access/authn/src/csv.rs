//! A CSV reader compatible with Go's `encoding/csv`, including its messages.

/// A syntax error and its position. Lines and columns start at 1, and columns are counted in bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CsvError {
    #[error("parse error on line {line}, column {column}: bare \" in non-quoted field")]
    BareQuote { line: usize, column: usize },
    #[error("{}parse error on line {line}, column {column}: extraneous or missing \" in quoted-field", record_prefix(*start, *line))]
    Quote { start: usize, line: usize, column: usize },
}

/// Returns the message prefix for a record that starts on an earlier line.
fn record_prefix(start: usize, line: usize) -> String {
    if start == line { String::new() } else { format!("record on line {start}; ") }
}

/// Splits a file into records, without empty lines. Bytes that are not UTF-8 are replaced.
pub(crate) fn records(file: &[u8]) -> Result<Vec<Vec<String>>, CsvError> {
    let text = String::from_utf8_lossy(file).replace("\r\n", "\n");
    let mut lines = text.split_inclusive('\n').enumerate().map(|(at, line)| (at + 1, line));
    let mut records = Vec::new();
    while let Some((start, first)) = lines.next() {
        if first.trim_end_matches('\n').is_empty() {
            continue;
        }
        let mut record = Vec::new();
        let (mut number, mut line, mut at) = (start, first, 0);
        loop {
            let rest = &line[at..];
            let Some(quoted) = rest.strip_prefix('"') else {
                let field = rest.split([',', '\n']).next().unwrap_or_default();
                if let Some(quote) = field.find('"') {
                    return Err(CsvError::BareQuote { line: number, column: at + quote + 1 });
                }
                record.push(field.to_owned());
                at += field.len();
                if line[at..].starts_with(',') {
                    at += 1;
                    continue;
                }
                break;
            };
            at += line[at..].len() - quoted.len();
            let mut field = String::new();
            loop {
                let rest = &line[at..];
                match rest.find('"') {
                    Some(quote) => {
                        field.push_str(&rest[..quote]);
                        at += quote + 1;
                        match line.as_bytes().get(at) {
                            Some(b'"') => {
                                field.push('"');
                                at += 1;
                            }
                            Some(b',') | Some(b'\n') | None => break,
                            Some(_) => return Err(CsvError::Quote { start, line: number, column: at }),
                        }
                    }
                    None => {
                        field.push_str(rest);
                        let column = line.len() + 1;
                        match lines.next() {
                            Some((next, text)) => (number, line, at) = (next, text, 0),
                            None => return Err(CsvError::Quote { start, line: number, column }),
                        }
                    }
                }
            }
            record.push(field);
            if line[at..].starts_with(',') {
                at += 1;
                continue;
            }
            break;
        }
        records.push(record);
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_records_as_go_does() {
        let cases: &[(&str, &[&[&str]])] = &[
            ("", &[]),
            ("\n\r\n", &[]),
            ("a,b,c", &[&["a", "b", "c"]]),
            ("a,b,c\r\n\nd\n", &[&["a", "b", "c"], &["d"]]),
            ("a,\"b,c\",\"d\"\"e\"\n", &[&["a", "b,c", "d\"e"]]),
            ("a,,\n", &[&["a", "", ""]]),
            ("\"a\nb\",c\n", &[&["a\nb", "c"]]),
            (" a, \tb\n", &[&[" a", " \tb"]]),
            ("\"\"\n", &[&[""]]),
        ];
        for (file, want) in cases {
            assert_eq!(&records(file.as_bytes()).unwrap(), want, "{file:?}");
        }
    }

    #[test]
    fn reports_syntax_errors_with_positions() {
        for (file, want) in [
            ("a,b\"c\n", "parse error on line 1, column 4: bare \" in non-quoted field"),
            ("x\na,\"b\"c\n", "parse error on line 2, column 5: extraneous or missing \" in quoted-field"),
            ("a,\"b", "parse error on line 1, column 5: extraneous or missing \" in quoted-field"),
            ("a,\"b\nc", "record on line 1; parse error on line 2, column 2: extraneous or missing \" in quoted-field"),
        ] {
            assert_eq!(records(file.as_bytes()).unwrap_err().to_string(), want, "{file:?}");
        }
    }
}
