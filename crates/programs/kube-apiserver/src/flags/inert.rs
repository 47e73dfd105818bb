//! Flags of kube-apiserver that have no effect here, each with the reason, so that its command lines start this server.
//! The log reports those that are given; `docs/flags.md` lists them.

use super::parse::FlagSet;
use super::table::{Flag, Group, ValueKind};

pub(super) const GROUP: Group = Group {
    title: "Ignored",
    flags: &[
        Flag::new(
            "contention-profiling",
            ValueKind::Bool,
            "",
            "Lock contention is not profiled; use perf on the process.",
        ),
        Flag::new(
            "default-watch-cache-size",
            ValueKind::Value("int"),
            "100",
            "The size of watch caches is dynamic. kube-apiserver ignores this deprecated flag as well.",
        ),
        Flag::new("permit-address-sharing", ValueKind::Bool, "", "SO_REUSEADDR is always set, as Go does on Linux."),
    ],
};

/// Returns the flags of this group that were given, with the reasons why they have no effect.
pub(super) fn given(flags: &FlagSet) -> Vec<(&'static str, &'static str)> {
    GROUP.flags.iter().filter(|flag| flags.is_given(flag.name)).map(|flag| (flag.name, flag.help)).collect()
}
