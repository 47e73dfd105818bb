//! Conflicts over fields that another manager owns.

use std::fmt;

use binnacle_meta::{FieldErrors, bounded_text, go_quote};
use binnacle_schema::{Value, json};

use super::element::PathElement;
use super::managed::Entry;
use super::set::Set;

/// A field that an apply would change but another manager owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// `.spec.replicas`
    pub field: String,
    /// `conflict with "kubectl" using apps/v1`
    pub message: String,
}

/// A conflict with its path elements.
#[derive(Clone, Debug)]
pub(super) struct FieldConflict {
    pub(super) path: Vec<PathElement>,
    pub(super) conflict: Conflict,
}

/// The reason why a configuration cannot be applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApplyError {
    /// Ordered by manager.
    Conflicts(Vec<Conflict>),
    /// The configuration has managed fields; the code is 400.
    HasManagers,
    /// Any other error, with kube-apiserver's text and code 500.
    Failed(String),
}

impl ApplyError {
    /// The number of conflicts that a response shows.
    pub const SHOWN: usize = FieldErrors::SHOWN;
}

/// The maximum number of bytes of a key or value in the path of a conflict.
const MAX_ELEMENT: usize = 1 << 10;

/// The conflicts of one manager.
pub(super) fn conflicts_of(entry: &Entry, fields: &Set) -> Vec<FieldConflict> {
    let message = format!("conflict with {}", format_manager(entry));
    let conflict = |path: Vec<PathElement>| {
        let field: String =
            path.iter().map(|element| bounded_text(&element.to_string(), MAX_ELEMENT).into_owned()).collect();
        FieldConflict { path, conflict: Conflict { field, message: message.clone() } }
    };
    fields.paths().into_iter().map(conflict).collect()
}

/// Returns the text by which kube-apiserver sorts managers.
pub(super) fn manager_identifier(entry: &Entry) -> String {
    let text = |text: &str| json::to_string(&Value::from(text));
    let mut out = format!("{{\"manager\":{},\"operation\":{}", text(&entry.manager), text(entry.operation()));
    if !entry.applied {
        out.push_str(&format!(",\"apiVersion\":{}", text(&entry.api_version)));
    }
    if !entry.subresource.is_empty() {
        out.push_str(&format!(",\"subresource\":{}", text(&entry.subresource)));
    }
    out.push('}');
    out
}

fn format_manager(entry: &Entry) -> String {
    let mut out = go_quote(&entry.manager);
    if !entry.subresource.is_empty() {
        out.push_str(&format!(" with subresource {}", go_quote(&entry.subresource)));
    }
    if !entry.applied {
        out.push_str(&format!(" using {}", entry.api_version));
    }
    out
}

impl fmt::Display for ApplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let conflicts = match self {
            Self::HasManagers => return f.write_str("metadata.managedFields must be nil"),
            Self::Failed(message) => return f.write_str(message),
            Self::Conflicts(conflicts) => conflicts,
        };
        if let [only] = conflicts.as_slice() {
            return write!(f, "Apply failed with 1 conflict: {}: {}", only.message, only.field);
        }
        write!(f, "Apply failed with {} conflicts: ", conflicts.len())?;
        let more = conflicts.len().saturating_sub(Self::SHOWN);
        let conflicts = &conflicts[..conflicts.len() - more];
        for (at, group) in conflicts.chunk_by(|a, b| a.message == b.message).enumerate() {
            let newline = if at > 0 { "\n" } else { "" };
            let with = group[0].message.strip_prefix("conflict ").unwrap_or_default();
            write!(f, "{newline}conflicts {with}:")?;
            group.iter().try_for_each(|conflict| write!(f, "\n- {}", conflict.field))?;
        }
        if more > 0 {
            write!(f, "\nand {more} more conflicts")?;
        }
        Ok(())
    }
}

impl std::error::Error for ApplyError {}
