//! Coverage-guided: [`tabane_fuzz::config`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tabane_fuzz::config(bytes));
