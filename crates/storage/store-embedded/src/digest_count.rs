//! Counting of the initial objects of a range for its digest.

use std::ops::Range;
use std::sync::Arc;

use binnacle_store::StoreError;
use bytes::Bytes;

use crate::history;
use crate::shared::{Shared, State};

/// Starts to count the objects of a range, unless it is counted already.
pub(crate) fn count(shared: &Arc<Shared>, range: &Range<Bytes>) {
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
    let Some(count) = shared.state.write().digests.start_count(range) else { return };
    let (shared, range) = (Arc::clone(shared), range.clone());
    runtime.spawn(async move {
        if let Err(error) = count_range(&shared, &range, &count).await {
            // The next request for the digest starts again.
            tracing::debug!(%error, ?range, "the objects of a range cannot be counted");
            let mut state = shared.state.write();
            if state.digests.find_by_token(&range, &count).is_some() {
                state.digests.remove(&range);
            }
        }
    });
}

async fn count_range(shared: &Arc<Shared>, range: &Range<Bytes>, count: &Arc<()>) -> Result<(), StoreError> {
    loop {
        let (missing, revision) = {
            let mut state = shared.state.write();
            state.check_open()?;
            let State { index, digests, revision, .. } = &mut *state;
            let Some(range_count) = digests.find_by_token(range, count) else { return Ok(()) };
            (range_count.step(index)?, *revision)
        };
        let values = match missing.is_empty() {
            true => Vec::new(),
            false => history::values(shared, revision, missing).await?,
        };
        let is_complete_now =
            shared.state.write().digests.find_by_token(range, count).is_none_or(|it| it.finish_step(&values));
        if is_complete_now {
            return Ok(());
        }
        tokio::task::yield_now().await;
    }
}
