//! All segments, in order, and the lookup of revisions in them.

use std::ops::Range;
use std::sync::Arc;

use super::LogOptions;
use super::format::StoreId;
use super::segment::{RecordPosition, Segment, Usage};
use crate::files::LogFile;

pub(crate) struct SegmentTable {
    pub(crate) store: StoreId,
    /// The segments in order. The last one is open for writing.
    pub(crate) segments: Vec<Segment>,
    pub(crate) next_generation: u64,
    /// The segments that are being rewritten.
    pub(crate) active_rewrite: Option<ActiveRewrite>,
}

/// Segments that are being rewritten, by index. The indexes are stable, as new segments are appended.
pub(crate) struct ActiveRewrite {
    pub(crate) range: Range<usize>,
    /// The revisions in them that died since the records to keep were selected.
    pub(crate) died: Vec<u64>,
}

// === impl SegmentTable ===

impl Default for SegmentTable {
    fn default() -> Self {
        Self { store: StoreId::random(), segments: Vec::new(), next_generation: 1, active_rewrite: None }
    }
}

impl SegmentTable {
    /// Returns the index of the segment that can have a revision.
    fn segment_of(&self, revision: u64) -> Option<usize> {
        // All but the last of the segments that start at one revision are empty.
        self.segments.partition_point(|segment| segment.next_revision <= revision).checked_sub(1)
    }

    pub(crate) fn find(&self, revision: u64) -> Option<(Arc<dyn LogFile>, RecordPosition)> {
        let segment = &self.segments[self.segment_of(revision)?];
        let n = segment.records.find(revision)?;
        (!segment.records.is_dead(n)).then(|| (segment.file.clone(), segment.records.position(n, segment.end.at)))
    }

    /// Returns consecutive records of `first..=last` in one file.
    pub(crate) fn run(
        &self,
        first: u64,
        last: u64,
        most: usize,
        most_bytes: u64,
    ) -> Option<(Arc<dyn LogFile>, Vec<RecordPosition>)> {
        for segment in &self.segments[self.segment_of(first).unwrap_or(0)..] {
            let records = &segment.records;
            let mut run: Vec<RecordPosition> = Vec::new();
            for n in records.first_from(first)..records.len() {
                let position = records.position(n, segment.end.at);
                let begun = run.first().map(|first| first.at);
                let full =
                    run.len() >= most || begun.is_some_and(|begun| position.at + position.room - begun > most_bytes);
                // Dead records before the first live one are skipped. After it they end the run.
                if position.revision > last || full || (records.is_dead(n) && !run.is_empty()) {
                    break;
                }
                if !records.is_dead(n) {
                    run.push(position);
                }
            }
            if !run.is_empty() {
                return Some((segment.file.clone(), run));
            }
        }
        None
    }

    pub(crate) fn mark_dead(&mut self, revisions: &[u64]) {
        for revision in revisions {
            let Some(position) = self.segment_of(*revision) else { continue };
            let segment = &mut self.segments[position];
            let Some(n) = segment.records.find(*revision) else { continue };
            segment.records.mark_dead(n);
            if let Some(active_rewrite) =
                self.active_rewrite.as_mut().filter(|active_rewrite| active_rewrite.range.contains(&position))
            {
                active_rewrite.died.push(*revision);
            }
        }
    }

    pub(crate) fn usage(&self) -> Usage {
        let mut usage = Usage::default();
        for segment in &self.segments {
            usage.add(segment.records.usage);
        }
        usage
    }

    pub(crate) fn allocated(&self) -> u64 {
        self.segments.iter().map(|segment| segment.allocated).sum()
    }

    /// Returns the size of the next segment.
    pub(crate) fn capacity(&self, options: &LogOptions) -> u64 {
        (self.usage().needed() / 4).clamp(options.min_segment, options.max_segment)
    }
}
