//! Field tables as Rust statics, which the builds of the crates that carry tables write.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::{env, fs};

use crate::{DefaultValue, Field, KindOf, ListType, Message, Presence, Table, Ty};

/// The whole of a build script: writes `tables.rs` of those tables of a folder whose file names `pick` accepts, with the
/// statics `MESSAGES` and `KINDS`, to the folder for generated files. The folder is named from the crate's own.
pub fn build(folder: &str, pick: impl Fn(&str) -> bool) {
    println!("cargo:rerun-if-changed={folder}");
    println!("cargo:rerun-if-changed=build.rs");
    if let Err(problem) = write_statics(folder, pick) {
        // The form in which cargo shows the reason of a failed build.
        println!("cargo::error={problem}");
        std::process::exit(1);
    }
}

fn write_statics(folder: &str, pick: impl Fn(&str) -> bool) -> Result<(), String> {
    let variable = |name| env::var(name).map_err(|e| format!("{name}: {e}"));
    let folder = Path::new(&variable("CARGO_MANIFEST_DIR")?).join(folder);
    let out = Path::new(&variable("OUT_DIR")?).join("tables.rs");
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))? {
        let path = entry.map_err(|e| e.to_string())?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.ends_with(".tbl") && pick(name) {
            let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
            files.insert(path.display().to_string(), text);
        }
    }
    let tables =
        crate::read(files.iter().map(|(name, text)| (name.as_str(), text.as_str()))).map_err(|e| e.to_string())?;
    let code = Generator::new(&tables).generate(&tables)?;
    fs::write(&out, code).map_err(|e| format!("{}: {e}", out.display()))
}

struct Generator {
    /// The static of each message by definition name; sorting by name makes the lookup a binary search.
    indexes: BTreeMap<String, usize>,
    out: String,
    /// Statics that several fields share, by their text: element types and lists of texts.
    types: BTreeMap<String, usize>,
    texts: BTreeMap<Vec<String>, usize>,
}

impl Generator {
    fn new(tables: &[Table]) -> Self {
        let names: BTreeMap<String, usize> = tables
            .iter()
            .flat_map(|table| table.messages.iter().map(move |message| (definition(table, message), 0)))
            .collect();
        let indexes = names.into_keys().enumerate().map(|(index, name)| (name, index)).collect();
        Self { indexes, out: String::new(), types: BTreeMap::new(), texts: BTreeMap::new() }
    }

    fn generate(mut self, tables: &[Table]) -> Result<String, String> {
        for table in tables {
            for message in &table.messages {
                self.message(table, message)?;
            }
        }
        let references: Vec<String> = (0..self.indexes.len()).map(|index| format!("&M{index}")).collect();
        self.line(format_args!(
            "pub(super) static MESSAGES: [&Message; {}] = [{}];",
            references.len(),
            references.join(", ")
        ));
        self.kinds(tables)?;
        Ok(self.out)
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.out, "{line}");
    }

    fn index(&self, name: &str) -> Result<usize, String> {
        self.indexes.get(name).copied().ok_or(format!("no table has the message {name}"))
    }

    fn message(&mut self, table: &Table, message: &Message) -> Result<(), String> {
        let name = definition(table, message);
        let index = self.index(&name)?;
        let fields: Vec<String> = message
            .fields
            .iter()
            .map(|field| self.field(field))
            .collect::<Result<_, _>>()
            .map_err(|e| format!("{name}: {e}"))?;
        self.line(format_args!("static F{index}: [Field; {}] = [{}];", fields.len(), fields.join(",\n")));
        let unions: Vec<String> = message
            .unions
            .iter()
            .enumerate()
            .map(|(n, union)| {
                let pairs: Vec<String> = union.fields.iter().map(|(f, v)| format!("(t({f:?}), t({v:?}))")).collect();
                self.line(format_args!(
                    "static U{index}_{n}: [(Text, Text); {}] = [{}];",
                    pairs.len(),
                    pairs.join(", ")
                ));
                format!("Union {{ discriminator: t({:?}), fields: Cow::Borrowed(&U{index}_{n}) }}", union.discriminator)
            })
            .collect();
        self.line(format_args!("static U{index}: [Union; {}] = [{}];", unions.len(), unions.join(", ")));
        let go_types = message.fields.iter().filter(|field| !field.go_type.is_empty());
        let go_types: Vec<String> = go_types.map(|field| format!("({:?}, {:?})", field.name, field.go_type)).collect();
        let go_types = match go_types.as_slice() {
            [] => String::new(),
            some => format!(".with_go_types(&[{}])", some.join(", ")),
        };
        self.line(format_args!(
            "static M{index}: Message = Message::of_table({name:?}, &F{index}, {}, &U{index}){go_types};",
            message.atomic
        ));
        Ok(())
    }

    fn field(&mut self, field: &Field) -> Result<String, String> {
        let mut facts = String::new();
        let mut fact = |fact: String| {
            facts.push_str(&fact);
            facts.push_str(", ");
        };
        if !field.embedded_in.is_empty() {
            fact(format!("embedded_in: &{:?}", field.embedded_in));
        }
        if field.required {
            fact("required: true".into());
        }
        match &field.list_type {
            ListType::Unset => {}
            ListType::Atomic => fact("list: List::Atomic".into()),
            ListType::Granular => fact("list: List::Granular".into()),
            ListType::Set => fact("list: List::Set".into()),
            ListType::Map(keys) => fact(format!("list: List::Map(&X{})", self.texts(keys))),
        }
        let patch = &field.patch;
        if patch.merge || patch.replace || patch.retain_keys || !patch.merge_key.is_empty() {
            let (merge, replace, retain_keys) = (patch.merge, patch.replace, patch.retain_keys);
            fact(format!("patch: ({merge}, {replace}, {retain_keys}, {:?})", patch.merge_key));
        }
        match &field.default {
            DefaultValue::None => {}
            DefaultValue::Zero => fact("zero_default: true".into()),
            DefaultValue::Value(json) => fact(format!("default: Some({json:?})")),
        }
        if !field.values.is_empty() {
            fact(format!("values: &X{}", self.texts(&field.values)));
        }
        let facts = if facts.is_empty() { "PLAIN".into() } else { format!("Facts {{ {facts}..PLAIN }}") };
        let presence = match field.presence {
            Presence::OmitZero => "OmitZero",
            Presence::Optional => "Optional",
            Presence::Always => "Always",
            Presence::AlwaysNull => "AlwaysNull",
        };
        let ty = self.ty(&field.ty)?;
        Ok(format!("field({:?}, {}, {ty}, Presence::{presence}, {facts})", field.name, field.tag))
    }

    fn ty(&mut self, ty: &Ty) -> Result<String, String> {
        let message = |name: &str| self.index(name).map(|index| format!("MessageRef::Static(&M{index})"));
        Ok(match ty {
            Ty::String => "Ty::String".into(),
            Ty::Bool => "Ty::Bool".into(),
            Ty::Int32 => "Ty::Int32".into(),
            Ty::Int64 => "Ty::Int64".into(),
            Ty::Uint32 => "Ty::Uint32".into(),
            Ty::Double => "Ty::Double".into(),
            Ty::Bytes => "Ty::Bytes".into(),
            Ty::Time => "Ty::Time".into(),
            Ty::MicroTime => "Ty::MicroTime".into(),
            Ty::Duration => "Ty::Duration".into(),
            Ty::Quantity => "Ty::Quantity".into(),
            Ty::IntOrString => "Ty::IntOrString".into(),
            Ty::RawExtension => "Ty::RawExtension".into(),
            Ty::Json => "Ty::Json".into(),
            Ty::FieldsV1 => "Ty::FieldsV1".into(),
            Ty::SchemaOrBool(name) => format!("Ty::SchemaOrBool({})", message(name)?),
            Ty::SchemaOrArray(name) => format!("Ty::SchemaOrArray({})", message(name)?),
            Ty::SchemaOrStrings(name) => format!("Ty::SchemaOrStrings({})", message(name)?),
            Ty::Message(name) => format!("Ty::Message({})", message(name)?),
            Ty::List(inner) => format!("Ty::StaticList(&T{})", self.shared_ty(inner)?),
            Ty::WrappedList(inner) => format!("Ty::StaticWrappedList(&T{})", self.shared_ty(inner)?),
            Ty::Map(inner) => format!("Ty::StaticMap(&T{})", self.shared_ty(inner)?),
        })
    }

    fn shared_ty(&mut self, ty: &Ty) -> Result<usize, String> {
        let text = self.ty(ty)?;
        if let Some(index) = self.types.get(&text) {
            return Ok(*index);
        }
        let index = self.types.len();
        self.line(format_args!("static T{index}: Ty = {text};"));
        self.types.insert(text, index);
        Ok(index)
    }

    fn texts(&mut self, texts: &[String]) -> usize {
        if let Some(index) = self.texts.get(texts) {
            return *index;
        }
        let index = self.texts.len();
        let items: Vec<String> = texts.iter().map(|text| format!("t({text:?})")).collect();
        self.line(format_args!("static X{index}: [Text; {}] = [{}];", items.len(), items.join(", ")));
        self.texts.insert(texts.into(), index);
        index
    }

    /// All kinds, sorted by group, version and kind.
    fn kinds(&mut self, tables: &[Table]) -> Result<(), String> {
        let everywhere: Vec<&str> =
            tables.iter().filter(|table| table.options).filter_map(|table| table.api_version.as_deref()).collect();
        let mut kinds = BTreeMap::new();
        for table in tables {
            for message in &table.messages {
                let index = self.index(&definition(table, message))?;
                for claim in &message.kinds {
                    let versions = match claim {
                        KindOf::Own => vec![table.api_version.as_deref().ok_or("a kind in a package without version")?],
                        KindOf::Other(api_version) => vec![api_version.as_str()],
                        KindOf::Every => everywhere.clone(),
                    };
                    for api_version in versions {
                        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
                        if kinds.insert((group, version, message.name.as_str()), index).is_some() {
                            return Err(format!("two messages are {api_version} {}", message.name));
                        }
                    }
                }
            }
        }
        let items: Vec<String> = kinds
            .iter()
            .map(|((group, version, kind), index)| {
                format!("KindMessage {{ group: {group:?}, version: {version:?}, kind: {kind:?}, message: &M{index} }}")
            })
            .collect();
        self.line(format_args!("pub(super) static KINDS: [KindMessage; {}] = [{}];", items.len(), items.join(",\n")));
        Ok(())
    }
}

fn definition(table: &Table, message: &Message) -> String {
    format!("{}.{}", table.package, message.name)
}
