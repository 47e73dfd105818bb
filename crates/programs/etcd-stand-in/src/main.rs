//! The program `etcd` of test assets.

use std::io::Write;
use std::net::TcpListener;
use std::process::ExitCode;
use std::thread;

use binnacle_etcd_stand_in::{Plan, read, serve};

fn main() -> ExitCode {
    let plan = match read(std::env::args().skip(1)) {
        Ok(plan) => plan,
        Err(error) => return failed(&error.to_string()),
    };
    match plan {
        Plan::Print(text) => {
            // Standard output may be closed.
            let _ = std::io::stdout().write_all(text.as_bytes());
            ExitCode::SUCCESS
        }
        Plan::Serve { addresses, ignored } => listen(&addresses, &ignored),
    }
}

/// Binds every address before the first answer, then serves until the process is terminated.
fn listen(addresses: &[String], ignored: &[String]) -> ExitCode {
    for flag in ignored {
        say(&format!("--{flag} is ignored by this stand-in for etcd"));
    }
    let bind = |address: &String| TcpListener::bind(address).map_err(|error| format!("listen tcp {address}: {error}"));
    let listeners: Vec<TcpListener> = match addresses.iter().map(bind).collect() {
        Ok(listeners) => listeners,
        Err(error) => return failed(&error),
    };
    let mut threads = Vec::new();
    for listener in listeners {
        if let Ok(address) = listener.local_addr() {
            say(&format!("stand-in for etcd at http://{address}: it stores nothing"));
        }
        threads.push(thread::spawn(move || serve(listener)));
    }
    for thread in threads {
        if let Ok(Err(error)) = thread.join() {
            return failed(&error.to_string());
        }
    }
    ExitCode::SUCCESS
}

fn failed(error: &str) -> ExitCode {
    say(&format!("Error: {error}"));
    ExitCode::FAILURE
}

/// Prints a line to standard error, which may be closed.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
