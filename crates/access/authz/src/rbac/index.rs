//! An index of roles and bindings by subject, which is updated object by object from the store. A decision looks up the
//! name and groups of the user in an immutable snapshot, so that decisions and updates do not block each other.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::{ArcSwap, Guard};
use binnacle_meta::{Text, go_quote};
use binnacle_request::User;
use binnacle_schema::Value;
use binnacle_work::{charge, pace};
use imbl::HashMap;
use parking_lot::Mutex;

use super::binding::{Binding, RoleKey, RoleRef, Subject, Subjects};
use super::grants::Grants;
use crate::Readiness;
use crate::by_name::{ByName, take};
use crate::rule::RoleRules;

/// The roles and bindings of a cluster.
pub struct RbacIndex {
    state: ArcSwap<State>,
    /// The next state. Locked for microseconds.
    next: Mutex<State>,
    /// True if `next` has changes that are not in `state`: before the first reader, many changes are collected.
    is_behind: AtomicBool,
    /// The cluster role bindings and the role bindings. Each map is only locked by changes to its bindings.
    bindings: [Mutex<ByName<Arc<Binding>>>; 2],
    /// Ready once each of the four kinds has been read.
    pub ready: Readiness,
}

/// The kinds of the index.
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

/// The number of subjects whose grants are changed in one step.
const CHUNK: usize = 64;
/// The cost of changing the grants of a subject, in steps.
const CHANGE: u64 = 200;

/// A snapshot of the index. Clones share nearly everything.
#[derive(Clone, Default)]
struct State {
    /// By namespace and name. Cluster roles have the empty namespace.
    roles: HashMap<Text, HashMap<Text, Arc<RoleRules>>>,
    grantees: Grantees,
}

/// The bindings by user and by group.
#[derive(Clone, Default)]
struct Grantees {
    users: HashMap<Text, Grants>,
    groups: HashMap<Text, Grants>,
}

/// The reason why a role cannot be resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnresolvedRole {
    /// There is no role of this name.
    Missing {
        cluster: bool,
        name: Text,
    },
    Unsupported(Text),
    /// There are further roles, which are not listed.
    More(usize),
}

/// A step of a visit.
pub(super) enum Visit<'a> {
    /// A role, and the first binding that grants it to the user or one of the groups.
    Role(&'a Arc<RoleRules>, &'a Binding),
    Unknown(UnresolvedRole),
}

impl Default for RbacIndex {
    fn default() -> Self {
        let ready = Readiness::new(RbacKind::ALL.len());
        let (state, next, is_behind) = (ArcSwap::default(), Mutex::default(), AtomicBool::new(false));
        Self { state, next, is_behind, bindings: Default::default(), ready }
    }
}

impl RbacIndex {
    /// Adds or replaces an object, in version `v1`.
    pub fn put(&self, kind: RbacKind, object: &Value) {
        let namespace = Text::from(object.str_at(&["metadata", "namespace"]));
        let name = Text::from(object.str_at(&["metadata", "name"]));
        if !kind.is_role() {
            return self.put_binding(kind, namespace, name, object);
        }
        let rules = RoleRules::read(object);
        drop(self.change(|state| state.roles.entry(namespace).or_default().insert(name, rules)));
    }

    /// Removes a deleted object.
    pub fn remove(&self, kind: RbacKind, namespace: &str, name: &str) {
        if kind.is_role() {
            drop(self.change(|state| state.remove_role(namespace, name)));
            return;
        }
        let mut bindings = self.bindings(kind).lock();
        if let Some(binding) = take(&mut bindings, namespace, name) {
            self.revoke(&binding);
        }
    }

    /// Removes the objects for whose namespace and name `keep` returns false.
    pub fn retain(&self, kind: RbacKind, keep: impl Fn(&str, &str) -> bool) {
        for (namespace, name) in self.names(kind) {
            pace(10);
            if !keep(&namespace, &name) {
                self.remove(kind, &namespace, &name);
            }
        }
    }

    /// Returns the rules of a role. `namespace` is that of the binding, which is also that of a `Role`.
    pub fn role_rules(&self, role: RoleRef<'_>, namespace: &str) -> Result<Arc<RoleRules>, UnresolvedRole> {
        self.snapshot().rules(role, namespace).cloned()
    }

    /// Returns the roles of a user in a namespace, and the reasons why others cannot be resolved.
    pub fn roles_of(&self, user: &User, namespace: &str) -> (Vec<Arc<RoleRules>>, Vec<UnresolvedRole>) {
        let (mut roles, mut unknown) = (Vec::new(), UnknownRoles::default());
        self.visit(user, namespace, |visit| {
            match visit {
                Visit::Role(rules, _) => roles.push(rules.clone()),
                Visit::Unknown(why) => unknown.add(why),
            }
            ControlFlow::Continue(())
        });
        (roles, unknown.into_list())
    }

    /// Visits the roles of a user: first those of cluster role bindings, then those of role bindings in the namespace.
    /// Ends early if the current work budget is exhausted. In each scope, a role is visited once, however many bindings
    /// grant it.
    pub(super) fn visit(&self, user: &User, namespace: &str, mut visitor: impl FnMut(Visit<'_>) -> ControlFlow<()>) {
        if charge(1 + 8 * user.groups.len() as u64).is_err() {
            return;
        }
        let state = self.snapshot();
        let mut found: Vec<&Grants> = Vec::new();
        found.extend(state.grantees.users.get(&user.name));
        found.extend(user.groups.iter().filter_map(|group| state.grantees.groups.get(group)));
        let scopes: &[&str] = if namespace.is_empty() { &[""] } else { &["", namespace] };
        for scope in scopes {
            let mut visited = VisitedRoles::default();
            for grants in &found {
                let flow = grants.visit(scope, |binding| {
                    charge(10).map_or(ControlFlow::Break(()), ControlFlow::Continue)?;
                    if found.len() > 1 && !visited.insert(&binding.role) {
                        return ControlFlow::Continue(());
                    }
                    match state.rules(binding.role.as_ref(), scope) {
                        Ok(rules) => visitor(Visit::Role(rules, binding)),
                        Err(why) => visitor(Visit::Unknown(why)),
                    }
                });
                if flow.is_break() {
                    return;
                }
            }
        }
    }

    fn put_binding(&self, kind: RbacKind, namespace: Text, name: Text, object: &Value) {
        let (role, subjects) = (RoleKey::read(object), Subjects::read(object, &namespace));
        let mut bindings = self.bindings(kind).lock();
        let in_namespace = bindings.entry(namespace.clone()).or_default();
        let before = in_namespace.get(&name).cloned();
        if let Some(binding) = before.as_ref().filter(|before| before.role == role) {
            // Additions come first, so that subjects of both versions never lose the grant.
            let old = binding.subjects.load_full();
            self.grant(binding, &subjects.without(&old));
            let removed = old.without(&subjects);
            binding.subjects.store(Arc::new(subjects));
            self.revoke_from(binding, &removed);
            return;
        }
        let all: Vec<Subject> = subjects.iter().cloned().collect();
        let binding =
            Arc::new(Binding { namespace, name: name.clone(), role, subjects: ArcSwap::from_pointee(subjects) });
        in_namespace.insert(name, binding.clone());
        self.grant(&binding, &all);
        if let Some(before) = before {
            self.revoke(&before);
        }
    }

    fn revoke(&self, binding: &Arc<Binding>) {
        let subjects: Vec<Subject> = binding.subjects.load().iter().cloned().collect();
        self.revoke_from(binding, &subjects);
    }

    fn grant(&self, binding: &Arc<Binding>, subjects: &[Subject]) {
        self.change_grants(subjects, |grantees, subject| {
            let grants = grantees.of(subject);
            match grants.get_mut(subject.identity()) {
                Some(grants) => grants.insert(binding.clone()),
                None => drop(grants.insert(subject.identity().clone(), Grants::one(binding.clone()))),
            }
        });
    }

    fn revoke_from(&self, binding: &Arc<Binding>, subjects: &[Subject]) {
        self.change_grants(subjects, |grantees, subject| {
            let grants = grantees.of(subject);
            if grants.get_mut(subject.identity()).is_some_and(|of_subject| of_subject.remove(binding)) {
                grants.remove(subject.identity());
            }
        });
    }

    fn change_grants(&self, subjects: &[Subject], change: impl Fn(&mut Grantees, &Subject)) {
        // Changing one copy copies each tree node once, whereas each published chunk copies some of them again.
        let is_large = subjects.len() > CHUNK && self.ready.is_ready();
        if is_large && self.change_copy(subjects, &change) {
            return;
        }
        for chunk in subjects.chunks(CHUNK) {
            pace(CHANGE * chunk.len() as u64);
            self.change(|state| chunk.iter().for_each(|subject| change(&mut state.grantees, subject)));
        }
    }

    /// Changes a copy of the grants. Returns false if there was a concurrent change.
    fn change_copy(&self, subjects: &[Subject], change: &impl Fn(&mut Grantees, &Subject)) -> bool {
        let before = self.next.lock().grantees.clone();
        let mut after = before.clone();
        for chunk in subjects.chunks(CHUNK) {
            pace(CHANGE * chunk.len() as u64);
            chunk.iter().for_each(|subject| change(&mut after, subject));
        }
        self.change(|state| {
            let is_same = state.grantees.is_same(&before);
            if is_same {
                state.grantees = after;
            }
            is_same
        })
    }

    /// Changes the next state, and publishes it once there are readers. Does not charge the work budget, since others
    /// may wait for the lock.
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut next = self.next.lock();
        let result = change(&mut next);
        if !self.ready.is_ready() {
            self.is_behind.store(true, Ordering::Release);
            return result;
        }
        let before = self.publish(&next);
        drop(next);
        // Frees the old state after the lock is released.
        drop(before);
        result
    }

    fn publish(&self, next: &State) -> Arc<State> {
        let before = self.state.swap(Arc::new(next.clone()));
        self.is_behind.store(false, Ordering::Release);
        before
    }

    fn snapshot(&self) -> Guard<Arc<State>> {
        if self.is_behind.load(Ordering::Acquire) {
            drop(self.publish(&self.next.lock()));
        }
        self.state.load()
    }

    fn bindings(&self, kind: RbacKind) -> &Mutex<ByName<Arc<Binding>>> {
        &self.bindings[usize::from(kind == RbacKind::RoleBinding)]
    }

    fn names(&self, kind: RbacKind) -> Vec<(Text, Text)> {
        if !kind.is_role() {
            return self
                .bindings(kind)
                .lock()
                .iter()
                .flat_map(|(namespace, named)| pairs(namespace, named.keys()))
                .collect();
        }
        let state = self.snapshot();
        let of_kind = |namespace: &Text| namespace.is_empty() == (kind == RbacKind::ClusterRole);
        let roles = state.roles.iter().filter(|(namespace, _)| of_kind(namespace));
        roles.flat_map(|(namespace, named)| pairs(namespace, named.keys())).collect()
    }
}

fn pairs<'a>(namespace: &Text, names: impl Iterator<Item = &'a Text>) -> Vec<(Text, Text)> {
    names.map(|name| (namespace.clone(), name.clone())).collect()
}

impl State {
    fn remove_role(&mut self, namespace: &str, name: &str) -> Option<Arc<RoleRules>> {
        let named = self.roles.get_mut(namespace)?;
        let removed = named.remove(name);
        if named.is_empty() {
            self.roles.remove(namespace);
        }
        removed
    }

    fn rules(&self, role: RoleRef<'_>, namespace: &str) -> Result<&Arc<RoleRules>, UnresolvedRole> {
        let (cluster, lookup_namespace) = match role.kind {
            "ClusterRole" => (true, ""),
            "Role" => (false, namespace),
            kind => return Err(UnresolvedRole::Unsupported(kind.into())),
        };
        // Cluster roles are stored under the empty namespace.
        let found = (cluster || !lookup_namespace.is_empty())
            .then(|| self.roles.get(lookup_namespace)?.get(role.name))
            .flatten();
        found.ok_or_else(|| UnresolvedRole::Missing { cluster, name: role.name.into() })
    }
}

impl Grantees {
    fn of(&mut self, subject: &Subject) -> &mut HashMap<Text, Grants> {
        if subject.is_group() { &mut self.groups } else { &mut self.users }
    }

    /// Returns true if both share the same maps.
    fn is_same(&self, other: &Self) -> bool {
        self.users.ptr_eq(&other.users) && self.groups.ptr_eq(&other.groups)
    }
}

/// The roles that have been visited. Few are compared one by one; a set is only created for many.
#[derive(Default)]
struct VisitedRoles<'a> {
    few: [Option<&'a RoleKey>; 8],
    many: HashSet<&'a RoleKey>,
}

impl<'a> VisitedRoles<'a> {
    /// Adds a role. Returns false if it was already visited.
    fn insert(&mut self, role: &'a RoleKey) -> bool {
        for slot in &mut self.few {
            match slot {
                Some(visited) if *visited == role => return false,
                Some(_) => {}
                None => {
                    *slot = Some(role);
                    return true;
                }
            }
        }
        self.many.insert(role)
    }
}

/// The reasons why roles cannot be resolved, up to the number that a message lists.
#[derive(Default)]
pub(super) struct UnknownRoles {
    named: Vec<UnresolvedRole>,
    more: usize,
}

impl UnknownRoles {
    const MAX: usize = 100;

    pub(super) fn add(&mut self, why: UnresolvedRole) {
        pace(10);
        // A missing cluster role may be bound in both scopes.
        if self.named.contains(&why) {
            return;
        }
        if self.named.len() < Self::MAX {
            self.named.push(why);
        } else {
            self.more += 1;
        }
    }

    pub(super) fn into_list(mut self) -> Vec<UnresolvedRole> {
        if self.more > 0 {
            self.named.push(UnresolvedRole::More(self.more));
        }
        self.named
    }
}

/// The messages of kube-apiserver's listers.
impl std::fmt::Display for UnresolvedRole {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Missing { cluster, name } => {
                let kind = if *cluster { "clusterrole" } else { "role" };
                write!(f, "{kind}.rbac.authorization.k8s.io {} not found", go_quote(name))
            }
            Self::Unsupported(kind) => write!(f, "unsupported role reference kind: {}", go_quote(kind)),
            Self::More(count) => write!(f, "{count} more"),
        }
    }
}
