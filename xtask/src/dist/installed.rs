//! The files that packages of Debian and of RPM both install.

use super::archive::Tree;
use super::{Release, SERVER, STAND_IN, TOOL, manual};

const UNIT: &str = include_str!("../../../packaging/deb/binnacle.service");
const USER: &str = include_str!("../../../packaging/deb/sysusers.conf");
const FOLDERS: &str = include_str!("../../../packaging/deb/tmpfiles.conf");
const FLAGS: &str = include_str!("../../../packaging/deb/default");
/// The administrator's configuration file, which an upgrade keeps.
pub(super) const CONFIGURATION: &str = "etc/default/binnacle";
/// Synopsis and description in Debian's format: the lines after the first begin with a space, and a dot is an empty
/// line.
pub(super) const DESCRIPTION: &str = include_str!("../../../packaging/deb/description");

/// Returns the files, with completions for zsh in the given folder.
pub(super) fn tree(release: &Release, zsh: &str) -> Result<Tree, String> {
    let mut files = Tree::default();
    for program in [SERVER, TOOL] {
        files.file(&format!("usr/bin/{program}"), 0o755, release.program(program)?.to_vec());
    }
    // The assets for controller-runtime's envtest: a folder that `KUBEBUILDER_ASSETS` can name. An etcd that keeps
    // nothing must not be in anyone's `PATH`.
    let assets = "usr/lib/binnacle/envtest";
    files.file(&format!("{assets}/{STAND_IN}"), 0o755, release.program(STAND_IN)?.to_vec());
    files.link(&format!("{assets}/{SERVER}"), &format!("../../../bin/{SERVER}"));
    files.file("usr/lib/systemd/system/binnacle.service", 0o644, UNIT.as_bytes().to_vec());
    files.file("usr/lib/sysusers.d/binnacle.conf", 0o644, USER.as_bytes().to_vec());
    files.file("usr/lib/tmpfiles.d/binnacle.conf", 0o644, FOLDERS.as_bytes().to_vec());
    files.file(CONFIGURATION, 0o644, FLAGS.as_bytes().to_vec());
    files.merge("usr/share/man/man8", manual::pages(release.effort)?);
    for (shell, name, text) in manual::COMPLETIONS {
        files.file(&format!("{}/{name}", manual::folder(shell, zsh)), 0o644, text.as_bytes().to_vec());
    }
    files.file("usr/share/doc/binnacle/NOTICE", 0o644, release.notice.clone());
    files.file("usr/share/doc/binnacle/README.md", 0o644, release.readme.clone());
    Ok(files)
}
