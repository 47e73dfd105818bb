//! The type checks of a conversion webhook's response, with the errors of Go's JSON decoder.

use binnacle_fields::FieldRef;
use binnacle_fields::apiextensions::v1::{ConversionResponse, ConversionReview};
use binnacle_fields::meta::v1::{PartialObjectMetadata as AnyKind, Status};
use binnacle_meta::bounded_text;
use binnacle_schema::{Value, json};

/// The maximum length of an object in an error.
const MAX_SHOWN: usize = 16 << 10;

/// Checks the types of those members of a review that the server uses. `null` counts as an absent member.
pub(super) fn check_types(review: &Value, version: &str) -> Result<(), String> {
    let review = FieldRef::<ConversionReview>::root(review);
    let is_object = |value: &Value| matches!(value, Value::Object(_));
    let is_list = |value: &Value| matches!(value, Value::List(_));
    let is_number = |value: &Value| matches!(value, Value::Int(_));
    let is_text = |value: &Value| value.as_str().is_some();
    let (request, response) = (review.at(ConversionReview::REQUEST), review.at(ConversionReview::RESPONSE));
    expect(request, is_object, "ConversionReview", &format!("{version}.ConversionRequest"))?;
    expect(response, is_object, "ConversionReview", &format!("{version}.ConversionResponse"))?;
    let of = "ConversionResponse";
    expect(response.at(ConversionResponse::UID), is_text, of, "types.UID")?;
    expect(response.at(ConversionResponse::CONVERTED_OBJECTS), is_list, of, "[]runtime.RawExtension")?;
    let result = response.at(ConversionResponse::RESULT);
    expect(result, is_object, of, "v1.Status")?;
    for (field, go) in [(Status::STATUS, "string"), (Status::MESSAGE, "string"), (Status::REASON, "v1.StatusReason")] {
        expect(result.at(field), is_text, "Status", go)?;
    }
    expect(result.at(Status::CODE), is_number, "Status", "int32")
}

/// Fails if a field of the Go struct `of` has a value that does not fit the Go type.
fn expect<T>(field: FieldRef<T>, fits: impl Fn(&Value) -> bool, of: &str, go: &str) -> Result<(), String> {
    match field.get().filter(|value| !fits(value)) {
        Some(other) => {
            let (found, path) = (json::json_type(other), field.path());
            Err(format!("json: cannot unmarshal {found} into Go struct field {of}.{path} of type {go}"))
        }
        None => Ok(()),
    }
}

/// Fails unless a converted object is an object with a kind.
pub(super) fn check_object(object: &Value) -> Result<(), String> {
    match object {
        Value::Object(_) if FieldRef::root(object).at(AnyKind::KIND).is_empty() => {
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
