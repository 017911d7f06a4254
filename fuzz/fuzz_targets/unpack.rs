//! Coverage-guided: [`tabane_fuzz::unpack`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tabane_fuzz::unpack(bytes));
