//! Rewrites the links of a page as a stream. A byte is written as soon as it cannot be part of a link; at most one tag
//! is buffered.

use binnacle_work::pace;

use super::OwnedLinkRewriter;

/// The cost of rewriting a link, in steps, besides its bytes.
const STEPS_PER_LINK: u64 = 100;

/// Longer tags are not rewritten.
const MAX_TAG: usize = 64 * 1024;

/// The attributes that contain links, by element (<https://www.w3.org/TR/html4/index/attributes.html> and HTML 5).
const LINKS: &[(&str, &[&str])] = &[
    ("a", &["href"]),
    ("applet", &["codebase"]),
    ("area", &["href"]),
    ("audio", &["src"]),
    ("base", &["href"]),
    ("blockquote", &["cite"]),
    ("body", &["background"]),
    ("button", &["formaction"]),
    ("command", &["icon"]),
    ("del", &["cite"]),
    ("embed", &["src"]),
    ("form", &["action"]),
    ("frame", &["longdesc", "src"]),
    ("head", &["profile"]),
    ("html", &["manifest"]),
    ("iframe", &["longdesc", "src"]),
    ("img", &["longdesc", "src", "usemap"]),
    ("input", &["src", "usemap", "formaction"]),
    ("ins", &["cite"]),
    ("link", &["href"]),
    ("object", &["classid", "codebase", "data", "usemap"]),
    ("q", &["cite"]),
    ("script", &["src"]),
    ("source", &["src"]),
    ("video", &["poster", "src"]),
];

/// Elements whose content is not markup.
const RAW: &[&str] =
    &["iframe", "noembed", "noframes", "noscript", "plaintext", "script", "style", "textarea", "title", "xmp"];

pub(super) struct Rewriter {
    links: OwnedLinkRewriter,
    state: State,
    /// The tag that is being read, starting with `<`.
    tag: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Text,
    /// After `<`.
    Open,
    /// In a start tag.
    Tag(TagPosition),
    /// Until `>`: end tags, declarations, processing instructions, and tags that are too long.
    Skip,
    /// After `<!` and this many dashes.
    Declaration(u8),
    /// In a comment, after this many dashes.
    Comment(u8),
    /// In the content of an element of [`RAW`], after `seen` bytes of its `</name`.
    Raw {
        element: &'static str,
        seen: usize,
    },
}

/// The position in a start tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TagPosition {
    Name,
    /// After `=`, before a value that may start with a quote.
    Value,
    Unquoted,
    Quoted(u8),
}

impl Rewriter {
    pub(super) fn new(links: OwnedLinkRewriter) -> Self {
        Self { links, state: State::Text, tag: Vec::new() }
    }

    /// Reads a chunk of the page and appends the bytes that are ready to `out`.
    pub(super) fn feed(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        for &byte in piece {
            self.step(byte, out);
        }
    }

    /// Appends the buffered bytes of a page that ends within a tag.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.tag);
        self.state = State::Text;
    }

    fn step(&mut self, byte: u8, out: &mut Vec<u8>) {
        self.state = match self.state {
            State::Text if byte == b'<' => {
                self.tag.push(byte);
                State::Open
            }
            State::Open if byte.is_ascii_alphabetic() => {
                self.tag.push(byte);
                State::Tag(TagPosition::Name)
            }
            State::Open if byte == b'<' => {
                out.push(byte);
                State::Open
            }
            State::Open => {
                out.append(&mut self.tag);
                out.push(byte);
                match byte {
                    b'!' => State::Declaration(0),
                    b'/' | b'?' => State::Skip,
                    _ => State::Text,
                }
            }
            State::Tag(position) => {
                self.tag.push(byte);
                match (position, byte) {
                    (TagPosition::Name | TagPosition::Value | TagPosition::Unquoted, b'>') => self.end_tag(out),
                    _ if self.tag.len() > MAX_TAG => {
                        out.append(&mut self.tag);
                        State::Skip
                    }
                    (position, byte) => State::Tag(position.after(byte)),
                }
            }
            state => {
                out.push(byte);
                state.after_copying(byte)
            }
        };
    }

    /// Handles the complete start tag in `tag`.
    fn end_tag(&mut self, out: &mut Vec<u8>) -> State {
        let tag = std::mem::take(&mut self.tag);
        let name_end = tag[1..].iter().position(|byte| is_space(*byte) || matches!(byte, b'/' | b'>'));
        let name_end = 1 + name_end.unwrap_or(tag.len() - 1);
        let name = String::from_utf8_lossy(&tag[1..name_end]).to_ascii_lowercase();
        match LINKS.iter().find(|(element, _)| *element == name) {
            Some((_, attributes)) => self.rewrite(&tag, name_end, attributes, out),
            None => out.extend_from_slice(&tag),
        }
        match RAW.iter().find(|element| **element == name) {
            Some(element) if !tag.ends_with(b"/>") => State::Raw { element, seen: 0 },
            _ => State::Text,
        }
    }

    fn rewrite(&self, tag: &[u8], name_end: usize, attributes: &[&str], out: &mut Vec<u8>) {
        let mut copied = 0;
        let mut at = name_end;
        let skip = |mut at: usize, is_skipped: fn(u8) -> bool| {
            while at < tag.len() && is_skipped(tag[at]) {
                at += 1;
            }
            at
        };
        while at < tag.len() {
            at = skip(at, |byte| is_space(byte) || byte == b'/');
            let key = at;
            at = skip(at, |byte| !is_space(byte) && !matches!(byte, b'=' | b'>' | b'/'));
            let key = String::from_utf8_lossy(&tag[key..at]).to_ascii_lowercase();
            let equals = skip(at, is_space);
            if tag.get(equals) != Some(&b'=') {
                if key.is_empty() {
                    // The end of the tag, or a character that cannot start an attribute.
                    at += 1;
                }
                continue;
            }
            let mut start = skip(equals + 1, is_space);
            let end = match tag.get(start) {
                Some(&quote @ (b'"' | b'\'')) => {
                    start += 1;
                    let length = tag[start..].iter().position(|byte| *byte == quote);
                    start + length.unwrap_or(tag.len() - start)
                }
                _ => skip(start, |byte| !is_space(byte) && byte != b'>'),
            };
            at = (end + 1).min(tag.len());
            if attributes.contains(&key.as_str())
                && let Ok(link) = std::str::from_utf8(&tag[start..end])
                && let Some(link) = self.rewrite_link(link)
            {
                out.extend_from_slice(&tag[copied..start]);
                out.extend_from_slice(link.as_bytes());
                copied = end;
            }
        }
        out.extend_from_slice(&tag[copied..]);
    }
}

impl Rewriter {
    fn rewrite_link(&self, link: &str) -> Option<String> {
        // A page may consist of links only, and each costs several times as much as its bytes.
        pace(STEPS_PER_LINK + link.len() as u64);
        self.links.rewrite(link)
    }
}

impl State {
    /// Returns the next state while bytes are copied unchanged.
    fn after_copying(self, byte: u8) -> Self {
        match (self, byte) {
            (Self::Skip | Self::Declaration(_), b'>') => Self::Text,
            (Self::Declaration(0), b'-') => Self::Declaration(1),
            (Self::Declaration(1), b'-') => Self::Comment(0),
            (Self::Declaration(_), _) => Self::Skip,
            (Self::Comment(2), b'>') => Self::Text,
            (Self::Comment(dashes), b'-') => Self::Comment((dashes + 1).min(2)),
            (Self::Comment(_), _) => Self::Comment(0),
            (Self::Raw { element, seen }, byte) => {
                let expected = if seen < 2 { b"</".get(seen) } else { element.as_bytes().get(seen - 2) };
                match expected {
                    Some(expected) if expected.eq_ignore_ascii_case(&byte) => Self::Raw { element, seen: seen + 1 },
                    None if byte == b'>' => Self::Text,
                    None if is_space(byte) || byte == b'/' => Self::Skip,
                    _ => Self::Raw { element, seen: usize::from(byte == b'<') },
                }
            }
            (state, _) => state,
        }
    }
}

impl TagPosition {
    fn after(self, byte: u8) -> Self {
        match (self, byte) {
            (Self::Quoted(quote), byte) if byte == quote => Self::Name,
            (Self::Quoted(quote), _) => Self::Quoted(quote),
            (Self::Value, b'"' | b'\'') => Self::Quoted(byte),
            (Self::Value, byte) if is_space(byte) => Self::Value,
            (Self::Value, _) => Self::Unquoted,
            (Self::Unquoted, byte) if is_space(byte) => Self::Name,
            (Self::Unquoted, _) => Self::Unquoted,
            (Self::Name, b'=') => Self::Value,
            (Self::Name, _) => Self::Name,
        }
    }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\r' | b'\t' | b'\x0c')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rewrite::LinkRewriter;

    #[test]
    fn rewrites_links_in_every_form_of_markup() {
        let long = format!("<a href=\"/{}\">", "x".repeat(MAX_TAG));
        for (page, want) in [
            ("", ""),
            ("a < b <", "a < b <"),
            ("<a href=\"/x\">x</a>", "<a href=\"/p/x\">x</a>"),
            ("<A HREF='/x' class=/y>", "<A HREF='/p/x' class=/y>"),
            ("<a href=/x>", "<a href=/p/x>"),
            ("<a\n href = \"/x\" href=x/y>", "<a\n href = \"/p/x\" href=x/y>"),
            ("<a title='>' href=\"/x\">", "<a title='>' href=\"/p/x\">"),
            ("<a title=\"href='/x'\">", "<a title=\"href='/x'\">"),
            ("<a href=\"http://other/x\">", "<a href=\"http://other/x\">"),
            ("<img src=/a usemap=/b alt=/c/>", "<img src=/p/a usemap=/p/b alt=/c/>"),
            ("<p href=\"/x\">", "<p href=\"/x\">"),
            ("<!-- <a href=\"/x\"> --><a href=\"/y\">", "<!-- <a href=\"/x\"> --><a href=\"/p/y\">"),
            ("<!DOCTYPE html><html manifest=/m>", "<!DOCTYPE html><html manifest=/p/m>"),
            (
                "<script src=\"/s\">'<a href=\"/x\">'</script><a href=\"/y\">",
                "<script src=\"/p/s\">'<a href=\"/x\">'</script><a href=\"/p/y\">",
            ),
            ("<style>a<b</styled></STYLE ><q cite=/z>", "<style>a<b</styled></STYLE ><q cite=/p/z>"),
            ("<<a href=/x>", "<<a href=/p/x>"),
            ("<a href=\"/x", "<a href=\"/x"),
            ("<a = =x href=/x>", "<a = =x href=/p/x>"),
            ("<?php <a href=/x>", "<?php <a href=/x>"),
            (&long, &long),
        ] {
            // In chunks of any size.
            for size in [1, 2, 7, page.len().max(1)] {
                let links = LinkRewriter { prefix: "/p", source: "h:1", requested: "", target: "" }.owned();
                let mut rewriter = Rewriter::new(links);
                let mut out = Vec::new();
                page.as_bytes().chunks(size).for_each(|piece| rewriter.feed(piece, &mut out));
                rewriter.finish(&mut out);
                assert_eq!(String::from_utf8(out).unwrap(), want, "{size}");
            }
        }
    }

    /// The output does not depend on chunk boundaries, and a page without links is unchanged.
    #[test]
    fn output_does_not_depend_on_piece_boundaries() {
        let pieces = ["<a href=\"/x\"", "<", ">", "/", "!--", "-->", "script", "\"", "'", "=", " ", "x", "</", "&"];
        let mut state = 1u64;
        for _ in 0..2000 {
            let mut page = String::new();
            for _ in 0..12 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                page.push_str(pieces[(state >> 33) as usize % pieces.len()]);
            }
            let through = |size: usize, prefix: &str| {
                let links = LinkRewriter { prefix, source: "h:1", requested: "", target: "" }.owned();
                let mut rewriter = Rewriter::new(links);
                let mut out = Vec::new();
                page.as_bytes().chunks(size).for_each(|piece| rewriter.feed(piece, &mut out));
                rewriter.finish(&mut out);
                String::from_utf8(out).unwrap()
            };
            assert_eq!(through(1, "/p"), through(page.len(), "/p"), "{page}");
            assert_eq!(through(page.len(), ""), page);
        }
    }
}
