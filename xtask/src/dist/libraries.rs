//! The shared libraries that programs need, read from the ELF files: this works for other architectures too, and runs
//! nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use object::Endianness;
use object::elf::{DT_NEEDED, FileHeader64};
use object::read::elf::{Dyn, FileHeader, ProgramHeader};

use super::target::Target;

/// The dependencies of a program or library.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Needs {
    /// The path of the dynamic loader; programs have one.
    pub(super) loader: Option<String>,
    /// The names of the libraries.
    pub(super) libraries: BTreeSet<String>,
    /// Symbol versions, with the library that has them.
    pub(super) versions: BTreeSet<(String, String)>,
}

impl Needs {
    /// Reads the dependencies from an ELF file. A statically linked one has none.
    pub(super) fn of(elf: &[u8]) -> Result<Self, String> {
        Self::read(elf).map_err(|error| format!("no ELF file of 64 bits that can be read: {error}"))
    }

    fn read(elf: &[u8]) -> object::Result<Self> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let header = FileHeader64::<Endianness>::parse(elf)?;
        let endian = header.endian()?;
        let mut needs = Self::default();
        for segment in header.program_headers(endian, elf)? {
            if let Some(path) = segment.interpreter(endian, elf)? {
                needs.loader = Some(text(path));
            }
        }
        let sections = header.sections(endian, elf)?;
        if let Some((entries, link)) = sections.dynamic(endian, elf)? {
            let strings = sections.strings(endian, elf, link)?;
            for entry in entries.iter().filter(|entry| entry.tag(endian) == DT_NEEDED) {
                needs.libraries.insert(text(entry.string(endian, strings)?));
            }
        }
        if let Some((mut files, link)) = sections.gnu_verneed(endian, elf)? {
            let strings = sections.strings(endian, elf, link)?;
            while let Some((file, mut versions)) = files.next()? {
                let library = text(file.file(endian, strings)?);
                while let Some(version) = versions.next()? {
                    needs.versions.insert((library.clone(), text(version.name(endian, strings)?)));
                }
            }
        }
        Ok(needs)
    }
}

/// Checks that a program is for the target: its architecture, and that a static one needs nothing else.
pub(super) fn check_machine(program: &[u8], target: &Target) -> Result<(), String> {
    let machine = || -> object::Result<_> {
        let header = FileHeader64::<Endianness>::parse(program)?;
        Ok(header.e_machine(header.endian()?))
    };
    let found = machine().map_err(|error| format!("no ELF file of 64 bits that can be read: {error}"))?;
    if found != target.machine {
        return Err(format!("it is not for {}", target.triple));
    }
    let needs = Needs::of(program)?;
    if target.is_static && needs != Needs::default() {
        return Err(format!("it is not statically linked, as programs for {} are: {needs:?}", target.triple));
    }
    Ok(())
}

/// Returns all files that a program needs besides itself, by absolute path; they are read below `root`.
pub(super) fn all(program: &[u8], root: &Path, target: &Target) -> Result<BTreeMap<String, Vec<u8>>, String> {
    let mut found = BTreeMap::new();
    let needs = Needs::of(program)?;
    let mut names = BTreeSet::new();
    if let Some(loader) = needs.loader {
        // Libraries name the loader among their dependencies.
        names.insert(loader.rsplit('/').next().unwrap_or_default().to_owned());
        found.insert(loader.clone(), super::read(&root.join(loader.trim_start_matches('/')))?);
    }
    let mut asked: Vec<String> = needs.libraries.into_iter().collect();
    while let Some(name) = asked.pop() {
        if !names.insert(name.clone()) {
            continue;
        }
        let (path, bytes) = find(&name, root, target)?;
        asked.extend(Needs::of(&bytes).map_err(|error| format!("{path}: {error}"))?.libraries);
        found.insert(path, bytes);
    }
    Ok(found)
}

/// Finds a library in the loader's default folders.
fn find(name: &str, root: &Path, target: &Target) -> Result<(String, Vec<u8>), String> {
    let own = target.multiarch;
    let folders = [
        format!("/lib/{own}"),
        format!("/usr/lib/{own}"),
        "/lib64".into(),
        "/usr/lib64".into(),
        "/lib".into(),
        "/usr/lib".into(),
    ];
    for folder in &folders {
        let path = format!("{folder}/{name}");
        if let Ok(bytes) = std::fs::read(root.join(path.trim_start_matches('/'))) {
            return Ok((path, bytes));
        }
    }
    Err(format!("there is no {name} in {} below {}", folders.join(", "), root.display()))
}

#[cfg(test)]
mod tests {
    use super::super::target::TARGETS;
    use super::*;

    #[test]
    fn finds_libraries_of_a_program() {
        let elf = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let needs = Needs::of(&elf).unwrap();
        assert!(needs.libraries.contains("libc.so.6"), "{needs:?}");
        assert!(needs.loader.is_some_and(|loader| loader.contains("ld-linux")));
        assert!(
            needs.versions.iter().any(|(library, version)| library == "libc.so.6" && version.starts_with("GLIBC_2."))
        );
        let all = all(&elf, Path::new("/"), &Target::named(None).unwrap()).unwrap();
        assert!(all.keys().any(|path| path.ends_with("/libc.so.6")), "{:?}", all.keys());
    }

    #[test]
    fn rejects_programs_of_other_machines() {
        let elf = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        for target in TARGETS {
            // The program of this test is linked with glibc.
            assert_eq!(check_machine(&elf, &target).is_ok(), target.is_host(), "{}", target.triple);
        }
    }

    #[test]
    fn rejects_files_that_are_not_programs() {
        assert!(Needs::of(b"#!/bin/sh\n").is_err());
        assert!(Needs::of(b"\x7fELF").is_err());
    }
}
