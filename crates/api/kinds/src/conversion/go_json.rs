//! JSON as Go's own `encoding/json` decodes it into structs: unknown members are ignored, names match in any case, and
//! a wrong type is an error of the whole text.

use binnacle_schema::{Limits, Message, Ty, Value, decode, json};

/// Decodes a text into a struct that is canonical for `message`; `None` if Go would report an error.
///
/// With `wrap`, the text is decoded as the value of that member, for texts that are lists.
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

/// Renames members to the fields that they match. Exact matches have priority over matches in another case.
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
