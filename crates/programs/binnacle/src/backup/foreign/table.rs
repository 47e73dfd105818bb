//! Tables as text, as databases export them: separated by commas or tabs, with a header line, and bytes in hexadecimal.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};

use super::{Each, Value, damaged};

/// The maximum length of a line: twice etcd's largest value, with a margin.
const MAX_LINE: u64 = 256 << 20;

/// The separator of the fields in a line.
#[derive(Clone, Copy)]
enum Form {
    /// As psql and other programs write it: fields may be quoted.
    Commas,
    /// As MySQL's client writes it with `--batch --raw`: fields are never quoted.
    Tabs,
}

/// Returns true if the file begins with the names of kine's columns.
pub(super) fn is_format(start: &[u8]) -> bool {
    [&b"id,name,"[..], b"\"id\",\"name\",", b"id\tname\t"].iter().any(|names| start.starts_with(names))
}

/// Reads the values of these columns for each row. `name` and `value` are bytes, all other columns are numbers.
pub(super) fn rows(file: File, columns: &[&str], each: Each<'_>) -> io::Result<()> {
    let mut input = BufReader::with_capacity(1 << 20, file);
    let mut line = String::new();
    let head = next(&mut input, &mut line)?.unwrap_or_default();
    let form = Form::of(head);
    let head = form.fields(head);
    let places = columns.iter().map(|name| {
        let location = head.iter().position(|column| column == name);
        location.ok_or_else(|| damaged(format!("its first line names no column {name}")))
    });
    let places: Vec<usize> = places.collect::<io::Result<_>>()?;
    let width = head.len();
    let mut number = 1;
    while let Some(text) = next(&mut input, &mut line)? {
        number += 1;
        let fields = form.fields(text);
        if fields.len() != width {
            return Err(damaged(format!("line {number} has {} columns, not {width}", fields.len())));
        }
        let row = columns.iter().zip(&places).map(|(column, location)| {
            let value = value(column, &fields[*location]);
            value.ok_or_else(|| damaged(format!("line {number}: {column} is not to be read")))
        });
        each(row.collect::<io::Result<_>>()?)?;
    }
    Ok(())
}

/// Reads a line. `None` at the end.
fn next<'a>(input: &mut BufReader<File>, line: &'a mut String) -> io::Result<Option<&'a str>> {
    line.clear();
    if input.take(MAX_LINE).read_line(line)? == 0 {
        return Ok(None);
    }
    if !line.ends_with('\n') && line.len() as u64 >= MAX_LINE {
        return Err(damaged("a line is too long"));
    }
    Ok(Some(line.trim_end_matches(['\n', '\r'])))
}

// === impl Form ===

impl Form {
    /// Returns the separator of a table with this header line.
    fn of(head: &str) -> Self {
        if head.contains('\t') { Self::Tabs } else { Self::Commas }
    }

    fn fields(self, line: &str) -> Vec<String> {
        match self {
            Self::Commas => unquoted(line),
            Self::Tabs => line.split('\t').map(str::to_owned).collect(),
        }
    }
}

/// Splits a line at its commas, except in quotes, where two quotes stand for one.
fn unquoted(line: &str) -> Vec<String> {
    let (mut fields, mut field, mut quoted) = (Vec::new(), String::new(), false);
    let mut chars = line.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '"' if quoted && chars.next_if_eq(&'"').is_some() => field.push('"'),
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(std::mem::take(&mut field)),
            _ => field.push(char),
        }
    }
    fields.push(field);
    fields
}

fn value(column: &str, field: &str) -> Option<Value> {
    match (column, field) {
        (_, "" | "NULL" | "\\N") => Some(Value::Null),
        ("name", text) => Some(Value::Bytes(text.as_bytes().to_vec())),
        ("value", text) => from_hex(text.trim_start_matches("\\x").trim_start_matches("0x")).map(Value::Bytes),
        (_, text) => text.parse().ok().map(Value::Integer),
    }
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| Some(digit(*pair.first()?)? << 4 | digit(*pair.get(1)?)?)).collect()
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, Write};

    use super::*;

    fn read(text: &str) -> io::Result<Vec<Vec<Value>>> {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(text.as_bytes()).and_then(|()| file.rewind()).expect("it is written");
        let mut found = Vec::new();
        rows(file, &["id", "name", "value"], &mut |row| {
            found.push(row);
            Ok(())
        })?;
        Ok(found)
    }

    #[test]
    fn reads_tables_of_each_database() {
        let row = |id, name: &str, value: Value| vec![Value::Integer(id), Value::Bytes(name.into()), value];
        let bytes = |bytes: &[u8]| Value::Bytes(bytes.to_vec());
        let cases = [
            ("id,name,value\n1,/a,\\x00ff\n", row(1, "/a", bytes(&[0, 255])), "psql"),
            (
                "\"id\",\"name\",\"value\"\n\"1\",\"/a\",\"00FF\"\r\n",
                row(1, "/a", bytes(&[0, 255])),
                "quoted, digits alone",
            ),
            ("id,value,old,name\n1,,x,/a\n", row(1, "/a", Value::Null), "another order, nothing"),
            ("id,name,value\n1,\"/a,b\"\"c\",\\x00\n", row(1, "/a,b\"c", bytes(&[0])), "psql, a comma and a quote"),
            ("id\tname\tvalue\n1\t/a,b\"c\t00FF\n", row(1, "/a,b\"c", bytes(&[0, 255])), "mysql"),
            ("id\tname\tvalue\n1\t/a\tNULL\n", row(1, "/a", Value::Null), "mysql, nothing"),
        ];
        for (text, want, why) in cases {
            assert_eq!(read(text).expect(why), [want], "{why}");
        }
        for (text, part) in [
            ("id,name\n", "no column value"),
            ("id,name,value\n1,/a\n", "line 2 has 2 columns"),
            ("id,name,value\n1,/a,f\n", "line 2: value"),
            ("id,name,value\nx,/a,\n", "line 2: id"),
        ] {
            let message = read(text).expect_err(text).to_string();
            assert!(message.contains(part), "{message}");
        }
    }
}
