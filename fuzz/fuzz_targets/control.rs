//! Coverage-guided: [`tabane_fuzz::control`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tabane_fuzz::control(bytes));
