//! Indexes of the pods of a job, and lists of them such as `1,3-5,7`.

use binnacle_fields::FieldRef;
use binnacle_fields::batch::v1::JobSpec;
use binnacle_meta::go_quote;

pub(super) fn is_indexed(spec: FieldRef<JobSpec>) -> bool {
    spec.at(JobSpec::COMPLETION_MODE).str() == "Indexed"
}

/// Returns the number of indexes in a list, which must increase and be below the number of completions.
pub(super) fn count(list: &str, completions: i64) -> Result<i64, String> {
    let mut total = 0;
    let mut last = None;
    for interval in intervals(list) {
        let (first, end) = parse(interval, completions)?;
        if let Some(last) = last.filter(|last| *last >= first) {
            return Err(format!("non-increasing order, previous: {last}, current: {first}"));
        }
        total += end - first + 1;
        last = Some(end);
    }
    Ok(total)
}

/// Returns the first index that two lists share, as the message shows it. Invalid parts are skipped.
pub(super) fn overlap(completed: &str, failed: &str, completions: i64) -> Option<String> {
    let read = |list| intervals(list).filter_map(|interval| parse(interval, completions).ok());
    let mut completed = read(completed).peekable();
    let mut failed = read(failed).peekable();
    while let (Some((c, c_end)), Some((f, f_end))) = (completed.peek().copied(), failed.peek().copied()) {
        if c <= f_end && f <= c_end {
            return Some(format!("failedIndexes and completedIndexes overlap at index: {}", c.max(f)));
        }
        if c <= f {
            completed.next();
        } else {
            failed.next();
        }
    }
    None
}

fn intervals(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').filter(move |_| !list.is_empty())
}

fn parse(interval: &str, completions: i64) -> Result<(i64, i64), String> {
    let mut limits = interval.split('-');
    let (first, end, more) = (limits.next().unwrap_or(""), limits.next(), limits.next());
    if more.is_some() {
        let quoted = go_quote(interval);
        return Err(format!(
            "the fragment {quoted} violates the requirement that an index interval can have at most two parts separated by '-'"
        ));
    }
    let start = index(first, completions)?;
    let Some(end) = end else { return Ok((start, start)) };
    let end = index(end, completions)?;
    if start >= end {
        return Err(format!("non-increasing order, previous: {start}, current: {end}"));
    }
    Ok((start, end))
}

fn index(text: &str, completions: i64) -> Result<i64, String> {
    let index: i64 =
        text.parse().map_err(|_| format!("cannot convert string to integer for index: {}", go_quote(text)))?;
    if index >= completions { Err(format!("too large index: {}", go_quote(text))) } else { Ok(index) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_indexes_of_lists() {
        for (list, want) in [
            ("", Ok(0)),
            ("1,3-5,7", Ok(5)),
            ("1,1", Err("non-increasing order, previous: 1, current: 1")),
            ("3-2", Err("non-increasing order, previous: 3, current: 2")),
            ("x", Err("cannot convert string to integer for index: \"x\"")),
            ("10", Err("too large index: \"10\"")),
            ("1-10", Err("too large index: \"10\"")),
            ("-1", Err("cannot convert string to integer for index: \"\"")),
            (
                "1-2-3",
                Err(
                    "the fragment \"1-2-3\" violates the requirement that an index interval can have at most two parts separated by '-'",
                ),
            ),
        ] {
            assert_eq!(count(list, 10), want.map_err(str::to_owned), "{list}");
        }
    }

    #[test]
    fn finds_overlapping_indexes() {
        for (completed, failed, want) in
            [("", "1", None), ("1-3", "4,6", None), ("1-3,6", "4-7", Some(6)), ("5", "x,5", Some(5))]
        {
            let want = want.map(|i| format!("failedIndexes and completedIndexes overlap at index: {i}"));
            assert_eq!(overlap(completed, failed, 10), want, "{completed} {failed}");
        }
    }
}
