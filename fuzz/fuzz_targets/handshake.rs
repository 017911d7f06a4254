//! Coverage-guided: [`tabane_fuzz::handshake`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tabane_fuzz::handshake(bytes));
