//! Limits on the cost of one document.

use binnacle_meta::Text;
use binnacle_work::{allocate, charge_bytes};

use crate::{Message, Value};

/// The limits of a decoder. The defaults are for request bodies.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The maximum size of a document.
    pub max_bytes: usize,
    /// The maximum nesting of lists and objects. kube-apiserver allows 10,000; here trees are traversed recursively, so
    /// the limit must suit every stack.
    pub max_depth: usize,
    /// The maximum number of YAML nodes of a document, aliases expanded.
    pub max_yaml_nodes: usize,
    /// The maximum memory of the decoded tree, as `Budget` estimates it.
    pub max_memory: usize,
}

impl Limits {
    /// The maximum size of a request body, as in kube-apiserver.
    pub const MAX_BODY: usize = 3 * 1024 * 1024;
    /// The maximum memory of a request body's tree. A body of 3 MiB can have a million empty structs, which grow to
    /// half a kilobyte each with defaults. An object that fits the store needs far less.
    pub const MAX_MEMORY: usize = 64 * 1024 * 1024;
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_bytes: Self::MAX_BODY, max_depth: 256, max_yaml_nodes: 500_000, max_memory: Self::MAX_MEMORY }
    }
}

/// The error of a document with too many elements: its tree would take more memory than the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many elements: decoded, they would take more than {limit} bytes of memory")]
pub struct TooManyElements {
    pub limit: usize,
}

/// The remaining memory for a tree that is being built. Strings do not count, because the document contains them as
/// well. The used memory is also charged to the request.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    limit: usize,
    remaining: usize,
    /// The bytes that are not yet charged to the work budget of the request.
    uncharged: usize,
    exhausted: bool,
}

/// The bytes that are charged at once.
const PORTION: usize = 4 << 10;

/// The cost of an element of a list, which doubles its capacity as it grows.
const ELEMENT: usize = 2 * size_of::<Value>();
/// The cost of the first member of a map or an object without schema, which allocates capacity for four.
const FIRST_MEMBERS: usize = 4 * size_of::<(Text, Value)>();
/// The cost of each further member: the capacity doubles as the map grows, and the member has an index entry.
const FURTHER_MEMBER: usize = 2 * size_of::<(Text, Value)>() + 32;
/// The cost of a map besides its members.
const OBJECT: usize = 32;
/// The cost of a map of YAML, which finds repeated keys of any type, and of a member of it.
const YAML_MAP: usize = 512;
const YAML_MEMBER: usize = 104;

impl Budget {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self { limit: limits.max_memory, remaining: limits.max_memory, uncharged: 0, exhausted: false }
    }

    /// Returns an unlimited budget, for texts that were limited on receipt. It charges nothing, because such texts are
    /// also read while locks are held.
    pub(crate) fn unlimited() -> Self {
        Self { limit: usize::MAX, remaining: usize::MAX, uncharged: 0, exhausted: false }
    }

    #[inline]
    pub(crate) fn element(&mut self) -> Result<(), TooManyElements> {
        self.take(ELEMENT)
    }

    /// Counts a member of a map that has this number of members already.
    #[inline]
    pub(crate) fn member(&mut self, before: usize) -> Result<(), TooManyElements> {
        match before {
            0 => self.take(FIRST_MEMBERS),
            1..4 => Ok(()),
            _ => self.take(FURTHER_MEMBER),
        }
    }

    #[inline]
    pub(crate) fn object(&mut self) -> Result<(), TooManyElements> {
        self.take(OBJECT)
    }

    #[inline]
    pub(crate) fn message(&mut self, message: &Message) -> Result<(), TooManyElements> {
        self.take(message.lookup().cost)
    }

    #[inline]
    pub(crate) fn yaml_map(&mut self) -> Result<(), TooManyElements> {
        self.take(YAML_MAP)
    }

    #[inline]
    pub(crate) fn yaml_member(&mut self) -> Result<(), TooManyElements> {
        self.take(YAML_MEMBER)
    }

    /// Fails if the document has too many elements.
    pub(crate) fn check(&self) -> Result<(), TooManyElements> {
        if self.exhausted { Err(TooManyElements { limit: self.limit }) } else { Ok(()) }
    }

    #[inline]
    fn take(&mut self, bytes: usize) -> Result<(), TooManyElements> {
        match self.remaining.checked_sub(bytes) {
            Some(remaining) => {
                self.remaining = remaining;
                self.uncharged += bytes;
                if self.uncharged >= PORTION && self.limit != usize::MAX { self.charge() } else { Ok(()) }
            }
            None => Err(self.exhaust()),
        }
    }

    #[cold]
    fn exhaust(&mut self) -> TooManyElements {
        self.exhausted = true;
        TooManyElements { limit: self.limit }
    }

    fn charge(&mut self) -> Result<(), TooManyElements> {
        let bytes = std::mem::take(&mut self.uncharged);
        // The request fails with the limit of its work budget.
        charge_bytes(bytes).and_then(|()| allocate(bytes)).map_err(|_| self.exhaust())
    }
}
