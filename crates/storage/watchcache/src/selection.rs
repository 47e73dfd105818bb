//! The selection of a list or a watch, prepared for matching many objects.

use binnacle_meta::{FieldSelector, LabelSelector, ShardKey, ShardSelector, Text};

use crate::attrs::Meta;
use crate::entry::{Change, Entry};
use crate::terms::{self, LabelTerms};

/// The field by which shards are selected by UID.
pub const UID: &str = "metadata.uid";

/// The objects that a client requests.
#[derive(Clone, Debug, Default)]
pub struct Interest {
    /// Only this namespace. `None` for all namespaces, and for cluster-scoped resources.
    pub namespace: Option<Text>,
    /// Only this name.
    pub name: Option<Text>,
    pub labels: LabelSelector,
    /// Terms on `metadata.name`, `metadata.namespace` and the indexer's fields. Any other field counts as empty, so a
    /// server must reject unsupported fields before.
    pub fields: FieldSelector,
    /// Only the objects of a shard. A shard by UID needs an indexer that has `metadata.uid` among its fields.
    pub shard: Option<ShardSelector>,
}

/// An [`Interest`] whose fields are resolved for a resource. Created by [`Cache::selection`](crate::Cache::selection).
#[derive(Debug, PartialEq, Eq)]
pub struct Selection {
    namespace: Option<Text>,
    name: Option<Text>,
    labels: LabelSelector,
    /// The label requirements by key, if there are many.
    label_terms: Option<LabelTerms>,
    /// The terms other than `namespace` and `name`, one for each field.
    fields: Vec<FieldTerms>,
    shard: Option<(Field, ShardSelector)>,
    /// True if two parts of the interest contradict each other, so that nothing is selected.
    nothing: bool,
}

/// All terms on one field, combined.
#[derive(Debug, PartialEq, Eq)]
struct FieldTerms {
    field: Field,
    equals: Option<Text>,
    /// Excluded values, sorted.
    none_of: Vec<Text>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Name,
    Namespace,
    At(usize),
    Unknown,
}

/// A property that has the same value in all selected objects.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Property {
    Name,
    Field(usize),
    Label(Text),
}

impl Selection {
    pub(crate) fn new(interest: Interest, field_names: &[Text]) -> Self {
        let mut nothing = interest.labels.is_nothing();
        let mut selection = Self {
            namespace: interest.namespace,
            name: interest.name,
            label_terms: LabelTerms::of(&interest.labels),
            labels: interest.labels,
            fields: vec![],
            shard: interest.shard.map(|shard| (Field::of_shard(shard.key, field_names), shard)),
            nothing,
        };
        for term in interest.fields.terms() {
            let (field, narrowed) = match term.field.as_str() {
                "metadata.name" => (Field::Name, Some(&mut selection.name)),
                "metadata.namespace" => (Field::Namespace, Some(&mut selection.namespace)),
                other => (field_names.iter().position(|own| own == other).map_or(Field::Unknown, Field::At), None),
            };
            match narrowed {
                // An empty name or namespace is an ordinary term, which objects without a namespace match.
                Some(narrowed) if !term.negated && !term.value.is_empty() => {
                    nothing |= narrowed.as_ref().is_some_and(|own| *own != term.value);
                    *narrowed = Some(term.value.clone());
                }
                _ => nothing |= !selection.add_field_term(field, &term.value, term.negated),
            }
        }
        selection.fields.iter_mut().for_each(|terms| terms::sort(&mut terms.none_of));
        selection.nothing = nothing;
        selection
    }

    /// Returns false if the term contradicts another one.
    fn add_field_term(&mut self, field: Field, value: &Text, negated: bool) -> bool {
        let at = self.fields.iter().position(|terms| terms.field == field).unwrap_or_else(|| {
            self.fields.push(FieldTerms { field, equals: None, none_of: Vec::new() });
            self.fields.len() - 1
        });
        let terms = &mut self.fields[at];
        if negated {
            terms.none_of.push(value.clone());
            return true;
        }
        terms.equals.get_or_insert_with(|| value.clone()) == value
    }

    /// Returns true if every object of the resource is selected.
    pub fn is_everything(&self) -> bool {
        self.namespace.is_none() && self.is_whole_namespace()
    }

    /// Returns true if only the namespace restricts the selection.
    pub fn is_whole_namespace(&self) -> bool {
        self.has_no_terms() && self.shard.is_none()
    }

    /// Returns true if neither name, labels nor fields restrict the selection.
    pub fn has_no_terms(&self) -> bool {
        self.name.is_none() && self.labels.is_everything() && self.fields.is_empty() && !self.nothing
    }

    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Returns the number of terms that are evaluated for an object.
    pub(crate) fn terms(&self) -> usize {
        // Many label terms are looked up by key.
        let labels = if self.label_terms.is_some() { 0 } else { self.labels.requirements().len() };
        labels + self.fields.len()
    }

    pub(crate) fn is_nothing(&self) -> bool {
        self.nothing
    }

    /// Returns true if an object is selected.
    pub fn selects(&self, entry: &Entry) -> bool {
        self.matches(&entry.meta)
    }

    pub(crate) fn matches(&self, meta: &Meta) -> bool {
        !self.nothing
            && self.namespace.as_ref().is_none_or(|namespace| meta.namespace() == namespace)
            && self.name.as_ref().is_none_or(|name| meta.name() == name)
            && self.fields.iter().all(|terms| terms.match_value(terms.field.of(meta)))
            && self.shard.as_ref().is_none_or(|(field, shard)| shard.selects(field.of(meta)))
            && match &self.label_terms {
                Some(terms) => terms.match_labels(meta.labels()),
                None => self.labels.is_everything() || self.labels.matches(|key| meta.label(key)),
            }
    }

    /// Returns the type of the change from `old` to `new` for a watcher with this selection.
    pub(crate) fn change(&self, old: Option<&Meta>, new: Option<&Meta>) -> Option<Change> {
        let selected = |meta: Option<&Meta>| meta.is_some_and(|meta| self.matches(meta));
        match (selected(old), selected(new)) {
            (false, true) => Some(Change::Added),
            (true, true) => Some(Change::Modified),
            (true, false) => Some(Change::Deleted),
            (false, false) => None,
        }
    }

    pub(crate) fn is_of_shard(&self) -> bool {
        self.shard.is_some()
    }

    /// Returns how many of the objects before and after a change are of other shards.
    pub(crate) fn count_of_other_shards(&self, old: Option<&Meta>, new: Option<&Meta>) -> u64 {
        let Some((field, shard)) = &self.shard else { return 0 };
        [old, new].into_iter().flatten().map(|meta| u64::from(!shard.selects(field.of(meta)))).sum()
    }

    /// Returns the properties that have one value in all selected objects, the most selective first.
    pub(crate) fn equalities(&self) -> impl Iterator<Item = (Property, &str)> {
        let name = self.name.iter().map(|name| (Property::Name, name.as_str()));
        // An index does not have objects without the field, so it cannot be used for a term on the empty value.
        let fields = self.fields.iter().filter_map(|terms| match (terms.field, &terms.equals) {
            (Field::At(position), Some(value)) if !value.is_empty() => {
                Some((Property::Field(position), value.as_str()))
            }
            _ => None,
        });
        let labels = self.labels.requirements().iter().filter_map(|requirement| match requirement.equal_to_one_of() {
            Some([value]) => Some((Property::Label(requirement.key().clone()), value.as_str())),
            _ => None,
        });
        name.chain(fields).chain(labels)
    }
}

impl FieldTerms {
    fn match_value(&self, value: &str) -> bool {
        self.equals.as_ref().is_none_or(|equals| equals == value)
            && (self.none_of.is_empty() || !terms::has(&self.none_of, value))
    }
}

impl Field {
    fn of_shard(key: ShardKey, field_names: &[Text]) -> Self {
        match key {
            ShardKey::Namespace => Self::Namespace,
            ShardKey::Uid => field_names.iter().position(|own| own == UID).map_or(Self::Unknown, Self::At),
        }
    }

    fn of(self, meta: &Meta) -> &str {
        match self {
            Self::Name => meta.name(),
            Self::Namespace => meta.namespace(),
            Self::At(position) => meta.field(position),
            Self::Unknown => "",
        }
    }
}

impl Property {
    /// Returns the object's value, or `None` if it has none that an equality could require.
    pub(crate) fn of<'a>(&self, meta: &'a Meta) -> Option<&'a str> {
        match self {
            Self::Name => Some(meta.name()),
            Self::Field(position) => Some(meta.field(*position)).filter(|value| !value.is_empty()),
            Self::Label(key) => meta.label(key),
        }
    }
}

#[cfg(test)]
mod tests {
    use binnacle_meta::ShardRange;

    use super::*;

    #[test]
    fn matches_terms() {
        let meta = Meta::new(
            "ns/pod",
            &[(Text::new("app"), Text::new("web"))],
            &[Text::new("node-1"), Text::default(), Text::new("Running")],
        );
        let field_names = ["spec.nodeName", "spec.other", "status.phase"].map(Text::new);
        for (namespace, name, labels, fields, want) in [
            (None, None, "", "", true),
            (Some("ns"), Some("pod"), "app=web", "spec.nodeName=node-1", true),
            (Some("other"), None, "", "", false),
            (None, Some("other"), "", "", false),
            (None, None, "app=db", "", false),
            (None, None, "", "metadata.name=pod,metadata.namespace=ns", true),
            (None, None, "", "metadata.name!=pod", false),
            (Some("ns"), None, "", "metadata.namespace=other", false),
            (None, None, "", "metadata.namespace=", false),
            (None, None, "", "spec.other=", true),
            (None, None, "", "spec.other!=,status.phase=Running", false),
            (None, None, "", "what.is.this=", true),
            (None, None, "", "what.is.this=x", false),
            (None, None, "", "status.phase=Running,status.phase=Running", true),
            (None, None, "", "status.phase=Running,status.phase=Pending", false),
            (None, None, "", "status.phase!=Pending,status.phase!=Failed,status.phase=Running", true),
            (None, None, "", "status.phase!=Pending,status.phase!=Running", false),
            (None, None, "", "metadata.name!=a,metadata.name!=b", true),
            (None, None, "", "metadata.name!=a,metadata.name!=pod", false),
        ] {
            let interest = Interest {
                namespace: namespace.map(Text::new),
                name: name.map(Text::new),
                labels: LabelSelector::parse(labels).unwrap(),
                fields: FieldSelector::parse(fields).unwrap(),
                shard: None,
            };
            let case = format!("{interest:?}");
            assert_eq!(Selection::new(interest, &field_names).matches(&meta), want, "{case}");
        }
        let nothing = Interest { labels: LabelSelector::nothing(), ..Interest::default() };
        assert!(!Selection::new(nothing, &field_names).matches(&meta));
    }

    #[test]
    fn matches_half_of_shard_range() {
        let meta = |path: &str, uid: &str| Meta::new(path, &[], &[Text::default(), Text::new(uid)]);
        let field_names = ["spec.nodeName", UID].map(Text::new);
        let half = |key, upper: bool| {
            let (start, end) = if upper { (1 << 63, 1 << 64) } else { (0, 1 << 63) };
            let shard = ShardSelector { key, ranges: vec![ShardRange { start, end }] };
            Selection::new(Interest { shard: Some(shard), ..Interest::default() }, &field_names)
        };
        // The hash of "a" is in the upper half.
        for (path, uid, by_uid, by_namespace) in [("ns/x", "a", true, false), ("a/x", "foo", true, true)] {
            for (key, want) in [(ShardKey::Uid, by_uid), (ShardKey::Namespace, by_namespace)] {
                let (low, high) = (half(key, false), half(key, true));
                let found = (low.matches(&meta(path, uid)), high.matches(&meta(path, uid)));
                assert_eq!(found, (!want, want), "{path} {uid} {key:?}");
                assert!(high.has_no_terms() && !high.is_everything() && !high.is_whole_namespace());
            }
        }
    }
}
