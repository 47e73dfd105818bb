//! The limit on open files and sockets of the process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The limit to set if there is no hard limit and none of the system.
const PLENTY: u64 = 1 << 20;

/// Raises the limit as far as possible and returns it. Each connection uses a descriptor, and the store must always
/// have some.
pub(crate) fn raise() -> u64 {
    let before = getrlimit(Resource::Nofile);
    let most = before.maximum.unwrap_or_else(most_of_system);
    let now = before.current.unwrap_or(most);
    if now >= most {
        return now;
    }
    match setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum: before.maximum }) {
        Ok(()) => most,
        Err(error) => {
            tracing::warn!("cannot raise the limit of open files from {now} to {most}: {error}");
            now
        }
    }
}

fn most_of_system() -> u64 {
    let named = std::fs::read_to_string("/proc/sys/fs/nr_open").ok();
    named.and_then(|text| text.trim().parse().ok()).unwrap_or(PLENTY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_as_high_as_it_may_be() {
        let raised = raise();
        let now = getrlimit(Resource::Nofile);
        assert_eq!(now.current, Some(raised));
        assert!(now.maximum.is_none_or(|most| most == raised));
        assert_eq!(raise(), raised);
    }
}
