//! The limit on open files and sockets of the process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The limit to set if there is neither a hard limit nor one of the system.
const FALLBACK_LIMIT: u64 = 1 << 20;

/// Raises the limit as far as possible and returns it. Each connection uses a descriptor, and the store always needs
/// some.
pub(crate) fn raise() -> u64 {
    let before = getrlimit(Resource::Nofile);
    let maximum = before.maximum.unwrap_or_else(system_maximum);
    let now = before.current.unwrap_or(maximum);
    if now >= maximum {
        return now;
    }
    match setrlimit(Resource::Nofile, Rlimit { current: Some(maximum), maximum: before.maximum }) {
        Ok(()) => maximum,
        Err(error) => {
            tracing::warn!("failed to raise the limit of open files from {now} to {maximum}: {error}");
            now
        }
    }
}

fn system_maximum() -> u64 {
    let named = std::fs::read_to_string("/proc/sys/fs/nr_open").ok();
    named.and_then(|text| text.trim().parse().ok()).unwrap_or(FALLBACK_LIMIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raises_limit_to_hard_limit() {
        let raised = raise();
        let now = getrlimit(Resource::Nofile);
        assert_eq!(now.current, Some(raised));
        assert!(now.maximum.is_none_or(|maximum| maximum == raised));
        assert_eq!(raise(), raised);
    }
}
