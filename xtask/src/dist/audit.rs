//! The lists of crates that `cargo auditable` puts into programs, which scanners such as trivy, grype and `cargo audit`
//! read.

use std::io::Read;

use flate2::read::ZlibDecoder;
use object::Endianness;
use object::elf::FileHeader64;
use object::read::elf::{FileHeader, SectionHeader};
use serde_json::Value;

use super::sbom::Component;

const SECTION: &[u8] = b".dep-v0";
/// The maximum size of a decompressed list.
const LIMIT: u64 = 8 << 20;

/// Compares the list of crates in a program with the SBOM. Returns their number, or `None` for a program without a
/// list.
pub(super) fn check(program: &[u8], sbom: &[Component]) -> Result<Option<usize>, String> {
    let Some(section) = section(program)? else { return Ok(None) };
    let mut list = Vec::new();
    let unpacked = ZlibDecoder::new(section).take(LIMIT).read_to_end(&mut list);
    unpacked.map_err(|error| format!("cannot decompress its list of crates: {error}"))?;
    let list: Value = serde_json::from_slice(&list).map_err(|error| format!("its list of crates: {error}"))?;
    let packages = list["packages"].as_array().ok_or("its list of crates is empty")?;
    let mut linked = 0;
    for package in packages.iter().filter(|package| package["kind"] != "build") {
        let (name, version) = (&package["name"], &package["version"]);
        let is_listed = |component: &Component| component.is(name, version);
        if !sbom.iter().any(is_listed) {
            return Err(format!("it contains {name} {version}, which is not in the SBOM of these sources"));
        }
        linked += 1;
    }
    Ok(Some(linked))
}

fn section(program: &[u8]) -> Result<Option<&[u8]>, String> {
    let find = || -> object::Result<_> {
        let header = FileHeader64::<Endianness>::parse(program)?;
        let endian = header.endian()?;
        let sections = header.sections(endian, program)?;
        sections.section_by_name(endian, SECTION).map(|(_, section)| section.data(endian, program)).transpose()
    };
    find().map_err(|error| format!("no ELF file of 64 bits that can be read: {error}"))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::Command;

    use serde_json::json;

    use super::*;

    /// Returns a program with a list of one crate of a build and one linked crate.
    fn program(temp: &tempfile::TempDir) -> Vec<u8> {
        let packages = json!({"packages": [
            {"name": "cc", "version": "1.2.0", "source": "crates.io", "kind": "build"},
            {"name": "bytes", "version": "1.11.0", "source": "crates.io"},
        ]});
        let mut packed = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
        packed.write_all(packages.to_string().as_bytes()).unwrap();
        let (list, program) = (temp.path().join("list"), temp.path().join("program"));
        std::fs::write(&list, packed.finish().unwrap()).unwrap();
        let section = format!(".dep-v0={}", list.display());
        let copied = Command::new("objcopy").args(["--add-section", &section, "/bin/true"]).arg(&program).output();
        let copied = copied.unwrap();
        assert!(copied.status.success(), "{copied:?}");
        std::fs::read(program).unwrap()
    }

    #[test]
    #[cfg_attr(not(has_objcopy), ignore = "needs objcopy")]
    fn compares_crates_in_programs_with_the_sbom() {
        let temp = tempfile::tempdir().unwrap();
        let program = program(&temp);
        let of = |version: &str| vec![Component::for_test("bytes", version), Component::for_test("http", "1.0.0")];
        assert_eq!(check(&program, &of("1.11.0")), Ok(Some(1)));
        assert!(check(&program, &of("1.10.0")).unwrap_err().contains("\"bytes\" \"1.11.0\""));
        assert_eq!(check(&std::fs::read("/bin/true").unwrap(), &[]), Ok(None));
        assert!(check(b"#!/bin/sh", &[]).is_err());
    }
}
