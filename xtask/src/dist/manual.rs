//! Man pages and completion scripts, which `cargo xtask manual` writes.

use super::archive::Tree;
use crate::gzip::{Effort, pack};

const PAGES: [(&str, &str); 14] = [
    ("binnacle-backup.8", include_str!("../../../packaging/manual/binnacle-backup.8")),
    ("binnacle-check.8", include_str!("../../../packaging/manual/binnacle-check.8")),
    ("binnacle-cluster.8", include_str!("../../../packaging/manual/binnacle-cluster.8")),
    ("binnacle-compare.8", include_str!("../../../packaging/manual/binnacle-compare.8")),
    ("binnacle-completion.8", include_str!("../../../packaging/manual/binnacle-completion.8")),
    ("binnacle-doctor.8", include_str!("../../../packaging/manual/binnacle-doctor.8")),
    ("binnacle-history.8", include_str!("../../../packaging/manual/binnacle-history.8")),
    ("binnacle-migrate.8", include_str!("../../../packaging/manual/binnacle-migrate.8")),
    ("binnacle-restore.8", include_str!("../../../packaging/manual/binnacle-restore.8")),
    ("binnacle-salvage.8", include_str!("../../../packaging/manual/binnacle-salvage.8")),
    ("binnacle-sizes.8", include_str!("../../../packaging/manual/binnacle-sizes.8")),
    ("binnacle-undelete.8", include_str!("../../../packaging/manual/binnacle-undelete.8")),
    ("binnacle.8", include_str!("../../../packaging/manual/binnacle.8")),
    ("kube-apiserver.8", include_str!("../../../packaging/manual/kube-apiserver.8")),
];

/// A shell, the name under which it looks for a script, and the script.
pub(super) const COMPLETIONS: [(&str, &str, &str); 6] = [
    ("bash", "binnacle", include_str!("../../../packaging/manual/binnacle.bash")),
    ("bash", "kube-apiserver", include_str!("../../../packaging/manual/kube-apiserver.bash")),
    ("fish", "binnacle.fish", include_str!("../../../packaging/manual/binnacle.fish")),
    ("fish", "kube-apiserver.fish", include_str!("../../../packaging/manual/kube-apiserver.fish")),
    ("zsh", "_binnacle", include_str!("../../../packaging/manual/_binnacle")),
    ("zsh", "_kube-apiserver", include_str!("../../../packaging/manual/_kube-apiserver")),
];

/// Returns the compressed man pages.
pub(super) fn pages(effort: Effort) -> Result<Tree, String> {
    let mut tree = Tree::default();
    for (name, text) in PAGES {
        tree.file(&format!("{name}.gz"), 0o644, pack(text.as_bytes(), effort)?);
    }
    Ok(tree)
}

/// Returns the folder in which packages install scripts for a shell. That of zsh depends on the distribution.
pub(super) fn folder<'z>(shell: &str, zsh: &'z str) -> &'z str {
    match shell {
        "bash" => "usr/share/bash-completion/completions",
        "fish" => "usr/share/fish/vendor_completions.d",
        _ => zsh,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_every_manual_page() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../packaging/manual");
        let packed = PAGES.len() + COMPLETIONS.len();
        assert_eq!(std::fs::read_dir(folder).unwrap().count(), packed, "PAGES and COMPLETIONS lack files of {folder}");
    }
}
