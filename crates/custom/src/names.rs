//! The names that a definition is granted: those that no other definition of its group has.

use std::collections::HashSet;

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

/// Decides on the names of a definition; `others` are those of the group's other definitions. Free names are accepted
/// even if other names conflict. The last conflict is reported.
pub fn judge<'d>(definition: &Definition, others: impl IntoIterator<Item = &'d Names>) -> Judgement {
    let (mut resources, mut kinds) = (HashSet::new(), HashSet::new());
    for other in others {
        let Names { plural, singular, kind, list_kind, short_names, .. } = other;
        resources.extend([plural, singular].into_iter().chain(short_names).map(Text::as_str));
        kinds.extend([kind.as_str(), list_kind.as_str()]);
    }
    let (wanted, had) = (&definition.names, &definition.accepted);
    let mut accepted = had.clone();
    let mut conflict = None;
    let taken = |name: &Text, had: &str, used: &HashSet<&str>| {
        (*name != had && used.contains(name.as_str())).then(|| format!("{name:?} is already in use"))
    };
    match taken(&wanted.plural, &had.plural, &resources) {
        Some(why) => conflict = Some(("PluralConflict", why)),
        None => accepted.plural = wanted.plural.clone(),
    }
    match taken(&wanted.singular, &had.singular, &resources) {
        Some(why) => conflict = Some(("SingularConflict", why)),
        None => accepted.singular = wanted.singular.clone(),
    }
    let fresh = wanted.short_names.iter().filter(|name| !had.short_names.contains(name));
    let short: Vec<String> = fresh.filter_map(|name| taken(name, "", &resources)).collect();
    match &short[..] {
        [] => accepted.short_names = wanted.short_names.clone(),
        [why] => conflict = Some(("ShortNamesConflict", why.clone())),
        several => conflict = Some(("ShortNamesConflict", format!("[{}]", several.join(", ")))),
    }
    match taken(&wanted.kind, &had.kind, &kinds) {
        Some(why) => conflict = Some(("KindConflict", why)),
        None => accepted.kind = wanted.kind.clone(),
    }
    match taken(&wanted.list_kind, &had.list_kind, &kinds) {
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
    fn names_of_others_are_taken() {
        let other = definition("widgets", "Widget", "w", true);
        for (plural, kind, short, want) in [
            ("gadgets", "Gadget", "g", None),
            ("widgets", "Gadget", "g", Some(("SingularConflict", "\"widget\" is already in use"))),
            ("gadgets", "Gadget", "w", Some(("ShortNamesConflict", "\"w\" is already in use"))),
            ("gadgets", "Widget", "g", Some(("ListKindConflict", "\"WidgetList\" is already in use"))),
            ("gadgets", "WidgetList", "g", Some(("KindConflict", "\"WidgetList\" is already in use"))),
        ] {
            let got = judge(&definition(plural, kind, short, false), [&other.accepted]);
            let want = want.map(|(reason, message)| (reason, message.to_owned()));
            assert_eq!(got.conflict, want, "{plural} {kind} {short}");
            // A free name is accepted nevertheless.
            assert_eq!(got.accepted.plural == plural, plural != "widgets");
        }
        // A definition keeps its own names.
        assert_eq!(judge(&other, []).conflict, None);
        assert_eq!(judge(&other, []).accepted, other.names);
    }
}
