//! A writer of compact JSON, without a tree.

/// A JSON document in progress.
#[derive(Debug, Default)]
pub(crate) struct Json {
    bytes: Vec<u8>,
    /// True if the first element must be preceded by a comma.
    needs_comma: bool,
}

impl Json {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Returns a writer whose first element continues a list or object.
    pub(crate) fn continuing() -> Self {
        Self { needs_comma: true, ..Self::default() }
    }

    pub(crate) fn into_bytes(mut self) -> Vec<u8> {
        self.bytes.shrink_to_fit();
        self.bytes
    }

    /// Writes an object with the members that `fill` writes.
    pub(crate) fn object(&mut self, fill: impl FnOnce(&mut Self)) {
        self.separate();
        self.bytes.push(b'{');
        fill(self);
        self.bytes.push(b'}');
    }

    /// Writes a list with the values that `fill` writes.
    pub(crate) fn list(&mut self, fill: impl FnOnce(&mut Self)) {
        self.separate();
        self.bytes.push(b'[');
        fill(self);
        self.bytes.push(b']');
    }

    /// Writes a string.
    pub(crate) fn text(&mut self, text: &str) {
        self.separate();
        // Writing a string into memory cannot fail.
        let written = serde_json::to_writer(&mut self.bytes, text);
        debug_assert!(written.is_ok());
    }

    /// Writes a value that is already JSON.
    pub(crate) fn raw(&mut self, json: impl AsRef<[u8]>) {
        self.separate();
        self.bytes.extend_from_slice(json.as_ref());
    }

    /// Writes the name of a member, whose value must be written next.
    pub(crate) fn name(&mut self, name: &str) -> &mut Self {
        self.text(name);
        self.bytes.push(b':');
        self
    }

    pub(crate) fn text_member(&mut self, name: &str, text: &str) {
        self.name(name).text(text);
    }

    pub(crate) fn texts_member<T: AsRef<str>>(&mut self, name: &str, texts: impl IntoIterator<Item = T>) {
        self.name(name).list(|json| texts.into_iter().for_each(|text| json.text(text.as_ref())));
    }

    pub(crate) fn true_member(&mut self, name: &str) {
        self.name(name).raw("true");
    }

    /// Writes a comma unless the last byte shows that none is needed: outside of strings, these bytes precede a first
    /// element or a member's value.
    fn separate(&mut self) {
        let is_first = match self.bytes.last() {
            None => !self.needs_comma,
            Some(last) => matches!(last, b'{' | b'[' | b':'),
        };
        if !is_first {
            self.bytes.push(b',');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_commas_and_escapes() {
        let mut json = Json::new();
        json.object(|json| {
            json.text_member("a{", "x:\"\n");
            json.name("b").list(|json| {
                json.object(|_| {});
                json.list(|_| {});
                json.raw("1");
            });
            json.true_member("c");
            json.texts_member("d", ["[", "{"]);
        });
        let text = String::from_utf8(json.into_bytes()).unwrap();
        assert_eq!(text, r#"{"a{":"x:\"\n","b":[{},[],1],"c":true,"d":["[","{"]}"#);
    }
}
