//! Coverage-guided: [`tabane_fuzz::window`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tabane_fuzz::window(bytes));
