//! Coverage-guided: [`tabane_fuzz::probe`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tabane_fuzz::probe(bytes));
