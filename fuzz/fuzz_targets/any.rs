//! Coverage-guided: the body of [`tabane_fuzz::TARGETS`] whose name is in `FUZZ_TARGET`.
#![no_main]

use std::sync::LazyLock;

static BODY: LazyLock<fn(&[u8])> = LazyLock::new(|| {
    let wanted = std::env::var("FUZZ_TARGET").expect("FUZZ_TARGET names a folder of fuzz/corpus");
    tabane_fuzz::TARGETS.into_iter().find(|(name, _)| *name == wanted).expect("a target of this name").1
});

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| BODY(bytes));
