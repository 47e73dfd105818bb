#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| binnacle_properties::charged(binnacle_properties::merge_patch, data));
