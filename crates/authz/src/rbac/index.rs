//! An index of roles and bindings by subject, updated one by one from the store. A decision visits only the bindings of
//! the caller's name and groups.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::sync::Arc;

use binnacle_meta::{Text, go_quote};
use binnacle_request::User;
use binnacle_schema::Value;
use parking_lot::RwLock;

use super::rule::Rule;
use crate::Ready;
use crate::by_name::{ByName, take};

/// The roles and bindings of a cluster.
pub struct RbacIndex {
    state: RwLock<State>,
    /// Ready when each of the four kinds has been read once.
    pub ready: Ready,
}

/// The four kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RbacKind {
    ClusterRole,
    Role,
    ClusterRoleBinding,
    RoleBinding,
}

impl RbacKind {
    pub const ALL: [Self; 4] = [Self::ClusterRole, Self::Role, Self::ClusterRoleBinding, Self::RoleBinding];

    pub fn plural(self) -> &'static str {
        match self {
            Self::ClusterRole => "clusterroles",
            Self::Role => "roles",
            Self::ClusterRoleBinding => "clusterrolebindings",
            Self::RoleBinding => "rolebindings",
        }
    }

    fn is_role(self) -> bool {
        matches!(self, Self::ClusterRole | Self::Role)
    }
}

/// The roles of a user or group: by namespace and role, each with the bindings that grant it, by name. The rules of a
/// role are visited once, however many bindings grant it.
type Grants = HashMap<Text, BTreeMap<RoleKey, BTreeMap<Text, Arc<Binding>>>>;

#[derive(Default)]
struct State {
    roles: ByName<Arc<[Rule]>>,
    bindings: ByName<Arc<Binding>>,
    users: HashMap<Text, Grants>,
    groups: HashMap<Text, Grants>,
}

/// The role of a binding, in the binding's namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct RoleKey {
    kind: Text,
    name: Text,
}

/// A binding, as decisions use it.
#[derive(Debug, PartialEq, Eq)]
struct Binding {
    /// Empty for a ClusterRoleBinding.
    namespace: Text,
    name: Text,
    role: RoleKey,
    subjects: Vec<Subject>,
}

#[derive(Debug, PartialEq, Eq)]
struct Subject {
    whom: Whom,
    /// `Group "x"`.
    shown: String,
}

#[derive(Debug, PartialEq, Eq)]
enum Whom {
    User(Text),
    Group(Text),
}

/// A reference to a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoleRef<'a> {
    pub kind: &'a str,
    pub name: &'a str,
}

/// The reason why the rules of a role are unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoRole {
    /// There is no role of this name.
    Missing {
        cluster: bool,
        name: Text,
    },
    Unsupported(Text),
}

/// A step of a visit.
pub(super) enum Visit<'a> {
    Rule(&'a Rule, Source<'a>),
    Unknown(NoRole),
}

/// The binding and the subject of a rule; displayed as in reasons.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    binding: &'a Binding,
    subject: &'a Subject,
}

impl Default for RbacIndex {
    fn default() -> Self {
        Self { state: RwLock::default(), ready: Ready::new(RbacKind::ALL.len()) }
    }
}

impl RbacIndex {
    /// Adds or replaces an object, in version `v1`.
    pub fn put(&self, kind: RbacKind, object: &Value) {
        self.state.write().put(kind, object);
    }

    /// Removes a deleted object.
    pub fn remove(&self, kind: RbacKind, namespace: &str, name: &str) {
        self.state.write().remove(kind, namespace, name);
    }

    /// Removes the objects for which `keep`, by namespace and name, is false.
    pub fn retain(&self, kind: RbacKind, keep: impl Fn(&str, &str) -> bool) {
        let mut state = self.state.write();
        for (namespace, name) in state.names(kind) {
            if !keep(&namespace, &name) {
                state.remove(kind, &namespace, &name);
            }
        }
    }

    /// Returns the rules of a role; `namespace` is that of the binding, which a `Role` must be in.
    pub fn role_rules(&self, role: RoleRef<'_>, namespace: &str) -> Result<Arc<[Rule]>, NoRole> {
        self.state.read().rules(role, namespace).cloned()
    }

    /// Returns all rules for a user in a namespace, and the roles whose rules are unknown.
    pub fn rules_of(&self, user: &User, namespace: &str) -> (Vec<Rule>, Vec<NoRole>) {
        let (mut rules, mut unknown) = (Vec::new(), Vec::new());
        self.visit(user, namespace, |visit| {
            match visit {
                Visit::Rule(rule, _) => rules.push(rule.clone()),
                Visit::Unknown(why) => unknown.push(why),
            }
            ControlFlow::Continue(())
        });
        (rules, unknown)
    }

    /// Visits the rules for a user: those of cluster role bindings, then those of the namespace.
    pub(super) fn visit(&self, user: &User, namespace: &str, mut see: impl FnMut(Visit<'_>) -> ControlFlow<()>) {
        let state = self.state.read();
        let found = || {
            let user_grants = state.users.get(&user.name).into_iter();
            user_grants.chain(user.groups.iter().filter_map(|group| state.groups.get(group)))
        };
        let scopes: &[&str] = if namespace.is_empty() { &[""] } else { &["", namespace] };
        for scope in scopes {
            for (at, grants) in found().enumerate() {
                let Some(roles) = grants.get(*scope) else { continue };
                for (role, bindings) in roles {
                    // A role that was visited for the user or an earlier group is skipped.
                    let mut earlier = found().take(at).filter_map(|grants| grants.get(*scope));
                    if earlier.any(|roles| roles.contains_key(role)) {
                        continue;
                    }
                    let source = || bindings.values().find_map(|binding| Some((binding, binding.subject(user)?)));
                    let Some((binding, subject)) = source() else { continue };
                    let rules = match state.rules(role.as_ref(), scope) {
                        Ok(rules) => rules,
                        Err(why) => match see(Visit::Unknown(why)) {
                            ControlFlow::Continue(()) => continue,
                            ControlFlow::Break(()) => return,
                        },
                    };
                    for rule in rules.iter() {
                        if see(Visit::Rule(rule, Source { binding, subject })).is_break() {
                            return;
                        }
                    }
                }
            }
        }
    }
}

impl State {
    fn put(&mut self, kind: RbacKind, object: &Value) {
        let namespace = Text::from(object.str_at(&["metadata", "namespace"]));
        let name = Text::from(object.str_at(&["metadata", "name"]));
        if kind.is_role() {
            let rules = Rule::read_all(object).into();
            self.roles.entry(namespace).or_default().insert(name, rules);
            return;
        }
        self.remove(kind, &namespace, &name);
        let binding = Arc::new(Binding::read(namespace.clone(), name.clone(), object));
        for subject in &binding.subjects {
            let (map, key) = self.of(&subject.whom);
            let roles = map.entry(key.clone()).or_default().entry(namespace.clone()).or_default();
            roles.entry(binding.role.clone()).or_default().insert(name.clone(), binding.clone());
        }
        self.bindings.entry(namespace).or_default().insert(name, binding);
    }

    fn remove(&mut self, kind: RbacKind, namespace: &str, name: &str) {
        if kind.is_role() {
            take(&mut self.roles, namespace, name);
            return;
        }
        let Some(binding) = take(&mut self.bindings, namespace, name) else { return };
        for subject in &binding.subjects {
            let (map, key) = self.of(&subject.whom);
            if let Some(grants) = map.get_mut(key) {
                take_back(grants, &binding);
                if grants.is_empty() {
                    map.remove(key);
                }
            }
        }
    }

    fn names(&self, kind: RbacKind) -> Vec<(Text, Text)> {
        fn all<T>(map: &ByName<T>, cluster: bool) -> Vec<(Text, Text)> {
            let there = map.iter().filter(|(namespace, _)| namespace.is_empty() == cluster);
            there.flat_map(|(namespace, named)| named.keys().map(|name| (namespace.clone(), name.clone()))).collect()
        }
        match kind {
            RbacKind::ClusterRole | RbacKind::Role => all(&self.roles, kind == RbacKind::ClusterRole),
            _ => all(&self.bindings, kind == RbacKind::ClusterRoleBinding),
        }
    }

    fn of<'a>(&mut self, whom: &'a Whom) -> (&mut HashMap<Text, Grants>, &'a Text) {
        match whom {
            Whom::User(name) => (&mut self.users, name),
            Whom::Group(name) => (&mut self.groups, name),
        }
    }

    fn rules(&self, role: RoleRef<'_>, namespace: &str) -> Result<&Arc<[Rule]>, NoRole> {
        let (cluster, place) = match role.kind {
            "ClusterRole" => (true, ""),
            "Role" => (false, namespace),
            kind => return Err(NoRole::Unsupported(kind.into())),
        };
        // Cluster roles are stored under the empty namespace.
        let there = (cluster || !place.is_empty()).then(|| self.roles.get(place)?.get(role.name)).flatten();
        there.ok_or_else(|| NoRole::Missing { cluster, name: role.name.into() })
    }
}

/// Removes the grants of a binding, and maps that become empty.
fn take_back(grants: &mut Grants, binding: &Binding) {
    let Some(roles) = grants.get_mut(&binding.namespace) else { return };
    if let Entry::Occupied(mut role) = roles.entry(binding.role.clone()) {
        role.get_mut().remove(&binding.name);
        if role.get().is_empty() {
            role.remove();
        }
    }
    if roles.is_empty() {
        grants.remove(&binding.namespace);
    }
}

impl RoleKey {
    fn as_ref(&self) -> RoleRef<'_> {
        RoleRef { kind: &self.kind, name: &self.name }
    }
}

impl Binding {
    fn read(namespace: Text, name: Text, object: &Value) -> Self {
        let subjects = object.list_at(&["subjects"]).iter();
        let subjects = subjects.filter_map(|subject| Subject::read(subject, &namespace)).collect();
        let role = object.get("roleRef").unwrap_or(&Value::Null);
        let role = RoleKey { kind: role.str_at(&["kind"]).into(), name: role.str_at(&["name"]).into() };
        Self { namespace, name, role, subjects }
    }

    /// Returns the first subject that matches a user.
    fn subject(&self, user: &User) -> Option<&Subject> {
        self.subjects.iter().find(|subject| match &subject.whom {
            Whom::User(name) => *name == user.name,
            Whom::Group(name) => user.groups.contains(name),
        })
    }
}

impl Subject {
    /// Returns `None` for an invalid subject, which matches no user.
    fn read(subject: &Value, binding_namespace: &str) -> Option<Self> {
        let (kind, name) = (subject.str_at(&["kind"]), subject.str_at(&["name"]));
        let whom = match kind {
            "User" => Whom::User(name.into()),
            "Group" => Whom::Group(name.into()),
            "ServiceAccount" => {
                let own = subject.str_at(&["namespace"]);
                let namespace = if own.is_empty() { binding_namespace } else { own };
                if namespace.is_empty() {
                    return None;
                }
                let shown = format!("{kind} {}", go_quote(&format!("{name}/{namespace}")));
                return Some(Self { whom: Whom::User(User::service_account_name(namespace, name)), shown });
            }
            _ => return None,
        };
        Some(Self { whom, shown: format!("{kind} {}", go_quote(name)) })
    }
}

impl std::fmt::Display for Source<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let binding = self.binding;
        if binding.namespace.is_empty() {
            write!(f, "ClusterRoleBinding {}", go_quote(&binding.name))?;
        } else {
            write!(f, "RoleBinding {}", go_quote(&format!("{}/{}", binding.name, binding.namespace)))?;
        }
        write!(f, " of {} {} to {}", binding.role.kind, go_quote(&binding.role.name), self.subject.shown)
    }
}

/// As in errors of kube-apiserver's listers.
impl std::fmt::Display for NoRole {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Missing { cluster, name } => {
                let kind = if *cluster { "clusterrole" } else { "role" };
                write!(f, "{kind}.rbac.authorization.k8s.io {} not found", go_quote(name))
            }
            Self::Unsupported(kind) => write!(f, "unsupported role reference kind: {}", go_quote(kind)),
        }
    }
}
