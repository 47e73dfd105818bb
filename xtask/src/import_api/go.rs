//! Go sources of API packages, read line by line: struct fields with their tags, named types, constants, and the kinds
//! that a package registers. Nothing is type-checked; only the syntax of such packages is understood.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// A field as declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GoField {
    /// Empty for an embedded field.
    pub(crate) name: String,
    /// The type expression.
    pub(crate) ty: String,
    /// The text between the backticks.
    pub(crate) tags: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum GoType {
    Struct(Vec<GoField>),
    /// `type A B`, with B's expression.
    Named(String),
    /// `type A = B`.
    Alias(String),
    /// A struct with something that API types do not have; the text says what.
    Opaque(String),
}

/// The facts of one package, its files taken together.
#[derive(Debug, Default)]
pub(crate) struct Package {
    pub(crate) types: BTreeMap<String, GoType>,
    /// The file of each type: import names are per file.
    homes: HashMap<String, usize>,
    imports: Vec<HashMap<String, String>>,
    /// Types marked `+enum`.
    enums: Vec<String>,
    constants: Vec<Constant>,
    /// Types registered under the package's own group version.
    pub(crate) kinds: Vec<String>,
    /// Types registered under `v1` of the core group (meta only).
    pub(crate) unversioned: Vec<String>,
    /// Types registered in every group version (meta only).
    pub(crate) everywhere: Vec<String>,
    /// True when the package registers the kinds that exist everywhere.
    pub(crate) options: bool,
    group: Option<String>,
    version: Option<String>,
}

impl Package {
    pub(crate) fn api_version(&self) -> Option<String> {
        let (group, version) = (self.group.as_ref()?, self.version.as_ref()?);
        Some(if group.is_empty() { version.clone() } else { format!("{group}/{version}") })
    }

    /// The import path behind a package name, as seen by the file that declares `ty`.
    pub(crate) fn import(&self, ty: &str, name: &str) -> Option<&str> {
        self.imports[*self.homes.get(ty)?].get(name).map(String::as_str)
    }

    /// The constants of an enum, none for a type that is none. A type made from an enum is not one itself.
    pub(crate) fn enum_constants(&self, ty: &str) -> impl Iterator<Item = &Constant> {
        let is_enum = self.enums.iter().any(|name| name == ty);
        self.constants.iter().filter(move |constant| {
            is_enum && if constant.ty.is_empty() { constant.converted_to(ty).is_some() } else { constant.ty == ty }
        })
    }

    pub(crate) fn constant(&self, name: &str) -> Option<&Constant> {
        self.constants.iter().find(|constant| constant.name == name)
    }

    /// The import path behind a package name, as seen by the file of a constant.
    pub(crate) fn constant_import(&self, constant: &Constant, name: &str) -> Option<&str> {
        self.imports[constant.file].get(name).map(String::as_str)
    }
}

/// `Name Type = Value`, any of whose parts but the name may be missing.
#[derive(Debug)]
pub(crate) struct Constant {
    name: String,
    ty: String,
    value: String,
    file: usize,
}

impl Constant {
    fn converted_to(&self, ty: &str) -> Option<&str> {
        self.value.strip_prefix(ty)?.strip_prefix('(')?.strip_suffix(')')
    }

    /// The value without a conversion around it: a quoted text or the name of another constant.
    pub(crate) fn value(&self) -> &str {
        self.value.strip_suffix(')').and_then(|value| value.split_once('(')).map_or(&self.value, |(_, value)| value)
    }
}

/// A checkout with folders `api`, `apimachinery`... Packages are read on demand.
pub(crate) struct Tree {
    root: PathBuf,
    packages: HashMap<String, Option<Rc<Package>>>,
}

impl Tree {
    pub(crate) fn new(root: &Path) -> Self {
        Self { root: root.into(), packages: HashMap::new() }
    }

    /// The package of an import path such as `k8s.io/api/core/v1`; `None` where the checkout has none.
    pub(crate) fn package(&mut self, import_path: &str) -> Result<Option<Rc<Package>>, String> {
        if let Some(package) = self.packages.get(import_path) {
            return Ok(package.clone());
        }
        let package = match import_path.strip_prefix("k8s.io/") {
            Some(folder) if self.root.join(folder).is_dir() => Some(Rc::new(read_package(&self.root.join(folder))?)),
            _ => None,
        };
        self.packages.insert(import_path.into(), package.clone());
        Ok(package)
    }
}

fn read_package(folder: &Path) -> Result<Package, String> {
    let failed = |e: std::io::Error| format!("{}: {e}", folder.display());
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder).map_err(failed)?.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.sort();
    let mut package = Package::default();
    for file in files {
        let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let generated =
            name.starts_with("zz_generated") || name.starts_with("generated") || name.contains("_generated");
        if !name.ends_with(".go") || name.ends_with("_test.go") || generated {
            continue;
        }
        let text = fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
        read_file(&text, &mut package).map_err(|e| format!("{}: {e}", file.display()))?;
    }
    Ok(package)
}

/// The block of a line.
enum Block {
    None,
    Imports,
    Constants,
    Struct(String, Result<Vec<GoField>, String>),
    /// The types listed in a registration, and where they go.
    Registration(RegistrationTarget),
}

#[derive(Clone, Copy)]
enum RegistrationTarget {
    Own,
    Unversioned,
    Everywhere,
}

fn read_file(text: &str, package: &mut Package) -> Result<(), String> {
    let file = package.imports.len();
    package.imports.push(HashMap::new());
    let mut block = Block::None;
    let mut in_comment = false;
    let mut marked_enum = false;
    for line in text.lines() {
        let line = line.trim();
        if in_comment || line.starts_with("/*") {
            in_comment = !line.contains("*/");
            continue;
        }
        block = match block {
            Block::None => {
                if let Some(comment) = line.strip_prefix("//") {
                    marked_enum |= comment.trim() == "+enum";
                    block = Block::None;
                    continue;
                }
                let next = read_top_level(line, file, marked_enum, package)?;
                marked_enum = false;
                next
            }
            Block::Imports => {
                if line == ")" {
                    Block::None
                } else {
                    read_import(line, file, package);
                    Block::Imports
                }
            }
            Block::Constants => {
                if line == ")" {
                    Block::None
                } else {
                    read_constant(line, file, package);
                    Block::Constants
                }
            }
            Block::Struct(name, mut fields) => {
                if line == "}" {
                    package.homes.insert(name.clone(), file);
                    package.types.insert(name, fields.map_or_else(GoType::Opaque, GoType::Struct));
                    Block::None
                } else {
                    match (read_struct_field(line), &mut fields) {
                        (Ok(Some(field)), Ok(fields)) => fields.push(field),
                        (Err(problem), Ok(_)) => fields = Err(problem),
                        _ => {}
                    }
                    Block::Struct(name, fields)
                }
            }
            Block::Registration(registered) => {
                if line == ")" || line == "}" {
                    Block::None
                } else {
                    register(line, registered, package);
                    Block::Registration(registered)
                }
            }
        };
    }
    Ok(())
}

fn read_top_level(line: &str, file: usize, marked_enum: bool, package: &mut Package) -> Result<Block, String> {
    if line == "import (" {
        return Ok(Block::Imports);
    }
    if line == "const (" {
        return Ok(Block::Constants);
    }
    if let Some(import) = line.strip_prefix("import ") {
        read_import(import, file, package);
    } else if let Some(constant) = line.strip_prefix("const ") {
        read_constant(constant, file, package);
    } else if let Some(declaration) = line.strip_prefix("type ") {
        let (name, ty) = declaration.split_once(' ').ok_or(format!("not understood: {line}"))?;
        // Functions and interfaces are no data.
        if name == "(" || ty.starts_with("interface") || ty.starts_with("func") || name.contains('[') {
            return Ok(Block::None);
        }
        let ty = ty.split("//").next().unwrap_or_default().trim();
        if marked_enum {
            package.enums.push(name.into());
        }
        package.homes.insert(name.into(), file);
        let ty = match ty.strip_prefix('=') {
            _ if ty == "struct {" => return Ok(Block::Struct(name.into(), Ok(Vec::new()))),
            _ if ty == "struct{}" => GoType::Struct(Vec::new()),
            Some(alias) => GoType::Alias(alias.trim().into()),
            None => GoType::Named(ty.into()),
        };
        package.types.insert(name.into(), ty);
    } else if line.contains("AddToGroupVersion(scheme, SchemeGroupVersion)") {
        package.options = true;
    } else if let Some((_, list)) = line.split_once("AddKnownTypes(SchemeGroupVersion,") {
        register(list, RegistrationTarget::Own, package);
        return Ok(if list.ends_with(')') { Block::None } else { Block::Registration(RegistrationTarget::Own) });
    } else if line.ends_with("scheme.AddKnownTypes(") {
        return Ok(Block::Registration(RegistrationTarget::Own));
    } else if line.ends_with("AddUnversionedTypes(Unversioned,") {
        return Ok(Block::Registration(RegistrationTarget::Unversioned));
    } else if line.starts_with("var optionsTypes = ") {
        return Ok(Block::Registration(RegistrationTarget::Everywhere));
    } else if line.contains("AddKnownTypeWithName(groupVersion.") {
        register(line.rsplit_once(',').map_or("", |(_, last)| last), RegistrationTarget::Everywhere, package);
    } else if line.contains("SchemeGroupVersion") && line.contains("schema.GroupVersion{") {
        package.version = quoted_after(line, "Version:").map(String::from);
    }
    Ok(Block::None)
}

/// `&Pod{}` and its like; types of other packages are registered by these as well.
fn register(text: &str, registered: RegistrationTarget, package: &mut Package) {
    for item in text.split(',') {
        let Some(name) = item.trim().strip_prefix('&').and_then(|item| item.split('{').next()) else { continue };
        if name.contains('.') {
            continue;
        }
        match registered {
            RegistrationTarget::Own => package.kinds.push(name.into()),
            RegistrationTarget::Unversioned => package.unversioned.push(name.into()),
            RegistrationTarget::Everywhere => package.everywhere.push(name.into()),
        }
    }
}

fn read_import(line: &str, file: usize, package: &mut Package) {
    let Some((name, rest)) = line.split_once('"') else { return };
    let Some(path) = rest.split('"').next() else { return };
    let name = match name.trim() {
        "" => path.rsplit('/').next().unwrap_or(path),
        name => name,
    };
    package.imports[file].insert(name.into(), path.into());
}

fn read_constant(line: &str, file: usize, package: &mut Package) {
    let Some((names, value)) = line.split_once('=') else { return };
    let mut words = names.split_ascii_whitespace();
    let (Some(name), ty) = (words.next(), words.next().unwrap_or_default()) else { return };
    if name == "GroupName" {
        package.group = quoted_after(line, "=").map(String::from);
    }
    let value = match value.trim() {
        // A comment may follow the closing quote or bracket.
        value if value.starts_with('"') => {
            value.find('"').and_then(|_| value[1..].find('"')).map_or(value, |end| &value[..end + 2])
        }
        value => value.split("//").next().unwrap_or_default().trim(),
    };
    package.constants.push(Constant { name: name.into(), ty: ty.into(), value: value.into(), file });
}

fn quoted_after<'a>(line: &'a str, mark: &str) -> Option<&'a str> {
    line.split_once(mark)?.1.split('"').nth(1)
}

fn read_struct_field(line: &str) -> Result<Option<GoField>, String> {
    if line.is_empty() || line.starts_with("//") {
        return Ok(None);
    }
    if line.ends_with('{') {
        return Err(format!("not understood: {line}"));
    }
    let (declaration, tags) = match line.split_once('`') {
        Some((declaration, rest)) => (declaration, rest.split('`').next().unwrap_or_default()),
        None => (line.split("//").next().unwrap_or_default(), ""),
    };
    let declaration = declaration.trim();
    let (name, ty) = match declaration.split_once(char::is_whitespace) {
        Some((name, ty)) => (name, ty.trim()),
        None => ("", declaration),
    };
    if name.ends_with(',') {
        return Err(format!("several names: {line}"));
    }
    Ok(Some(GoField { name: name.into(), ty: ty.into(), tags: tags.into() }))
}

impl GoField {
    /// The value of one struct tag, `json` or `protobuf`.
    pub(crate) fn tag(&self, key: &str) -> Option<&str> {
        let mut rest = self.tags.trim_start();
        while let Some((name, after)) = rest.split_once(":\"") {
            let (value, next) = after.split_once('"')?;
            if name == key {
                return Some(value);
            }
            rest = next.trim_start();
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = r#"
package v1
import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)
const GroupName = "sample"
var SchemeGroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1"}
func add(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(SchemeGroupVersion,
		&Sample{},
		&SampleList{},
	)
	metav1.AddToGroupVersion(scheme, SchemeGroupVersion)
}
// Phase says how far.
// +enum
type Phase string
const (
	// It runs.
	Running Phase = "Running" // for now
	Asleep  = Phase("Asleep")
	Third Phase = v1.Other
	Other Kind = "Other"
)
/*
type Hidden struct {
*/
type Sample struct {
	metav1.TypeMeta `json:",inline"`
	// The phase.
	Phase *Phase `json:"phase,omitempty" protobuf:"bytes,1,opt,name=phase" patchStrategy:"merge"`
	none  int
}
type Samples []Sample
type Same = metav1.Status
"#;

    #[test]
    fn reads_a_go_package() {
        let mut package = Package::default();
        read_file(SOURCE, &mut package).unwrap();
        assert_eq!(package.api_version().as_deref(), Some("sample/v1"));
        assert_eq!(package.kinds, ["Sample", "SampleList"]);
        assert!(package.options);
        let values = |ty| package.enum_constants(ty).map(Constant::value).collect::<Vec<_>>();
        assert_eq!(values("Phase"), ["\"Running\"", "\"Asleep\"", "v1.Other"]);
        assert!(values("Kind").is_empty());
        assert_eq!(package.import("Sample", "metav1"), Some("k8s.io/apimachinery/pkg/apis/meta/v1"));
        assert_eq!(package.import("Sample", "types"), Some("k8s.io/apimachinery/pkg/types"));
        assert_eq!(package.types["Samples"], GoType::Named("[]Sample".into()));
        assert_eq!(package.types["Same"], GoType::Alias("metav1.Status".into()));
        assert!(!package.types.contains_key("Hidden"));
        let GoType::Struct(fields) = &package.types["Sample"] else { panic!("no struct") };
        assert_eq!(fields.len(), 3);
        assert_eq!((fields[0].name.as_str(), fields[0].ty.as_str()), ("", "metav1.TypeMeta"));
        assert_eq!((fields[1].name.as_str(), fields[1].ty.as_str()), ("Phase", "*Phase"));
        assert_eq!(fields[1].tag("json"), Some("phase,omitempty"));
        assert_eq!(fields[1].tag("patchStrategy"), Some("merge"));
        assert_eq!(fields[1].tag("proto"), None);
    }
}
