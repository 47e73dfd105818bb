//! Applies JSON patches, merge patches and strategic merge patches to an object, with kube-apiserver's messages for
//! invalid patches and results.

use binnacle_meta::{FieldError, FieldPath, GroupKind, GroupVersion, Status, go_quote};
use binnacle_patch::{json_patch, merge, strategic};
use binnacle_registry::{Context, Resource};
use binnacle_schema::decode::{self, DecodedObject};
use binnacle_schema::json::{self, AnyNumberDocument};
use binnacle_schema::{Finding, Findings, JsonError, Limits, Message, Ty, Value};
use binnacle_scheme::Kinds;

use crate::params::FieldValidation;
use crate::patch_type::PatchType;
use crate::{body, custom_resource};

/// The kind of the patched object.
#[derive(Clone, Copy)]
pub(crate) struct ExpectedKind<'a> {
    pub(crate) group: &'a str,
    pub(crate) version: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) message: &'a Message,
    pub(crate) kinds: &'a dyn Kinds,
    /// The location in kube-apiserver's sources at which the scheme of the kind is defined, for errors.
    pub(crate) scheme: &'a str,
    /// Converts results of another version; without it, all results are treated as the expected version.
    pub(crate) resource: Option<&'a Resource>,
}

/// A patch of one of the three types. It may be applied again after a conflict.
pub(crate) struct Patch {
    content: Content,
    validation: FieldValidation,
    /// Errors of strict decoding of the patch itself.
    strict_errors: Vec<String>,
    /// True if the patch has a number outside the range of `f64`, which only unvalidated patches may have.
    has_out_of_range_number: bool,
    /// The text of a patch whose values would be written differently.
    sent: Option<Box<[u8]>>,
}

enum Content {
    Json(json_patch::Patch),
    Merge(Value),
    Strategic(Value),
}

/// The style of a result, whose members are in Go's order.
#[derive(Clone, Copy)]
enum ResultStyle {
    ByValue,
    /// With the numbers of the patch as sent, which errors of the decoder quote.
    WithSentNumbers,
    /// As quoted in messages, with all values of the patch as sent.
    Quoted,
}

impl Patch {
    /// Parses a patch.
    ///
    /// # Errors
    ///
    /// Returns 400 for an invalid patch, and 413 for too many operations.
    pub(crate) fn parse(kind: PatchType, bytes: &[u8], validation: FieldValidation) -> Result<Self, Status> {
        let is_strict = validation != FieldValidation::Ignore;
        let (mut has_out_of_range_number, mut rewrites) = (false, false);
        let (content, findings, prefix) = match kind {
            PatchType::Json => {
                let patch = if is_strict { json_patch::parse(bytes) } else { json_patch::parse_unvalidated(bytes) }?;
                let findings = patch.findings().clone();
                (has_out_of_range_number, rewrites) = (patch.exceeds_f64(), patch.rewrites());
                (Content::Json(patch), findings, "json patch ")
            }
            PatchType::Merge => {
                let MergePatch { value, findings, rewritten } = merge_patch(bytes, is_strict)?;
                (has_out_of_range_number, rewrites) = (json::raw_number(&value).is_some(), rewritten);
                (Content::Merge(value), findings, "")
            }
            PatchType::Strategic | PatchType::Apply(_) => {
                let (value, findings) = parse_object(bytes).map_err(Status::bad_request)?;
                (Content::Strategic(value), findings, "")
            }
        };
        let strict_errors = findings.iter().map(|finding| format!("{prefix}{finding}")).collect();
        let sent = rewrites.then(|| bytes.into());
        Ok(Self { content, validation, strict_errors, has_out_of_range_number, sent })
    }

    /// Returns the patch with its numbers as sent, if its values would be written differently.
    fn with_sent_numbers(&self) -> Option<Value> {
        self.sent.as_deref().and_then(|sent| json::parse_with_sent_numbers(sent, &Limits::default()).ok())
    }

    /// Returns the merge patch with its numbers or all its values as sent.
    fn merge_as_sent(&self, patch: &Value, style: ResultStyle) -> Value {
        let sent = match style {
            ResultStyle::Quoted => {
                self.sent.as_deref().and_then(|sent| json::parse_as_sent(sent, &Limits::default()).ok())
            }
            _ => self.with_sent_numbers(),
        };
        let mut patch = sent.map_or_else(|| patch.clone(), merge_value);
        decode::show_numbers(&mut patch);
        patch
    }

    /// Returns the patched object. `live` returns the live object; it is called again if an error quotes the result.
    ///
    /// # Errors
    ///
    /// Returns 422 if the patch does not apply or the result is not of the expected kind.
    pub(crate) fn apply(
        &self,
        context: &Context,
        expected: &ExpectedKind<'_>,
        live: &dyn Fn() -> Value,
    ) -> Result<DecodedObject, Status> {
        let apply = |style: ResultStyle| {
            Ok(match (&self.content, style) {
                (Content::Json(patch), ResultStyle::ByValue) => patch.apply_in_order(live())?,
                (Content::Json(patch), ResultStyle::WithSentNumbers) => {
                    patch.with_shown_numbers(self.with_sent_numbers().as_ref()).apply_in_order(live())?
                }
                (Content::Json(patch), ResultStyle::Quoted) => {
                    patch.as_sent(self.sent.as_deref()).apply_in_order(live())?
                }
                (Content::Merge(patch), ResultStyle::WithSentNumbers | ResultStyle::Quoted) => {
                    merge::apply(live(), &self.merge_as_sent(patch, style))
                }
                (Content::Merge(patch), _) => merge::apply(live(), patch),
                (Content::Strategic(patch), _) => {
                    strategic::apply(live(), patch, expected.message).map_err(|error| error.to_status())?
                }
            })
        };
        let refuse = |why: &str| {
            apply(ResultStyle::Quoted).map_or_else(|status| status, |patched| self.invalid(&patched, &live(), why))
        };
        let custom = expected.resource.and_then(|resource| Some((resource, resource.collection.kind.custom.as_ref()?)));
        let decode = |patched: Value| match (&self.content, custom) {
            (_, Some((resource, schema))) => {
                if self.has_out_of_range_number
                    && let Some(number) = json::raw_number(&patched)
                {
                    json::interpret(&patched)?;
                    return Err(JsonError::Number(number.to_owned()).to_string());
                }
                json::interpret(&patched)?;
                if patched.str_at(&["kind"]).is_empty() {
                    // The message has the values as the patch sends them.
                    let shown = apply(ResultStyle::Quoted).unwrap_or(patched);
                    return Err(format!("Object 'Kind' is missing in '{}'", json::to_string(&shown)));
                }
                let report_unknown = self.validation != FieldValidation::Ignore;
                custom_resource::prune(resource, &**schema, patched, Findings::default(), report_unknown)
                    .map_err(|(_, why)| why)
            }
            (Content::Strategic(_), None) => decode_as_expected(patched, expected),
            (_, None) => {
                let mut patched = patched;
                change_free_form_members(&mut patched, expected.message, &keep_text);
                decode_as_named(patched, expected)
            }
        };
        // A built-in kind gets its numbers as sent: a quantity may be larger than any integer.
        let style =
            if custom.is_none() && self.sent.is_some() { ResultStyle::WithSentNumbers } else { ResultStyle::ByValue };
        let mut decoded = decode(apply(style)?);
        // The error for a built-in kind quotes a number.
        let quotes = decoded.is_err() && custom.is_none();
        // The order of members only affects the order of findings.
        let has_order = decoded.as_ref().map_or(true, |decoded| decoded.findings.len() > 1);
        let sorts = has_order && matches!(self.content, Content::Strategic(_));
        if quotes || sorts {
            let mut reapplied = apply(if quotes { ResultStyle::WithSentNumbers } else { ResultStyle::ByValue })?;
            if sorts {
                sort_as_struct(&mut reapplied, expected.message);
            }
            decoded = decode(reapplied);
        }
        let decoded = decoded.map_err(|why| refuse(&why))?;
        let found = decoded.findings.iter().map(|finding| match (&self.content, finding) {
            // Go's converter does not escape the name, unlike its JSON decoder.
            (Content::Strategic(_), Finding::UnknownField(path)) => format!("unknown field \"{path}\""),
            _ => finding.to_string(),
        });
        let mut found: Vec<String> = found.collect();
        if matches!(self.content, Content::Strategic(_)) {
            // The converter sorts its findings.
            found.sort();
        }
        let strict_errors: Vec<String> = self.strict_errors.iter().cloned().chain(found).collect();
        match self.validation {
            FieldValidation::Ignore => {}
            FieldValidation::Warn => strict_errors.into_iter().for_each(|error| context.warn(error)),
            FieldValidation::Strict if strict_errors.is_empty() => {}
            FieldValidation::Strict => {
                return Err(refuse(&format!("strict decoding error: {}", strict_errors.join(", "))));
            }
        }
        Ok(decoded)
    }

    /// Returns the error for an invalid result, which it quotes.
    fn invalid(&self, patched: &Value, live: &Value, why: &str) -> Status {
        let shown = match &self.content {
            Content::Json(_) | Content::Merge(_) => json::to_string(patched),
            // kube-apiserver quotes the patch here, in Go's notation for maps and as modified by its application.
            Content::Strategic(patch) => strategic::go_print(&strategic::left(patch, live)),
        };
        let error = FieldError::invalid(&FieldPath::new("patch"), shown.as_str(), why);
        Status::invalid(&GroupKind::new("", ""), "", &error.into())
    }
}

/// Parses a patch that must be an object; `null` is an empty object.
fn parse_object(bytes: &[u8]) -> Result<(Value, Findings), String> {
    let read = json::parse_with_any_number(bytes, &Limits::default()).map_err(|error| error.to_string())?;
    let AnyNumberDocument { value, findings, beyond, .. } = read;
    match value {
        Value::Object(_) => match beyond {
            Some(number) => Err(JsonError::Number(number).to_string()),
            None => Ok((value, findings)),
        },
        Value::Null => Ok((Value::Object(binnacle_schema::Object::new()), findings)),
        other => {
            let found = json::json_type(&other);
            Err(format!("json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"))
        }
    }
}

struct MergePatch {
    value: Value,
    findings: Findings,
    /// True if a number would be reformatted when written.
    rewritten: bool,
}

/// Parses a merge patch. With field validation kube-apiserver parses it twice, and first rejects anything but an
/// object; without it, a list is accepted here and rejected later.
fn merge_patch(bytes: &[u8], is_strict: bool) -> Result<MergePatch, Status> {
    let none = || Status::bad_request("Invalid JSON Patch");
    match json::parse_with_any_number(bytes, &Limits::default()) {
        Ok(AnyNumberDocument { value: Value::Null, .. }) => Err(none()),
        Ok(AnyNumberDocument { value, findings, beyond, rewrites })
            if match value {
                Value::Object(_) => !is_strict || beyond.is_none(),
                Value::List(_) => !is_strict,
                _ => false,
            } =>
        {
            Ok(MergePatch { value: merge_value(value), findings, rewritten: rewrites })
        }
        _ if !is_strict => Err(none()),
        _ => parse_object(bytes)
            .map(|(value, findings)| MergePatch { value, findings, rewritten: false })
            .map_err(|why| Status::bad_request(format!("error decoding patch: {why}"))),
    }
}

/// Returns the merge patch in the form in which it is applied.
fn merge_value(patch: Value) -> Value {
    if patch.as_list().is_some() { merge::pruned(&patch) } else { patch }
}

/// Decodes a result as the expected kind, ignoring the kind in it, because kube-apiserver applies strategic merge
/// patches to the fields of a typed struct.
fn decode_as_expected(mut patched: Value, expected: &ExpectedKind<'_>) -> Result<DecodedObject, String> {
    decode::convert_numbers(&mut patched, expected.message)?;
    expected.set_type_meta(&mut patched);
    // Go's converter writes them as the JSON of maps.
    change_free_form_members(&mut patched, expected.message, &binnacle_schema::sort_free_form);
    decode::converted(patched, expected.message).map_err(|error| error.to_string())
}

/// Decodes a result as the kind in it, and converts it to the expected kind.
fn decode_as_named(mut patched: Value, expected: &ExpectedKind<'_>) -> Result<DecodedObject, String> {
    let without_type_meta = |why: String| format!("couldn't get version/kind; json parse error: {why}");
    if patched.is_null() {
        return Err(without_type_meta(json::no_type_meta("null")));
    }
    let meta = json::tree_type_meta(&patched).map_err(without_type_meta)?;
    // Go reads a slash as no version.
    let mut api_version = if meta.api_version == "/" { String::new() } else { meta.api_version.to_string() };
    // Scales of custom resources have no internal version.
    if api_version.is_empty() && !expected.has_server_scheme() {
        api_version = GroupVersion::new(expected.group, expected.version).to_string();
    }
    let kind = Some(meta.kind.as_str()).filter(|kind| !kind.is_empty()).unwrap_or(expected.kind).to_owned();
    if api_version.is_empty() {
        return decode_without_version(&patched, &kind, expected);
    }
    let given =
        GroupVersion::parse(&api_version).ok_or_else(|| format!("unexpected GroupVersion string: {api_version}"))?;
    // Other kinds than the expected one are registered only in the schemes of API servers.
    let known = body::registered_message(expected.kinds, expected.group, &given, &kind);
    let Some(message) = known.filter(|_| kind == expected.kind || expected.has_server_scheme()) else {
        return Err(not_registered(&kind, &format!("version {}", go_quote(&given.to_string())), expected.scheme));
    };
    if given.group == expected.group && given.version == expected.version && kind == expected.kind {
        expected.set_type_meta(&mut patched);
        return decode::value(patched, expected.message).map_err(|error| error.to_string());
    }
    // Decoding as its own kind comes first, and may fail.
    patched.make_object().insert("kind", kind.as_str());
    let read = decode::value(patched, message).map_err(|error| error.to_string())?;
    if kind != expected.kind {
        return Err(body::unknown_conversion(&given, &kind, expected.group, expected.kind));
    }
    let mut value = read.value;
    if let (Some(resource), Some(conversion)) =
        (expected.resource, expected.kinds.conversion(&given.group, &given.version, &kind))
    {
        (conversion.to_stored)(&mut value);
        resource.from_stored(&mut value);
    }
    expected.set_type_meta(&mut value);
    let converted = decode::value(value, expected.message).map_err(|error| error.to_string())?;
    Ok(DecodedObject { findings: read.findings, ..converted })
}

/// Decodes a result without a version. kube-apiserver uses its internal type, whose field names differ from JSON: all
/// members are unknown, and the result is empty.
fn decode_without_version(patched: &Value, kind: &str, expected: &ExpectedKind<'_>) -> Result<DecodedObject, String> {
    if kind != expected.kind {
        let version = GroupVersion::new(expected.group, expected.version);
        if body::registered_message(expected.kinds, expected.group, &version, kind).is_some() {
            let package = body::internal_package(expected.group);
            return Err(format!("converting ({package}.{kind}) to ({package}.{}): unknown conversion", expected.kind));
        }
        let version = format!("the internal version of group {}", go_quote(expected.group));
        return Err(not_registered(kind, &version, expected.scheme));
    }
    let mut findings = Findings::default();
    let members = patched.as_object().into_iter().flat_map(|members| members.iter());
    let unknown = members.filter(|(name, _)| !matches!(name.as_str(), "apiVersion" | "kind"));
    findings.extend(unknown.map(|(name, _)| Finding::UnknownField(name.to_string())));
    let mut empty = Value::Object(binnacle_schema::Object::new());
    expected.set_type_meta(&mut empty);
    let decoded = decode::value(empty, expected.message).map_err(|error| error.to_string())?;
    Ok(DecodedObject { findings, ..decoded })
}

fn not_registered(kind: &str, version: &str, scheme: &str) -> String {
    let kind = go_quote(kind);
    format!("no kind {kind} is registered for {version} in scheme \"{scheme}\"")
}

impl ExpectedKind<'_> {
    fn has_server_scheme(&self) -> bool {
        self.scheme == body::scheme_location(self.group)
    }

    fn set_type_meta(&self, object: &mut Value) {
        let members = object.make_object();
        members.insert("kind", self.kind);
        members.insert("apiVersion", GroupVersion::new(self.group, self.version).to_string());
    }
}

/// Changes the free-form parts of a struct.
fn change_free_form_members(value: &mut Value, message: &Message, change: &dyn Fn(&mut Value)) {
    for (name, member) in value.as_object_mut().into_iter().flat_map(|members| members.iter_mut()) {
        if let Some((_, field)) = message.field(name, 0) {
            change_free_form_parts(member, &field.ty, change);
        }
    }
}

fn change_free_form_parts(value: &mut Value, ty: &Ty, change: &dyn Fn(&mut Value)) {
    match (value, ty) {
        (value, Ty::RawExtension | Ty::Json) => change(value),
        (value, Ty::Message(message)) => change_free_form_members(value, message, change),
        (Value::List(items), ty) => {
            if let Some(element @ (Ty::Message(_) | Ty::RawExtension | Ty::Json)) = ty.element() {
                items.iter_mut().for_each(|item| change_free_form_parts(item, element, change));
            }
        }
        _ => {}
    }
}

/// Turns an object or list with numbers that would be written differently into its text, which Go keeps.
fn keep_text(part: &mut Value) {
    if matches!(part, Value::Object(_) | Value::List(_)) && (json::raw_number(part).is_some() || has_whole_float(part))
    {
        decode::show_numbers(part);
        *part = Value::Raw(json::to_string(part).into());
    }
}

fn has_whole_float(value: &Value) -> bool {
    match value {
        Value::Float(number) => number.fract() == 0.0,
        Value::Object(members) => members.values().any(has_whole_float),
        Value::List(items) => items.iter().any(has_whole_float),
        _ => false,
    }
}

/// Sorts members in the order of Go's converter of unstructured objects: unknown members first, then fields in
/// declaration order.
fn sort_as_struct(value: &mut Value, message: &Message) {
    let Some(members) = value.as_object_mut() else { return };
    members.sort_by_key(|name| message.field(name, 0).map_or(0, |(index, _)| index + 1));
    for (name, member) in members.iter_mut() {
        if let Some((_, field)) = message.field(name, 0) {
            sort_as(member, &field.ty);
        }
    }
}

fn sort_as(value: &mut Value, ty: &Ty) {
    match (value, ty) {
        (value, Ty::Message(message)) => sort_as_struct(value, message),
        (Value::List(items), ty) => {
            if let Some(element) = ty.element() {
                items.iter_mut().for_each(|item| sort_as(item, element));
            }
        }
        (Value::Object(members), ty) => {
            if let Some(element) = ty.map_value() {
                members.iter_mut().for_each(|(_, member)| sort_as(member, element));
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use binnacle_request::User;

    use super::*;

    fn expected() -> ExpectedKind<'static> {
        let message = binnacle_kinds::tables::kind("apps", "v1", "Deployment").unwrap();
        ExpectedKind {
            group: "apps",
            version: "v1",
            kind: "Deployment",
            message,
            kinds: &binnacle_kinds::BuiltInKinds,
            scheme: body::scheme_location("apps"),
            resource: None,
        }
    }

    fn value(text: &str) -> Value {
        json::parse(text.as_bytes(), &Limits::default()).unwrap()
    }

    #[test]
    fn decodes_results_as_the_named_type() {
        let unregistered = |kind: &str, version: &str| {
            format!("no kind \"{kind}\" is registered for {version} in scheme \"pkg/api/legacyscheme/scheme.go:30\"")
        };
        for (patched, want) in [
            (r#"{"apiVersion":"apps/v1","kind":"Deployment"}"#, Ok(())),
            (r#"{"apiVersion":"apps/v1"}"#, Ok(())),
            (r#"{"apiVersion":"apps/v1","kind":null}"#, Ok(())),
            (r#"{"apiVersion":"apps/v1","kind":""}"#, Ok(())),
            (r#"{"apiVersion":"extensions/v1beta1","kind":"Deployment"}"#, Ok(())),
            (r#"{"apiVersion":"apps/v1beta2","kind":"Deployment"}"#, Ok(())),
            (
                r#"{"apiVersion":"v1","kind":"Pod"}"#,
                Err("converting (v1.Pod) to (apps.Deployment): unknown conversion".to_owned()),
            ),
            (r#"{"apiVersion":"apps/v2"}"#, Err(unregistered("Deployment", "version \"apps/v2\""))),
            (r#"{"apiVersion":"apps/v1","kind":"Pod"}"#, Err(unregistered("Pod", "version \"apps/v1\""))),
            (r#"{"kind":"Pod"}"#, Err(unregistered("Pod", "the internal version of group \"apps\""))),
            (
                r#"{"kind":"DaemonSet"}"#,
                Err("converting (apps.DaemonSet) to (apps.Deployment): unknown conversion".to_owned()),
            ),
            (r#"{"apiVersion":"a/b/c"}"#, Err("unexpected GroupVersion string: a/b/c".to_owned())),
            (
                r#"{"apiVersion":1}"#,
                Err("couldn't get version/kind; json parse error: json: cannot unmarshal number into Go struct field .apiVersion of type string".to_owned()),
            ),
        ] {
            let read = decode_as_named(value(patched), &expected());
            assert_eq!(read.as_ref().map(|_| ()).map_err(Clone::clone), want, "{patched}");
            if let Ok(read) = read {
                assert_eq!(read.value.str_at(&["apiVersion"]), "apps/v1");
                assert_eq!(read.value.str_at(&["kind"]), "Deployment");
            }
        }
        let list = decode_as_named(value("[]"), &expected()).err().unwrap();
        assert!(
            list.starts_with("couldn't get version/kind; json parse error: json: cannot unmarshal array"),
            "{list}"
        );
    }

    /// kube-apiserver decodes such a result as its internal type, whose field names differ.
    #[test]
    fn result_without_version_is_empty() {
        let read =
            decode_as_named(value(r#"{"kind":"Deployment","metadata":{"name":"a"},"spec":{}}"#), &expected()).unwrap();
        assert_eq!(read.value.str_at(&["metadata", "name"]), "");
        let found: Vec<String> = read.findings.iter().map(ToString::to_string).collect();
        assert_eq!(found, [r#"unknown field "metadata""#, r#"unknown field "spec""#]);
    }

    #[test]
    fn strategic_patch_ignores_the_named_type() {
        for (patched, want) in [
            (r#"{"apiVersion":"v1","kind":"Pod"}"#, Ok(())),
            (r#"{"apiVersion":"a/b/c"}"#, Ok(())),
            (r#"{"kind":1}"#, Err("cannot convert int64 to string")),
            (r#"{"kind":{}}"#, Err("unrecognized type: string")),
        ] {
            let read = decode_as_expected(value(patched), &expected());
            assert_eq!(read.as_ref().map(|_| ()).map_err(String::as_str), want, "{patched}");
        }
    }

    /// kube-apiserver's library preserves the text of values that a patch adds.
    #[test]
    fn errors_quote_numbers_as_sent() {
        let context = Context::new(User::new("a", &[]), "".into(), false);
        let live = || value(r#"{"apiVersion":"apps/v1","kind":"Deployment","spec":{"replicas":1}}"#);
        for (kind, patch) in [
            (PatchType::Merge, r#"{"spec":{"replicas":NUMBER}}"#),
            (
                PatchType::Json,
                r#"[{"op":"test","path":"/spec/replicas","value":1},{"op":"add","path":"/spec/replicas","value":NUMBER}]"#,
            ),
        ] {
            for number in ["1e3", "1.50", "1E+2", "100.0", "1.5"] {
                let patch = patch.replace("NUMBER", number);
                let patch = Patch::parse(kind, patch.as_bytes(), FieldValidation::Strict).unwrap();
                let error = patch.apply(&context, &expected(), &live).err().unwrap();
                let want = format!(
                    r#" "" is invalid: patch: Invalid value: "{{\"apiVersion\":\"apps/v1\",\"kind\":\"Deployment\",\"spec\":{{\"replicas\":{number}}}}}": json: cannot unmarshal number {number} into Go struct field DeploymentSpec.spec.replicas of type int32"#
                );
                assert_eq!(error.message(), want);
            }
        }
    }

    /// Strings, too; those of the live object are escaped as Go does.
    #[test]
    fn errors_quote_strings_as_sent() {
        let context = Context::new(User::new("a", &[]), "".into(), false);
        let live = || value(r#"{"apiVersion":"apps/v1","kind":"Deployment","spec":{"replicas":"<\u0041"}}"#);
        for (kind, patch) in [
            (PatchType::Merge, r#"{"spec":{"x":["\u0041\/<"]}}"#),
            (PatchType::Json, r#"[{"op":"add","path":"/spec/x","value":["\u0041\/<"]}]"#),
        ] {
            let patch = Patch::parse(kind, patch.as_bytes(), FieldValidation::Strict).unwrap();
            let error = patch.apply(&context, &expected(), &live).err().unwrap();
            let want = r#" "" is invalid: patch: Invalid value: "{\"apiVersion\":\"apps/v1\",\"kind\":\"Deployment\",\"spec\":{\"replicas\":\"\\u003cA\",\"x\":[\"\\u0041\\/\\u003c\"]}}": json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32"#;
            assert_eq!(error.message(), want);
        }
    }

    #[test]
    fn rejects_bodies_that_are_not_patches() {
        use FieldValidation::{Ignore, Warn};
        let map = "json: cannot unmarshal array into Go value of type map[string]interface {}";
        for (kind, body, validation, want) in [
            (PatchType::Merge, "null", Warn, Some("Invalid JSON Patch".to_owned())),
            (PatchType::Merge, "null", Ignore, Some("Invalid JSON Patch".to_owned())),
            (PatchType::Merge, "[]", Warn, Some(format!("error decoding patch: {map}"))),
            (PatchType::Merge, "[]", Ignore, None),
            (PatchType::Merge, "\"\"", Ignore, Some("Invalid JSON Patch".to_owned())),
            (PatchType::Merge, "{\"a\":", Ignore, Some("Invalid JSON Patch".to_owned())),
            (PatchType::Merge, "{}", Warn, None),
            (PatchType::Strategic, "null", Warn, None),
            (PatchType::Strategic, "[]", Warn, Some(map.to_owned())),
            (PatchType::Strategic, "{\"a\":", Ignore, Some("unexpected end of JSON input".to_owned())),
            (PatchType::Json, "{\"a\":", Warn, Some("error decoding patch: unexpected end of JSON input".to_owned())),
            (PatchType::Json, "{\"a\":", Ignore, Some("unexpected end of JSON input".to_owned())),
        ] {
            let read = Patch::parse(kind, body.as_bytes(), validation);
            let refused = read.err().map(|status| (status.code(), status.message().to_owned()));
            assert_eq!(refused, want.map(|message| (400, message)), "{kind:?} {body} {validation:?}");
        }
    }
}
