//! Coverage-guided: [`tabane_fuzz::cell`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tabane_fuzz::cell(bytes));
