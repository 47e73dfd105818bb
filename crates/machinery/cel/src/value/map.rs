//! Maps: objects of a tree, maps that expressions create, and maps with lazily computed members.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use binnacle_meta::Text;
use binnacle_schema as schema;

use super::{Str, Val};
use crate::decl_type::{DeclType, Shape, escape};
use crate::error::Error;
use crate::meter::Meter;

#[derive(Clone, Debug)]
pub enum Map<'a> {
    Tree(&'a schema::Object, Option<&'a DeclType>),
    Entries(Arc<Entries<'a>>),
    Fields(&'a dyn Fields),
}

/// Lazily computed members: the variables of a policy.
pub trait Fields: fmt::Debug + Send + Sync {
    /// Returns the member of a name.
    ///
    /// # Errors
    /// The error of evaluating it.
    fn get(&self, name: &str) -> Option<Result<Val<'_>, Error>>;

    fn names(&self) -> Vec<Text>;
}

/// The entries of a map in insertion order.
#[derive(Clone, Debug, Default)]
pub struct Entries<'a> {
    list: Vec<(Val<'a>, Val<'a>)>,
    index: HashMap<Key, usize>,
    depth: u32,
}

/// A key; equal numbers of different types are the same key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    Bool(bool),
    Int(i64),
    Uint(u64),
    /// The bits of a number that is no integer.
    Double(u64),
    Str(Arc<str>),
}

impl<'a> Entries<'a> {
    /// Sets an entry.
    ///
    /// # Errors
    /// If the key has an invalid type.
    pub fn insert(&mut self, key: Val<'a>, value: Val<'a>) -> Result<(), Error> {
        let Some(k) = Key::of(&key) else {
            return Err(Error::new(format!("unsupported key type: {}", key.type_name())));
        };
        self.depth = self.depth.max(value.depth() + 1);
        match self.index.get(&k) {
            Some(at) => self.list[*at].1 = value,
            None => {
                self.index.insert(k, self.list.len());
                self.list.push((key, value));
            }
        }
        Ok(())
    }

    pub(super) fn depth(&self) -> u32 {
        self.depth
    }

    pub(crate) fn remove(&mut self, key: &Val<'a>) {
        if let Some(at) = Key::of(key).and_then(|k| self.index.remove(&k)) {
            self.list.remove(at);
            for index in self.index.values_mut().filter(|index| **index > at) {
                *index -= 1;
            }
        }
    }

    fn get(&self, key: &Val<'_>) -> Option<&Val<'a>> {
        let at = *self.index.get(&Key::of(key)?)?;
        Some(&self.list[at].1)
    }
}

impl Key {
    /// Returns the key of a value, `None` if it cannot be a key.
    pub(crate) fn of(value: &Val<'_>) -> Option<Self> {
        Some(match value {
            Val::Bool(b) => Self::Bool(*b),
            Val::Int(n) => Self::Int(*n),
            Val::Uint(n) => i64::try_from(*n).map_or(Self::Uint(*n), Self::Int),
            Val::Double(n) => {
                let whole = *n as i64;
                if whole as f64 == *n && whole != i64::MAX {
                    Self::Int(whole)
                } else if *n as u64 as f64 == *n && *n < u64::MAX as f64 {
                    Self::Uint(*n as u64)
                } else if n.is_nan() {
                    return None;
                } else {
                    Self::Double(n.to_bits())
                }
            }
            Val::Str(Str::Shared(text)) => Self::Str(text.clone()),
            Val::Str(text) => Self::Str(Arc::from(&**text)),
            _ => return None,
        })
    }
}

impl<'a> Map<'a> {
    pub fn len(&self) -> usize {
        match self {
            Self::Tree(object, _) => object.len(),
            Self::Entries(entries) => entries.list.len(),
            Self::Fields(fields) => fields.names().len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the value of a key.
    ///
    /// # Errors
    /// If a value of a tree does not have its type, or a member could not be evaluated.
    pub fn find(&self, key: &Val<'_>) -> Result<Option<Val<'a>>, Error> {
        match (self, key) {
            (Self::Entries(entries), key) => Ok(entries.get(key).cloned()),
            (_, Val::Str(name)) => self.find_name(name),
            (Self::Tree(_, Some(_)), _) => Err(Error::no_such_overload()),
            _ => Ok(None),
        }
    }

    pub(crate) fn find_name(&self, name: &str) -> Result<Option<Val<'a>>, Error> {
        match self {
            Self::Tree(object, None) => Ok(object.get(name).map(Val::of)),
            Self::Tree(object, Some(ty)) => match &ty.shape {
                Shape::Map { value, .. } => object.get(name).map(|v| Val::typed(v, value)).transpose(),
                Shape::Object(decl) => {
                    let Some(field) = decl.field_or_keyword(name) else { return Ok(None) };
                    // Null members of structs count as absent.
                    let value = object.get(&field.name).filter(|value| !value.is_null());
                    value.map(|value| Val::typed(value, &field.ty)).transpose()
                }
                _ => Ok(object.get(name).map(Val::of)),
            },
            Self::Entries(entries) => Ok(entries.get(&Val::from(name)).cloned()),
            Self::Fields(fields) => fields.get(name).transpose(),
        }
    }

    /// Returns the keys as expressions see them.
    pub fn keys(&self) -> Vec<Val<'a>> {
        match self {
            Self::Tree(object, Some(DeclType { shape: Shape::Object(decl), .. })) => {
                let known = object.keys().filter_map(|name| decl.field_by_json_name(name));
                known.map(|(escaped, _)| Val::Str(Str::Borrowed(escaped))).collect()
            }
            Self::Tree(object, _) => object.keys().map(|name| Val::Str(Str::Borrowed(name))).collect(),
            Self::Entries(entries) => entries.list.iter().map(|(key, _)| key.clone()).collect(),
            Self::Fields(fields) => {
                fields.names().iter().map(|name| Val::str(escape(name).unwrap_or_default().as_str())).collect()
            }
        }
    }

    /// Returns the first key as expressions see it.
    pub(crate) fn first_key(&self) -> Option<Val<'a>> {
        match self {
            Self::Tree(object, None) => object.keys().next().map(|name| Val::Str(Str::Borrowed(name))),
            Self::Entries(entries) => entries.list.first().map(|(key, _)| key.clone()),
            // Objects of a type have few members.
            map => map.keys().into_iter().next(),
        }
    }

    /// As [`Self::keys`], charged as work only: they need less memory than the map itself, and only for a moment.
    pub(crate) fn keys_charged(&self, meter: &Meter) -> Result<Vec<Val<'a>>, Error> {
        meter.work(1 + 2 * self.len() as u64)?;
        Ok(self.keys())
    }

    /// Returns the map with one more entry.
    ///
    /// # Errors
    /// If the key exists already or has an invalid type.
    pub(crate) fn inserted(self, meter: &Meter, key: Val<'a>, value: Val<'a>) -> Result<Self, Error> {
        meter.entry(&key)?;
        if self.find(&key)?.is_some() {
            return Err(Error::new(format!("insert failed: key {key} already exists")));
        }
        let mut entries = match self {
            Self::Entries(entries) => entries,
            map => {
                let mut entries = Entries::default();
                for key in map.keys_charged(meter)? {
                    meter.entry(&key)?;
                    if let Some(value) = map.find(&key)? {
                        entries.insert(key, value)?;
                    }
                }
                Arc::new(entries)
            }
        };
        if Arc::get_mut(&mut entries).is_none() {
            // The entries are shared, so all of them are copied.
            for (key, _) in &entries.list {
                meter.entry(key)?;
            }
        }
        Arc::make_mut(&mut entries).insert(key, value)?;
        Ok(Self::Entries(entries))
    }

    /// Returns the map with all entries of another one.
    ///
    /// # Errors
    /// As [`Self::inserted`].
    pub(crate) fn with_all(mut self, meter: &Meter, more: &Self) -> Result<Self, Error> {
        for key in more.keys_charged(meter)? {
            meter.key(&key)?;
            if let Some(value) = more.find(&key)? {
                self = self.inserted(meter, key, value)?;
            }
        }
        Ok(self)
    }
}
