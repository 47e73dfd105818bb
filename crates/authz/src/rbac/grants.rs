//! The bindings of one user or group.

use std::cmp::Ordering;
use std::ops::ControlFlow;
use std::sync::Arc;

use binnacle_meta::Text;
use imbl::OrdMap;

use super::binding::{Binding, RoleKey};

/// The bindings of a user or group, sorted by namespace, role and name. Most have one. A copy shares what it can, and a
/// change costs the same however many there are.
#[derive(Clone, Debug)]
pub(super) enum Grants {
    Few(Few),
    Many(OrdMap<Key, Arc<Binding>>),
}

#[derive(Clone, Debug)]
pub(super) enum Few {
    One(Arc<Binding>),
    Some(Arc<[Arc<Binding>]>),
}

/// The namespace, the role and the name of a binding.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    namespace: Text,
    role: RoleKey,
    name: Name,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Name {
    Of(Text),
    /// Comes after all names.
    End,
}

/// The number of bindings up to which they are in one list.
const FEW: usize = 16;

impl Few {
    fn list(&self) -> &[Arc<Binding>] {
        match self {
            Self::One(binding) => std::slice::from_ref(binding),
            Self::Some(list) => list,
        }
    }
}

impl Key {
    fn of(binding: &Binding) -> Self {
        let Binding { namespace, name, role, .. } = binding;
        Self { namespace: namespace.clone(), role: role.clone(), name: Name::Of(name.clone()) }
    }

    /// Returns the key before all bindings of a namespace.
    fn first(namespace: &str) -> Self {
        let role = RoleKey { kind: Text::default(), name: Text::default() };
        Self { namespace: namespace.into(), role, name: Name::Of(Text::default()) }
    }

    /// Returns the key after all bindings of a role.
    fn after(namespace: &str, role: &RoleKey) -> Self {
        Self { namespace: namespace.into(), role: role.clone(), name: Name::End }
    }
}

impl Grants {
    pub(super) fn one(binding: Arc<Binding>) -> Self {
        Self::Few(Few::One(binding))
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
                    Self::Many(list.into_iter().map(|binding| (Key::of(&binding), binding)).collect())
                } else {
                    Self::Few(Few::Some(list.into()))
                };
            }
            Self::Many(map) => drop(map.insert(Key::of(&binding), binding)),
        }
    }

    /// Removes a binding; returns true if none is left.
    pub(super) fn remove(&mut self, binding: &Binding) -> bool {
        match self {
            Self::Few(few) => {
                let mut list = few.list().to_vec();
                list.retain(|other| other.order(binding) != Ordering::Equal);
                *few = match list.pop() {
                    None => return true,
                    Some(last) if list.is_empty() => Few::One(last),
                    Some(last) => {
                        list.push(last);
                        Few::Some(list.into())
                    }
                };
                false
            }
            Self::Many(map) => {
                map.remove(&Key::of(binding));
                map.is_empty()
            }
        }
    }

    /// Visits the first bindings in a map. Further ones of the same role are passed by a search if they are many.
    fn visit_many<'a>(
        map: &'a OrdMap<Key, Arc<Binding>>,
        namespace: &str,
        see: &mut dyn FnMut(&'a Binding) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        const STEPS: usize = 4;
        let mut from = Key::first(namespace);
        let mut last: Option<&Binding> = None;
        'search: loop {
            let mut same = 0;
            for binding in map.range::<_, Key>(&from..).map(|(_, binding)| binding) {
                if binding.namespace != namespace {
                    break;
                }
                if last.is_none_or(|last| last.role != binding.role) {
                    see(binding)?;
                    last = Some(binding);
                    same = 0;
                } else if same < STEPS {
                    same += 1;
                } else {
                    from = Key::after(namespace, &binding.role);
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
        mut see: impl FnMut(&'a Binding) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        match self {
            Self::Few(few) => {
                let mut last: Option<&Binding> = None;
                for binding in few.list().iter().filter(|binding| binding.namespace == namespace) {
                    if last.is_none_or(|last| last.role != binding.role) {
                        see(binding)?;
                    }
                    last = Some(binding);
                }
            }
            Self::Many(map) => return Self::visit_many(map, namespace, &mut see),
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
    fn ends_empty() {
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
