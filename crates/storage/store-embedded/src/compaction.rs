//! Compaction: selects the versions to remove, and their order.

use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;

use binnacle_store::{Revision, StoreError};
use bytes::Bytes;
use tokio::sync::oneshot;

use crate::command::Command;
use crate::error::read_error;
use crate::index::VersionDigest;
use crate::marker::Marker;
use crate::shared::Shared;

/// The numbers of keys examined, and of versions removed, per lock.
const CHUNK_KEYS: usize = 256;
const CHUNK_ERASE: usize = 4096;

/// The keys and versions that a compaction removes, and its marker.
struct CompactionPlan {
    marker: Marker,
    keys: Vec<Bytes>,
    /// In ascending order, so that an interrupted erasure never leaves an older version without the one that replaced
    /// it.
    revisions: Vec<u64>,
}

pub(crate) async fn compact(shared: &Arc<Shared>, revision: u64) -> Result<(), StoreError> {
    // In a separate task, because a compaction must be completed even if its caller is canceled.
    let shared = shared.clone();
    let task = tokio::spawn(async move {
        let _one = shared.compaction.lock().await;
        {
            let state = shared.state.read();
            state.check_open()?;
            if revision > state.revision {
                return Err(StoreError::FutureRevision { current: Revision(state.revision) });
            }
            if revision <= state.compacted {
                return Err(StoreError::Compacted { compacted: Revision(state.compacted) });
            }
        }
        let planned = shared.clone();
        let plan = blocking(move || plan(&planned, revision).map_err(|error| read_error(&error))).await?;
        let (reply, done) = oneshot::channel();
        shared.submit(Command::Compact { marker: plan.marker, reply })?;
        done.await.unwrap_or(Err(StoreError::Closed))?;
        let forgetting = shared.clone();
        blocking(move || {
            compact_index(&forgetting, &plan).map_err(|error| forgetting.fail(&error))?;
            erase(&forgetting, &plan.revisions)
        })
        .await
    });
    task.await.unwrap_or(Err(StoreError::Closed))
}

/// Selects the versions to remove. The versions up to a reached revision never change, so one lock per chunk is enough.
fn plan(shared: &Shared, revision: u64) -> io::Result<CompactionPlan> {
    let mut plan = CompactionPlan {
        marker: Marker { revision, kept: VersionDigest::default() },
        keys: Vec::new(),
        revisions: Vec::new(),
    };
    let mut after: Option<Bytes> = None;
    let mut found = Vec::new();
    loop {
        let mut examined = 0;
        let mut last = None;
        let state = shared.state.read();
        state.index.after(after.as_ref(), &mut |key, entry| {
            examined += 1;
            let before = found.len();
            found.extend(entry.forgotten_revisions(revision));
            if found.len() > before {
                plan.keys.push(key.clone());
            }
            if let Some(kept) = entry.kept(revision) {
                plan.marker.kept.add(kept);
            }
            if examined < CHUNK_KEYS {
                return ControlFlow::Continue(());
            }
            last = Some(key.clone());
            ControlFlow::Break(())
        })?;
        drop(state);
        plan.revisions.append(&mut found);
        if examined < CHUNK_KEYS {
            break;
        }
        after = last;
    }
    plan.revisions.sort_unstable();
    plan.revisions.dedup();
    Ok(plan)
}

fn compact_index(shared: &Shared, plan: &CompactionPlan) -> io::Result<()> {
    for keys in plan.keys.chunks(CHUNK_KEYS) {
        let mut state = shared.state.write();
        for key in keys {
            state.index.compact_key(key, plan.marker.revision)?;
        }
    }
    Ok(())
}

/// Erases records that no reader can request any more. After an error nothing may be written until the next start has
/// repeated the erasure: another compaction would leave these records, but remove the newer versions that mark them as
/// removed.
fn erase(shared: &Shared, revisions: &[u64]) -> Result<(), StoreError> {
    for chunk in revisions.chunks(CHUNK_ERASE) {
        // The disk is acquired for each chunk, so that closing the store need not wait for the whole erasure.
        shared.disk()?.erase(chunk).map_err(|error| shared.fail(&error))?;
    }
    Ok(())
}

/// Resumes the erasure that the last process did not finish. Only compactions have to wait for its end.
pub(crate) fn resume(shared: &Arc<Shared>, leftover: Vec<u64>) -> io::Result<()> {
    if leftover.is_empty() {
        return Ok(());
    }
    let one = shared.compaction.clone().try_lock_owned().map_err(io::Error::other)?;
    let shared = shared.clone();
    let erase = move || {
        let _one = one;
        // Writers get the error. If the store is closed, the next start erases the rest.
        drop(erase(&shared, &leftover));
    };
    std::thread::Builder::new().name("store-erase".to_owned()).spawn(erase).map(drop)
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(StoreError::Closed))
}
