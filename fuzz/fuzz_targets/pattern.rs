#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| binnacle_properties::pattern(data));
