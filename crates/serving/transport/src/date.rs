//! The `Date` header, formatted once per second and thread.

use std::cell::RefCell;
use std::time::{SystemTime, UNIX_EPOCH};

use http::HeaderValue;

thread_local! {
    static CACHED: RefCell<(u64, HeaderValue)> = const { RefCell::new((0, HeaderValue::from_static(""))) };
}

/// Returns the current date.
pub(crate) fn now() -> HeaderValue {
    let now = SystemTime::now();
    let second = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    CACHED.with_borrow_mut(|(cached_second, value)| {
        if *cached_second != second || value.is_empty() {
            // A date is always a valid header value.
            *value = HeaderValue::try_from(httpdate::fmt_http_date(now)).unwrap_or(HeaderValue::from_static(""));
            *cached_second = second;
        }
        value.clone()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_the_current_date() {
        let text = now().to_str().unwrap().to_owned();
        let read = httpdate::parse_http_date(&text).unwrap();
        assert!(SystemTime::now().duration_since(read).unwrap().as_secs() < 60, "{text}");
        assert!(text.ends_with(" GMT"));
    }
}
