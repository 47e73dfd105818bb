//! Bindings, prepared for decisions.

use std::cmp::Ordering;
use std::fmt::Write;

use arc_swap::ArcSwap;
use binnacle_meta::{Text, go_quote};
use binnacle_request::User;
use binnacle_schema::Value;
use binnacle_work::pace;

use crate::rule::text;

/// A reference to a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoleRef<'a> {
    pub kind: &'a str,
    pub name: &'a str,
}

/// The role of a binding, in the binding's namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct RoleKey {
    pub(super) kind: Text,
    pub(super) name: Text,
}

/// A binding. It is not replaced when its subjects change.
#[derive(Debug)]
pub(super) struct Binding {
    /// Empty for a ClusterRoleBinding.
    pub(super) namespace: Text,
    pub(super) name: Text,
    pub(super) role: RoleKey,
    /// Only for the reason of a decision.
    pub(super) subjects: ArcSwap<Subjects>,
}

/// The subjects of a binding in order.
#[derive(Debug, Default)]
pub(super) struct Subjects {
    list: Box<[Subject]>,
    /// The positions of the subjects, sorted by identity and position; empty if there are few.
    sorted: Box<[u32]>,
}

/// A subject of a binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Subject {
    kind: SubjectKind,
    /// The name of the user or group.
    identity: Text,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SubjectKind {
    User,
    ServiceAccount,
    Group,
}

/// The number of subjects up to which a linear search is used.
const FEW: usize = 8;
const ACCOUNT: &str = "system:serviceaccount:";

impl RoleKey {
    pub(super) fn read(binding: &Value) -> Self {
        let role = binding.get("roleRef").unwrap_or(&Value::Null);
        Self { kind: role.str_at(&["kind"]).into(), name: role.str_at(&["name"]).into() }
    }

    pub(super) fn as_ref(&self) -> RoleRef<'_> {
        RoleRef { kind: &self.kind, name: &self.name }
    }
}

impl Binding {
    /// Compares bindings by namespace, role and name.
    pub(super) fn order(&self, other: &Self) -> Ordering {
        let names = self.namespace.cmp(&other.namespace);
        names.then_with(|| self.role.cmp(&other.role)).then_with(|| self.name.cmp(&other.name))
    }

    /// Returns the reason of a decision: the binding, its role, and its first subject that matches the user.
    pub(super) fn reason(&self, user: &User) -> String {
        let Self { namespace, name, role, subjects } = self;
        let mut reason = String::with_capacity(160);
        reason.push_str("RBAC: allowed by ");
        // Writing to a string cannot fail.
        let _ = if namespace.is_empty() {
            write!(reason, "ClusterRoleBinding {}", go_quote(name))
        } else {
            write!(reason, "RoleBinding {}", go_quote(&format!("{name}/{namespace}")))
        };
        let _ = write!(reason, " of {} {} to ", role.kind, go_quote(&role.name));
        // The subjects may have changed since the decision.
        if let Some(subject) = subjects.load().first(user) {
            let _ = write!(reason, "{subject}");
        }
        reason
    }
}

impl Subjects {
    /// Reads the subjects of a binding. Invalid ones, which match no user, are skipped.
    pub(super) fn read(binding: &Value, namespace: &str) -> Self {
        let subjects = binding.list_at(&["subjects"]);
        let read = |subject| {
            pace(10);
            Subject::read(subject, namespace)
        };
        let list: Box<[Subject]> = subjects.iter().filter_map(read).collect();
        let mut sorted = Vec::new();
        if list.len() > FEW {
            pace(list.len() as u64 * u64::from(5 + list.len().ilog2()));
            sorted = (0u32..).zip(&list).map(|(at, _)| at).collect();
            sorted.sort_by(|a, b| list[*a as usize].key().cmp(&list[*b as usize].key()));
        }
        Self { list, sorted: sorted.into() }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Subject> {
        self.list.iter()
    }

    /// Returns the subjects whose identity is not in `others`.
    pub(super) fn without(&self, others: &Self) -> Vec<Subject> {
        let is_new = |subject: &&Subject| {
            pace(5);
            others.position(subject.key()).is_none()
        };
        self.list.iter().filter(is_new).cloned().collect()
    }

    /// Returns the first subject that matches a user.
    fn first(&self, user: &User) -> Option<&Subject> {
        // The decision has been made already, so this is charged but not limited.
        pace(2 * user.groups.len() as u64);
        let groups = user.groups.iter().map(|group| (true, group.as_str()));
        let identities = std::iter::once((false, user.name.as_str())).chain(groups);
        let first = identities.filter_map(|identity| self.position(identity)).min()?;
        self.list.get(first)
    }

    /// Returns the position of the first subject with an identity.
    fn position(&self, identity: (bool, &str)) -> Option<usize> {
        if self.list.len() <= FEW {
            return self.list.iter().position(|subject| subject.key() == identity);
        }
        let key = |at: &u32| self.list[*at as usize].key();
        let first = *self.sorted.get(self.sorted.partition_point(|at| key(at) < identity))?;
        (key(&first) == identity).then_some(first as usize)
    }
}

impl Subject {
    /// Returns `None` for an invalid subject.
    fn read(subject: &Value, binding_namespace: &str) -> Option<Self> {
        let name = || subject.get("name").and_then(text).unwrap_or_default();
        let (kind, identity) = match subject.str_at(&["kind"]) {
            "User" => (SubjectKind::User, name()),
            "Group" => (SubjectKind::Group, name()),
            "ServiceAccount" => {
                let own = subject.str_at(&["namespace"]);
                let namespace = if own.is_empty() { binding_namespace } else { own };
                if namespace.is_empty() {
                    return None;
                }
                (SubjectKind::ServiceAccount, User::service_account_name(namespace, &name()))
            }
            _ => return None,
        };
        Some(Self { kind, identity })
    }

    pub(super) fn is_group(&self) -> bool {
        self.kind == SubjectKind::Group
    }

    pub(super) fn identity(&self) -> &Text {
        &self.identity
    }

    fn key(&self) -> (bool, &str) {
        (self.is_group(), &self.identity)
    }
}

/// The format of reasons: `Group "x"`.
impl std::fmt::Display for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.kind {
            SubjectKind::User => write!(f, "User {}", go_quote(&self.identity)),
            SubjectKind::Group => write!(f, "Group {}", go_quote(&self.identity)),
            SubjectKind::ServiceAccount => {
                let account = self.identity.strip_prefix(ACCOUNT).unwrap_or(&self.identity);
                let (namespace, name) = account.rsplit_once(':').unwrap_or(("", account));
                write!(f, "ServiceAccount {}", go_quote(&format!("{name}/{namespace}")))
            }
        }
    }
}
