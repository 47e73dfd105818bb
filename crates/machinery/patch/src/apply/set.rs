//! Sets of fields: those that a manager owns, or a change affects.

use std::cmp::Ordering;

use binnacle_work::pace;

use super::element::PathElement;

/// The steps of a search in a sorted list.
const SEARCH: u64 = 4;

/// A set of paths. A path may be a member itself, have members below it, or both.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Set {
    /// Ordered by element. Each node is a member or has members below.
    pub(super) nodes: Vec<Node>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    pub(super) element: PathElement,
    pub(super) member: bool,
    pub(super) children: Set,
}

impl Set {
    /// Creates a set from nodes in any order.
    pub(super) fn from_nodes(mut nodes: Vec<Node>) -> Self {
        pace(nodes.len() as u64);
        if nodes.is_sorted_by(|a, b| a.element < b.element) {
            return Self { nodes };
        }
        nodes.sort_unstable_by(|a, b| a.element.cmp(&b.element));
        // Merge nodes of the same element.
        nodes.dedup_by(|other, node| {
            let same = other.element == node.element;
            if same {
                node.member |= other.member;
                node.children = node.children.union(&other.children);
            }
            same
        });
        Self { nodes }
    }

    pub(super) fn insert(&mut self, path: &[PathElement]) {
        let Some((first, rest)) = path.split_first() else { return };
        let at = match self.position(first) {
            Ok(at) => at,
            Err(at) => {
                self.nodes.insert(at, Node { element: first.clone(), member: false, children: Self::default() });
                at
            }
        };
        if rest.is_empty() {
            self.nodes[at].member = true;
        } else {
            self.nodes[at].children.insert(rest);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    pub(super) fn has(&self, path: &[PathElement]) -> bool {
        match path {
            [] => false,
            [last] => self.node(last).is_some_and(|node| node.member),
            [first, rest @ ..] => self.node(first).is_some_and(|node| node.children.has(rest)),
        }
    }

    /// Returns the paths in order, a parent before its children only if both are members; kube-apiserver lists the
    /// members of a level before deeper ones.
    pub(super) fn paths(&self) -> Vec<Vec<PathElement>> {
        let mut out = Vec::new();
        self.collect(&mut Vec::new(), &mut out);
        out
    }

    fn collect(&self, prefix: &mut Vec<PathElement>, out: &mut Vec<Vec<PathElement>>) {
        for node in self.nodes.iter().filter(|node| node.member) {
            let mut path = prefix.clone();
            path.push(node.element.clone());
            out.push(path);
        }
        for node in self.nodes.iter().filter(|node| !node.children.is_empty()) {
            prefix.push(node.element.clone());
            node.children.collect(prefix, out);
            prefix.pop();
        }
    }

    pub(super) fn node(&self, element: &PathElement) -> Option<&Node> {
        self.position(element).ok().map(|at| &self.nodes[at])
    }

    /// Returns the node of a field.
    pub(super) fn field(&self, name: &str) -> Option<&Node> {
        let at = self.nodes.binary_search_by(|node| match &node.element {
            PathElement::Field(field) => field.as_str().cmp(name),
            _ => Ordering::Greater,
        });
        at.ok().map(|at| &self.nodes[at])
    }

    fn position(&self, element: &PathElement) -> Result<usize, usize> {
        self.nodes.binary_search_by(|node| node.element.cmp(element))
    }

    pub(super) fn union(&self, other: &Self) -> Self {
        if self.is_empty() {
            return other.clone();
        }
        let mut nodes = Vec::with_capacity(self.nodes.len().max(other.nodes.len()));
        walk(&self.nodes, &other.nodes, |a, b| match (a, b) {
            (Some(a), Some(b)) => nodes.push(Node {
                element: a.element.clone(),
                member: a.member || b.member,
                children: a.children.union(&b.children),
            }),
            (Some(node), None) | (None, Some(node)) => nodes.push(node.clone()),
            (None, None) => {}
        });
        Self { nodes }
    }

    pub(super) fn intersection(&self, other: &Self) -> Self {
        let mut nodes = Vec::new();
        walk(&self.nodes, &other.nodes, |a, b| {
            if let (Some(a), Some(b)) = (a, b) {
                let children = a.children.intersection(&b.children);
                push(&mut nodes, a, a.member && b.member, children);
            }
        });
        Self { nodes }
    }

    /// Removes the members of `other`, but not members below them. Returns true if any was removed.
    pub(super) fn subtract(&mut self, other: &Self) -> bool {
        if other.is_empty() {
            return false;
        }
        pace((self.nodes.len() + other.nodes.len()) as u64);
        let mut removed = false;
        let mut from = 0;
        self.nodes.retain_mut(|node| {
            while from < other.nodes.len() && other.nodes[from].element < node.element {
                from += 1;
            }
            if let Some(other) = other.nodes.get(from).filter(|other| other.element == node.element) {
                removed |= node.member && other.member;
                node.member &= !other.member;
                removed |= node.children.subtract(&other.children);
            }
            node.member || !node.children.is_empty()
        });
        removed
    }

    pub(super) fn difference(&self, other: &Self) -> Self {
        let mut out = self.clone();
        out.subtract(other);
        out
    }

    /// Removes the members of `other` and all members below them.
    pub(super) fn subtract_recursively(&mut self, other: &Self) {
        if other.is_empty() {
            return;
        }
        pace(SEARCH * self.nodes.len() as u64);
        self.nodes.retain_mut(|node| match other.node(&node.element) {
            Some(other) if other.member => false,
            Some(other) => {
                node.children.subtract_recursively(&other.children);
                node.member || !node.children.is_empty()
            }
            None => true,
        });
    }
}

fn push(nodes: &mut Vec<Node>, like: &Node, member: bool, children: Set) {
    if member || !children.is_empty() {
        nodes.push(Node { element: like.element.clone(), member, children });
    }
}

/// Visits two ordered lists of nodes in parallel.
fn walk<'n>(a: &'n [Node], b: &'n [Node], mut visit: impl FnMut(Option<&'n Node>, Option<&'n Node>)) {
    pace(2 * (a.len() + b.len()) as u64);
    let (mut i, mut j) = (0, 0);
    while i < a.len() || j < b.len() {
        let ordering = match (a.get(i), b.get(j)) {
            (Some(a), Some(b)) => a.element.cmp(&b.element),
            (Some(_), None) => Ordering::Less,
            (None, _) => Ordering::Greater,
        };
        match ordering {
            Ordering::Less => visit(a.get(i), None),
            Ordering::Greater => visit(None, b.get(j)),
            Ordering::Equal => visit(a.get(i), b.get(j)),
        }
        i += usize::from(ordering.is_le());
        j += usize::from(ordering.is_ge());
    }
}

#[cfg(test)]
mod tests {
    use super::super::fields;
    use super::*;

    fn set(text: &str) -> Set {
        fields::parse(text).unwrap()
    }

    #[test]
    fn computes_union_intersection_and_difference() {
        let a = r#"{"f:a":{".":{},"f:b":{},"f:c":{}},"f:x":{}}"#;
        for (b, union, intersection, difference, recursive) in [
            ("{}", a, "{}", a, a),
            (
                r#"{"f:a":{"f:b":{}}}"#,
                a,
                r#"{"f:a":{"f:b":{}}}"#,
                r#"{"f:a":{".":{},"f:c":{}},"f:x":{}}"#,
                r#"{"f:a":{".":{},"f:c":{}},"f:x":{}}"#,
            ),
            (
                r#"{"f:a":{},"f:y":{}}"#,
                r#"{"f:a":{".":{},"f:b":{},"f:c":{}},"f:x":{},"f:y":{}}"#,
                r#"{"f:a":{}}"#,
                r#"{"f:a":{"f:b":{},"f:c":{}},"f:x":{}}"#,
                r#"{"f:x":{}}"#,
            ),
            (
                r#"{"f:x":{"f:deep":{}}}"#,
                r#"{"f:a":{".":{},"f:b":{},"f:c":{}},"f:x":{".":{},"f:deep":{}}}"#,
                "{}",
                a,
                a,
            ),
        ] {
            let (left, right) = (set(a), set(b));
            assert_eq!(fields::to_text(&left.union(&right)), union, "{b}");
            assert_eq!(fields::to_text(&right.union(&left)), union, "{b}");
            assert_eq!(fields::to_text(&left.intersection(&right)), intersection, "{b}");
            assert_eq!(fields::to_text(&left.difference(&right)), difference, "{b}");
            let mut rest = left.clone();
            rest.subtract_recursively(&right);
            assert_eq!(fields::to_text(&rest), recursive, "{b}");
        }
    }

    #[test]
    fn inserts_and_lists_paths() {
        let mut inserted = Set::default();
        let want = set(r#"{"f:a":{".":{},"k:{\"name\":\"x\"}":{"f:b":{}}},"f:c":{}}"#);
        for path in want.paths() {
            assert!(want.has(&path) && !inserted.has(&path));
            inserted.insert(&path);
        }
        assert_eq!(inserted, want);
        let shown: Vec<String> = want.paths().iter().map(|p| p.iter().map(ToString::to_string).collect()).collect();
        assert_eq!(shown, [".a", ".c", r#".a[name="x"].b"#]);
    }
}
