//! The lines of a message about missing permissions.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::ops::ControlFlow;

use binnacle_meta::Text;
use binnacle_work::{BudgetError, allocate, pace};

use super::{Permission, UncoveredRule};
use crate::rule::Rule;

/// The maximum size of a message's strings in bytes.
const MAX_BYTES: usize = 128 << 10;
/// The size of a line apart from its strings, in bytes.
const LINE: usize = 56;

/// Collects the lines of missing permissions up to a limit. Permissions that only differ in verbs share a line.
#[derive(Default)]
pub(in super::super) struct Lines<'a> {
    verbs: HashMap<(&'a Text, &'a Text, Option<&'a Text>), Vec<Text>>,
    paths: BTreeSet<String>,
    bytes: usize,
    named: u64,
}

impl<'a> Lines<'a> {
    /// Formats missing permissions as sorted lines. The last line has the number of those that are not listed.
    pub(in super::super) fn of(missing: &[UncoveredRule<'a>]) -> Result<String, BudgetError> {
        allocate(MAX_BYTES.min(64 * missing.len()))?;
        let mut lines = Self::default();
        for uncovered in missing {
            if uncovered.visit(&mut |permission| lines.add(permission))?.is_break() {
                break;
            }
        }
        let all = missing.iter().fold(0u64, |all, uncovered| all.saturating_add(uncovered.count()));
        allocate(2 * lines.bytes)?;
        Ok(lines.into_text(all))
    }

    fn add(&mut self, permission: Permission<'a>) -> ControlFlow<()> {
        let more = match permission {
            Permission::Resource { group, resource, verb, name } => {
                let texts = group.len() + resource.len() + name.map_or(0, |name| name.len());
                // Another verb of a line only adds a space and quotes.
                let is_new = !self.verbs.contains_key(&(group, resource, name));
                verb.len() + if is_new { LINE + texts } else { 3 }
            }
            Permission::Path { path, verb } => LINE + path.len() + verb.len(),
        };
        if self.bytes + more > MAX_BYTES {
            return ControlFlow::Break(());
        }
        // The cost of this lookup and of formatting later.
        pace(5 + more as u64 / 4);
        self.bytes += more;
        self.named += 1;
        match permission {
            Permission::Resource { group, resource, verb, name } => match self.verbs.entry((group, resource, name)) {
                Entry::Occupied(mut line) => line.get_mut().push(verb.clone()),
                Entry::Vacant(line) => drop(line.insert(vec![verb.clone()])),
            },
            Permission::Path { .. } => drop(self.paths.insert(permission.rule().compact())),
        }
        ControlFlow::Continue(())
    }

    fn into_text(self, all: u64) -> String {
        let mut lines = self.paths;
        lines.extend(self.verbs.into_iter().map(|((group, resource, name), verbs)| {
            let (api_groups, resources) = (vec![group.clone()], vec![resource.clone()]);
            let resource_names = name.into_iter().cloned().collect();
            Rule { verbs, api_groups, resources, resource_names, paths: Vec::new() }.compact()
        }));
        let mut lines: Vec<String> = lines.into_iter().collect();
        if all > self.named {
            lines.push(format!("and {} more permissions", all - self.named));
        }
        lines.join("\n")
    }
}
