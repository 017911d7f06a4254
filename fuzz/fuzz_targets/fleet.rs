//! Coverage-guided: [`tabane_fuzz::fleet`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tabane_fuzz::fleet(bytes));
