//! The decoded form of an object: a tree that keeps the order of members and finds them by name.

mod index;

use binnacle_meta::Text;

use self::index::Index;

/// A value of an object. Strings up to 23 bytes are stored inline.
#[derive(Clone, Debug, Default)]
pub enum Value {
    #[default]
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Str(Text),
    List(Vec<Value>),
    Object(Object),
    /// Compact JSON text that is passed on without parsing (`FieldsV1`).
    Raw(Text),
}

/// The members of a struct or map. Small objects are searched by scanning, large ones through an index, so that a
/// hostile map of a million keys costs no more per key than a small one.
#[derive(Clone, Debug, Default)]
pub struct Object {
    entries: Vec<(Text, Value)>,
    /// Boxed, because objects are many and indexed ones few: this keeps a value small.
    index: Option<Box<Index>>,
}

/// The largest number of members without an index.
const INDEXED: usize = 48;

impl Object {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn with_capacity(capacity: usize) -> Self {
        Self { entries: Vec::with_capacity(capacity), index: None }
    }

    /// Reserves space for `additional` more members.
    pub fn reserve(&mut self, additional: usize) {
        self.entries.reserve_exact(additional);
    }

    /// Creates an object from members, which must have distinct names.
    pub fn from_distinct(entries: Vec<(Text, Value)>) -> Self {
        let mut object = Self { entries, index: None };
        if object.entries.len() > INDEXED {
            object.reindex();
        }
        object
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn get(&self, name: &str) -> Option<&Value> {
        self.position(name).map(|i| &self.entries[i].1)
    }

    pub fn get_mut(&mut self, name: &str) -> Option<&mut Value> {
        self.position(name).map(|i| &mut self.entries[i].1)
    }

    pub fn contains(&self, name: &str) -> bool {
        self.position(name).is_some()
    }

    /// Sets a member, in its place or at the end, and returns the previous value.
    pub fn insert(&mut self, name: impl Into<Text>, value: impl Into<Value>) -> Option<Value> {
        let name = name.into();
        let value = value.into();
        if let Some(i) = self.position(&name) {
            return Some(std::mem::replace(&mut self.entries[i].1, value));
        }
        self.push(name, value);
        None
    }

    /// Inserts an absent member at this position.
    pub(crate) fn insert_at(&mut self, place: usize, name: Text, value: Value) {
        self.entries.insert(place, (name, value));
        if self.entries.len() > INDEXED {
            self.reindex();
        }
    }

    /// Appends a member, which must be absent, for decoders that check for duplicates.
    pub fn push(&mut self, name: Text, value: Value) {
        self.entries.push((name, value));
        match &mut self.index {
            Some(index) => index.push(&self.entries),
            None if self.entries.len() > INDEXED => self.reindex(),
            None => {}
        }
    }

    /// Appends a member whose value `fill` builds in place, and removes it again if `fill` returns false.
    pub(crate) fn push_filled<E>(
        &mut self,
        name: Text,
        fill: impl FnOnce(&mut Value) -> Result<bool, E>,
    ) -> Result<(), E> {
        if self.entries.len() >= INDEXED {
            let mut value = Value::Null;
            if fill(&mut value)? {
                self.push(name, value);
            }
            return Ok(());
        }
        self.entries.push((name, Value::Null));
        let stays = match self.entries.last_mut() {
            Some((_, value)) => fill(value)?,
            None => unreachable!("was pushed above"),
        };
        if !stays {
            self.entries.pop();
        }
        Ok(())
    }

    /// Returns a member, created by `default` if it is absent.
    pub fn entry(&mut self, name: &str, default: impl FnOnce() -> Value) -> &mut Value {
        let i = match self.position(name) {
            Some(i) => i,
            None => {
                self.insert(name, default());
                self.entries.len() - 1
            }
        };
        &mut self.entries[i].1
    }

    /// Returns the object under `name`, replaced by an empty one if it is absent or not an object.
    pub fn object_entry(&mut self, name: &str) -> &mut Object {
        let value = self.entry(name, || Value::Object(Object::new()));
        if !matches!(value, Value::Object(_)) {
            *value = Value::Object(Object::new());
        }
        match value {
            Value::Object(object) => object,
            _ => unreachable!("was made an object above"),
        }
    }

    /// Removes a member. In a small object the others keep their order; in a large one the last member takes its place,
    /// so that a patch that removes a hundred thousand members does not move as many each time (large objects are maps,
    /// whose order does not matter).
    pub fn remove(&mut self, name: &str) -> Option<Value> {
        let i = self.position(name)?;
        let Some(index) = &mut self.index else { return Some(self.entries.remove(i).1) };
        index.swap_remove(&self.entries, i);
        Some(self.entries.swap_remove(i).1)
    }

    pub fn retain(&mut self, mut keep: impl FnMut(&Text, &mut Value) -> bool) {
        self.entries.retain_mut(|(name, value)| keep(name, value));
        self.reindex();
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Text, &Value)> + DoubleEndedIterator {
        self.entries.iter().map(|(name, value)| (name, value))
    }

    pub fn iter_mut(&mut self) -> impl ExactSizeIterator<Item = (&Text, &mut Value)> {
        self.entries.iter_mut().map(|(name, value)| (&*name, value))
    }

    pub fn keys(&self) -> impl ExactSizeIterator<Item = &Text> {
        self.entries.iter().map(|(name, _)| name)
    }

    pub fn values(&self) -> impl ExactSizeIterator<Item = &Value> {
        self.entries.iter().map(|(_, value)| value)
    }

    /// Sorts the members by name, as Go writes maps.
    pub fn sort_by_name(&mut self) {
        if !self.entries.is_sorted_by(|a, b| a.0 <= b.0) {
            self.entries.sort_by(|a, b| a.0.cmp(&b.0));
            self.reindex();
        }
    }

    /// Sorts the members by a key computed from their names (the index of a field in its message).
    pub fn sort_by_key<K: Ord>(&mut self, mut key: impl FnMut(&Text) -> K) {
        self.entries.sort_by_cached_key(|(name, _)| key(name));
        self.reindex();
    }

    fn position(&self, name: &str) -> Option<usize> {
        match &self.index {
            Some(index) => index.find(&self.entries, name),
            None => scan(&self.entries, name.as_bytes()),
        }
    }

    fn reindex(&mut self) {
        self.index = (self.entries.len() > INDEXED).then(|| Box::new(Index::of(&self.entries)));
    }
}

/// Scans the members. Most differ in length or first byte, which is checked without a call of `memcmp`; those calls
/// took half of the time of a search.
fn scan(entries: &[(Text, Value)], name_bytes: &[u8]) -> Option<usize> {
    let first = name_bytes.first();
    entries.iter().position(|(name, _)| {
        let name = name.as_bytes();
        name.len() == name_bytes.len() && name.first() == first && name == name_bytes
    })
}

impl PartialEq for Object {
    /// Compares the members, whose order does not matter.
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().all(|(name, value)| other.get(name) == Some(value))
    }
}

impl IntoIterator for Object {
    type Item = (Text, Value);
    type IntoIter = std::vec::IntoIter<(Text, Value)>;

    fn into_iter(self) -> Self::IntoIter {
        self.entries.into_iter()
    }
}

impl<N: Into<Text>, V: Into<Value>> FromIterator<(N, V)> for Object {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(members: I) -> Self {
        let mut object = Self::new();
        for (name, value) in members {
            object.insert(name, value);
        }
        object
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::Int(a), Self::Int(b)) => a == b,
            (Self::Float(a), Self::Float(b)) => a == b,
            (Self::Str(a), Self::Str(b)) | (Self::Raw(a), Self::Raw(b)) => a == b,
            (Self::List(a), Self::List(b)) => a == b,
            (Self::Object(a), Self::Object(b)) => a == b,
            _ => false,
        }
    }
}

// === Reading: accessors return `None` if the tree has another shape ===

impl Value {
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Str(text) => Some(text),
            _ => None,
        }
    }

    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Self::Int(n) => Some(*n),
            _ => None,
        }
    }

    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Int(n) => Some(*n as f64),
            Self::Float(n) => Some(*n),
            _ => None,
        }
    }

    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(b) => Some(*b),
            _ => None,
        }
    }

    pub fn as_list(&self) -> Option<&[Value]> {
        match self {
            Self::List(items) => Some(items),
            _ => None,
        }
    }

    pub fn as_list_mut(&mut self) -> Option<&mut Vec<Value>> {
        match self {
            Self::List(items) => Some(items),
            _ => None,
        }
    }

    pub fn as_object(&self) -> Option<&Object> {
        match self {
            Self::Object(object) => Some(object),
            _ => None,
        }
    }

    pub fn as_object_mut(&mut self) -> Option<&mut Object> {
        match self {
            Self::Object(object) => Some(object),
            _ => None,
        }
    }

    /// Returns the object, if this value is one.
    pub fn into_object(self) -> Option<Object> {
        match self {
            Self::Object(object) => Some(object),
            _ => None,
        }
    }

    /// Returns a member of an object.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.as_object().and_then(|object| object.get(name))
    }

    pub fn get_mut(&mut self, name: &str) -> Option<&mut Value> {
        self.as_object_mut().and_then(|object| object.get_mut(name))
    }

    /// Follows a path of member names: `object.at(&["spec", "template", "spec"])`.
    pub fn at(&self, path: &[&str]) -> Option<&Value> {
        path.iter().try_fold(self, |value, name| value.get(name))
    }

    pub fn at_mut(&mut self, path: &[&str]) -> Option<&mut Value> {
        path.iter().try_fold(self, |value, name| value.get_mut(name))
    }

    /// Returns the text at a path; `""` if there is none, as Go's zero value.
    pub fn str_at(&self, path: &[&str]) -> &str {
        self.at(path).and_then(Value::as_str).unwrap_or("")
    }

    pub fn int_at(&self, path: &[&str]) -> Option<i64> {
        self.at(path).and_then(Value::as_i64)
    }

    /// Returns the boolean at a path; false if there is none.
    pub fn bool_at(&self, path: &[&str]) -> bool {
        self.at(path).and_then(Value::as_bool).unwrap_or(false)
    }

    /// Returns the items at a path; empty if there is no list.
    pub fn list_at(&self, path: &[&str]) -> &[Value] {
        self.at(path).and_then(Value::as_list).unwrap_or(&[])
    }

    pub fn object_at(&self, path: &[&str]) -> Option<&Object> {
        self.at(path).and_then(Value::as_object)
    }

    /// Returns this value as an object; another value is replaced by an empty one.
    pub fn make_object(&mut self) -> &mut Object {
        if !matches!(self, Self::Object(_)) {
            *self = Self::Object(Object::new());
        }
        match self {
            Self::Object(object) => object,
            _ => unreachable!("was made an object above"),
        }
    }

    /// Returns the object at a path, with missing objects on the path created.
    pub fn make_at(&mut self, path: &[&str]) -> &mut Object {
        path.iter().fold(self.make_object(), |object, name| object.object_entry(name))
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Str(text.into())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Str(text.into())
    }
}

impl From<Text> for Value {
    fn from(text: Text) -> Self {
        Self::Str(text)
    }
}

impl From<i64> for Value {
    fn from(n: i64) -> Self {
        Self::Int(n)
    }
}

impl From<bool> for Value {
    fn from(b: bool) -> Self {
        Self::Bool(b)
    }
}

impl From<f64> for Value {
    fn from(n: f64) -> Self {
        Self::Float(n)
    }
}

impl From<Object> for Value {
    fn from(object: Object) -> Self {
        Self::Object(object)
    }
}

impl<T: Into<Value>> From<Vec<T>> for Value {
    fn from(items: Vec<T>) -> Self {
        Self::List(items.into_iter().map(Into::into).collect())
    }
}

/// Builds a [`Value`] from JSON-like syntax: `value!({"kind": "Pod", "spec": {"replicas": 1, "names": ["a", name]}})`.
///
/// Members whose value is a Rust expression are converted by `Value::from`.
#[macro_export]
macro_rules! value {
    (null) => { $crate::Value::Null };
    ([ $($item:tt),* $(,)? ]) => { $crate::Value::List(vec![ $( $crate::value!($item) ),* ]) };
    ({ $($name:literal : $value:tt),* $(,)? }) => {{
        #[allow(unused_mut, reason = "an empty object is never changed")]
        let mut object = $crate::Object::new();
        $( object.insert($name, $crate::value!($value)); )*
        $crate::Value::Object(object)
    }};
    ($other:expr) => { $crate::Value::from($other) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_large_objects() {
        let mut object = Object::new();
        for i in 0..200 {
            object.insert(format!("k{i}"), i as i64);
        }
        assert_eq!(object.get("k199").and_then(Value::as_i64), Some(199));
        assert!(object.remove("k5").is_some());
        assert_eq!(object.get("k5"), None);
        assert_eq!(object.get("k6").and_then(Value::as_i64), Some(6));
        assert_eq!(object.get("k199").and_then(Value::as_i64), Some(199));
        assert!(object.remove("k198").is_some() && object.remove("k199").is_some() && object.remove("k199").is_none());
        assert_eq!((object.len(), object.insert("k5", 5i64)), (197, None));
        assert!((0..198).all(|i| object.get(&format!("k{i}")).and_then(Value::as_i64) == Some(i)));
        object.retain(|_, v| v.as_i64().is_some_and(|n| n < 3));
        assert_eq!(object.len(), 3);
        assert_eq!(object.get("k2").and_then(Value::as_i64), Some(2));
    }

    #[test]
    fn reads_and_writes_at_paths() {
        let name = "web";
        let mut pod = value!({"metadata": {"name": name}, "spec": {"n": 1i64, "list": ["a", {"b": true}]}});
        assert_eq!(pod.str_at(&["metadata", "name"]), "web");
        assert_eq!(pod.int_at(&["spec", "n"]), Some(1));
        assert!(pod.list_at(&["spec", "list"])[1].bool_at(&["b"]));
        assert_eq!(pod.str_at(&["spec", "absent", "x"]), "");
        pod.make_at(&["status", "deep"]).insert("x", 2i64);
        assert_eq!(pod.int_at(&["status", "deep", "x"]), Some(2));
        assert_eq!(
            pod,
            value!({"spec": {"list": ["a", {"b": true}], "n": 1i64}, "status": {"deep": {"x": 2i64}}, "metadata": {"name": "web"}})
        );
    }
}
