//! Coverage-guided: [`tabane_fuzz::reassemble`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tabane_fuzz::reassemble(bytes));
