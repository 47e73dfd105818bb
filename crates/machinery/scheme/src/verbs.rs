//! A compact set of a resource's verbs, which iterates in the order of discovery documents.

/// An operation on a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Verb {
    Create,
    Delete,
    DeleteCollection,
    Get,
    List,
    Patch,
    Update,
    Watch,
}

/// A set of verbs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verbs(u8);

/// The order in which discovery lists the verbs of a resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VerbOrder {
    #[default]
    Alphabetical,
    /// The order of apiextensions-apiserver for custom resources.
    CustomResource,
}

impl Verb {
    /// All verbs, in alphabetical order, as discovery lists them.
    pub const ALL: [Self; 8] = [
        Self::Create,
        Self::Delete,
        Self::DeleteCollection,
        Self::Get,
        Self::List,
        Self::Patch,
        Self::Update,
        Self::Watch,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
            Self::Get => "get",
            Self::List => "list",
            Self::Patch => "patch",
            Self::Update => "update",
            Self::Watch => "watch",
        }
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

impl Verbs {
    pub const NONE: Self = Self(0);
    /// All verbs, for resources with a generic store.
    pub const STORED: Self = Self(u8::MAX);
    /// The verbs of `status` and `scale`.
    pub const READ_WRITE: Self = Self::of(&[Verb::Get, Verb::Patch, Verb::Update]);

    pub const CREATE: Self = Self::of(&[Verb::Create]);

    pub const fn of(verbs: &[Verb]) -> Self {
        let mut bits = 0;
        let mut i = 0;
        while i < verbs.len() {
            bits |= verbs[i].bit();
            i += 1;
        }
        Self(bits)
    }

    pub const fn without(self, verb: Verb) -> Self {
        Self(self.0 & !verb.bit())
    }

    /// Returns the verbs that are not in the other set.
    pub const fn except(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub const fn contains(self, verb: Verb) -> bool {
        self.0 & verb.bit() != 0
    }

    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Iterates in alphabetical order.
    pub fn iter(self) -> impl Iterator<Item = Verb> {
        self.ordered(VerbOrder::Alphabetical)
    }

    /// Iterates in the given order of discovery.
    pub fn ordered(self, order: VerbOrder) -> impl Iterator<Item = Verb> {
        order.all().into_iter().filter(move |verb| self.contains(*verb))
    }
}

impl VerbOrder {
    const fn all(self) -> [Verb; 8] {
        use Verb::{Create, Delete, DeleteCollection, Get, List, Patch, Update, Watch};
        match self {
            Self::Alphabetical => Verb::ALL,
            Self::CustomResource => [Delete, DeleteCollection, Get, List, Patch, Create, Update, Watch],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verb_sets_iterate_in_order() {
        let names = |verbs: Verbs| verbs.iter().map(Verb::as_str).collect::<Vec<_>>();
        assert_eq!(names(Verbs::of(&[Verb::Update, Verb::Get])), ["get", "update"]);
        assert_eq!(names(Verbs::READ_WRITE), ["get", "patch", "update"]);
        assert_eq!(
            names(Verbs::STORED),
            ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
        );
        assert!(Verbs::NONE.is_empty());
    }
}
