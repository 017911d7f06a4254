//! Coverage-guided: [`tabane_fuzz::told`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tabane_fuzz::told(bytes));
