//! Checks the properties on mutations of the corpus, the same in every run. `BINNACLE_MUTATIONS` sets how many there are
//! of each file, `BINNACLE_MUTATED` names a single property.

use std::path::Path;

use binnacle_properties::ALL;

/// The default number of mutations per file.
const MUTATIONS: u64 = 30;
/// The length to which a file is cut before it is mutated.
const LONGEST: usize = 4096;

/// A generator of numbers (xorshift64).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Returns a number below the bound; 0 for a bound of 0.
    fn below(&mut self, bound: usize) -> usize {
        if bound == 0 { 0 } else { (self.next() % bound as u64) as usize }
    }
}

/// Changes bytes, and copies or removes parts; `other` is a file to take parts from.
fn mutated(file: &[u8], other: &[u8], numbers: &mut Numbers) -> Vec<u8> {
    /// Bytes with a meaning in CBOR, protobuf or JSON.
    const SPECIAL: [u8; 16] =
        [0x00, 0x01, 0x7f, 0x80, 0xff, 0x1b, 0x3b, 0x5f, 0x9f, 0xbf, 0xf7, 0xf9, 0xfb, b'"', b'{', b'['];
    let mut data = file[..file.len().min(LONGEST)].to_vec();
    for _ in 0..=numbers.below(4) {
        let at = numbers.below(data.len());
        let end = (at + 1 + numbers.below(16)).min(data.len());
        match numbers.below(6) {
            0 if !data.is_empty() => data[at] ^= 1 << numbers.below(8),
            1 if !data.is_empty() => data[at] = SPECIAL[numbers.below(SPECIAL.len())],
            2 => data.insert(at, SPECIAL[numbers.below(SPECIAL.len())]),
            3 => drop(data.drain(at.min(end)..end)),
            4 => {
                let part = data[at.min(end)..end].to_vec();
                let to = numbers.below(data.len());
                data.splice(to..to, part);
            }
            _ => {
                let from = numbers.below(other.len());
                let part = other[from..(from + 1 + numbers.below(32)).min(other.len())].to_vec();
                data.splice(at..at, part);
            }
        }
    }
    data
}

#[test]
fn properties_hold_for_mutations_of_the_corpus() {
    let count = std::env::var("BINNACLE_MUTATIONS").map_or(MUTATIONS, |text| text.parse().expect("it is a number"));
    let only = std::env::var("BINNACLE_MUTATED").ok();
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for (name, property) in ALL.iter().filter(|(name, _)| only.as_deref().is_none_or(|only| only == *name)) {
        let mut paths: Vec<_> = std::fs::read_dir(corpus.join(name))
            .expect("the folder can be read")
            .map(|entry| entry.expect("the folder can be read").path())
            .collect();
        paths.sort();
        let files: Vec<Vec<u8>> = paths.iter().map(|path| std::fs::read(path).expect("the file can be read")).collect();
        let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
        for (path, file) in paths.iter().zip(&files) {
            for _ in 0..count {
                let other = &files[numbers.below(files.len())];
                let data = mutated(file, other, &mut numbers);
                let checked = std::panic::catch_unwind(|| property(&data));
                assert!(checked.is_ok(), "{} as {}", path.display(), data.escape_ascii());
            }
        }
    }
}
