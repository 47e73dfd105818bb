//! Profiles of tasks, in place of Go's goroutines: the tasks of the runtime, with the names of supervised ones; and the
//! threads that run them.

use std::collections::BTreeMap;

use tokio::runtime::Handle;

use crate::profiles::format::{Frame, Stacks};

/// Returns the tasks of the current runtime.
pub fn tasks() -> Stacks {
    let mut stacks = Stacks::new(vec![("goroutine", "count")], (("goroutine", "count"), 1));
    let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    let mut named = 0;
    for (name, running) in binnacle_supervise::running() {
        named += running;
        stacks.add(vec![frame(name), frame("tasks that go on for as long as the server")], vec![count(running)]);
    }
    // Supervised tasks may also run in other runtimes or on their own threads.
    let other_tasks = Handle::current().metrics().num_alive_tasks().saturating_sub(named);
    stacks.add(vec![frame("connections, requests and what they wait for")], vec![count(other_tasks)]);
    stacks
}

/// Returns the threads of this process by name.
pub fn threads() -> std::io::Result<Stacks> {
    let mut names = BTreeMap::<String, i64>::new();
    for entry in std::fs::read_dir("/proc/self/task")? {
        // A thread that has exited in the meantime has no name.
        if let Ok(name) = std::fs::read_to_string(entry?.path().join("comm")) {
            *names.entry(name.trim_end().to_owned()).or_default() += 1;
        }
    }
    let mut stacks = Stacks::new(vec![("threadcreate", "count")], (("threadcreate", "count"), 1));
    for (name, count) in names {
        stacks.add(vec![frame(&name)], vec![count]);
    }
    Ok(stacks)
}

fn frame(name: &str) -> Frame {
    Frame { function: name.to_owned(), ..Frame::default() }
}
