//! The decoder's position in a document: a chain through its stack frames, formatted only for findings and errors.

use crate::{Field, Message};

/// The path from the root to a value. The root itself is `None`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path<'p> {
    parent: Option<&'p Path<'p>>,
    step: Step<'p>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Step<'p> {
    Field(&'p Message, &'p Field),
    Key(&'p str),
    Index(usize),
}

impl<'p> Path<'p> {
    pub(crate) fn field(parent: Option<&'p Path<'p>>, message: &'p Message, field: &'p Field) -> Self {
        Self { parent, step: Step::Field(message, field) }
    }

    pub(crate) fn key(parent: Option<&'p Path<'p>>, key: &'p str) -> Self {
        Self { parent, step: Step::Key(key) }
    }

    pub(crate) fn index(parent: Option<&'p Path<'p>>, index: usize) -> Self {
        Self { parent, step: Step::Index(index) }
    }

    /// Returns the path to a member of the value at `path`, as text: `spec.containers[0].name`.
    pub(crate) fn member(path: Option<&Path<'_>>, name: &str) -> String {
        Self::member_of(path, name, true)
    }

    /// As [`Self::member`], without the keys of maps.
    pub(crate) fn member_without_keys(path: Option<&Path<'_>>, name: &str) -> String {
        Self::member_of(path, name, false)
    }

    fn member_of(path: Option<&Path<'_>>, name: &str, with_keys: bool) -> String {
        let mut text = String::new();
        if let Some(path) = path {
            path.write(&mut text, with_keys);
            text.push('.');
        }
        text.push_str(name);
        text
    }

    /// Returns the innermost field of the path, and the number of steps into its lists and maps.
    pub(crate) fn holder(path: Option<&'p Path<'p>>) -> Option<(&'p Message, &'p Field, usize)> {
        let mut at = path;
        let mut depth = 0;
        while let Some(path) = at {
            if let Step::Field(message, field) = path.step {
                return Some((message, field, depth));
            }
            depth += 1;
            at = path.parent;
        }
        None
    }

    /// Returns the fields of the path, outermost first.
    pub(crate) fn fields(path: Option<&'p Path<'p>>) -> Vec<(&'p Message, &'p Field)> {
        let mut fields = Vec::new();
        let mut at = path;
        while let Some(path) = at {
            if let Step::Field(message, field) = path.step {
                fields.push((message, field));
            }
            at = path.parent;
        }
        fields.reverse();
        fields
    }

    /// Returns the steps of the path, outermost first.
    pub(crate) fn steps(path: Option<&'p Path<'p>>) -> Vec<Step<'p>> {
        let mut steps = Vec::new();
        let mut at = path;
        while let Some(path) = at {
            steps.push(path.step);
            at = path.parent;
        }
        steps.reverse();
        steps
    }

    fn write(&self, text: &mut String, with_keys: bool) {
        if let Some(parent) = self.parent {
            parent.write(text, with_keys);
        }
        let name = match self.step {
            Step::Field(_, field) => field.name.as_str(),
            Step::Key(key) if with_keys => key,
            Step::Key(_) => return,
            Step::Index(index) => {
                text.push_str(&format!("[{index}]"));
                return;
            }
        };
        if self.parent.is_some() {
            text.push('.');
        }
        text.push_str(name);
    }
}
