//! PEM as Go's `encoding/pem` reads it: text between blocks is skipped, and so are malformed blocks.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// A PEM block.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) kind: String,
    pub(crate) has_headers: bool,
    pub(crate) bytes: Vec<u8>,
}

/// Returns all blocks of a text, in order.
pub(crate) fn blocks(text: &[u8]) -> Vec<Block> {
    const BEGIN: &str = "-----BEGIN ";
    let text = String::from_utf8_lossy(text);
    let mut lines = text.lines();
    let mut blocks = Vec::new();
    while let Some(line) = lines.next() {
        let kind = line.trim_end_matches([' ', '\t', '\r']).strip_prefix(BEGIN);
        let Some(kind) = kind.and_then(|rest| rest.strip_suffix("-----")) else { continue };
        // A malformed block is skipped line by line.
        let mut rest = lines.clone();
        if let Some(block) = read_block(kind, &mut rest) {
            blocks.push(block);
            lines = rest;
        }
    }
    blocks
}

fn read_block<'a>(kind: &str, lines: &mut impl Iterator<Item = &'a str>) -> Option<Block> {
    let end = format!("-----END {kind}-----");
    let (mut base64, mut has_headers, mut in_headers) = (String::new(), false, true);
    for line in lines {
        let line = line.trim_end_matches([' ', '\t', '\r']);
        if line == end {
            let bytes = STANDARD.decode(&base64).ok()?;
            return Some(Block { kind: kind.to_owned(), has_headers, bytes });
        }
        if line.starts_with("-----") {
            return None;
        }
        if in_headers && line.contains(':') {
            has_headers = true;
            continue;
        }
        in_headers = false;
        base64.push_str(line);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_pem_blocks() {
        for (text, want) in [
            ("", vec![]),
            ("noise\n-----BEGIN A-----\naGk=\n-----END A-----\n", vec![("A", false, "hi")]),
            ("-----BEGIN A-----\nX: y\n\naGk=\n-----END A-----", vec![("A", true, "hi")]),
            (
                "-----BEGIN A-----\n!!\n-----END A-----\n-----BEGIN B-----\naGk=\n-----END B-----",
                vec![("B", false, "hi")],
            ),
            ("-----BEGIN A-----\naGk=\n-----END B-----", vec![]),
            ("-----BEGIN A-----\naGk=", vec![]),
        ] {
            let want: Vec<Block> = want
                .into_iter()
                .map(|(kind, has_headers, bytes)| Block { kind: kind.into(), has_headers, bytes: bytes.into() })
                .collect();
            assert_eq!(blocks(text.as_bytes()), want, "{text}");
        }
    }
}
