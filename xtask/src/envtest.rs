//! `cargo xtask envtest`: makes a folder for `KUBEBUILDER_ASSETS`, from which controller-runtime's envtest starts a
//! server.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgMatches, value_parser};

use crate::dist::{Build, Target};

/// The programs that envtest expects beside kubectl.
const ASSETS: [&str; 2] = ["etcd", "kube-apiserver"];
const KUBECTL: &str = "kubectl";

pub(crate) fn command() -> clap::Command {
    let path = |name| Arg::new(name).value_parser(value_parser!(PathBuf));
    clap::Command::new("envtest")
        .about("Writes a folder of test assets that KUBEBUILDER_ASSETS can name")
        .arg(path("folder").value_name("DIR").required(true).help("The folder. It is made when it does not exist"))
        .arg(
            path("programs")
                .long("programs")
                .value_name("DIR")
                .help("Folder with the programs. If not set, they are built: cargo build --release"),
        )
        .arg(
            path("kubectl")
                .long("kubectl")
                .value_name("FILE")
                .help("A kubectl to put beside them. Only tests that call it need one"),
        )
}

pub(crate) fn run(matches: &ArgMatches) -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let path = |name: &str| matches.get_one::<PathBuf>(name).cloned();
    let folder = path("folder").ok_or("a folder is needed")?;
    let programs = match path("programs") {
        Some(programs) => programs,
        None => Build::default().run(&root, &Target::named(None)?)?,
    };
    write(&folder, &programs, path("kubectl").as_deref())?;
    println!("export KUBEBUILDER_ASSETS={}", folder.canonicalize().unwrap_or(folder).display());
    Ok(())
}

fn write(folder: &Path, programs: &Path, kubectl: Option<&Path>) -> Result<(), String> {
    std::fs::create_dir_all(folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    for asset in ASSETS {
        copy(&programs.join(asset), &folder.join(asset))?;
    }
    kubectl.map_or(Ok(()), |kubectl| copy(kubectl, &folder.join(KUBECTL)))
}

/// Copies a program next to its destination and then renames it, so that a running copy is not affected.
fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let begun = to.with_extension("new");
    std::fs::copy(from, &begun)
        .and_then(|_| std::fs::set_permissions(&begun, PermissionsExt::from_mode(0o755)))
        .and_then(|()| std::fs::rename(&begun, to))
        .map_err(|error| format!("cannot copy {} to {}: {error}", from.display(), to.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_a_folder_of_assets() {
        let temp = tempfile::tempdir().unwrap();
        let (programs, folder) = (temp.path().join("programs"), temp.path().join("a/assets"));
        std::fs::create_dir(&programs).unwrap();
        assert!(write(&folder, &programs, None).unwrap_err().starts_with("cannot copy "));
        for name in ["etcd", "kube-apiserver", "binnacle", "kubectl"] {
            std::fs::write(programs.join(name), name).unwrap();
        }
        // The second time, the files exist already.
        for kubectl in [None, Some(programs.join("kubectl"))] {
            write(&folder, &programs, kubectl.as_deref()).unwrap();
        }
        let mut names: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap()).collect();
        names.sort_by_key(std::fs::DirEntry::file_name);
        assert_eq!(
            names.iter().map(|entry| entry.file_name()).collect::<Vec<_>>(),
            ["etcd", "kube-apiserver", "kubectl"]
        );
        assert!(names.iter().all(|entry| entry.metadata().unwrap().permissions().mode() & 0o111 == 0o111));
    }
}
