//! The functions that run when the server starts, recorded by an emulator: qemu logs each block of code on first
//! execution. The profile does not contain that. Identical functions are folded in a release build, under one of their
//! names, and inlined functions have no name.

use std::collections::HashSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use object::{Object, ObjectSection, ObjectSymbol, SectionKind};

use crate::process::{files, problem, remove};
use crate::training::TrainingRun;

/// Debian's package qemu-user-static has it.
const EMULATOR: &str = "qemu-x86_64-static";
/// A flag that only the server with nothing but health checks has.
const ALONE: &str = "--token-auth-file";

/// Starts a server in the emulator. `directory` is for files of this function alone.
pub(crate) fn functions(server: &Path, root: &Path, directory: &Path) -> Result<HashSet<String>, String> {
    remove(directory)?;
    let logs = directory.join("logs");
    fs::create_dir_all(&logs).map_err(|error| problem("make", &logs, &error))?;
    let emulated = directory.join("emulated");
    let (server_path, logs_path) = (server.display(), logs.display());
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in\n*{ALONE}*) exec {EMULATOR} -cpu max -d in_asm -D '{logs_path}/%d' '{server_path}' \"$@\" ;;\n*) exec '{server_path}' \"$@\" ;;\nesac\n"
    );
    fs::write(&emulated, script).map_err(|error| problem("write", &emulated, &error))?;
    let runnable = fs::Permissions::from_mode(0o755);
    fs::set_permissions(&emulated, runnable).map_err(|error| problem("change", &emulated, &error))?;
    TrainingRun { server: emulated, root }.start(&logs)?;

    let program = Program::read(server)?;
    let mut found: HashSet<&str> = HashSet::new();
    for log in files(&logs)? {
        let file = fs::File::open(&log).map_err(|error| problem("read", &log, &error))?;
        for line in BufReader::new(file).lines() {
            let line = line.map_err(|error| problem("read", &log, &error))?;
            found.extend(address(&line).and_then(|address| program.function_at(address)));
        }
    }
    match found.is_empty() {
        true => Err(format!("{EMULATOR} has seen no functions of {server_path}")),
        false => Ok(found.into_iter().map(str::to_owned).collect()),
    }
}

/// Reads the address of an instruction, which begins its line.
fn address(line: &str) -> Option<u64> {
    let (address, _) = line.strip_prefix("0x")?.split_once(':')?;
    u64::from_str_radix(address, 16).ok()
}

/// The functions of a program with their addresses, in the order of these. It must be one that is not moved when it is loaded.
struct Program(Vec<(u64, u64, String)>);

impl Program {
    fn read(path: &Path) -> Result<Self, String> {
        let bytes = fs::read(path).map_err(|error| problem("read", path, &error))?;
        let unreadable = |error| format!("cannot read {}: {error}", path.display());
        let file = object::File::parse(&*bytes).map_err(unreadable)?;
        let mut functions = Vec::new();
        for symbol in file.symbols().filter(|symbol| symbol.size() > 0) {
            // Parts that the compiler split off from functions are code of no kind.
            let section = symbol.section_index().and_then(|index| file.section_by_index(index).ok());
            if section.is_some_and(|section| section.kind() == SectionKind::Text) {
                let name = symbol.name().map_err(unreadable)?;
                functions.push((symbol.address(), symbol.size(), name.to_owned()));
            }
        }
        functions.sort();
        Ok(Self(functions))
    }

    fn function_at(&self, address: u64) -> Option<&str> {
        let next = self.0.partition_point(|(begins, ..)| *begins <= address);
        let (begins, size, name) = &self.0[next.checked_sub(1)?];
        (address - begins < *size).then_some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_instructions_to_functions() {
        let program = Program(vec![(0x10, 4, "a".to_owned()), (0x20, 0x10, "b".to_owned())]);
        for (line, function) in [
            ("0x10:  48 89 e7                 movq     %rsp, %rdi", Some("a")),
            ("0x13:  c3                       retq", Some("a")),
            ("0x14:  90                       nop", None),
            ("0x2f:  c3                       retq", Some("b")),
            ("0x4000000030:  c3                       retq", None),
            ("0x0f:  c3                       retq", None),
            ("IN: a", None),
            ("----------------", None),
        ] {
            assert_eq!(address(line).and_then(|address| program.function_at(address)), function, "{line}");
        }
    }
}
