//! The names that a definition is granted: those that no other definition of its group has.

use std::collections::HashMap;

use binnacle_meta::Text;

use crate::definition::{Definition, Names};

/// The decision on a definition's names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// The granted names.
    pub accepted: Names,
    /// The reason and message of the condition `NamesAccepted` if a name is refused.
    pub conflict: Option<(&'static str, String)>,
}

/// The names that definitions of one group have, with how often each is used.
#[derive(Debug, Default)]
pub struct Taken {
    /// Plural, singular and short names.
    resources: HashMap<Text, usize>,
    /// Kinds of objects and lists.
    kinds: HashMap<Text, usize>,
}

impl Taken {
    pub fn add(&mut self, names: &Names) {
        resources(names).for_each(|name| *self.resources.entry(name.clone()).or_default() += 1);
        kinds(names).for_each(|name| *self.kinds.entry(name.clone()).or_default() += 1);
    }

    /// Takes back what [`Taken::add`] did with the same names.
    pub fn remove(&mut self, names: &Names) {
        resources(names).for_each(|name| take_one(&mut self.resources, name));
        kinds(names).for_each(|name| take_one(&mut self.kinds, name));
    }
}

fn take_one(counts: &mut HashMap<Text, usize>, name: &Text) {
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

/// Decides on the names of a definition; `taken` are those of its group, among them what the definition has itself,
/// `own`. Free names are accepted even if other names conflict. The last conflict is reported.
pub fn judge(definition: &Definition, taken: &Taken, own: Option<&Names>) -> Judgement {
    let uses = |counts: &HashMap<Text, usize>, name: &Text, own: usize| counts.get(name).is_some_and(|all| *all > own);
    let own_uses = |name: &Text| own.map_or(0, |own| resources(own).filter(|other| *other == name).count());
    let is_resource = |name: &Text| uses(&taken.resources, name, own_uses(name));
    let own_uses = |name: &Text| own.map_or(0, |own| kinds(own).filter(|other| *other == name).count());
    let is_kind = |name: &Text| uses(&taken.kinds, name, own_uses(name));
    let (wanted, had) = (&definition.names, &definition.accepted);
    let mut accepted = had.clone();
    let mut conflict = None;
    let refused = |name: &Text, had: &str, used: &dyn Fn(&Text) -> bool| {
        (*name != had && used(name)).then(|| format!("{name:?} is already in use"))
    };
    match refused(&wanted.plural, &had.plural, &is_resource) {
        Some(why) => conflict = Some(("PluralConflict", why)),
        None => accepted.plural = wanted.plural.clone(),
    }
    match refused(&wanted.singular, &had.singular, &is_resource) {
        Some(why) => conflict = Some(("SingularConflict", why)),
        None => accepted.singular = wanted.singular.clone(),
    }
    let fresh = wanted.short_names.iter().filter(|name| !had.short_names.contains(name));
    let short: Vec<String> = fresh.filter_map(|name| refused(name, "", &is_resource)).collect();
    match &short[..] {
        [] => accepted.short_names = wanted.short_names.clone(),
        [why] => conflict = Some(("ShortNamesConflict", why.clone())),
        several => conflict = Some(("ShortNamesConflict", format!("[{}]", several.join(", ")))),
    }
    match refused(&wanted.kind, &had.kind, &is_kind) {
        Some(why) => conflict = Some(("KindConflict", why)),
        None => accepted.kind = wanted.kind.clone(),
    }
    match refused(&wanted.list_kind, &had.list_kind, &is_kind) {
        Some(why) => conflict = Some(("ListKindConflict", why)),
        None => accepted.list_kind = wanted.list_kind.clone(),
    }
    accepted.categories = wanted.categories.clone();
    Judgement { accepted, conflict }
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
        let mut taken = Taken::default();
        taken.add(&other.accepted);
        for (plural, kind, short, want) in [
            ("gadgets", "Gadget", "g", None),
            ("widgets", "Gadget", "g", Some(("SingularConflict", "\"widget\" is already in use"))),
            ("gadgets", "Gadget", "w", Some(("ShortNamesConflict", "\"w\" is already in use"))),
            ("gadgets", "Widget", "g", Some(("ListKindConflict", "\"WidgetList\" is already in use"))),
            ("gadgets", "WidgetList", "g", Some(("KindConflict", "\"WidgetList\" is already in use"))),
        ] {
            let got = judge(&definition(plural, kind, short, false), &taken, None);
            let want = want.map(|(reason, message)| (reason, message.to_owned()));
            assert_eq!(got.conflict, want, "{plural} {kind} {short}");
            // A free name is accepted nevertheless.
            assert_eq!(got.accepted.plural == plural, plural != "widgets");
        }
        // A definition keeps its own names.
        let own = judge(&other, &taken, Some(&other.accepted));
        assert_eq!((own.conflict, own.accepted), (None, other.names.clone()));
        // Also in another role.
        let mut turned = definition("widget", "WidgetList", "widgets", false);
        turned.names.list_kind = "Widget".into();
        assert_eq!(judge(&turned, &taken, Some(&other.accepted)).conflict, None);
        assert!(judge(&turned, &taken, None).conflict.is_some());
        taken.remove(&other.accepted);
        assert_eq!(judge(&turned, &taken, None).conflict, None);
        assert!(taken.resources.is_empty() && taken.kinds.is_empty());
    }
}
