//! Per resource an immutable snapshot that follows the store, and watchers indexed by what they want.
