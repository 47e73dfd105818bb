//! JSON as Go's own `encoding/json` reads it into structs: unknown members are passed over, names match whatever their
//! case, and any wrong type makes the whole text unusable.

use binnacle_schema::{Limits, Message, Ty, Value, decode, json};

/// The struct of a text, canonical for `message`; `None` where Go would report an error.
///
/// `wrap` puts the text under that member first, for texts that are lists.
pub(super) fn unmarshal(text: &str, message: &Message, wrap: Option<&'static str>) -> Option<Value> {
    let mut tree = json::parse(text.as_bytes(), &Limits::default()).ok()?;
    if let Some(name) = wrap {
        let mut members = binnacle_schema::Object::new();
        members.insert(name, tree);
        tree = members.into();
    }
    match_names(&mut tree, message);
    decode::value(tree, message).ok().map(|decoded| decoded.value)
}

/// Gives members the names of the fields they match. An exact match goes before one that differs in case.
fn match_names(value: &mut Value, message: &Message) {
    let Some(members) = value.as_object_mut() else { return };
    let mut matched = binnacle_schema::Object::with_capacity(members.len());
    for (name, value) in members.iter_mut() {
        let field =
            message.get(name).or_else(|| message.fields.iter().find(|field| field.name.eq_ignore_ascii_case(name)));
        let Some(field) = field else { continue };
        match_in(value, &field.ty);
        matched.insert(field.name.clone(), std::mem::take(value));
    }
    *members = matched;
}

fn match_in(value: &mut Value, ty: &Ty) {
    if let Some(message) = ty.message() {
        match_names(value, message);
    } else if let (Some(items), Some(element)) = (value.as_list_mut(), ty.element()) {
        items.iter_mut().for_each(|item| match_in(item, element));
    }
}
