//! The nodes of a text's first document, and the parser's errors with Go's messages.

use std::collections::HashMap;

use granit_parser::{ErrorKind, Event, Parser, ScalarStyle, ScanError, Tag};

use super::YamlError;
use crate::Limits;

/// A node of a document.
#[derive(Debug)]
pub(super) struct Node {
    /// The line on which it starts, from 1.
    pub(super) line: usize,
    pub(super) kind: NodeContent,
}

#[derive(Debug)]
pub(super) enum NodeContent {
    Scalar {
        text: String,
        /// The full tag, empty for none.
        tag: String,
        plain: bool,
    },
    List(Vec<usize>),
    /// Keys and values alternate.
    Map(Vec<usize>),
    /// A reference to the node of an anchor.
    Alias {
        target: usize,
        name: String,
    },
}

/// The nodes of a document; the first one is its root. An empty document has none.
#[derive(Debug, Default)]
pub(super) struct Document {
    pub(super) nodes: Vec<Node>,
}

/// Reads nodes up to the end of the first document.
pub(super) fn compose(text: &str, limits: &Limits) -> Result<Document, YamlError> {
    let options = granit_parser::options! {
        emit_unresolved_aliases: true,
        emit_comments: false,
        flow_nesting_limit: limits.max_depth,
        block_nesting_limit: limits.max_depth,
    };
    let mut document = Document::default();
    // The parser gives anchors as numbers; their names are taken from the alias's text.
    let mut anchors: HashMap<usize, usize> = HashMap::new();
    let mut open: Vec<usize> = Vec::new();
    for event in Parser::new_from_str_with_options(text, options) {
        let (event, span) = event.map_err(|error| syntax_error(&error, text))?;
        let (kind, anchor) = match event {
            Event::Scalar(content, style, anchor, tag) => {
                if style == ScalarStyle::DoubleQuoted {
                    check_escapes(span.slice(text).unwrap_or_default(), span.start.line().saturating_sub(1))?;
                }
                let plain = matches!(style, ScalarStyle::Plain);
                (NodeContent::Scalar { text: content.into_owned(), tag: full_tag(tag.as_deref()), plain }, anchor)
            }
            Event::SequenceStart(_, anchor, _) => (NodeContent::List(Vec::new()), anchor),
            Event::MappingStart(_, anchor, _) => (NodeContent::Map(Vec::new()), anchor),
            Event::Alias(anchor) => {
                let name = span.slice(text).unwrap_or_default().trim_start_matches('*').to_owned();
                match anchors.get(&anchor) {
                    Some(target) => (NodeContent::Alias { target: *target, name }, 0),
                    None => return Err(unknown_anchor(&name)),
                }
            }
            Event::UnresolvedAlias(name) => return Err(unknown_anchor(&name)),
            Event::SequenceEnd | Event::MappingEnd => {
                open.pop();
                continue;
            }
            Event::DocumentEnd => break,
            _ => continue,
        };
        if document.nodes.len() >= limits.max_yaml_nodes {
            return Err(YamlError::document(format!("exceeded max of {} nodes", limits.max_yaml_nodes)));
        }
        let id = document.nodes.len();
        if anchor != 0 {
            anchors.insert(anchor, id);
        }
        if let Some(NodeContent::List(children) | NodeContent::Map(children)) =
            open.last().and_then(|parent| document.nodes.get_mut(*parent)).map(|parent| &mut parent.kind)
        {
            children.push(id);
        }
        if matches!(kind, NodeContent::List(_) | NodeContent::Map(_)) {
            open.push(id);
        }
        if open.len() > limits.max_depth {
            return Err(too_deep(limits.max_depth));
        }
        document.nodes.push(Node { line: span.start.line(), kind });
    }
    Ok(document)
}

pub(super) fn too_deep(max_depth: usize) -> YamlError {
    YamlError::document(format!("exceeded max depth of {max_depth}"))
}

fn unknown_anchor(name: &str) -> YamlError {
    YamlError::document(format!("unknown anchor '{name}' referenced"))
}

fn full_tag(tag: Option<&Tag>) -> String {
    tag.map(|tag| format!("{}{}", tag.handle(), tag.suffix())).unwrap_or_default()
}

/// Rejects the JSON escapes that neither YAML 1.1 nor Go supports: slashes and surrogate pairs. `line` is the 0-based
/// line of the opening quote.
fn check_escapes(quoted: &str, line: usize) -> Result<(), YamlError> {
    let mut bytes = quoted.bytes().enumerate();
    while let Some((at, byte)) = bytes.next() {
        if byte != b'\\' {
            continue;
        }
        bytes.next();
        let problem = match quoted.as_bytes().get(at + 1..).unwrap_or_default() {
            [b'/', ..] => "found unknown escape character",
            [b'u', b'd' | b'D', b'8' | b'9' | b'a'..=b'f' | b'A'..=b'F', ..] => {
                "found invalid Unicode character escape code"
            }
            _ => continue,
        };
        return Err(at_line(Stage::Scanning, line + quoted[..at].matches('\n').count(), problem.to_owned()));
    }
    Ok(())
}

/// Returns the position of the first escape that Go does not accept in a double-quoted scalar, from its quote on, and its
/// problem.
fn first_bad_escape(quoted: &str) -> Option<(usize, &'static str)> {
    let mut position = 0;
    while let Some(at) = quoted.as_bytes()[position..].iter().position(|byte| *byte == b'\\') {
        position += at;
        let rest = &quoted.as_bytes()[position..];
        let (escape, after) = rest.split_at_checked(2).unwrap_or((rest, &[]));
        let digits = match escape {
            b"\\x" => 2,
            b"\\u" => 4,
            b"\\U" => 8,
            _ => 0,
        };
        let found = after.iter().take(digits).take_while(|byte| byte.is_ascii_hexdigit()).count();
        if found < digits {
            return Some((position, "did not find expected hexdecimal number"));
        }
        let is_surrogate = |digits: &[u8]| digits[0].eq_ignore_ascii_case(&b'd') && digits[1] >= b'8';
        if digits == 4 && is_surrogate(after) {
            return Some((position, "found invalid Unicode character escape code"));
        }
        position += escape.len() + found;
    }
    None
}

/// Returns a double-quoted scalar from its quote on, given a position in it.
fn open_scalar(text: &str, position: usize) -> Option<&str> {
    let at = text.char_indices().nth(position).map_or(text.len(), |(at, _)| at);
    let is_escaped = |at: usize| text[..at].bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1;
    let before = text.get(..=at).unwrap_or(text);
    let quote = before.match_indices('"').map(|(at, _)| at).rfind(|at| !is_escaped(*at))?;
    text.get(quote..)
}

/// The stage at which Go finds an error. Scanning and parsing count lines differently.
enum Stage {
    Scanning,
    Parsing,
}

/// Returns the error with Go's message and line.
fn syntax_error(error: &ScanError, text: &str) -> YamlError {
    let (stage, mut problem) = problem(error.kind());
    let position = error.marker().index();
    let is_in_scalar = match error.kind() {
        ErrorKind::InvalidQuotedScalarHexEscape | ErrorKind::InvalidLowSurrogateHexEscape => true,
        // The mark is at the quote, which may be a single one.
        ErrorKind::UnclosedQuotedScalar => text.chars().nth(position) == Some('"'),
        _ => false,
    };
    if is_in_scalar
        && let Some(quoted) = open_scalar(text, position)
        && let Some((at, found)) = first_bad_escape(quoted)
    {
        let before = text.len() - quoted.len() + at;
        return at_line(stage, text.get(..before).unwrap_or(text).matches('\n').count(), found.to_owned());
    }
    // Go counts from 0, and its errors for unclosed values have the line of the text's end.
    let breaks = text.matches('\n').count();
    let marked = error.marker().line().saturating_sub(1);
    let line = match error.kind() {
        ErrorKind::UnclosedFlowCollection { .. } => breaks + usize::from(!text.ends_with('\n')),
        ErrorKind::UnclosedQuotedScalar => breaks,
        // Go finds at the next token that a key is incomplete, and the end of the text is on a line of its own.
        ErrorKind::SimpleKeyExpected | ErrorKind::InvalidSimpleKey => {
            let is_token = |line: &str| !matches!(line.trim_start().chars().next(), None | Some('#'));
            let next = text.lines().skip(marked + 1).position(is_token);
            next.map_or(breaks + usize::from(!text.ends_with('\n')), |offset| marked + 1 + offset)
        }
        // The parser's mark is at the scalar before the tab.
        ErrorKind::TabInPlainScalar | ErrorKind::TabInIndentation => {
            let by_tab = |line: &str| line.trim_start_matches(' ').starts_with('\t');
            text.lines().skip(marked + 1).position(by_tab).map_or(marked, |offset| marked + 1 + offset)
        }
        _ => marked,
    };
    let end = match error.kind() {
        ErrorKind::UnclosedFlowCollection { .. } => Some(text.len()),
        ErrorKind::MismatchedFlowCollectionEnd { .. } | ErrorKind::BlockEntryInFlowCollection => {
            error.marker().byte_offset()
        }
        _ => None,
    };
    if end.is_some_and(|end| expects_node(text.get(..end).unwrap_or_default())) {
        "did not find expected node content".clone_into(&mut problem);
    }
    at_line(stage, line, problem)
}

/// Returns true if a flow collection ends where a key or a value is expected.
fn expects_node(collection: &str) -> bool {
    let mut rest = collection.trim_end();
    loop {
        let start = rest.rfind('\n').map_or(0, |at| at + 1);
        let comment = rest[start..].match_indices('#').find(|(at, _)| {
            let before = &rest[..start + at];
            before.is_empty() || before.ends_with([' ', '\t', '\n'])
        });
        match comment {
            Some((at, _)) => rest = rest[..start + at].trim_end(),
            None => return rest.ends_with(['{', '[', ',', ':', '?']),
        }
    }
}

/// Returns an error with its line, counted from 0, as Go shows it.
fn at_line(stage: Stage, line: usize, problem: String) -> YamlError {
    // Line 0 is not shown; only scanning errors count from 1.
    match (stage, line) {
        (_, 0) => YamlError::document(problem),
        (Stage::Scanning, line) => YamlError::document(format!("line {}: {problem}", line + 1)),
        (Stage::Parsing, line) => YamlError::document(format!("line {line}: {problem}")),
    }
}

fn problem(kind: &ErrorKind) -> (Stage, String) {
    use Stage::{Parsing, Scanning};
    let (stage, problem) = match kind {
        ErrorKind::ExpectedStreamStart => (Parsing, "did not find expected <stream-start>"),
        ErrorKind::DuplicateVersionDirective => (Parsing, "found duplicate %YAML directive"),
        ErrorKind::UnsupportedYamlMajorVersion => (Parsing, "found incompatible YAML document"),
        ErrorKind::DuplicateTagDirective => (Parsing, "found duplicate %TAG directive"),
        ErrorKind::ExpectedDocumentStart
        | ErrorKind::MissingDocumentEndBeforeDirective
        | ErrorKind::InvalidDocumentEnd => (Parsing, "did not find expected <document start>"),
        ErrorKind::ExpectedNodeContent
        | ErrorKind::UnexpectedEof
        | ErrorKind::UnexpectedEofImplicitFlowMapping
        | ErrorKind::MisplacedFlowCollectionEnd => (Parsing, "did not find expected node content"),
        ErrorKind::ExpectedBlockMappingKey
        | ErrorKind::UnexpectedEofBlockMapping
        | ErrorKind::InvalidIndentation
        | ErrorKind::InvalidTrailingSingleQuotedScalar
        | ErrorKind::InvalidTrailingDoubleQuotedScalar => (Parsing, "did not find expected key"),
        ErrorKind::ExpectedFlowMappingSeparator | ErrorKind::UnexpectedEofFlowMapping => {
            (Parsing, "did not find expected ',' or '}'")
        }
        ErrorKind::UnclosedFlowCollection { open: '{' } | ErrorKind::MismatchedFlowCollectionEnd { open: '{', .. } => {
            (Parsing, "did not find expected ',' or '}'")
        }
        ErrorKind::ExpectedFlowSequenceSeparator
        | ErrorKind::UnexpectedEofFlowSequence
        | ErrorKind::UnclosedFlowCollection { .. }
        | ErrorKind::MismatchedFlowCollectionEnd { .. } => (Parsing, "did not find expected ',' or ']'"),
        ErrorKind::ExpectedBlockSequenceEntry | ErrorKind::UnexpectedEofBlockSequence => {
            (Parsing, "did not find expected '-' indicator")
        }
        ErrorKind::UndeclaredTagHandle => (Parsing, "found undefined tag handle"),
        ErrorKind::ExpectedTagBang | ErrorKind::ExpectedTagDirectiveBang => (Scanning, "did not find expected '!'"),
        ErrorKind::SimpleKeyExpected | ErrorKind::InvalidSimpleKey => (Scanning, "could not find expected ':'"),
        ErrorKind::MissingYamlVersionSeparator => (Scanning, "did not find expected digit or '.' character"),
        ErrorKind::MissingDirectiveName => (Scanning, "could not find expected directive name"),
        ErrorKind::InvalidDirectiveName => (Scanning, "found unexpected non-alphabetical character"),
        ErrorKind::YamlVersionTooLong => (Scanning, "found extremely long version number"),
        ErrorKind::MissingYamlVersion => (Scanning, "did not find expected version number"),
        ErrorKind::InvalidDirectiveTerminator | ErrorKind::InvalidBlockScalarHeader => {
            (Scanning, "did not find expected comment or line break")
        }
        ErrorKind::InvalidTagDirectiveTerminator | ErrorKind::InvalidTagTerminator => {
            (Scanning, "did not find expected whitespace or line break")
        }
        ErrorKind::MissingTagUri => (Scanning, "did not find expected tag URI"),
        ErrorKind::UnclosedVerbatimTag => (Scanning, "did not find the expected '>'"),
        ErrorKind::InvalidTagEscape => (Scanning, "did not find URI escaped octet"),
        ErrorKind::InvalidTagUtf8LeadingByte => (Scanning, "found an incorrect leading UTF-8 octet"),
        ErrorKind::InvalidTagUtf8TrailingByte | ErrorKind::InvalidTagUtf8 => {
            (Scanning, "found an incorrect trailing UTF-8 octet")
        }
        ErrorKind::MissingAnchorOrAliasName => (Scanning, "did not find expected alphabetic or numeric character"),
        ErrorKind::BlockSequenceEntryNotAllowed => (Scanning, "block sequence entries are not allowed in this context"),
        ErrorKind::BlockEntryInFlowCollection => (Parsing, "did not find expected ',' or ']'"),
        ErrorKind::MappingKeyNotAllowed => (Scanning, "mapping keys are not allowed in this context"),
        ErrorKind::MappingValueNotAllowed | ErrorKind::InvalidColonPlacement => {
            (Scanning, "mapping values are not allowed in this context")
        }
        ErrorKind::ZeroBlockScalarIndent => (Scanning, "found an indentation indicator equal to 0"),
        ErrorKind::TabAtBlockScalarStart => (Scanning, "found a tab character where an indentation space is expected"),
        ErrorKind::DocumentIndicatorInQuotedScalar => (Scanning, "found unexpected document indicator"),
        ErrorKind::UnclosedQuotedScalar | ErrorKind::InvalidQuotedScalarIndent => {
            (Scanning, "found unexpected end of stream")
        }
        ErrorKind::UnknownQuotedScalarEscape => (Scanning, "found unknown escape character"),
        ErrorKind::InvalidQuotedScalarHexEscape => (Scanning, "did not find expected hexdecimal number"),
        ErrorKind::InvalidUnicodeEscape
        | ErrorKind::InvalidLowSurrogateHexEscape
        | ErrorKind::InvalidLowSurrogate
        | ErrorKind::MissingLowSurrogate
        | ErrorKind::UnpairedLowSurrogate => (Scanning, "found invalid Unicode character escape code"),
        ErrorKind::TabInPlainScalar | ErrorKind::TabInIndentation => {
            (Scanning, "found a tab character that violates indentation")
        }
        ErrorKind::UnexpectedCharacter { .. }
        | ErrorKind::TabNotAllowed
        | ErrorKind::TabInBlockIndentation
        | ErrorKind::PlainScalarStartsWithDashFlowIndicator => {
            (Scanning, "found character that cannot start any token")
        }
        ErrorKind::RecursionLimitExceeded => (Scanning, "exceeded max depth"),
        // Documents that Go's parser would accept, and limits of this parser, have their own text.
        other => return (Scanning, other.to_string()),
    };
    (stage, problem.to_owned())
}

#[cfg(test)]
mod tests {
    use super::compose;
    use crate::Limits;

    /// The values are those of `sigs.k8s.io/yaml`.
    #[test]
    fn errors_have_the_text_and_line_of_go() {
        let node = |line: &str| format!("yaml: line {line}: did not find expected node content");
        let mapping = |line: &str| format!("yaml: line {line}: did not find expected ',' or '}}'");
        let sequence = |line: &str| format!("yaml: line {line}: did not find expected ',' or ']'");
        let key = |line: &str| format!("yaml: line {line}: could not find expected ':'");
        for (text, want) in [
            ("a: b\nm", key("3")),
            ("a: b\nm\n", key("3")),
            ("a: b\nm\nc: d", key("3")),
            ("a: b\nm\n\n\nc: d", key("5")),
            ("a: b\nm\n\n", key("4")),
            ("a: b\nm  # x", key("3")),
            ("a: b\nm  # x\n", key("3")),
            ("m\nc: d", "yaml: line 2: mapping values are not allowed in this context".to_owned()),
            ("a:\n  b: c\n  m", key("4")),
            ("a:\n  b: c\n  m\nd: e", key("4")),
            ("a: b\n\"m\"", key("3")),
            ("a: b\n\"m\"\n", key("3")),
            (r#"{"a": "x\udb40\u03"#, "yaml: found invalid Unicode character escape code".to_owned()),
            (r#"{"a": "x\ud83d\ude00\u03"#, "yaml: found invalid Unicode character escape code".to_owned()),
            ("{\"a\": \"x\n  \\u03", "yaml: line 2: did not find expected hexdecimal number".to_owned()),
            (r#"{"a": "x\ud83d\ude00 "#, "yaml: found invalid Unicode character escape code".to_owned()),
            (r#"{"a": 'x\ud83d\ude00 "#, "yaml: found unexpected end of stream".to_owned()),
            (r#"{"a": "x\u0041\u03"#, "yaml: did not find expected hexdecimal number".to_owned()),
            (r#"{"a": "\u0041\u03", "b": "\ud83d"}"#, "yaml: did not find expected hexdecimal number".to_owned()),
            ("{a: b, ", node("1")),
            ("{a: b", mapping("1")),
            ("{a: ", node("1")),
            ("{", node("1")),
            ("{a: {", node("1")),
            ("[a, ", node("1")),
            ("[a", sequence("1")),
            ("[", node("1")),
            ("{a: [", node("1")),
            ("{a: b,\n", node("1")),
            ("{a: \n", node("1")),
            ("{a: b\n", mapping("1")),
            ("{a: # x", node("1")),
            ("{a: b # x:", mapping("1")),
            ("[a, # y\n", node("1")),
            ("{\"a\":", node("1")),
            ("{\"a\": \"b\",", node("1")),
            ("{a: [b, c", sequence("1")),
            ("{a: [b, {c: ", node("1")),
            ("- {a: ", node("1")),
            ("x: {a: b,\n  c:", node("2")),
            ("x: [1,\n  2,\n", node("2")),
            ("{a:", node("1")),
            ("{a", mapping("1")),
            ("{a,", node("1")),
            ("{a: -", "yaml: did not find expected node content".to_owned()),
            ("[- a]", "yaml: did not find expected node content".to_owned()),
            ("[a,\n - b]", node("1")),
        ] {
            let error = compose(text, &Limits::default()).unwrap_err().to_string();
            assert_eq!(error, want, "{text:?}");
        }
    }
}
