//! Salvage: a new store with the intact objects of a damaged one.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use binnacle_cli::progress::{Progress, Unit};
use binnacle_meta::Time;
use binnacle_registry::ROOT;
use binnacle_store::KeyValue;
use binnacle_store_embedded::{
    CheckReport, DamagedObject, EmbeddedOptions, EmbeddedStore, Remains, Salvage, check, mark_salvaged,
};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::Error;
use crate::check::object;
use crate::location::{NewStore, store_dir};
use crate::target::Target;

/// The result of a salvage.
pub(crate) struct SalvageReport {
    from: PathBuf,
    /// The file with the full list of what is lost.
    list: PathBuf,
    damage: CheckReport,
    begins: u64,
}

/// The number of objects that are read ahead of the writes.
const READ_AHEAD: usize = 64;
/// The maximum number of lines that are printed; the file has all of them.
const MAX_LINES: usize = 200;

/// Creates the store of a data directory from a damaged one. Its first revision is `bump` above the newest known one.
pub(crate) async fn run(from: &Path, to: &Path, bump: u64) -> Result<SalvageReport, Error> {
    let from = store_dir(from);
    let source = from.clone();
    let opened = tokio::task::spawn_blocking(move || Salvage::open(&source)).await;
    let salvage = opened.map_err(|error| Error::context("reading the store", error))??;
    let newest = salvage.newest_revision().0;
    let begins = newest.checked_add(bump).filter(|begins| *begins < i64::MAX as u64);
    let begins =
        begins.ok_or_else(|| Error::new("--bump-revision is too large: the first revision must fit into 63 bits"))?;
    let location = new_store(&from, to)?;
    let options = EmbeddedOptions { first_revision: begins, lean: true, ..EmbeddedOptions::new(&location.unfinished) };
    let opened = tokio::task::spawn_blocking(move || EmbeddedStore::open(options)).await;
    let store = Arc::new(opened.map_err(|error| Error::context("making the store", error))??);
    let salvage = Arc::new(salvage);
    let filled = fill(store.clone(), salvage.clone()).await;
    store.close().await;
    filled?;
    drop(store);
    let unfinished = location.unfinished.clone();
    let checked = tokio::task::spawn_blocking(move || check(&unfinished, None, &mut ())).await;
    let checked = checked.map_err(|error| Error::context("checking the new store", error))??;
    let salvage = Arc::into_inner(salvage).ok_or_else(|| Error::new("the damaged store is still being read"))?;
    let damage = salvage.into_damage();
    if !checked.problems.is_empty() || checked.keys != damage.keys {
        let problem = checked.problems.first().map_or("objects are missing in it", String::as_str);
        return Err(Error::context("the new store is not what it should be", problem));
    }
    let salvaged = SalvageReport { from, list: location.dir.join("salvaged"), damage, begins };
    let marked = mark_salvaged(&location.unfinished, &(salvaged.title() + &salvaged.lines().join("")));
    marked.map_err(|error| Error::context("marking the new store", error))?;
    location.finish()?;
    Ok(salvaged)
}

/// Creates the directory of a new store, outside of the damaged one.
fn new_store(from: &Path, to: &Path) -> Result<NewStore, Error> {
    let about = |path: &Path, error: io::Error| Error::context(&path.display().to_string(), error);
    let damaged = from.canonicalize().map_err(|error| about(from, error))?;
    let absolute = std::path::absolute(to).map_err(|error| about(to, error))?;
    let existing = absolute.ancestors().find_map(|dir| dir.canonicalize().ok());
    if existing.is_some_and(|existing| existing.starts_with(&damaged)) {
        return Err(Error::new(format!(
            "{} is inside the damaged store, which must not be changed: use another directory",
            to.display()
        )));
    }
    let refused = || Error::new(format!("{} already has a store: salvage to a new directory", to.display()));
    let location = NewStore::prepare(to)?.ok_or_else(refused)?;
    match fs::remove_dir(&location.dir) {
        Ok(()) => Ok(location),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(location),
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Err(refused()),
        Err(error) => Err(about(&location.dir, error)),
    }
}

/// Writes all objects in the order of their changes.
async fn fill(store: Arc<EmbeddedStore>, salvage: Arc<Salvage>) -> Result<(), Error> {
    let mut target = Target::embedded(store.clone(), ROOT).await?;
    for (lease, left) in salvage.leases() {
        target.grant(lease, left).await?;
    }
    let (sender, mut objects) = mpsc::channel::<KeyValue>(READ_AHEAD);
    let all = salvage.damage().keys;
    let reading = tokio::task::spawn_blocking(move || {
        // The receiver is dropped when a write has failed.
        salvage.objects(&mut |kv| sender.blocking_send(kv).map_err(io::Error::other))
    });
    let (mut progress, mut done) = (Progress::new(), 0);
    while let Some(kv) = objects.recv().await {
        // Revisions of the damaged store are below the first one of the new store.
        target.put(None, kv.key.clone(), kv).await?;
        done += 1;
        progress.step(Unit::Items, "salvaging objects", done, all);
    }
    let read = reading.await.map_err(|error| Error::context("reading the store", error))?;
    read.map_err(|error| Error::context("reading the store", error))?;
    target.flush().await
}

// === impl SalvageReport ===

impl SalvageReport {
    fn is_whole(&self) -> bool {
        self.damage.problems.is_empty()
    }

    fn title(&self) -> String {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let now = Time::from_unix(i64::try_from(since).unwrap_or_default(), 0);
        let (from, objects) = (self.from.display(), self.damage.keys);
        let lost = match (self.is_whole(), self.damage.damaged.len()) {
            (true, _) => "nothing is damaged".to_owned(),
            (false, versions) => format!("{versions} damaged or lost versions are known"),
        };
        format!("Salvaged on {now} from {from}: {objects} objects; {lost}.\n")
    }

    /// Returns a line for each lost version, each range of lost revisions, and each problem.
    fn lines(&self) -> Vec<String> {
        let versions = self.damage.damaged.iter().map(version);
        let ranges = self.damage.unidentified.iter().map(|range| {
            let (first, last) = (range.start, range.end - 1);
            format!(
                "lost: revisions {first} to {last} of unknown keys: what they changed is as before, what they deleted is \
                 there again\n"
            )
        });
        let problems = self.damage.problems.iter().map(|problem| format!("damaged: {problem}\n"));
        versions.chain(ranges).chain(problems).collect()
    }

    pub(crate) fn text(&self) -> String {
        let lines = self.lines();
        let mut out = self.title();
        out.extend(lines.iter().take(MAX_LINES).map(String::as_str));
        if lines.len() > MAX_LINES {
            out += &format!("and {} more lines, which are in {}\n", lines.len() - MAX_LINES, self.list.display());
        }
        if self.damage.unreadable_bytes > 0 {
            out += &format!("{} bytes cannot be read\n", self.damage.unreadable_bytes);
        }
        out + &format!(
            "The store begins at revision {}: clients that continue from an older resourceVersion get 410 (Gone) and list again.\n",
            self.begins
        )
    }

    pub(crate) fn json(&self) -> Value {
        let missing = self.damage.unidentified.iter().map(|range| [range.start, range.end - 1]).collect::<Vec<_>>();
        json!({
            "whole": self.is_whole(),
            "objects": self.damage.keys,
            "firstRevision": self.begins,
            "lostObjects": self.damage.damaged.iter().map(object).collect::<Vec<_>>(),
            "missingRevisions": missing,
            "problems": self.damage.problems,
            "unreadableBytes": self.damage.unreadable_bytes,
        })
    }
}

fn version(lost: &DamagedObject) -> String {
    let key = lost.key.as_ref().map_or_else(|| "an unknown key".to_owned(), |key| format!("{key:?}"));
    let location = lost.place.as_ref().map_or_else(String::new, |(file, at)| format!(" ({file}, byte {at})"));
    let remains = match lost.remains {
        Remains::Newer => "a later change is whole, only history is lost".to_owned(),
        Remains::Older(revision) => format!("the object is as it was at revision {revision}"),
        Remains::Deleted => "the object was deleted then, and stays deleted".to_owned(),
        Remains::Nothing => "no version of the object is left".to_owned(),
        Remains::Unknown => "what it changed is as before, or missing".to_owned(),
    };
    format!("lost: revision {} of {key}{location}: {remains}\n", lost.revision)
}

#[cfg(test)]
mod tests {
    use binnacle_store::Store;

    use super::*;
    use crate::testing::put;

    /// Returns all files below a directory.
    fn files(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
        let entries = fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("an entry").path());
        let mut files: Vec<_> = entries.map(|path| (path.clone(), fs::read(&path).expect("a file"))).collect();
        files.sort();
        files
    }

    async fn values(dir: &Path) -> Vec<(String, String)> {
        let store = EmbeddedStore::open(EmbeddedOptions::new(dir)).expect("it opens");
        let range = binnacle_store::prefix_range(ROOT.as_bytes());
        let request =
            binnacle_store::RangeRequest { range, revision: None, limit: 0, count: binnacle_store::Count::All };
        let kvs = store.range(request).await.expect("a range").kvs;
        store.close().await;
        let text = |bytes: &bytes::Bytes| String::from_utf8_lossy(bytes).into_owned();
        kvs.iter().map(|kv| (text(&kv.key), text(&kv.value))).collect()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn salvages_intact_objects_and_leaves_source_unchanged() {
        let base = tempfile::tempdir().expect("a directory");
        let path = |name: &str| base.path().join(name);
        let data = path("data");
        let store = EmbeddedStore::open(EmbeddedOptions::new(data.join("store"))).expect("it opens");
        let mut expected = Vec::new();
        for n in 0..30 {
            let (key, value) = (format!("{ROOT}configmaps/a/{n:02}"), format!("the value {n}."));
            put(&store, &key, &value).await;
            expected.push((key, value));
        }
        let running = run(&data, &path("refused"), 7).await.err().expect("a server uses it").to_string();
        assert!(running.contains("in use by") && running.contains("'binnacle backup'"), "{running}");
        assert!(!path("refused").exists());
        store.close().await;
        drop(store);

        let whole = run(&data, &path("whole"), 7).await.expect("it is salvaged");
        assert!(whole.is_whole() && whole.json()["lostObjects"] == json!([]), "{}", whole.text());
        assert_eq!(values(&path("whole").join("store")).await, expected);

        let segment = data.join("store/log-0000000000-0000000000-0000000000");
        let mut bytes = fs::read(&segment).expect("a segment");
        let at = bytes.windows(12).position(|window| window == b"the value 7.").expect("a value");
        bytes[at] ^= 1;
        fs::write(&segment, bytes).expect("a segment");
        let before = files(&data.join("store"));
        let refused = EmbeddedStore::open(EmbeddedOptions::new(data.join("store"))).err().expect("it is damaged");
        assert!(refused.to_string().contains("'binnacle salvage'"), "{refused}");
        let before_start = files(&data.join("store"));
        assert_eq!(before.len(), before_start.len());
        let salvaged = run(&data, &path("new"), 1000).await.expect("it is salvaged");
        assert!(files(&data.join("store")) == before_start, "nothing is changed");
        let (key, _) = expected.remove(7);
        assert_eq!(values(&path("new").join("store")).await, expected);
        let line = format!("lost: revision 9 of {key:?} (log-0000000000-0000000000-0000000000, byte ");
        assert!(salvaged.text().contains(&line), "{}", salvaged.text());
        assert_eq!(salvaged.json()["lostObjects"][0]["remains"], "Nothing");
        assert_eq!(salvaged.begins, 1031);
        let list = fs::read_to_string(path("new").join("store/salvaged")).expect("the list");
        assert!(list.starts_with("Salvaged on ") && list.contains(&line), "{list}");
        let checked = check(&path("new").join("store"), None, &mut ()).expect("it is read");
        assert!(checked.salvaged.is_some_and(|line| list.starts_with(&line)) && checked.problems.is_empty());

        for to in [path("new"), path("new").join("store"), data.clone(), data.join("store/within")] {
            assert!(run(&data, &to, 7).await.is_err(), "{}", to.display());
        }
        fs::create_dir_all(path("other/store")).expect("a directory");
        fs::write(path("other/store/file"), "x").expect("a file");
        assert!(run(&data, &path("other"), 7).await.is_err(), "it is not empty");
        assert!(files(&data.join("store")) == before_start, "nothing is changed");
    }
}
