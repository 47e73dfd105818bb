//! Names of functions by address.

/// Returns the name of the function at an address of this process, if known.
pub fn name_of(address: usize) -> Option<String> {
    let mut name = None;
    // The crate expects return addresses, and looks up the byte before them.
    let behind = std::ptr::without_provenance_mut(address.checked_add(1)?);
    // Inlined functions come first, and last the function at the address.
    backtrace::resolve(behind, |symbol| {
        name = symbol.name().map(|name| format!("{name:#}")).or_else(|| name.take());
    });
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_functions_have_names() {
        let address = name_of as fn(usize) -> Option<String> as usize;
        assert!(name_of(address).is_some_and(|name| name.ends_with("name_of")));
        assert_eq!(name_of(1), None);
    }
}
