//! The graph of owners and dependents. It has only objects with owner references, and those in deletion that wait for
//! their dependents: most objects have neither, and cost nothing.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use binnacle_meta::Text;
use binnacle_registry::Resource;

use super::meta::{Meta, Owner};

/// The resource, namespace and name of an object.
#[derive(Clone)]
pub(super) struct ObjectKey {
    pub(super) resource: Arc<Resource>,
    pub(super) namespace: Text,
    pub(super) name: Text,
}

impl ObjectKey {
    /// Returns true if `resource` has the object.
    fn is_of(&self, resource: &Resource) -> bool {
        self.resource.collection.prefix == resource.collection.prefix
    }

    /// Returns the path in the resource's cache.
    pub(super) fn path(&self) -> String {
        match self.namespace.as_str() {
            "" => self.name.to_string(),
            namespace => format!("{namespace}/{}", self.name),
        }
    }
}

struct Node {
    place: ObjectKey,
    owners: Vec<Owner>,
    waits: Waits,
}

/// What an object in deletion waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Waits {
    #[default]
    No,
    /// For the deletion of its dependents.
    Deletion,
    /// For being removed from the owners of its dependents.
    Orphaning,
}

/// All objects in ownership relations, by UID.
#[derive(Default)]
pub(super) struct Graph {
    nodes: HashMap<Text, Node>,
    /// The objects that name a UID as an owner, which need not exist.
    dependents: HashMap<Text, HashSet<Text>>,
}

/// The checks of objects that a change of the graph makes necessary.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Checks {
    /// To be deleted, if they have no owner left or nothing to wait for.
    pub(super) delete: Vec<Text>,
    /// Whose dependents are to be orphaned.
    pub(super) orphan: Option<Text>,
    /// Whether the object has new owners, which may not exist.
    pub(super) has_new_owners: bool,
}

impl Graph {
    /// Records an object that was created or has changed.
    pub(super) fn put(&mut self, place: ObjectKey, meta: Meta) -> Checks {
        let waits = match () {
            () if meta.deleting && meta.orphan => Waits::Orphaning,
            () if meta.waits_for_dependents() => Waits::Deletion,
            () => Waits::No,
        };
        let before = self.nodes.get(&meta.uid).map(|node| (node.owners.clone(), node.waits)).unwrap_or_default();
        let mut affected = Checks::default();
        self.relink(&meta.uid, &before.0, &meta.owners, &mut affected);
        if waits != before.1 {
            match waits {
                Waits::Orphaning => affected.orphan = Some(meta.uid.clone()),
                Waits::Deletion => {
                    affected.delete.extend(self.dependents_of(&meta.uid));
                    affected.delete.push(meta.uid.clone());
                }
                Waits::No => {}
            }
        }
        if meta.owners.is_empty() && waits == Waits::No {
            self.nodes.remove(&meta.uid);
        } else {
            self.nodes.insert(meta.uid, Node { place, owners: meta.owners, waits });
        }
        affected
    }

    /// Changes the owners of an object.
    fn relink(&mut self, uid: &Text, old: &[Owner], new: &[Owner], affected: &mut Checks) {
        if old == new {
            return;
        }
        for owner in old {
            let now = new.iter().find(|other| other.uid == owner.uid);
            if owner.blocks && now.is_none_or(|now| !now.blocks) && self.waits(&owner.uid) == Waits::Deletion {
                affected.delete.push(owner.uid.clone());
            }
            if now.is_none() {
                self.unlink(uid, &owner.uid);
            }
        }
        for owner in new {
            affected.has_new_owners |= !old.contains(owner);
            self.dependents.entry(owner.uid.clone()).or_default().insert(uid.clone());
        }
    }

    fn unlink(&mut self, uid: &Text, owner: &Text) {
        if let Some(dependents) = self.dependents.get_mut(owner) {
            dependents.remove(uid);
            if dependents.is_empty() {
                self.dependents.remove(owner);
            }
        }
    }

    /// Removes an object that was deleted.
    pub(super) fn remove(&mut self, uid: &Text) -> Checks {
        let mut affected = Checks { delete: self.dependents_of(uid), ..Checks::default() };
        if let Some(node) = self.nodes.remove(uid) {
            for owner in &node.owners {
                self.unlink(uid, &owner.uid);
                if self.waits(&owner.uid) == Waits::Deletion {
                    affected.delete.push(owner.uid.clone());
                }
            }
        }
        affected
    }

    /// Removes the objects of a resource that do not exist any more, whose deletions were missed. The dependents of
    /// other objects of this resource are checked if these do not exist.
    pub(super) fn retain(&mut self, resource: &Resource, exists: &dyn Fn(&str) -> bool) -> Checks {
        let is_gone = |node: &Node| node.place.is_of(resource) && !exists(&node.place.path());
        let gone: Vec<Text> = self.nodes.iter().filter(|(_, node)| is_gone(node)).map(|(uid, _)| uid.clone()).collect();
        let mut affected = Checks::default();
        for uid in gone {
            affected.delete.extend(self.remove(&uid).delete);
        }
        let (kind, api_version) = (&resource.description.kind, resource.api_version());
        for (uid, node) in &self.nodes {
            let is_absent = |owner: &Owner| {
                let namespace =
                    if resource.description.namespaced { node.place.namespace.clone() } else { Text::default() };
                let place = ObjectKey { resource: node.place.resource.clone(), namespace, name: owner.name.clone() };
                owner.kind == *kind && owner.api_version == api_version && !exists(&place.path())
            };
            if node.owners.iter().any(is_absent) {
                affected.delete.push(uid.clone());
            }
        }
        affected
    }

    pub(super) fn place(&self, uid: &Text) -> Option<ObjectKey> {
        self.nodes.get(uid).map(|node| node.place.clone())
    }

    pub(super) fn waits(&self, uid: &Text) -> Waits {
        self.nodes.get(uid).map(|node| node.waits).unwrap_or_default()
    }

    /// Returns the objects that name this one as an owner.
    pub(super) fn dependents_of(&self, uid: &Text) -> Vec<Text> {
        self.dependents.get(uid).into_iter().flatten().cloned().collect()
    }

    /// Returns the dependents for which a foreground deletion must wait.
    pub(super) fn blocking_dependents(&self, uid: &Text) -> Vec<Text> {
        let blocks = |dependent: &Text| {
            let node = self.nodes.get(dependent)?;
            node.owners.iter().any(|owner| owner.uid == *uid && owner.blocks).then_some(())
        };
        let dependents = self.dependents.get(uid).into_iter().flatten();
        dependents.filter(|dependent| blocks(dependent).is_some()).cloned().collect()
    }

    #[cfg(test)]
    fn is_empty(&self) -> bool {
        self.nodes.is_empty() && self.dependents.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Objects(Graph, Arc<Resource>);

    impl Objects {
        fn new() -> Self {
            let resources = binnacle_test_cluster::resources();
            Self(Graph::default(), resources.require("", "v1", "configmaps").unwrap())
        }

        /// Records an object whose name is its UID. An owner that ends with `!` is blocked by it.
        fn put(&mut self, uid: &str, owners: &[&str], deleting: bool, foreground: bool, orphan: bool) -> Checks {
            let owner = |owner: &&str| Owner {
                api_version: "v1".into(),
                kind: "ConfigMap".into(),
                name: owner.trim_end_matches('!').into(),
                uid: owner.trim_end_matches('!').into(),
                blocks: owner.ends_with('!'),
            };
            let owners = owners.iter().map(owner).collect();
            let meta = Meta { uid: uid.into(), owners, deleting, foreground, orphan, ..Meta::default() };
            let place = ObjectKey { resource: self.1.clone(), namespace: "default".into(), name: uid.into() };
            let mut affected = self.0.put(place, meta);
            affected.delete.sort();
            affected
        }

        fn live(&mut self, uid: &str, owners: &[&str]) -> Checks {
            self.put(uid, owners, false, false, false)
        }
    }

    fn delete(uids: &[&str]) -> Checks {
        Checks { delete: uids.iter().map(Text::new).collect(), ..Checks::default() }
    }

    #[test]
    fn objects_without_relations_are_not_kept() {
        let mut objects = Objects::new();
        assert_eq!(objects.live("a", &[]), Checks::default());
        assert!(objects.0.is_empty());
        assert!(objects.live("b", &["a"]).has_new_owners);
        assert_eq!(objects.live("b", &["a"]), Checks::default());
        assert_eq!(objects.live("b", &[]), Checks::default());
        assert!(objects.0.is_empty());
    }

    #[test]
    fn deletion_affects_dependents_and_waiting_owners() {
        let mut objects = Objects::new();
        objects.live("b", &["a!"]);
        objects.live("c", &["b"]);
        assert_eq!(objects.put("a", &[], true, true, false), delete(&["a", "b"]));
        assert_eq!(objects.0.waits(&"a".into()), Waits::Deletion);
        assert_eq!(objects.0.blocking_dependents(&"a".into()), ["b"]);
        assert_eq!(objects.0.remove(&"b".into()), delete(&["c", "a"]));
        assert!(objects.0.blocking_dependents(&"a".into()).is_empty());
        objects.0.remove(&"a".into());
        objects.0.remove(&"c".into());
        assert!(objects.0.is_empty());
    }

    #[test]
    fn owner_no_longer_blocked_is_checked() {
        let mut objects = Objects::new();
        objects.live("b", &["a!"]);
        objects.put("a", &[], true, true, false);
        assert_eq!(objects.live("b", &["a"]).delete, ["a"]);
        assert!(objects.0.blocking_dependents(&"a".into()).is_empty());
        assert_eq!(objects.put("a", &[], true, false, true).orphan.as_deref(), Some("a"));
    }

    #[test]
    fn missed_deletions_are_made_up_for() {
        let mut objects = Objects::new();
        objects.live("b", &["a"]);
        objects.live("c", &["b"]);
        let resource = objects.1.clone();
        let mut affected = objects.0.retain(&resource, &|path| path == "default/c");
        affected.delete.dedup();
        assert_eq!(affected, delete(&["c"]));
        // `a` had no relations of its own, but is the owner of `b`.
        objects.live("b", &["a"]);
        let affected = objects.0.retain(&resource, &|path| path != "default/a");
        assert_eq!(affected, delete(&["b"]));
    }
}
