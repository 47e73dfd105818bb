//! `cargo xtask import-api`: the field tables of the built-in kinds, from the facts that a Kubernetes release publishes.

mod agree;
mod assemble;
mod extensions;
mod go;
mod go_fields;
mod openapi;
mod protobuf;
mod special;

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use binnacle_tables::Table;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

pub(crate) fn command() -> Command {
    let path = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).value_parser(value_parser!(PathBuf)).help(help)
    };
    Command::new("import-api")
        .about("Writes the field tables of the built-in kinds from a Kubernetes release")
        .arg(
            path("openapi", "DIR", "OpenAPI v3 documents, such as api/openapi-spec/v3 of a checkout; may be repeated")
                .action(ArgAction::Append),
        )
        .arg(path("protobuf", "FILE_OR_DIR", "field numbers: a JSON extract, or a folder with generated.proto files"))
        .arg(path(
            "go-types",
            "DIR",
            "Go sources: the folder with api, apimachinery... (staging/src/k8s.io of a checkout)",
        ))
        .arg(path("out", "DIR", "the tables [default: crates/api/kinds/data/v1.36]"))
        .arg(
            Arg::new("check")
                .long("check")
                .action(ArgAction::SetTrue)
                .help("Compare the tables with what would be written, and write nothing"),
        )
}

pub(crate) fn run(matches: &ArgMatches) -> Result<(), String> {
    let Some(inputs) = Inputs::new(matches) else {
        let missing = "there are no OpenAPI documents and protobuf numbers here";
        // A check may be skipped only if it has no input of its own.
        if !matches.get_flag("check")
            || ["openapi", "protobuf", "go-types"].iter().any(|name| matches.contains_id(name))
        {
            return Err(format!("{missing}: name both with --openapi and --protobuf"));
        }
        println!("import-api: skipped, {missing}");
        return Ok(());
    };
    let old = read_tables(&inputs.out)?;
    let openapi = openapi::read(&inputs.openapi)?;
    let protobuf = protobuf::read(&inputs.protobuf)?;
    let go = inputs.go_types.as_deref().map(go::Tree::new);
    let sources = assemble::Sources { openapi: &openapi, protobuf: &protobuf, go, old: &old };
    let tables = assemble::assemble(sources)
        .map_err(|problems| format!("{} contradictions:\n  {}", problems.len(), problems.join("\n  ")))?;
    let files: BTreeMap<String, String> =
        tables.iter().map(|table| (format!("{}.tbl", table.stem()), binnacle_tables::write(table))).collect();
    if files.len() != tables.len() {
        return Err("two packages would have the same file".into());
    }
    if matches.get_flag("check") { check(&inputs.out, &files) } else { write(&inputs.out, &files, &tables) }
}

struct Inputs {
    openapi: Vec<PathBuf>,
    protobuf: PathBuf,
    go_types: Option<PathBuf>,
    out: PathBuf,
}

impl Inputs {
    /// Returns the inputs that the command line names, or those beside the project; `None` if there are none.
    fn new(matches: &ArgMatches) -> Option<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let shared = env::var_os("BINNACLE_SHARED").map_or_else(|| root.join("../shared"), PathBuf::from);
        let shared = shared.join("reference");
        let given = |name: &str| matches.get_one::<PathBuf>(name).cloned();
        let openapi = match matches.get_many::<PathBuf>("openapi") {
            Some(folders) => folders.cloned().collect(),
            // The served documents add the enums that the specifications lack.
            None => ["openapi/all-v3", "openapi/v3"]
                .iter()
                .map(|folder| shared.join(folder))
                .filter(|folder| folder.is_dir())
                .collect::<Vec<_>>(),
        };
        let protobuf =
            given("protobuf").or_else(|| Some(shared.join("protobuf-fields.json")).filter(|file| file.is_file()))?;
        let out = given("out").unwrap_or_else(|| root.join("crates/api/kinds/data/v1.36"));
        (!openapi.is_empty()).then_some(Self { openapi, protobuf, go_types: given("go-types"), out })
    }
}

/// Returns the texts of a folder's tables by file name; none if the folder does not exist yet.
fn read_files(folder: &Path) -> Result<BTreeMap<String, String>, String> {
    let mut files = BTreeMap::new();
    if !folder.is_dir() {
        return Ok(files);
    }
    for entry in fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))? {
        let path = entry.map_err(|e| format!("{}: {e}", folder.display()))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.ends_with(".tbl") {
            let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
            files.insert(name.to_string(), text);
        }
    }
    Ok(files)
}

fn read_tables(folder: &Path) -> Result<Vec<Table>, String> {
    let files = read_files(folder)?;
    binnacle_tables::read(files.iter().map(|(name, text)| (name.as_str(), text.as_str()))).map_err(|e| e.to_string())
}

fn write(folder: &Path, files: &BTreeMap<String, String>, tables: &[Table]) -> Result<(), String> {
    fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    for name in read_files(folder)?.keys().filter(|name| !files.contains_key(*name)) {
        fs::remove_file(folder.join(name)).map_err(|e| format!("{name}: {e}"))?;
    }
    for (name, text) in files {
        fs::write(folder.join(name), text).map_err(|e| format!("{name}: {e}"))?;
    }
    let messages: usize = tables.iter().map(|table| table.messages.len()).sum();
    let fields: usize = tables.iter().flat_map(|table| &table.messages).map(|message| message.fields.len()).sum();
    println!("import-api: {} tables, {messages} messages, {fields} fields", tables.len());
    Ok(())
}

fn check(folder: &Path, files: &BTreeMap<String, String>) -> Result<(), String> {
    let differences = differences(&read_files(folder)?, files);
    if differences.is_empty() {
        println!("import-api: {} tables are what their sources say", files.len());
        return Ok(());
    }
    Err(format!("the tables differ from their sources, run `cargo xtask import-api`:\n{}", differences.join("\n")))
}

/// The number of differing lines to show of each file.
const SHOWN: usize = 20;

/// Returns a line for each file and each line that only one side has, with the message around it.
fn differences(old: &BTreeMap<String, String>, new: &BTreeMap<String, String>) -> Vec<String> {
    let mut out = Vec::new();
    for name in old.keys().filter(|name| !new.contains_key(*name)) {
        out.push(format!("{name}: should not exist"));
    }
    for (name, text) in new {
        let Some(known) = old.get(name) else {
            out.push(format!("{name}: does not exist"));
            continue;
        };
        if known == text {
            continue;
        }
        let (a, b) = (located(known), located(text));
        let gone = a.iter().filter(|line| !b.contains(line)).map(|(message, line)| format!("  - {message}:{line}"));
        let added = b.iter().filter(|line| !a.contains(line)).map(|(message, line)| format!("  + {message}:{line}"));
        let lines: Vec<String> = gone.chain(added).collect();
        out.push(format!("{name}: {} lines differ", lines.len()));
        if lines.is_empty() {
            out.push("  only in their order".into());
        }
        out.extend(lines.into_iter().take(SHOWN));
    }
    out
}

/// Returns each line with the message that it belongs to.
fn located(text: &str) -> Vec<(&str, &str)> {
    let mut message = "";
    text.lines()
        .map(|line| {
            if let Some(head) = line.strip_prefix("message ") {
                message = head.split(' ').next().unwrap_or(head);
            }
            (message, line)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_differing_lines() {
        let files = |text: &str| BTreeMap::from([("a.tbl".to_string(), text.to_string())]);
        let old = files("message A\n  x 1\n  y 2\nmessage B\n  x 1\n");
        let new = files("message A\n  x 1\n  y 3\nmessage B\n  x 1\n");
        assert!(differences(&old, &old).is_empty());
        assert_eq!(differences(&old, &new), ["a.tbl: 2 lines differ", "  - A:  y 2", "  + A:  y 3"]);
        assert_eq!(differences(&BTreeMap::new(), &new), ["a.tbl: does not exist"]);
        assert_eq!(differences(&old, &BTreeMap::new()), ["a.tbl: should not exist"]);
    }
}
