//! Files in the format of gzip, as small as they get: the packages and the counts of branches.

use std::io::Read;

use flate2::read::MultiGzDecoder;
use libdeflater::{CompressionLvl, Compressor};

/// The effort of compressing.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Effort {
    Best,
    #[cfg(test)]
    Least,
}

/// Compresses bytes, without name and time.
pub(crate) fn pack(bytes: &[u8], effort: Effort) -> Result<Vec<u8>, String> {
    let level = match effort {
        Effort::Best => CompressionLvl::best(),
        #[cfg(test)]
        Effort::Least => CompressionLvl::fastest(),
    };
    let mut compressor = Compressor::new(level);
    let mut packed = vec![0; compressor.gzip_compress_bound(bytes.len())];
    let size = compressor.gzip_compress(bytes, &mut packed).map_err(|error| format!("cannot compress: {error}"))?;
    packed.truncate(size);
    Ok(packed)
}

pub(crate) fn unpack(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let mut unpacked = Vec::new();
    match MultiGzDecoder::new(bytes).read_to_end(&mut unpacked) {
        Ok(_) => Ok(unpacked),
        Err(error) => Err(format!("cannot decompress: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_through_gzip() {
        for bytes in [&b""[..], b"a", &[7; 100_000]] {
            for effort in [Effort::Best, Effort::Least] {
                let packed = pack(bytes, effort).unwrap();
                // No flags, and no time.
                assert_eq!(packed[..8], [0x1f, 0x8b, 8, 0, 0, 0, 0, 0]);
                assert_eq!(unpack(&packed).unwrap(), bytes);
            }
        }
        assert!(unpack(b"something else").is_err());
    }
}
