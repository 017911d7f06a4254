//! Coverage-guided: [`tabane_fuzz::overheard`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tabane_fuzz::overheard(bytes));
