//! The parts of the document of version 2, which covers all resources. Since a change affects few of them, each path
//! and definition is encoded, hashed and compressed once, until its resource changes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, OnceLock};

use binnacle_meta::Text;
use binnacle_request::Pieces;
use bytes::Bytes;
use flate2::{Compress, Compression, Crc, FlushCompress};
use parking_lot::Mutex;
use sha2::{Digest, Sha512};

use crate::json::Json;
use crate::protobuf::{self, shapes};

/// A path or a definition.
#[derive(Debug)]
pub(crate) struct Part {
    /// A comma, the name and the value.
    json: Bytes,
    hash: Hash,
    /// `None` if the part cannot be encoded in protobuf.
    protobuf: OnceLock<Option<Bytes>>,
}

type Hash = [u8; 64];

/// The section of the document that contains the part.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Section {
    Paths,
    Definitions,
}

/// Blocks of a deflate stream that are independent of earlier ones and end at a byte boundary.
#[derive(Debug)]
pub(crate) struct CompressedRun {
    blocks: Bytes,
    crc: Crc,
}

/// The compressed runs of the last document, by the hash of their contents. The contents of a part determine where a
/// run ends, so that a change does not affect the runs before and after it.
#[derive(Debug, Default)]
pub(crate) struct CompressedRuns(Mutex<HashMap<Hash, Arc<CompressedRun>>>);

/// The paths of one resource or one built-in group version, and the parameters and definitions that they need.
#[derive(Debug, Default)]
pub(crate) struct PathParts {
    pub(crate) parts: Vec<(String, Arc<Part>)>,
    /// The shared parameters, with their names.
    pub(crate) parameters: BTreeMap<String, Bytes>,
    pub(crate) definitions: BTreeSet<Text>,
}

/// An encoded document: the bytes of its parts and between them, with their hashes.
#[derive(Default)]
pub(crate) struct Chunks {
    chunks: Vec<(Bytes, Hash)>,
    length: usize,
}

impl Part {
    pub(crate) fn new(name: &str, write: impl FnOnce(&mut Json)) -> Self {
        let mut json = Json::continuing();
        write(json.name(name));
        let bytes = Bytes::from(json.into_bytes());
        let hash = Sha512::digest(&bytes).into();
        Self { json: bytes, hash, protobuf: OnceLock::new() }
    }

    pub(crate) fn hash(&self) -> &Hash {
        &self.hash
    }

    fn protobuf(&self, section: Section) -> Option<&Bytes> {
        let encode = || {
            let member = [b"{", &self.json[1..], b"}"].concat();
            let kind = match section {
                Section::Paths => &shapes::V2_PATHS,
                Section::Definitions => &shapes::V2_DEFINITIONS,
            };
            protobuf::transcode_members(&member, kind).ok().map(Bytes::from)
        };
        self.protobuf.get_or_init(encode).as_ref()
    }
}

impl CompressedRun {
    fn new(run: &[(Bytes, Hash)]) -> Option<Self> {
        let mut deflate = Compress::new(Compression::default(), false);
        let length: usize = run.iter().map(|(bytes, _)| bytes.len()).sum();
        let (mut blocks, mut crc) = (Vec::with_capacity(length / 4 + 64), Crc::new());
        for (i, (bytes, _)) in run.iter().enumerate() {
            let flush = if i + 1 == run.len() { FlushCompress::Full } else { FlushCompress::None };
            crc.update(bytes);
            let begin = deflate.total_in();
            loop {
                let read = usize::try_from(deflate.total_in() - begin).ok()?;
                deflate.compress_vec(&bytes[read..], &mut blocks, flush).ok()?;
                // If capacity remains, all input was consumed and flushed.
                if deflate.total_in() - begin == bytes.len() as u64 && blocks.len() < blocks.capacity() {
                    break;
                }
                blocks.reserve(length / 4 + 64);
            }
        }
        blocks.shrink_to_fit();
        Some(Self { blocks: blocks.into(), crc })
    }
}

// === Documents ===

impl Chunks {
    pub(crate) fn push_own(&mut self, bytes: impl Into<Bytes>) {
        let bytes = bytes.into();
        let hash = Sha512::digest(&bytes).into();
        self.push(bytes, hash);
    }

    fn push(&mut self, bytes: Bytes, hash: Hash) {
        self.length += bytes.len();
        self.chunks.push((bytes, hash));
    }

    /// Adds the members of an object in JSON, the first without its comma.
    pub(crate) fn members<'p>(&mut self, parts: impl IntoIterator<Item = &'p Part>) {
        let mut parts = parts.into_iter();
        if let Some(first) = parts.next() {
            self.push_own(first.json.slice(1..));
        }
        parts.for_each(|part| self.push(part.json.clone(), part.hash));
    }

    /// Adds the field with these parts, preceded by its number and length. Returns `None` if a part cannot be encoded
    /// in protobuf.
    pub(crate) fn field(&mut self, section: Section, parts: &[&Part]) -> Option<()> {
        let fields = parts.iter().map(|part| part.protobuf(section)).collect::<Option<Vec<&Bytes>>>()?;
        let number = match section {
            Section::Paths => shapes::V2_PATHS_NUMBER,
            Section::Definitions => shapes::V2_DEFINITIONS_NUMBER,
        };
        self.push_own(protobuf::field_start(number, fields.iter().map(|field| field.len()).sum()));
        fields.into_iter().zip(parts).for_each(|(field, part)| self.push(field.clone(), part.hash));
        Some(())
    }

    /// Returns the uncompressed document.
    pub(crate) fn plain(&self) -> Pieces {
        let mut pieces = Pieces::default();
        self.chunks.iter().for_each(|(bytes, _)| pieces.push(bytes.clone()));
        pieces
    }

    /// Returns the document as a gzip member (RFC 1952), or `None` if compression fails.
    pub(crate) fn compressed(&self, cache: &CompressedRuns) -> Option<Pieces> {
        let (mut pieces, mut crc) = (Pieces::from(Bytes::from_static(&GZIP_HEADER)), Crc::new());
        let previous = std::mem::take(&mut *cache.0.lock());
        let mut runs = HashMap::new();
        for run in self.chunks.split_inclusive(ends_run) {
            let mut hash = Sha512::new();
            run.iter().for_each(|(_, part)| hash.update(part));
            let hash = hash.finalize().into();
            let compressed = match previous.get(&hash) {
                Some(compressed) => compressed.clone(),
                None => Arc::new(CompressedRun::new(run)?),
            };
            pieces.push(compressed.blocks.clone());
            crc.combine(&compressed.crc);
            runs.insert(hash, compressed);
        }
        *cache.0.lock() = runs;
        let mut end = LAST_BLOCK.to_vec();
        end.extend(crc.sum().to_le_bytes());
        // The length modulo 2^32.
        end.extend((self.length as u32).to_le_bytes());
        pieces.push(end.into());
        Some(pieces)
    }
}

/// Returns true at the end of a run: on average after 256 KiB, eight times the window of deflate.
fn ends_run((bytes, hash): &(Bytes, Hash)) -> bool {
    usize::from(u16::from_be_bytes([hash[0], hash[1]])) * 4 < bytes.len()
}

/// Deflate, no name, no time, unknown operating system.
const GZIP_HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];
/// The end of a deflate stream: an empty block.
const LAST_BLOCK: [u8; 2] = [3, 0];

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;

    use super::*;

    #[test]
    fn compressed_parts_form_one_gzip_member() {
        let text = |n: usize| (0..n).map(|i| char::from(b'a' + (i * i % 26) as u8)).collect::<String>();
        let lengths = [0, 1, 100, 1 << 19].into_iter().chain(1000..1100);
        let parts: Vec<Part> = lengths.map(|n| Part::new(&format!("part{n}"), |json| json.text(&text(n)))).collect();
        let mut chunks = Chunks::default();
        chunks.push_own("{");
        chunks.members(&parts);
        chunks.push_own("}");
        let plain = chunks.plain().into_bytes();
        let tree: serde_json::Value = serde_json::from_slice(&plain).unwrap();
        assert_eq!(tree["part100"], text(100));
        assert_eq!(tree.as_object().unwrap().len(), 104);
        let cache = CompressedRuns::default();
        for _ in 0..2 {
            let (compressed, mut read) = (chunks.compressed(&cache).unwrap().into_bytes(), Vec::new());
            let mut decoder = GzDecoder::new(&*compressed);
            decoder.read_to_end(&mut read).unwrap();
            assert!(read == plain && decoder.into_inner().is_empty());
            assert!(cache.0.lock().len() > 1);
        }
    }
}
