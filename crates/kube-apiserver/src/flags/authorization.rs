//! How the server decides what callers may do.

use binnacle_meta::go_quote;

use super::parse::Given;
use super::table::{Flag, FlagError, Group, Kind};

pub(super) const GROUP: Group = Group {
    title: "Authorization",
    flags: &[Flag::new(
        "authorization-mode",
        Kind::Value("strings"),
        "Node,RBAC",
        "Ordered list of authorizers. Supported are AlwaysAllow, AlwaysDeny, and Node and RBAC together, which for now allow \
         everything to system:masters and to others what is readable by everyone.",
    )],
};

/// The reference's authorizers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    AlwaysAllow,
    AlwaysDeny,
    Node,
    Rbac,
    Abac,
    Webhook,
}

impl Mode {
    const ALL: [(&'static str, Self); 6] = [
        ("AlwaysAllow", Self::AlwaysAllow),
        ("AlwaysDeny", Self::AlwaysDeny),
        ("Node", Self::Node),
        ("RBAC", Self::Rbac),
        ("ABAC", Self::Abac),
        ("Webhook", Self::Webhook),
    ];

    fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, mode)| *mode == self).map_or("", |(name, _)| name)
    }
}

/// The values of the group.
#[derive(Debug)]
pub(crate) struct Authorization {
    pub(crate) modes: Vec<Mode>,
}

impl Authorization {
    pub(super) fn read(given: &Given) -> Result<Self, FlagError> {
        let names: Vec<&str> = given.all("authorization-mode").into_iter().flat_map(|text| text.split(',')).collect();
        let names: Vec<&str> = if names == [""] { Vec::new() } else { names };
        if names.is_empty() {
            return Err(FlagError::new("at least one authorization-mode must be passed"));
        }
        let mut modes = Vec::new();
        for name in &names {
            match Mode::ALL.iter().find(|(known, _)| known == name) {
                Some((_, mode)) => modes.push(*mode),
                None => {
                    return Err(FlagError::new(format!("authorization-mode {} is not a valid mode", go_quote(name))));
                }
            }
        }
        if modes.iter().enumerate().any(|(at, mode)| modes[..at].contains(mode)) {
            let shown = names.iter().map(|name| go_quote(name)).collect::<Vec<_>>().join(" ");
            return Err(FlagError::new(format!("authorization-mode [{shown}] has mode specified more than once")));
        }
        // Starting without an authorizer that was asked for would allow less or more than the operator thinks.
        let together = modes.len() == 2 && modes.contains(&Mode::Node) && modes.contains(&Mode::Rbac);
        let missing =
            modes.iter().find(|mode| !matches!(mode, Mode::AlwaysAllow | Mode::AlwaysDeny)).filter(|_| !together);
        if let Some(mode) = missing {
            return Err(FlagError::new(format!(
                "authorization-mode {} is not supported yet; supported are AlwaysAllow, AlwaysDeny and Node,RBAC together",
                go_quote(mode.name())
            )));
        }
        Ok(Self { modes })
    }
}
