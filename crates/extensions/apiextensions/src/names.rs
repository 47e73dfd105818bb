//! Acceptance of the names of a definition: a name is accepted unless another definition of the group has it.

use std::collections::HashMap;

use binnacle_meta::Text;

use crate::definition::{Definition, Names};

/// The decision on a definition's names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameVerdict {
    /// The accepted names.
    pub accepted: Names,
    /// The reason and message of the condition `NamesAccepted` if a name is refused.
    pub conflict: Option<(&'static str, String)>,
}

/// The accepted names of all definitions of a group, with the number of uses of each.
#[derive(Debug, Default)]
pub struct ReservedNames {
    /// Plural, singular and short names.
    resources: HashMap<Text, usize>,
    /// Kinds of objects and lists.
    kinds: HashMap<Text, usize>,
}

impl ReservedNames {
    pub fn add(&mut self, names: &Names) {
        resources(names).for_each(|name| *self.resources.entry(name.clone()).or_default() += 1);
        kinds(names).for_each(|name| *self.kinds.entry(name.clone()).or_default() += 1);
    }

    /// Reverts an [`ReservedNames::add`] with the same names.
    pub fn remove(&mut self, names: &Names) {
        resources(names).for_each(|name| release_one(&mut self.resources, name));
        kinds(names).for_each(|name| release_one(&mut self.kinds, name));
    }
}

fn release_one(counts: &mut HashMap<Text, usize>, name: &Text) {
    if let Some(count) = counts.get_mut(name) {
        *count -= 1;
        if *count == 0 {
            counts.remove(name);
        }
    }
}

fn resources(names: &Names) -> impl Iterator<Item = &Text> {
    [&names.plural, &names.singular].into_iter().chain(&names.short_names)
}

fn kinds(names: &Names) -> impl Iterator<Item = &Text> {
    [&names.kind, &names.list_kind].into_iter()
}

/// Decides on the names of a definition. `reserved` are the names in its group, including the definition's own names,
/// `own`. Free names are accepted even if other names conflict. The last conflict is reported.
pub fn evaluate(definition: &Definition, reserved: &ReservedNames, own: Option<&Names>) -> NameVerdict {
    let uses = |counts: &HashMap<Text, usize>, name: &Text, own: usize| counts.get(name).is_some_and(|all| *all > own);
    let own_uses = |name: &Text| own.map_or(0, |own| resources(own).filter(|other| *other == name).count());
    let is_resource = |name: &Text| uses(&reserved.resources, name, own_uses(name));
    let own_uses = |name: &Text| own.map_or(0, |own| kinds(own).filter(|other| *other == name).count());
    let is_kind = |name: &Text| uses(&reserved.kinds, name, own_uses(name));
    let (requested, current) = (&definition.names, &definition.accepted);
    let mut accepted = current.clone();
    let mut conflict = None;
    let conflict_of = |name: &Text, current: &str, used: &dyn Fn(&Text) -> bool| {
        (*name != current && used(name)).then(|| format!("{name:?} is already in use"))
    };
    match conflict_of(&requested.plural, &current.plural, &is_resource) {
        Some(why) => conflict = Some(("PluralConflict", why)),
        None => accepted.plural = requested.plural.clone(),
    }
    match conflict_of(&requested.singular, &current.singular, &is_resource) {
        Some(why) => conflict = Some(("SingularConflict", why)),
        None => accepted.singular = requested.singular.clone(),
    }
    let added = requested.short_names.iter().filter(|name| !current.short_names.contains(name));
    let conflicts: Vec<String> = added.filter_map(|name| conflict_of(name, "", &is_resource)).collect();
    match &conflicts[..] {
        [] => accepted.short_names = requested.short_names.clone(),
        [why] => conflict = Some(("ShortNamesConflict", why.clone())),
        several => conflict = Some(("ShortNamesConflict", format!("[{}]", several.join(", ")))),
    }
    match conflict_of(&requested.kind, &current.kind, &is_kind) {
        Some(why) => conflict = Some(("KindConflict", why)),
        None => accepted.kind = requested.kind.clone(),
    }
    match conflict_of(&requested.list_kind, &current.list_kind, &is_kind) {
        Some(why) => conflict = Some(("ListKindConflict", why)),
        None => accepted.list_kind = requested.list_kind.clone(),
    }
    accepted.categories = requested.categories.clone();
    NameVerdict { accepted, conflict }
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use super::*;

    fn definition(plural: &str, kind: &str, short: &str, accepted: bool) -> Definition {
        let names = value!({"plural": plural, "singular": (plural.trim_end_matches('s')), "kind": kind,
            "listKind": (format!("{kind}List")), "shortNames": [short]});
        let mut object = value!({"metadata": {"name": (format!("{plural}.a.test"))}, "spec": {"group": "a.test"}});
        object.make_at(&["spec"]).insert("names", names.clone());
        if accepted {
            object.make_at(&["status"]).insert("acceptedNames", names);
        }
        Definition::read(&object)
    }

    #[test]
    fn rejects_names_in_use() {
        let other = definition("widgets", "Widget", "w", true);
        let mut reserved = ReservedNames::default();
        reserved.add(&other.accepted);
        for (plural, kind, short, want) in [
            ("gadgets", "Gadget", "g", None),
            ("widgets", "Gadget", "g", Some(("SingularConflict", "\"widget\" is already in use"))),
            ("gadgets", "Gadget", "w", Some(("ShortNamesConflict", "\"w\" is already in use"))),
            ("gadgets", "Widget", "g", Some(("ListKindConflict", "\"WidgetList\" is already in use"))),
            ("gadgets", "WidgetList", "g", Some(("KindConflict", "\"WidgetList\" is already in use"))),
        ] {
            let got = evaluate(&definition(plural, kind, short, false), &reserved, None);
            let want = want.map(|(reason, message)| (reason, message.to_owned()));
            assert_eq!(got.conflict, want, "{plural} {kind} {short}");
            // A free name is accepted even so.
            assert_eq!(got.accepted.plural == plural, plural != "widgets");
        }
        // The own names of a definition do not conflict.
        let own = evaluate(&other, &reserved, Some(&other.accepted));
        assert_eq!((own.conflict, own.accepted), (None, other.names.clone()));
        // This holds in another role as well.
        let mut turned = definition("widget", "WidgetList", "widgets", false);
        turned.names.list_kind = "Widget".into();
        assert_eq!(evaluate(&turned, &reserved, Some(&other.accepted)).conflict, None);
        assert!(evaluate(&turned, &reserved, None).conflict.is_some());
        reserved.remove(&other.accepted);
        assert_eq!(evaluate(&turned, &reserved, None).conflict, None);
        assert!(reserved.resources.is_empty() && reserved.kinds.is_empty());
    }
}
