//! Coverage-guided: [`tabane_fuzz::bundle`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tabane_fuzz::bundle(bytes));
