//! The bindings of a user or group.

use std::cmp::Ordering;
use std::ops::ControlFlow;
use std::sync::Arc;

use binnacle_meta::Text;
use imbl::OrdSet;

use super::binding::{Binding, RoleKey};

/// The bindings of a user or group, sorted by namespace, role and name. Most have only one. Clones share structure, and
/// the cost of a change does not depend on their number.
#[derive(Clone, Debug)]
pub(super) enum Grants {
    Few(BindingList),
    Many(OrdSet<Position>),
}

#[derive(Clone, Debug)]
pub(super) enum BindingList {
    One(Arc<Binding>),
    Some(Arc<[Arc<Binding>]>),
}

/// A position in the order of bindings. It must be small, since there may be one for each subject of each binding.
#[derive(Clone, Debug)]
pub(super) enum Position {
    At(Arc<Binding>),
    /// A position between bindings, for searches.
    Between(Box<Boundary>),
}

#[derive(Clone, Debug)]
pub(super) struct Boundary {
    namespace: Text,
    role: RoleKey,
    /// True after all bindings of the role, false before them.
    is_after: bool,
}

/// The number of bindings up to which they are in a list.
const FEW: usize = 16;

impl BindingList {
    fn list(&self) -> &[Arc<Binding>] {
        match self {
            Self::One(binding) => std::slice::from_ref(binding),
            Self::Some(list) => list,
        }
    }
}

impl Position {
    /// Returns the position before all bindings of a namespace.
    fn first(namespace: &str) -> Self {
        let role = RoleKey { kind: Text::default(), name: Text::default() };
        Self::Between(Box::new(Boundary { namespace: namespace.into(), role, is_after: false }))
    }

    /// Returns the position after all bindings of a role.
    fn after(binding: &Binding) -> Self {
        let Binding { namespace, role, .. } = binding;
        Self::Between(Box::new(Boundary { namespace: namespace.clone(), role: role.clone(), is_after: true }))
    }

    fn key(&self) -> (&Text, &RoleKey, bool, &str) {
        match self {
            Self::At(binding) => (&binding.namespace, &binding.role, false, &binding.name),
            Self::Between(boundary) => (&boundary.namespace, &boundary.role, boundary.is_after, ""),
        }
    }
}

impl Ord for Position {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl PartialOrd for Position {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Position {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Position {}

impl Grants {
    pub(super) fn one(binding: Arc<Binding>) -> Self {
        Self::Few(BindingList::One(binding))
    }

    pub(super) fn insert(&mut self, binding: Arc<Binding>) {
        match self {
            Self::Few(few) => {
                let mut list = few.list().to_vec();
                match list.binary_search_by(|other| other.order(&binding)) {
                    Ok(at) => list[at] = binding,
                    Err(at) => list.insert(at, binding),
                }
                *self = if list.len() > FEW {
                    Self::Many(list.into_iter().map(Position::At).collect())
                } else {
                    Self::Few(BindingList::Some(list.into()))
                };
            }
            Self::Many(set) => drop(set.insert(Position::At(binding))),
        }
    }

    /// Removes a binding. Returns true if none is left.
    pub(super) fn remove(&mut self, binding: &Arc<Binding>) -> bool {
        match self {
            Self::Few(few) => {
                let mut list = few.list().to_vec();
                list.retain(|other| other.order(binding) != Ordering::Equal);
                *few = match list.pop() {
                    None => return true,
                    Some(last) if list.is_empty() => BindingList::One(last),
                    Some(last) => {
                        list.push(last);
                        BindingList::Some(list.into())
                    }
                };
                false
            }
            Self::Many(set) => {
                set.remove(&Position::At(binding.clone()));
                set.is_empty()
            }
        }
    }

    /// Visits the first binding of each role in a set. If many bindings have the same role, they are skipped by a
    /// search.
    fn visit_many<'a>(
        set: &'a OrdSet<Position>,
        namespace: &str,
        visitor: &mut dyn FnMut(&'a Binding) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        const STEPS: usize = 4;
        let mut from = Position::first(namespace);
        let mut last: Option<&Binding> = None;
        'search: loop {
            let mut same = 0;
            for position in set.range::<_, Position>(&from..) {
                // Boundaries are never in the set.
                let Position::At(binding) = position else { continue };
                if binding.namespace != namespace {
                    break;
                }
                if last.is_none_or(|last| last.role != binding.role) {
                    visitor(binding)?;
                    last = Some(binding);
                    same = 0;
                } else if same < STEPS {
                    same += 1;
                } else {
                    from = Position::after(binding);
                    continue 'search;
                }
            }
            return ControlFlow::Continue(());
        }
    }

    /// Visits the first binding of each role in a namespace.
    pub(super) fn visit<'a>(
        &'a self,
        namespace: &str,
        mut visitor: impl FnMut(&'a Binding) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        match self {
            Self::Few(few) => {
                let mut last: Option<&Binding> = None;
                for binding in few.list().iter().filter(|binding| binding.namespace == namespace) {
                    if last.is_none_or(|last| last.role != binding.role) {
                        visitor(binding)?;
                    }
                    last = Some(binding);
                }
            }
            Self::Many(set) => return Self::visit_many(set, namespace, &mut visitor),
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn binding(namespace: &str, role: &str, name: &str) -> Arc<Binding> {
        let role = RoleKey { kind: "Role".into(), name: role.into() };
        let subjects = Default::default();
        Arc::new(Binding { namespace: namespace.into(), name: name.into(), role, subjects })
    }

    fn roles(grants: &Grants, namespace: &str) -> Vec<String> {
        let mut roles = Vec::new();
        let _ = grants.visit(namespace, |binding| {
            roles.push(format!("{} {}", binding.role.name, binding.name));
            ControlFlow::Continue(())
        });
        roles
    }

    #[test]
    fn visits_the_first_binding_of_each_role() {
        for more in [0, 1, 50] {
            let mut grants = Grants::one(binding("n", "b", "2"));
            for (namespace, role, name) in
                [("n", "b", "1"), ("n", "a", "3"), ("m", "b", "0"), ("o", "b", "0"), ("n", "b", "1"), ("", "b", "9")]
            {
                grants.insert(binding(namespace, role, name));
            }
            for number in 0..more {
                grants.insert(binding("n", "b", &format!("2{number}")));
                grants.insert(binding("p", &format!("{number:02}"), "x"));
            }
            assert_eq!(matches!(grants, Grants::Many(_)), more > 10);
            assert_eq!(roles(&grants, "n"), ["a 3", "b 1"], "{more}");
            assert_eq!((roles(&grants, ""), roles(&grants, "m")), (vec!["b 9".to_owned()], vec!["b 0".to_owned()]));
            assert_eq!((roles(&grants, "p").len(), roles(&grants, "q").len()), (more, 0));
            let before = grants.clone();
            assert!(!grants.remove(&binding("n", "b", "1")) && !grants.remove(&binding("n", "a", "3")));
            assert_eq!(roles(&grants, "n"), ["b 2"]);
            assert_eq!(roles(&before, "n"), ["a 3", "b 1"], "a copy does not change");
        }
    }

    #[test]
    fn reports_removal_of_the_last_binding() {
        for count in [1, 2, FEW, FEW + 1, 100] {
            let bindings: Vec<_> = (0..count).map(|number| binding("n", "r", &number.to_string())).collect();
            let mut grants = Grants::one(bindings[0].clone());
            bindings.iter().for_each(|binding| grants.insert(binding.clone()));
            assert!(!grants.remove(&binding("n", "r", "other")));
            let (last, first) = bindings.split_last().unwrap();
            assert!(first.iter().all(|binding| !grants.remove(binding)));
            assert!(grants.remove(last), "{count}");
        }
    }
}
