//! An RPM package, with the same files as the Debian package. Its scripts are in `packaging/rpm`.

use std::collections::BTreeSet;

use rpm::{BuildConfig, CompressionWithLevel, Dependency, FileOptions, PackageBuilder};

use super::Release;
use super::TOOL;
use super::archive::Node;
use super::installed::{self, CONFIGURATION, DESCRIPTION};
use super::libraries::Needs;
use crate::gzip::Effort;

/// The scripts that rpm runs: after an installation, before a removal, after a removal.
pub(super) const SCRIPTS: [(&str, &str); 3] = [
    ("post", include_str!("../../../packaging/rpm/post")),
    ("preun", include_str!("../../../packaging/rpm/preun")),
    ("postun", include_str!("../../../packaging/rpm/postun")),
];
const LICENCE: &str = "usr/share/licenses/binnacle/LICENSE";

/// Returns the package file.
pub(super) fn package(release: &Release) -> Result<Vec<u8>, String> {
    let failed = |error: rpm::Error| format!("cannot write the RPM package: {error}");
    let mut files = installed::tree(release, "usr/share/zsh/site-functions")?;
    files.file(LICENCE, 0o644, release.licence.clone());
    let (summary, description) = describe();
    let mut package = PackageBuilder::new(TOOL, &release.package_version(), "Apache-2.0", release.target.cpu, &summary);
    package.using_config(config(release)?).release("1").description(description).packager(&release.maintainer);
    package.url(&release.repository).build_host("reproducible").group("System Environment/Daemons");
    for (path, entry) in files.entries() {
        let to = format!("/{path}");
        let mode = u16::try_from(entry.mode).map_err(|error| error.to_string())?;
        match &entry.node {
            Node::File(bytes) => {
                let mut options = FileOptions::new(to).permissions(mode);
                if path == CONFIGURATION {
                    options = options.config().noreplace();
                } else if path == LICENCE {
                    options = options.license();
                }
                package.with_file_contents(bytes.clone(), options).map_err(failed)?;
            }
            Node::Link(target) => {
                package.with_symlink(FileOptions::symlink(to, target)).map_err(failed)?;
            }
            // The folders of the system belong to other packages.
            Node::Folder if path.ends_with("/binnacle") || path.contains("/binnacle/") => {
                package.with_dir_entry(FileOptions::dir(to).permissions(mode)).map_err(failed)?;
            }
            Node::Folder => {}
        }
    }
    for library in libraries(release)? {
        package.requires(Dependency::any(library));
    }
    package.requires(Dependency::any("systemd")).requires(Dependency::script_post("systemd"));
    let [(_, post), (_, preun), (_, postun)] = SCRIPTS;
    package.post_install_script(post).pre_uninstall_script(preun).post_uninstall_script(postun);
    let mut bytes = Vec::new();
    package.build().and_then(|package| package.write(&mut bytes)).map_err(failed)?;
    Ok(bytes)
}

fn config(release: &Release) -> Result<BuildConfig, String> {
    let level = match release.effort {
        Effort::Best => 9,
        #[cfg(test)]
        Effort::Least => 1,
    };
    // A day after 2106 does not fit.
    let date = u32::try_from(release.epoch).map_err(|error| error.to_string())?;
    Ok(BuildConfig::v4().compression(CompressionWithLevel::Gzip(level)).source_date(date))
}

/// Returns the summary and the description, from the text in Debian's format.
fn describe() -> (String, String) {
    let (summary, text) = DESCRIPTION.split_once('\n').unwrap_or((DESCRIPTION, ""));
    let lines = text.lines().map(|line| if line == " ." { "" } else { line.trim_start() });
    let summary = summary.strip_prefix("Description: ").unwrap_or(summary);
    (summary.to_owned(), lines.collect::<Vec<_>>().join("\n"))
}

/// Returns the shared libraries with the versions of their symbols, as rpmbuild names what packages require.
fn libraries(release: &Release) -> Result<BTreeSet<String>, String> {
    let mut names = BTreeSet::new();
    for program in release.programs.values() {
        let needs = Needs::of(program)?;
        names.extend(needs.libraries.iter().map(|library| format!("{library}()(64bit)")));
        let public = needs.versions.iter().filter(|(_, version)| !version.ends_with("_PRIVATE"));
        names.extend(public.map(|(library, version)| format!("{library}({version})(64bit)")));
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_the_description_of_the_debian_package() {
        let (summary, description) = describe();
        assert_eq!(summary, "Kubernetes API server with a durable store of its own");
        assert!(description.contains("\n\nThe program binnacle "), "{description}");
    }
}
