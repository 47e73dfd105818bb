//! The fields of a Go struct as a table has them: order, presence, embedding and protobuf numbers.

use std::rc::Rc;

use binnacle_tables::{DefaultValue, Field, ListType, Patch, Presence, Ty};

use super::agree::wrapped;
use super::go::{Constant, GoField, GoType, Package, Tree};
use super::protobuf::Messages;
use super::special::special;

/// `runtime.Unknown`, in audit events alone: any object in JSON, the storage envelope in protobuf, in which audit
/// events are never sent.
pub(crate) const UNKNOWN: &str = "io.k8s.apimachinery.pkg.runtime.Unknown";

/// The class of a type to Go's JSON encoder, which decides the meaning of `omitempty`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Scalar,
    /// Slices and maps.
    Container,
    Struct,
    Pointer,
    Interface,
}

struct ResolvedType {
    ty: Ty,
    class: Class,
    /// The values of the enum at the bottom.
    values: Vec<String>,
    /// Its protobuf form is one that the model does not have.
    json_only: bool,
}

/// Reads structs of a checkout. `messages` decides which named lists are messages in protobuf.
pub(crate) struct GoFields<'a> {
    pub(crate) tree: Tree,
    pub(crate) messages: &'a Messages,
}

/// `k8s.io/api/core/v1` for `io.k8s.api.core.v1`. Only the segments' dots are lost, and no package of the API has one.
pub(crate) fn import_path(package: &str) -> Option<String> {
    Some(format!("k8s.io/{}", package.strip_prefix("io.k8s.")?.replace('.', "/")))
}

fn definition_name(import_path: &str, name: &str) -> Option<String> {
    Some(format!("io.k8s.{}.{name}", import_path.strip_prefix("k8s.io/")?.replace('/', ".")))
}

impl GoFields<'_> {
    /// The fields of the struct behind a definition name; `None` where the checkout does not have it.
    pub(crate) fn fields(&mut self, definition: &str) -> Result<Option<Vec<Field>>, String> {
        let Some((package, name)) = definition.rsplit_once('.') else { return Ok(None) };
        let Some(path) = import_path(package) else { return Ok(None) };
        let Some(package) = self.tree.package(&path)? else { return Ok(None) };
        if !package.types.contains_key(name) {
            return Ok(None);
        }
        self.struct_fields(&path, &package, name, 0).map(Some)
    }

    /// The definition name of a type of a package, behind an alias that of its target.
    pub(crate) fn definition_of(&mut self, package: &str, source: &Package, name: &str) -> Result<String, String> {
        let path = import_path(package).ok_or(format!("{package} is a foreign package"))?;
        match source.types.get(name) {
            Some(GoType::Alias(target)) => {
                let (path, _, name) = self.locate(&path, source, name, target)?;
                definition_name(&path, &name).ok_or(format!("{target} is of a foreign package"))
            }
            Some(_) => Ok(format!("{package}.{name}")),
            None => Err(format!("{name} is registered but not declared")),
        }
    }

    fn struct_fields(&mut self, path: &str, package: &Package, name: &str, depth: usize) -> Result<Vec<Field>, String> {
        if depth > 8 {
            return Err(format!("{name} embeds too deep"));
        }
        match package.types.get(name) {
            Some(GoType::Struct(declared)) => {
                let mut fields = Vec::new();
                for field in declared.clone() {
                    self.add(path, package, name, &field, depth, &mut fields)?;
                }
                Ok(fields)
            }
            // `type List metav1.List` has the fields of the other.
            Some(GoType::Named(other) | GoType::Alias(other)) => {
                let (path, package, name) = self.locate(path, package, name, other)?;
                self.struct_fields(&path, &package, &name, depth + 1)
            }
            Some(GoType::Opaque(problem)) => Err(format!("{name}: {problem}")),
            None => Err(format!("{path} has no struct {name}")),
        }
    }

    fn add(
        &mut self,
        path: &str,
        package: &Package,
        owner: &str,
        declared: &GoField,
        depth: usize,
        fields: &mut Vec<Field>,
    ) -> Result<(), String> {
        let json = declared.tag("json").unwrap_or_default();
        let mut options = json.split(',');
        let json_name = options.next().unwrap_or_default();
        let options: Vec<&str> = options.collect();
        if json == "-" {
            return Ok(());
        }
        let number = proto_number(declared)?;
        let embedded = declared.name.is_empty();
        if embedded && json_name.is_empty() {
            let (path, package, name) = self.locate(path, package, owner, &declared.ty)?;
            for mut field in self.struct_fields(&path, &package, &name, depth + 1)? {
                match number {
                    Some(number) => field.embedded_in.insert(0, number),
                    // Embedded for JSON alone, as `TypeMeta` is in kinds.
                    None => field.tag = 0,
                }
                fields.push(field);
            }
            return Ok(());
        }
        if !embedded && declared.name.starts_with(|c: char| c.is_lowercase()) {
            return Ok(());
        }
        let name = if json_name.is_empty() { declared.name.as_str() } else { json_name };
        let in_field = |e: String| format!("{owner}.{}: {e}", declared.name);
        let resolved = self.resolve(path, package, owner, &declared.ty, 0).map_err(in_field)?;
        let go_type = self.go_type(path, package, owner, declared.ty.trim_start_matches('*')).map_err(in_field)?;
        let told = told(&resolved.ty);
        fields.push(Field {
            name: name.into(),
            tag: if resolved.json_only { 0 } else { number.unwrap_or(0) },
            embedded_in: Vec::new(),
            presence: presence(resolved.class, &options).map_err(in_field)?,
            ty: resolved.ty,
            required: false,
            list_type: ListType::Unset,
            patch: patch(declared).map_err(in_field)?,
            default: DefaultValue::None,
            values: resolved.values,
            go_type: if told.as_ref() == Some(&go_type) || told.is_none() { String::new() } else { go_type },
        });
        Ok(())
    }

    /// A type as Go prints it: with the package that declares it, `[]v1.PersistentVolumeAccessMode`.
    fn go_type(&mut self, path: &str, package: &Package, owner: &str, expression: &str) -> Result<String, String> {
        for prefix in ["*", "[]"] {
            if let Some(inner) = expression.strip_prefix(prefix) {
                return Ok(format!("{prefix}{}", self.go_type(path, package, owner, inner)?));
            }
        }
        if let Some((key, value)) = expression.strip_prefix("map[").and_then(|map| map.split_once(']')) {
            let [key, value] = [key, value].map(|inner| self.go_type(path, package, owner, inner));
            return Ok(format!("map[{}]{}", key?, value?));
        }
        match expression {
            "byte" => return Ok("uint8".into()),
            "interface{}" | "any" => return Ok("interface {}".into()),
            "string" | "bool" | "int32" | "int64" | "uint32" | "float64" => return Ok(expression.into()),
            _ => {}
        }
        let (target, name) = qualified(path, package, owner, expression)?;
        let declaring = self.tree.package(target)?;
        if let Some(declaring) = &declaring
            && let Some(GoType::Alias(other)) = declaring.types.get(name)
        {
            return self.go_type(target, &declaring.clone(), name, other);
        }
        Ok(format!("{}.{name}", target.rsplit('/').next().unwrap_or(target)))
    }

    /// Finds the package and name of a possibly qualified type name.
    fn locate(
        &mut self,
        path: &str,
        package: &Package,
        owner: &str,
        expression: &str,
    ) -> Result<(String, Rc<Package>, String), String> {
        let (path, name) = qualified(path, package, owner, expression)?;
        let (path, name) = (path.to_string(), name.to_string());
        let package = self.tree.package(&path)?.ok_or(format!("{owner}: the checkout has no {path}"))?;
        Ok((path, package, name))
    }

    /// The sorted values of an enum, none for a type that is none.
    fn enum_values(&mut self, package: &Package, ty: &str) -> Result<Vec<String>, String> {
        let mut values = Vec::new();
        for constant in package.enum_constants(ty) {
            values.push(self.constant_value(package, constant, 0).map_err(|e| format!("{ty}: {e}"))?);
        }
        values.sort();
        values.dedup();
        Ok(values)
    }

    /// Follows a constant to its text, into other packages where it is made from theirs.
    fn constant_value(&mut self, package: &Package, constant: &Constant, depth: usize) -> Result<String, String> {
        let value = constant.value();
        if let Some(text) = value.strip_prefix('"').and_then(|value| value.strip_suffix('"')) {
            return Ok(text.into());
        }
        let unknown = || format!("the constant {value} is not understood");
        if depth > 8 {
            return Err(unknown());
        }
        match value.split_once('.') {
            None => self.constant_value(package, package.constant(value).ok_or_else(unknown)?, depth + 1),
            Some((qualifier, name)) => {
                let path = package.constant_import(constant, qualifier).ok_or_else(unknown)?;
                let package = self.tree.package(path)?.ok_or_else(unknown)?;
                self.constant_value(&package, package.constant(name).ok_or_else(unknown)?, depth + 1)
            }
        }
    }

    fn resolve(
        &mut self,
        path: &str,
        package: &Package,
        owner: &str,
        expression: &str,
        depth: usize,
    ) -> Result<ResolvedType, String> {
        if depth > 16 {
            return Err(format!("{expression} is nested too deep"));
        }
        let plain = |ty, class| Ok(ResolvedType { ty, class, values: Vec::new(), json_only: false });
        if let Some(target) = expression.strip_prefix('*') {
            let resolved = self.resolve(path, package, owner, target, depth + 1)?;
            return match resolved.class {
                Class::Pointer | Class::Container => Err(format!("{expression} is not understood")),
                _ => Ok(ResolvedType { class: Class::Pointer, ..resolved }),
            };
        }
        if expression == "[]byte" {
            return plain(Ty::Bytes, Class::Container);
        }
        if let Some(element) = expression.strip_prefix("[]") {
            let element = self.resolve(path, package, owner, element, depth + 1)?;
            return Ok(ResolvedType { ty: Ty::list(element.ty), class: Class::Container, ..element });
        }
        if let Some(map) = expression.strip_prefix("map[") {
            let (key, value) = map.split_once(']').ok_or(format!("{expression} is not understood"))?;
            if self.resolve(path, package, owner, key, depth + 1)?.ty != Ty::String {
                return Err(format!("{expression} has keys that are no texts"));
            }
            let value = self.resolve(path, package, owner, value, depth + 1)?;
            return Ok(ResolvedType { ty: Ty::map(value.ty), class: Class::Container, ..value });
        }
        match expression {
            "string" => return plain(Ty::String, Class::Scalar),
            "bool" => return plain(Ty::Bool, Class::Scalar),
            "int32" => return plain(Ty::Int32, Class::Scalar),
            "int64" => return plain(Ty::Int64, Class::Scalar),
            "uint32" => return plain(Ty::Uint32, Class::Scalar),
            "float64" => return plain(Ty::Double, Class::Scalar),
            "interface{}" | "any" => return plain(Ty::Json, Class::Interface),
            _ => {}
        }
        let (target, name) = qualified(path, package, owner, expression)?;
        let definition = definition_name(target, name).ok_or(format!("{expression} is of a foreign package"))?;
        if let Some(ty) = special(&definition) {
            return plain(ty, Class::Struct);
        }
        if definition == UNKNOWN {
            let ty = Ty::RawExtension;
            return Ok(ResolvedType { ty, class: Class::Struct, values: Vec::new(), json_only: true });
        }
        let (path, package, name) = self.locate(path, package, owner, expression)?;
        match package.types.get(&name).cloned() {
            Some(GoType::Struct(_) | GoType::Opaque(_)) => plain(Ty::Message(definition), Class::Struct),
            Some(GoType::Alias(other)) => self.resolve(&path, &package, &name, &other, depth + 1),
            Some(GoType::Named(other)) => {
                let mut resolved = self.resolve(&path, &package, &name, &other, depth + 1)?;
                if resolved.class == Class::Struct && special(&definition).is_none() {
                    // A struct type made from another is a definition of its own.
                    return plain(Ty::Message(definition), Class::Struct);
                }
                if let (Ty::List(element), Some(_)) = (&resolved.ty, wrapped(&definition, self.messages)) {
                    resolved.ty = Ty::WrappedList(element.clone());
                }
                let values = self.enum_values(&package, &name)?;
                Ok(ResolvedType { values: if values.is_empty() { resolved.values } else { values }, ..resolved })
            }
            None => Err(format!("{path} has no type {name}")),
        }
    }
}

/// Returns the Go type for a type of the tables that has no name in Go; `None` for types with their own decoder, whose
/// errors do not contain a type.
fn told(ty: &Ty) -> Option<String> {
    Some(match ty {
        Ty::String => "string".into(),
        Ty::Bool => "bool".into(),
        Ty::Int32 => "int32".into(),
        Ty::Int64 => "int64".into(),
        Ty::Uint32 => "uint32".into(),
        Ty::Double => "float64".into(),
        Ty::Bytes => "[]uint8".into(),
        Ty::Message(name) => {
            name.rsplitn(3, '.').take(2).collect::<Vec<_>>().into_iter().rev().collect::<Vec<_>>().join(".")
        }
        Ty::List(element) | Ty::WrappedList(element) => format!("[]{}", told(element)?),
        Ty::Map(value) if **value == Ty::Quantity => "v1.ResourceList".into(),
        // Its values read themselves, but the map does not.
        Ty::Map(value) if matches!(**value, Ty::SchemaOrStrings(_)) => {
            "map[string]v1.JSONSchemaPropsOrStringArray".into()
        }
        Ty::Map(value) => format!("map[string]{}", told(value)?),
        _ => return None,
    })
}

/// The import path and the bare name of a possibly qualified type name.
fn qualified<'a>(
    path: &'a str,
    package: &'a Package,
    owner: &str,
    expression: &'a str,
) -> Result<(&'a str, &'a str), String> {
    match expression.split_once('.') {
        None => Ok((path, expression)),
        Some((qualifier, name)) => {
            Ok((package.import(owner, qualifier).ok_or(format!("{owner}: no import {qualifier}"))?, name))
        }
    }
}

fn proto_number(declared: &GoField) -> Result<Option<u32>, String> {
    let Some(tag) = declared.tag("protobuf") else { return Ok(None) };
    let number = tag.split(',').nth(1).and_then(|number| number.parse().ok());
    number.map(Some).ok_or(format!("{}: not understood: protobuf:{tag:?}", declared.name))
}

/// The treatment of the zero value: see `Presence` of the schema crate.
fn presence(class: Class, options: &[&str]) -> Result<Presence, String> {
    let omit_empty = options.contains(&"omitempty");
    let omit_zero = options.contains(&"omitzero");
    if let Some(other) = options.iter().find(|option| !["omitempty", "omitzero", "inline", ""].contains(option)) {
        return Err(format!("the JSON option {other:?} is not understood"));
    }
    Ok(match class {
        Class::Pointer | Class::Interface if omit_empty || omit_zero => Presence::Optional,
        Class::Pointer | Class::Interface => Presence::AlwaysNull,
        Class::Container if omit_empty => Presence::OmitZero,
        // Would leave out nil but write an empty list.
        Class::Container if omit_zero => return Err("omitzero without omitempty is not understood".into()),
        Class::Container => Presence::AlwaysNull,
        Class::Scalar if omit_empty || omit_zero => Presence::OmitZero,
        Class::Struct if omit_zero => Presence::OmitZero,
        // `omitempty` means nothing for a struct.
        Class::Scalar | Class::Struct => Presence::Always,
    })
}

fn patch(declared: &GoField) -> Result<Patch, String> {
    let mut patch = Patch { merge_key: declared.tag("patchMergeKey").unwrap_or_default().into(), ..Patch::default() };
    for strategy in declared.tag("patchStrategy").unwrap_or_default().split(',').filter(|s| !s.is_empty()) {
        match strategy {
            "merge" => patch.merge = true,
            "replace" => patch.replace = true,
            "retainKeys" => patch.retain_keys = true,
            _ => return Err(format!("the patch strategy {strategy:?} is not understood")),
        }
    }
    Ok(patch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn derives_presence_from_tags() {
        use Presence::*;
        let cases: &[(Class, &[&str], Option<Presence>)] = &[
            (Class::Scalar, &[], Some(Always)),
            (Class::Scalar, &["omitempty"], Some(OmitZero)),
            (Class::Struct, &["omitempty"], Some(Always)),
            (Class::Struct, &["omitempty", "omitzero"], Some(OmitZero)),
            (Class::Pointer, &["omitempty"], Some(Optional)),
            (Class::Pointer, &[], Some(AlwaysNull)),
            (Class::Container, &["omitempty"], Some(OmitZero)),
            (Class::Container, &[], Some(AlwaysNull)),
            (Class::Container, &["omitzero"], None),
            (Class::Scalar, &["string"], None),
        ];
        for (class, options, expected) in cases {
            assert_eq!(presence(*class, options).ok(), *expected, "{class:?} {options:?}");
        }
    }
}
