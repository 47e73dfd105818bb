//! The memory of trees.

use crate::Value;

impl Value {
    /// Returns the approximate memory of what is below this value, without its texts, which copies share.
    pub fn tree_bytes(&self) -> usize {
        const MEMBER: usize = 64;
        match self {
            Self::List(items) => items.iter().map(|item| size_of::<Self>() + item.tree_bytes()).sum(),
            Self::Object(object) => object.values().map(|member| MEMBER + member.tree_bytes()).sum(),
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Value, value};

    #[test]
    fn counts_the_bytes_of_lists_and_objects() {
        for (tree, bytes) in [
            (Value::from("text"), 0),
            (value!([1, 2]), 2 * size_of::<Value>()),
            (value!({"a": 1, "b": [1]}), 2 * 64 + size_of::<Value>()),
        ] {
            assert_eq!(tree.tree_bytes(), bytes, "{tree:?}");
        }
    }
}
