//! Coverage-guided: [`tabane_fuzz::recorded`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tabane_fuzz::recorded(bytes));
