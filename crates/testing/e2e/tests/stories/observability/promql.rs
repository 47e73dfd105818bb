//! The metrics and labels that a PromQL expression names.

use std::collections::BTreeSet;

/// A selector of series.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Selector {
    pub(super) metric: String,
    pub(super) labels: Vec<String>,
}

/// The names in an expression.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Usage {
    pub(super) selectors: Vec<Selector>,
    /// The labels in `by`, `on` and other lists.
    pub(super) grouping: BTreeSet<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    Number,
    Text,
    Sign(char),
}

/// Words that are followed by a list of labels.
const LISTS: [&str; 6] = ["by", "without", "on", "ignoring", "group_left", "group_right"];
const OPERATORS: [&str; 8] = ["and", "or", "unless", "offset", "bool", "inf", "nan", "atan2"];

fn tokens(expression: &str) -> Vec<Token> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let mut tokens = Vec::new();
    let mut rest = expression.trim_start();
    while let Some(first) = rest.chars().next() {
        let end = if first == '"' {
            let mut escaped = false;
            let closing = rest.char_indices().skip(1).find(|(_, c)| {
                let ends = *c == '"' && !escaped;
                escaped = *c == '\\' && !escaped;
                ends
            });
            tokens.push(Token::Text);
            closing.map_or(rest.len(), |(at, _)| at + 1)
        } else if is_word(first) {
            let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            let word = rest[..end].to_owned();
            tokens.push(if first.is_ascii_digit() { Token::Number } else { Token::Word(word) });
            end
        } else {
            tokens.push(Token::Sign(first));
            first.len_utf8()
        };
        rest = rest[end..].trim_start();
    }
    tokens
}

/// Returns what an expression names.
pub(super) fn usage(expression: &str) -> Usage {
    let tokens = tokens(expression);
    let mut usage = Usage::default();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        at += 1;
        let Token::Word(word) = token else {
            // A range, such as `[5m]`.
            if *token == Token::Sign('[') {
                at += tokens[at..].iter().take_while(|token| **token != Token::Sign(']')).count();
            }
            continue;
        };
        let next = tokens.get(at);
        // `sum by (label) (...)`
        if matches!(next, Some(Token::Word(next)) if ["by", "without"].contains(&next.as_str())) {
            continue;
        }
        if LISTS.contains(&word.as_str()) && next == Some(&Token::Sign('(')) {
            let list = tokens[at..].iter().take_while(|token| **token != Token::Sign(')'));
            usage.grouping.extend(list.clone().filter_map(|token| match token {
                Token::Word(label) => Some(label.clone()),
                _ => None,
            }));
            at += list.count();
        } else if next != Some(&Token::Sign('(')) && !OPERATORS.contains(&word.to_lowercase().as_str()) {
            let mut selector = Selector { metric: word.clone(), labels: Vec::new() };
            if next == Some(&Token::Sign('{')) {
                let matchers = tokens[at..].iter().take_while(|token| **token != Token::Sign('}'));
                selector.labels.extend(matchers.clone().filter_map(|token| match token {
                    Token::Word(label) => Some(label.clone()),
                    _ => None,
                }));
                at += matchers.count();
            }
            if !LISTS.contains(&word.as_str()) {
                usage.selectors.push(selector);
            }
        }
    }
    usage
}

#[test]
fn finds_metrics_and_labels_in_expressions() {
    let selector = |metric: &str, labels: &[&str]| Selector {
        metric: metric.to_owned(),
        labels: labels.iter().map(|label| (*label).to_owned()).collect(),
    };
    for (expression, selectors, grouping) in [
        ("up", vec![selector("up", &[])], &[][..]),
        ("up{job=\"a}\\\"b\",x!~\"c\"} == 1", vec![selector("up", &["job", "x"])], &[]),
        ("sum by (a, b) (rate(c_total{d=\"e\"}[5m])) > 0.5", vec![selector("c_total", &["d"])], &["a", "b"]),
        ("a:b or (c unless c offset 15m)", ["a:b", "c", "c"].map(|name| selector(name, &[])).into(), &[]),
        ("a / on (x) group_left b > bool 1", ["a", "b"].map(|name| selector(name, &[])).into(), &["x"]),
    ] {
        let grouping = grouping.iter().map(|label: &&str| (*label).to_owned()).collect();
        assert_eq!(usage(expression), Usage { selectors, grouping }, "{expression}");
    }
}
