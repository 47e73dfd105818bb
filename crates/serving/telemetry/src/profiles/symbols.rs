//! Names of functions by address.

/// Returns the name of the function at an address of this process, if known.
pub fn function_name(address: usize) -> Option<String> {
    let mut name = None;
    // The crate expects return addresses, and looks up the byte before them.
    let return_address = std::ptr::without_provenance_mut(address.checked_add(1)?);
    // Inlined functions come first, and last the function at the address.
    backtrace::resolve(return_address, |symbol| {
        name = symbol.name().map(|name| format!("{name:#}")).or_else(|| name.take());
    });
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_own_functions() {
        let address = function_name as fn(usize) -> Option<String> as usize;
        assert!(function_name(address).is_some_and(|name| name.ends_with("function_name")));
        assert_eq!(function_name(1), None);
    }
}
