//! Inspects the first bytes of a connection for the path of its first request, without consuming them. The result only
//! selects the runtime: connections with unrecognized paths are served too.

/// The paths of health checks, plain and in HPACK's Huffman code. The last Huffman byte includes bits of the next
/// character, so a mask selects the relevant ones.
const HEALTH: [(&[u8], &[u8], u8); 3] = [
    (b"/livez", &[0x62, 0x83, 0x77, 0x2f, 0xb0], 0xf0),
    (b"/readyz", &[0x62, 0xc2, 0x8e, 0x4f, 0x5e, 0xc0], 0xc0),
    (b"/healthz", &[0x62, 0x72, 0x8e, 0x84, 0xcf, 0xec], 0xfc),
];
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const FRAME_HEAD: usize = 9;

/// The kind of a connection, according to its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FirstRequest {
    /// More bytes are needed.
    Undecided,
    Health,
    Other,
}

/// Returns the kind of an HTTP/1 connection.
pub(crate) fn http1(bytes: &[u8]) -> FirstRequest {
    let Some(at) = bytes.iter().take(16).position(|byte| *byte == b' ') else {
        return if bytes.len() < 16 { FirstRequest::Undecided } else { FirstRequest::Other };
    };
    let path = &bytes[at + 1..];
    if HEALTH.iter().any(|(text, ..)| path.starts_with(text)) {
        return FirstRequest::Health;
    }
    if HEALTH.iter().any(|(text, ..)| text.starts_with(path)) { FirstRequest::Undecided } else { FirstRequest::Other }
}

/// Returns the kind of an HTTP/2 connection.
pub(crate) fn http2(bytes: &[u8]) -> FirstRequest {
    let Some(mut rest) = bytes.strip_prefix(PREFACE) else {
        return if PREFACE.starts_with(bytes) { FirstRequest::Undecided } else { FirstRequest::Other };
    };
    loop {
        let Some((head, after)) = rest.split_at_checked(FRAME_HEAD) else { return FirstRequest::Undecided };
        let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
        let (kind, flags) = (head[3], head[4]);
        if kind == 1 {
            return headers(&after[..after.len().min(length)], flags, after.len() >= length);
        }
        let Some(next) = after.get(length..) else { return FirstRequest::Undecided };
        rest = next;
    }
}

/// Returns the kind for a block of headers, which may be truncated.
fn headers(mut block: &[u8], flags: u8, is_whole: bool) -> FirstRequest {
    const PADDED: u8 = 8;
    const PRIORITY: u8 = 0x20;
    let skipped = usize::from(flags & PADDED != 0) + if flags & PRIORITY != 0 { 5 } else { 0 };
    let cut = if is_whole { FirstRequest::Other } else { FirstRequest::Undecided };
    block = match block.get(skipped..) {
        Some(block) => block,
        None => return cut,
    };
    while let Some(first) = block.first().copied() {
        // Indexed fields and table size updates have no strings. Index 4 is `/`, which is not a health check.
        let prefix = match first {
            0x80.. => 7,
            0x40..0x80 => 6,
            0x20..0x40 => 5,
            _ => 4,
        };
        let Some(index) = integer(&mut block, prefix) else { return cut };
        if matches!(prefix, 7 | 5) {
            continue;
        }
        if index == 0 && string(&mut block).is_none() {
            return cut;
        }
        let Some((value, is_coded)) = string(&mut block) else { return cut };
        if matches!(index, 4 | 5) {
            return if is_health(value, is_coded) { FirstRequest::Health } else { FirstRequest::Other };
        }
    }
    cut
}

fn is_health(value: &[u8], is_coded: bool) -> bool {
    HEALTH.iter().any(|(text, coded, mask)| {
        if !is_coded {
            return value.starts_with(text);
        }
        let whole = coded.len() - 1;
        value.len() > whole && value[..whole] == coded[..whole] && value[whole] & mask == coded[whole] & mask
    })
}

/// Decodes an HPACK integer.
fn integer(bytes: &mut &[u8], prefix: u32) -> Option<usize> {
    let (first, mut rest) = bytes.split_first()?;
    let max = (1usize << prefix) - 1;
    let mut value = usize::from(*first) & max;
    if value == max {
        for shift in [0, 7, 14] {
            let (byte, after) = rest.split_first()?;
            rest = after;
            value += usize::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                *bytes = rest;
                return Some(value);
            }
        }
        return None;
    }
    *bytes = rest;
    Some(value)
}

/// Decodes an HPACK string; returns true if it is Huffman-coded.
fn string<'a>(bytes: &mut &'a [u8]) -> Option<(&'a [u8], bool)> {
    let is_coded = bytes.first()? & 0x80 != 0;
    let length = integer(bytes, 7)?;
    let (value, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some((value, is_coded))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recognizes_http1_probes() {
        for (text, want) in [
            ("", FirstRequest::Undecided),
            ("GE", FirstRequest::Undecided),
            ("GET /li", FirstRequest::Undecided),
            ("GET /livez", FirstRequest::Health),
            ("HEAD /readyz?verbose HTTP/1.1", FirstRequest::Health),
            ("GET /healthz/ping HTTP/1.1", FirstRequest::Health),
            ("GET /api", FirstRequest::Other),
            ("no line of a request", FirstRequest::Other),
            ("ALLTHISISMETHODANDMORE", FirstRequest::Other),
        ] {
            assert_eq!(http1(text.as_bytes()), want, "{text}");
        }
    }

    /// Returns the first bytes that a real client sends.
    async fn first_bytes_of_client(path: &str) -> Vec<u8> {
        let (ours, mut theirs) = tokio::io::duplex(1 << 16);
        let (mut send, connection) = h2::client::handshake(ours).await.unwrap();
        let running = tokio::spawn(connection);
        let request = http::Request::builder()
            .uri(format!("https://localhost:6443{path}"))
            .header("authorization", "Bearer x")
            .body(())
            .unwrap();
        let (_answer, _stream) = send.send_request(request, true).unwrap();
        let mut bytes = Vec::new();
        let frames = |bytes: &[u8]| http2(bytes) != FirstRequest::Undecided;
        while !frames(&bytes) {
            let mut piece = [0; 4096];
            let count = tokio::io::AsyncReadExt::read(&mut theirs, &mut piece).await.unwrap();
            bytes.extend_from_slice(&piece[..count]);
        }
        running.abort();
        bytes
    }

    #[tokio::test]
    async fn recognizes_http2_probes() {
        for (path, want) in [
            ("/livez", FirstRequest::Health),
            ("/livez?verbose", FirstRequest::Health),
            ("/readyz", FirstRequest::Health),
            ("/readyz/etcd", FirstRequest::Health),
            ("/healthz", FirstRequest::Health),
            ("/healthz?exclude=etcd", FirstRequest::Health),
            ("/", FirstRequest::Other),
            ("/live", FirstRequest::Other),
            ("/api/v1/pods", FirstRequest::Other),
            ("/version", FirstRequest::Other),
        ] {
            let bytes = first_bytes_of_client(path).await;
            assert_eq!(http2(&bytes), want, "{path}");
            // Any truncation has the same result or is undecided.
            for cut in 0..bytes.len() {
                let result = http2(&bytes[..cut]);
                assert!(result == want || result == FirstRequest::Undecided, "{path} {cut}: {result:?}");
            }
        }
    }

    #[test]
    fn recognizes_plain_hpack_strings() {
        let with = |path: &[u8]| {
            let mut block = vec![0x82, 0x87, 0x41, 1, b'h', 0x04, path.len() as u8];
            block.extend_from_slice(path);
            let mut bytes = PREFACE.to_vec();
            bytes.extend([0, 0, block.len() as u8, 1, 5, 0, 0, 0, 1]);
            bytes.extend(block);
            http2(&bytes)
        };
        assert_eq!((with(b"/livez"), with(b"/livelong")), (FirstRequest::Health, FirstRequest::Other));
        assert_eq!(http2(b"GET / HTTP/1.1"), FirstRequest::Other);
    }
}
