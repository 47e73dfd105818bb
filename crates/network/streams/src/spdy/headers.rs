//! Header blocks: names and values with their lengths, compressed with the connection's earlier blocks as context.

use binnacle_work::pace;
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress};

use super::Headers;
use super::error::FrameError;

/// The compression dictionary (section 2.6.10.1 of the draft).
const DICTIONARY: &[u8] = include_bytes!("dictionary.bin");
/// The maximum decompressed size of a frame's headers. In practice they have some hundred bytes.
const MAX_BLOCK: usize = 64 * 1024;
const MAX_HEADERS: usize = 100;
/// The number of bytes that are decompressed and parsed in ten nanoseconds.
const BYTES_PER_STEP: u64 = 4;

/// Decompresses the blocks of one direction.
pub(super) struct Unpacker(Decompress);

/// Compresses the blocks of one direction.
pub(super) struct Packer(Compress);

impl Unpacker {
    pub(super) fn new() -> Self {
        Self(Decompress::new(true))
    }

    pub(super) fn unpack(&mut self, packed: &[u8]) -> Result<Headers, FrameError> {
        let mut block = Vec::with_capacity(1024);
        let mut left = packed;
        loop {
            if block.len() == block.capacity() {
                if block.len() >= MAX_BLOCK {
                    return Err(FrameError::Headers("too large"));
                }
                block.reserve(block.len());
            }
            // A block of a hundred bytes may expand to the maximum size.
            pace((block.capacity() - block.len()) as u64 / BYTES_PER_STEP);
            let (taken, made) = (self.0.total_in(), block.len());
            let result = self.0.decompress_vec(left, &mut block, FlushDecompress::Sync);
            left = &left[(self.0.total_in() - taken) as usize..];
            // The first block of a connection needs the dictionary.
            if let Err(error) = &result
                && error.needs_dictionary().is_some()
            {
                self.0.set_dictionary(DICTIONARY).map_err(|_| FrameError::Headers("not compressed"))?;
                continue;
            }
            if left.is_empty() && block.len() < block.capacity() {
                break;
            }
            let moved = self.0.total_in() != taken || block.len() != made;
            if result.is_err() || !moved {
                return Err(FrameError::Headers("not compressed"));
            }
        }
        parse(&block)
    }
}

impl Packer {
    pub(super) fn new() -> Self {
        let mut compress = Compress::new(Compression::default(), true);
        // Setting the dictionary fails only after data was compressed.
        let _ = compress.set_dictionary(DICTIONARY);
        Self(compress)
    }

    pub(super) fn pack(&mut self, headers: &Headers) -> Result<Vec<u8>, FrameError> {
        let mut block = (headers.len() as u32).to_be_bytes().to_vec();
        for text in headers.iter().flat_map(|(name, value)| [name, value]) {
            block.extend_from_slice(&(text.len() as u32).to_be_bytes());
            block.extend_from_slice(text.as_bytes());
        }
        let mut packed = Vec::with_capacity(block.len() + 64);
        let began = self.0.total_in();
        loop {
            let at = (self.0.total_in() - began) as usize;
            let status = self.0.compress_vec(&block[at..], &mut packed, FlushCompress::Sync);
            status.map_err(|_| FrameError::Headers("not compressible"))?;
            let all_in = (self.0.total_in() - began) as usize == block.len();
            // If the buffer has room left, everything has been flushed.
            if all_in && packed.len() < packed.capacity() {
                return Ok(packed);
            }
            packed.reserve(256);
        }
    }
}

fn parse(block: &[u8]) -> Result<Headers, FrameError> {
    let mut rest = block;
    let number = |rest: &mut &[u8]| -> Result<usize, FrameError> {
        let (number, behind) = rest.split_first_chunk::<4>().ok_or(FrameError::Headers("cut off"))?;
        *rest = behind;
        Ok(u32::from_be_bytes(*number) as usize)
    };
    let count = number(&mut rest)?;
    if count > MAX_HEADERS {
        return Err(FrameError::Headers("too many"));
    }
    let text = |rest: &mut &[u8]| -> Result<String, FrameError> {
        let length = number(rest)?;
        let (text, behind) = rest.split_at_checked(length).ok_or(FrameError::Headers("cut off"))?;
        *rest = behind;
        Ok(String::from_utf8_lossy(text).into_owned())
    };
    let mut headers = Headers::with_capacity(count);
    for _ in 0..count {
        let name = text(&mut rest)?.to_ascii_lowercase();
        headers.push((name, text(&mut rest)?));
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&str, &str)]) -> Headers {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn round_trips_header_blocks() {
        let (mut packer, mut unpacker) = (Packer::new(), Unpacker::new());
        let long = "x".repeat(20_000);
        for pairs in [
            &[("streamtype", "error")][..],
            &[("streamtype", "stdout")],
            &[],
            &[("port", "80"), ("requestid", "1"), ("streamtype", "data")],
            &[("long", long.as_str())],
            &[("streamtype", "error")],
        ] {
            let headers = headers(pairs);
            let packed = packer.pack(&headers).unwrap();
            assert_eq!(unpacker.unpack(&packed).unwrap(), headers);
        }
    }

    #[test]
    fn rejects_large_truncated_and_invalid_blocks() {
        for (pairs, want) in [
            (vec![("a".to_owned(), "x".repeat(MAX_BLOCK))], "too large"),
            (vec![(String::new(), String::new()); MAX_HEADERS + 1], "too many"),
        ] {
            let packed = Packer::new().pack(&pairs).unwrap();
            assert!(matches!(Unpacker::new().unpack(&packed), Err(FrameError::Headers(why)) if why == want), "{want}");
        }
        let packed = Packer::new().pack(&headers(&[("streamtype", "error")])).unwrap();
        for cut in 0..packed.len() {
            // A truncated block either fails or yields the same headers.
            if let Ok(headers) = Unpacker::new().unpack(&packed[..cut]) {
                assert_eq!(headers, self::headers(&[("streamtype", "error")]));
            }
        }
        for garbage in [&b""[..], b"\x00\x00\x00\x01", b"\x78\x9c\xff\xff", &[0xff; 100]] {
            assert!(Unpacker::new().unpack(garbage).is_err());
        }
    }
}
