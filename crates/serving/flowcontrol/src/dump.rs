//! `/debug/api_priority_and_fairness/...`: the state of the levels as tables, with kube-apiserver's columns.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use binnacle_meta::MicroTime;

use crate::FlowControl;

impl FlowControl {
    /// Returns a table with a row for each level.
    pub fn dump_priority_levels(&self) -> String {
        let mut table = Table::new(&[
            "PriorityLevelName",
            "ActiveQueues",
            "IsIdle",
            "IsQuiescing",
            "WaitingRequests",
            "ExecutingRequests",
            "DispatchedRequests",
            "RejectedRequests",
            "TimedoutRequests",
            "CancelledRequests",
        ]);
        for level in self.levels() {
            let (quiescing, idle, name) = (level.is_quiescing(), level.is_idle(), level.name.to_string());
            table.row(level.with(|state| {
                let queues = &state.queues;
                let active = queues.queues.iter().filter(|queue| !queue.waiting.is_empty()).count();
                let totals = queues.totals;
                vec![
                    name,
                    active.to_string(),
                    idle.to_string(),
                    quiescing.to_string(),
                    queues.waiting.to_string(),
                    queues.running.to_string(),
                    totals.dispatched.to_string(),
                    totals.rejected.to_string(),
                    // kube-apiserver has a column for timeouts, but counts them as cancelled.
                    "0".to_owned(),
                    totals.timed_out.to_string(),
                ]
            }));
        }
        table.text()
    }

    /// Returns a table with a row for each queue.
    pub fn dump_queues(&self) -> String {
        let mut table = Table::new(&[
            "PriorityLevelName",
            "Index",
            "PendingRequests",
            "ExecutingRequests",
            "SeatsInUse",
            "NextDispatchR",
            "InitialSeatsSum",
            "MaxSeatsSum",
            "TotalWorkSum",
        ]);
        for level in self.levels() {
            level.with(|state| {
                for (index, queue) in state.queues.queues.iter().enumerate() {
                    let seats = queue.waiting_seats().to_string();
                    table.row(vec![
                        level.name.to_string(),
                        index.to_string(),
                        queue.waiting.len().to_string(),
                        queue.running.to_string(),
                        queue.seats.to_string(),
                        format!("{:.8}ss", queue.next_r),
                        seats.clone(),
                        seats,
                        format!("{:.8}ss", queue.waiting_work()),
                    ]);
                }
            });
        }
        table.text()
    }

    /// Returns a table with a row for each waiting request.
    pub fn dump_requests(&self) -> String {
        let mut table = Table::new(&[
            "PriorityLevelName",
            "FlowSchemaName",
            "QueueIndex",
            "RequestIndexInQueue",
            "FlowDistingsher",
            "ArriveTime",
            "InitialSeats",
            "FinalSeats",
            "AdditionalLatency",
            "StartTime",
        ]);
        for level in self.levels() {
            level.with(|state| {
                for (index, queue) in state.queues.queues.iter().enumerate() {
                    for (index_in_queue, waiting) in queue.waiting.iter().enumerate() {
                        table.row(vec![
                            level.name.to_string(),
                            waiting.schema.to_string(),
                            index.to_string(),
                            index_in_queue.to_string(),
                            waiting.flow.to_string(),
                            clock(waiting.arrived_at),
                            waiting.seats.to_string(),
                            "0".to_owned(),
                            "0s".to_owned(),
                            // The request has not started: Go's zero time.
                            "0001-01-01T00:00:00Z".to_owned(),
                        ]);
                    }
                }
            });
        }
        table.text()
    }
}

fn clock(at: Instant) -> String {
    let time = SystemTime::now().checked_sub(at.elapsed()).unwrap_or(UNIX_EPOCH);
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    MicroTime::from_unix(since.as_secs() as i64, since.subsec_nanos()).to_string()
}

/// Rows of cells, printed in columns with commas after the cells.
struct Table(Vec<Vec<String>>);

impl Table {
    fn new(header: &[&str]) -> Self {
        Self(vec![header.iter().map(ToString::to_string).collect()])
    }

    fn row(&mut self, cells: Vec<String>) {
        self.0.push(cells);
    }

    fn text(&self) -> String {
        let columns = self.0.first().map_or(0, Vec::len);
        let width = |column: usize| self.0.iter().map(|row| row[column].chars().count() + 1).max().unwrap_or(0);
        // Widths as in Go's tabwriter: at least eight, with a space between columns.
        let widths: Vec<usize> = (0..columns).map(|column| (width(column) + 1).max(8)).collect();
        let mut text = String::new();
        for row in &self.0 {
            for (column, cell) in row.iter().enumerate() {
                if column + 1 == columns {
                    text.push_str(cell);
                } else {
                    text.push_str(&format!("{:width$}", format!("{cell},"), width = widths[column]));
                }
            }
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use binnacle_metrics::Registry;

    use super::*;

    #[test]
    fn dumps_mandatory_levels() {
        let limits = crate::RequestLimits { read_only: 10, mutating: 0 };
        let control = FlowControl::new(limits, Arc::new(|_| None), Arc::new(|_| None), &Registry::new()).unwrap();
        let levels = control.dump_priority_levels();
        let lines: Vec<&str> = levels.lines().collect();
        assert!(
            lines[0].starts_with("PriorityLevelName, ActiveQueues, IsIdle, IsQuiescing, WaitingRequests,"),
            "{levels}"
        );
        assert!(lines[1].starts_with("catch-all,         0,            true,   false,       0,"), "{levels}");
        assert_eq!(lines.len(), 3);
        control.levels().iter().for_each(|level| level.with(|state| state.queues.totals.timed_out = 7));
        let levels = control.dump_priority_levels();
        let cells: Vec<&str> = levels.lines().nth(1).unwrap().split(',').map(str::trim).collect();
        assert_eq!(cells[8..10], ["0", "7"], "{levels}");
        assert_eq!(control.dump_queues().lines().count(), 1);
        assert_eq!(control.dump_requests().lines().count(), 1);
    }
}
