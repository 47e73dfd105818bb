//! `batch`: pods that run to completion, once or on a schedule.

mod cron_job;
mod job;
mod schedule;
mod time_zone;

use crate::Entry;

#[rustfmt::skip]
pub(crate) const STRATEGIES: &[Entry] = &[
    ("CronJob", &cron_job::CronJob),
    ("Job", &job::Job),
];
