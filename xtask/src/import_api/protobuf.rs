//! Protobuf field numbers, from `generated.proto` files or from their JSON extract.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// A field of a protobuf message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProtoField {
    pub(crate) name: String,
    pub(crate) number: u32,
    pub(crate) ty: ProtoTy,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ProtoTy {
    /// `string`, `int32`...
    Scalar(String),
    /// The OpenAPI definition name.
    Message(String),
    Repeated(Box<ProtoTy>),
    /// Keys are strings.
    Map(Box<ProtoTy>),
}

/// Messages by their OpenAPI definition name.
pub(crate) type Messages = BTreeMap<String, Vec<ProtoField>>;

/// Packages of tests and of other API servers.
const FOREIGN: [&str; 4] =
    ["k8s.io.metrics.", "testapigroup", "k8s.io.apiserver.pkg.apis.example", "k8s.io.apiserver.pkg.apis.example2"];

/// Reads the JSON extract, or all `generated.proto` below a folder.
pub(crate) fn read(path: &Path) -> Result<Messages, String> {
    let mut messages = Messages::new();
    if path.is_dir() {
        let mut files = Vec::new();
        find(path, 0, &mut files).map_err(|e| format!("{}: {e}", path.display()))?;
        for file in files {
            let text = fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
            read_proto(&text, &mut messages).map_err(|e| format!("{}: {e}", file.display()))?;
        }
    } else {
        let text = fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
        read_extract(&text, &mut messages).map_err(|e| format!("{}: {e}", path.display()))?;
    }
    Ok(messages)
}

fn find(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    // Vendored copies and hidden folders hold other versions.
    const SKIPPED: [&str; 3] = ["vendor", "_output", ".git"];
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() && !path.is_symlink() && depth < 12 && !SKIPPED.contains(&name) {
            find(&path, depth + 1, files)?;
        } else if name == "generated.proto" {
            files.push(path);
        }
    }
    Ok(())
}

fn is_foreign(package: &str) -> bool {
    FOREIGN.iter().any(|foreign| package.contains(foreign))
}

fn read_extract(text: &str, messages: &mut Messages) -> Result<(), String> {
    /// Package, message, then name, number and type of its fields.
    type Extract = BTreeMap<String, BTreeMap<String, Vec<(String, u32, String)>>>;
    let packages: Extract =
        serde_json::from_str::<Value>(text).and_then(serde_json::from_value).map_err(|e| e.to_string())?;
    for (package, members) in packages.iter().filter(|(package, _)| !is_foreign(package)) {
        for (message, fields) in members {
            let fields = fields.iter().map(|(name, number, ty)| {
                let (repeated, ty) =
                    ty.strip_prefix("repeated ").map_or((false, ty.as_str()), |element| (true, element));
                field(name, *number, repeated, ty, package)
            });
            messages.insert(format!("{}.{message}", definition_prefix(package)), fields.collect::<Result<_, _>>()?);
        }
    }
    Ok(())
}

/// The subset of proto2 that the generator of Kubernetes writes: flat messages, one field a line.
fn read_proto(text: &str, messages: &mut Messages) -> Result<(), String> {
    let mut package = "";
    let mut current: Option<String> = None;
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("package ") {
            package = name.trim_end_matches(';').trim();
            if is_foreign(package) {
                return Ok(());
            }
        } else if let Some(name) = line.strip_prefix("message ") {
            if current.is_some() {
                return Err(format!("nested message: {line}"));
            }
            let name = format!("{}.{}", definition_prefix(package), name.trim_end_matches('{').trim());
            messages.insert(name.clone(), Vec::new());
            current = Some(name);
        } else if line == "}" {
            current = None;
        } else if let Some(message) = &current {
            if line.is_empty() || line.starts_with("//") {
                continue;
            }
            let field = read_proto_field(line, package).ok_or(format!("not understood: {line}"))??;
            messages.entry(message.clone()).or_default().push(field);
        }
    }
    Ok(())
}

fn read_proto_field(line: &str, package: &str) -> Option<Result<ProtoField, String>> {
    let (before, number) = line.strip_suffix(';')?.split_once('=')?;
    let number = number.split('[').next()?.trim().parse().ok()?;
    let before = before.trim();
    let (repeated, rest) = match before.split_once(' ')? {
        ("repeated", rest) => (true, rest),
        ("optional" | "required", rest) => (false, rest),
        _ => (false, before),
    };
    let (ty, name) = rest.trim().rsplit_once(' ')?;
    Some(field(name, number, repeated, &ty.replace(' ', ""), package))
}

fn field(name: &str, number: u32, repeated: bool, ty: &str, package: &str) -> Result<ProtoField, String> {
    let ty = proto_ty(ty, package)?;
    let ty = if repeated { ProtoTy::Repeated(Box::new(ty)) } else { ty };
    Ok(ProtoField { name: name.into(), number, ty })
}

fn proto_ty(text: &str, package: &str) -> Result<ProtoTy, String> {
    if let Some(map) = text.strip_prefix("map<").and_then(|text| text.strip_suffix('>')) {
        let value = map.strip_prefix("string,").ok_or(format!("keys that are no strings: {text}"))?;
        return Ok(ProtoTy::Map(Box::new(proto_ty(value, package)?)));
    }
    const SCALARS: [&str; 8] = ["string", "bool", "int32", "int64", "uint32", "double", "bytes", "uint64"];
    if SCALARS.contains(&text) {
        return Ok(ProtoTy::Scalar(text.into()));
    }
    let full = match text.strip_prefix('.').unwrap_or(text).rsplit_once('.') {
        Some((owner, short)) => format!("{}.{short}", definition_prefix(owner)),
        None => format!("{}.{text}", definition_prefix(package)),
    };
    Ok(ProtoTy::Message(full))
}

/// `k8s.io.apiextensions_apiserver.pkg` is `io.k8s.apiextensions-apiserver.pkg` in OpenAPI.
fn definition_prefix(package: &str) -> String {
    format!("io.k8s.{}", package.trim_start_matches("k8s.io.").replace('_', "-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_same_fields_from_both_sources() {
        let proto = "\
syntax = \"proto2\";
package k8s.io.kube_aggregator.pkg.apis.apiregistration.v1;
import \"k8s.io/api/core/v1/generated.proto\";

// A comment with message Words {
message Sample {
  // What it is.
  optional string name = 1;

  map<string, .k8s.io.apimachinery.pkg.api.resource.Quantity> limits = 2;

  repeated Other items = 3;

  required int32 n = 14;
}

message Other {
}
";
        let extract = r#"{"k8s.io.kube_aggregator.pkg.apis.apiregistration.v1": {"Other": [], "Sample": [
            ["name", 1, "string"], ["limits", 2, "map<string,.k8s.io.apimachinery.pkg.api.resource.Quantity>"],
            ["items", 3, "repeated Other"], ["n", 14, "int32"]]}, "k8s.io.metrics.pkg.x": {"Gone": []}}"#;
        let (mut a, mut b) = (Messages::new(), Messages::new());
        read_proto(proto, &mut a).unwrap();
        read_extract(extract, &mut b).unwrap();
        assert_eq!(a, b);
        let sample = &a["io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.Sample"];
        let quantity = ProtoTy::Message("io.k8s.apimachinery.pkg.api.resource.Quantity".into());
        assert_eq!(sample[1].ty, ProtoTy::Map(Box::new(quantity)));
        assert_eq!(sample[3].number, 14);
        assert!(read_proto("package k8s.io.a;\nmessage X {\n  nonsense\n}\n", &mut a).is_err());
    }
}
