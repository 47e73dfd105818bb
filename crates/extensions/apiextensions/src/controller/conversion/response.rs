//! The type checks of a conversion webhook's response, with the errors of Go's JSON decoder.

use binnacle_meta::bounded_text;
use binnacle_schema::{Value, json};

/// The maximum length of an object in an error.
const MAX_SHOWN: usize = 16 << 10;

/// Checks the types of those members of a review that the server uses. `null` counts as an absent member.
pub(super) fn check_types(review: &Value, version: &str) -> Result<(), String> {
    for (member, what) in [("request", "ConversionRequest"), ("response", "ConversionResponse")] {
        let is_object = |value: &Value| matches!(value, Value::Object(_));
        expect(review, member, is_object, &format!("ConversionReview.{member}"), &format!("{version}.{what}"))?;
    }
    let Some(response) = review.get("response").filter(|response| !response.is_null()) else { return Ok(()) };
    let is_text = |value: &Value| value.as_str().is_some();
    let is_list = |value: &Value| matches!(value, Value::List(_));
    let of = "ConversionResponse.response";
    expect(response, "uid", is_text, &format!("{of}.uid"), "types.UID")?;
    expect(response, "convertedObjects", is_list, &format!("{of}.convertedObjects"), "[]runtime.RawExtension")?;
    let is_object = |value: &Value| matches!(value, Value::Object(_));
    expect(response, "result", is_object, &format!("{of}.result"), "v1.Status")?;
    let Some(result) = response.get("result") else { return Ok(()) };
    for (member, go) in [("status", "string"), ("message", "string"), ("reason", "v1.StatusReason")] {
        expect(result, member, is_text, &format!("Status.response.result.{member}"), go)?;
    }
    let is_number = |value: &Value| matches!(value, Value::Int(_));
    expect(result, "code", is_number, "Status.response.result.code", "int32")
}

fn expect(of: &Value, member: &str, fits: impl Fn(&Value) -> bool, field: &str, go: &str) -> Result<(), String> {
    match of.get(member).filter(|value| !value.is_null() && !fits(value)) {
        Some(other) => {
            Err(format!("json: cannot unmarshal {} into Go struct field {field} of type {go}", json::json_type(other)))
        }
        None => Ok(()),
    }
}

/// Fails unless a converted object is an object with a kind.
pub(super) fn check_object(object: &Value) -> Result<(), String> {
    match object {
        Value::Object(_) if object.str_at(&["kind"]).is_empty() => {
            // The beginning of a long object suffices.
            let text = json::to_string(object);
            Err(format!("Object 'Kind' is missing in '{}'", bounded_text(&text, MAX_SHOWN)))
        }
        Value::Object(_) => Ok(()),
        Value::Null => Err("unexpected end of JSON input".to_owned()),
        other => Err(format!(
            "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            json::json_type(other)
        )),
    }
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use super::*;

    #[test]
    fn checks_types_of_response_fields() {
        let response = |response: Value| value!({"response": response});
        for (review, want) in [
            (response(value!({"uid": "u", "result": {"status": "Success"}, "convertedObjects": [{}]})), ""),
            (response(Value::Null), ""),
            (response(value!({"uid": null, "result": null, "convertedObjects": null})), ""),
            (
                response(value!([])),
                "json: cannot unmarshal array into Go struct field ConversionReview.response of type v1.ConversionResponse",
            ),
            (
                response(value!({"convertedObjects": {}})),
                "json: cannot unmarshal object into Go struct field ConversionResponse.response.convertedObjects of type []runtime.RawExtension",
            ),
            (
                response(value!({"result": {"status": 5}})),
                "json: cannot unmarshal number into Go struct field Status.response.result.status of type string",
            ),
            (
                response(value!({"uid": true})),
                "json: cannot unmarshal bool into Go struct field ConversionResponse.response.uid of type types.UID",
            ),
        ] {
            assert_eq!(check_types(&review, "v1").err().unwrap_or_default(), want);
        }
    }

    #[test]
    fn requires_objects_with_kind() {
        for (object, want) in [
            (value!({"kind": "A"}), ""),
            (value!({}), "Object 'Kind' is missing in '{}'"),
            (value!({"kind": 3}), "Object 'Kind' is missing in '{\"kind\":3}'"),
            (Value::Null, "unexpected end of JSON input"),
            (value!([]), "json: cannot unmarshal array into Go value of type map[string]interface {}"),
            (value!("x"), "json: cannot unmarshal string into Go value of type map[string]interface {}"),
        ] {
            assert_eq!(check_object(&object).err().unwrap_or_default(), want);
        }
    }
}
