//! The build scripts of crates with tables: read the tables of a folder and write code generated from them.

use std::collections::BTreeMap;
use std::path::Path;
use std::{env, fs};

use crate::Table;

/// The complete build script: writes the code that `generate` returns for the tables whose file names `pick` accepts.
/// The folder is relative to the crate's, `output` to the build's.
pub(crate) fn run(
    folder: &str,
    pick: impl Fn(&str) -> bool,
    output: &str,
    generate: impl FnOnce(&[Table]) -> Result<String, String>,
) {
    println!("cargo:rerun-if-changed={folder}");
    if let Err(problem) = write(folder, pick, output, generate) {
        // The syntax of cargo's build errors.
        println!("cargo::error={problem}");
        std::process::exit(1);
    }
}

fn write(
    folder: &str,
    pick: impl Fn(&str) -> bool,
    output: &str,
    generate: impl FnOnce(&[Table]) -> Result<String, String>,
) -> Result<(), String> {
    let variable = |name| env::var(name).map_err(|e| format!("{name}: {e}"));
    let folder = Path::new(&variable("CARGO_MANIFEST_DIR")?).join(folder);
    let out = Path::new(&variable("OUT_DIR")?).join(output);
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
    fs::write(&out, generate(&tables)?).map_err(|e| format!("{}: {e}", out.display()))
}
