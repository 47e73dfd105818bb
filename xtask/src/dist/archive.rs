//! Trees of files in memory, and archives of them: equal trees give equal bytes.

use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use tar::{Builder, EntryType, Header};

/// Files, folders and links by their paths, which are relative and sorted.
#[derive(Default)]
pub(crate) struct Tree(BTreeMap<String, Entry>);

/// One path of a tree.
pub(crate) struct Entry {
    pub(crate) node: Node,
    pub(crate) mode: u32,
    /// User and group.
    owner: u64,
}

/// The contents of a path.
pub(crate) enum Node {
    Folder,
    File(Vec<u8>),
    /// A symbolic link to this path.
    Link(String),
}

impl Tree {
    pub(crate) fn file(&mut self, path: &str, mode: u32, bytes: Vec<u8>) {
        self.add(path, Entry { node: Node::File(bytes), mode, owner: 0 });
    }

    pub(crate) fn folder(&mut self, path: &str, mode: u32, owner: u64) {
        self.add(path, Entry { node: Node::Folder, mode, owner });
    }

    pub(crate) fn link(&mut self, path: &str, to: &str) {
        self.add(path, Entry { node: Node::Link(to.to_owned()), mode: 0o777, owner: 0 });
    }

    /// Adds another tree below a folder of this one.
    pub(crate) fn merge(&mut self, folder: &str, other: Self) {
        for (path, entry) in other.0 {
            self.add(&format!("{folder}/{path}"), entry);
        }
    }

    fn add(&mut self, path: &str, entry: Entry) {
        for (at, _) in path.match_indices('/') {
            let parent = Entry { node: Node::Folder, mode: 0o755, owner: 0 };
            self.0.entry(path[..at].to_owned()).or_insert(parent);
        }
        self.0.insert(path.to_owned(), entry);
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = (&str, &Entry)> {
        self.0.iter().map(|(path, entry)| (path.as_str(), entry))
    }

    /// Packs the tree as a tar archive, with a prefix for each path.
    pub(crate) fn tar(&self, epoch: u64, prefix: &str) -> Result<Vec<u8>, String> {
        let failed = |error: std::io::Error| format!("cannot write a tar archive: {error}");
        let mut archive = Builder::new(Vec::new());
        if !prefix.is_empty() {
            let root = Entry { node: Node::Folder, mode: 0o755, owner: 0 };
            archive.append(&header(prefix, &root, epoch)?, &[][..]).map_err(failed)?;
        }
        for (path, entry) in &self.0 {
            let slash = if matches!(entry.node, Node::Folder) { "/" } else { "" };
            let header = header(&format!("{prefix}{path}{slash}"), entry, epoch)?;
            let bytes = match &entry.node {
                Node::File(bytes) => &bytes[..],
                Node::Folder | Node::Link(_) => &[],
            };
            archive.append(&header, bytes).map_err(failed)?;
        }
        archive.into_inner().map_err(failed)
    }

    /// Writes the tree to disk, replacing existing files.
    pub(crate) fn write(&self, to: &Path) -> Result<(), String> {
        let failed = |path: &Path, error: std::io::Error| format!("cannot write {}: {error}", path.display());
        if to.exists() {
            std::fs::remove_dir_all(to).map_err(|error| failed(to, error))?;
        }
        std::fs::create_dir_all(to).map_err(|error| failed(to, error))?;
        for (path, entry) in &self.0 {
            let path = to.join(path);
            let written = match &entry.node {
                Node::Folder => std::fs::create_dir(&path),
                Node::File(bytes) => std::fs::write(&path, bytes)
                    .and_then(|()| std::fs::set_permissions(&path, PermissionsExt::from_mode(entry.mode))),
                Node::Link(target) => symlink(target, &path),
            };
            written.map_err(|error| failed(&path, error))?;
        }
        Ok(())
    }
}

/// Returns a header in the ustar format, which every reader of tar archives understands. The crate would drop a leading
/// `./`, which the paths in Debian packages have, so the name is set as it is.
fn header(path: &str, entry: &Entry, epoch: u64) -> Result<Header, String> {
    let mut header = Header::new_ustar();
    let (kind, size) = match &entry.node {
        Node::Folder => (EntryType::Directory, 0),
        Node::File(bytes) => (EntryType::Regular, bytes.len() as u64),
        Node::Link(to) => {
            header.set_link_name(to).map_err(|error| format!("cannot link {path} to {to}: {error}"))?;
            (EntryType::Symlink, 0)
        }
    };
    let name = &mut header.as_old_mut().name;
    let room = name.get_mut(..path.len()).ok_or_else(|| format!("too long for a tar archive: {path}"))?;
    room.copy_from_slice(path.as_bytes());
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(entry.mode);
    header.set_uid(entry.owner);
    header.set_gid(entry.owner);
    header.set_mtime(epoch);
    header.set_cksum();
    Ok(header)
}
