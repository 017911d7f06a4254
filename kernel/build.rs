//! Compiles the programs, with the feature `kernel-path`.

#[cfg(not(feature = "kernel-path"))]
fn main() {}

#[cfg(feature = "kernel-path")]
fn main() {
    programs::compile();
}
#[cfg(feature = "kernel-path")]
mod programs {
    use std::env;
    use std::path::{Path, PathBuf};
    use std::process::Command;

    use libbpf_cargo::SkeletonBuilder;

    /// The programs, without the ending of their files.
    const PROGRAMS: [&str; 3] = ["send", "receive", "reorder"];
    /// The first clang that keeps the type tags of pointers in maps, which the kernel's verifier asks for.
    const CLANG_MIN: u32 = 16;
    /// What else a clang may be called.
    const CLANG_LATEST: u32 = 24;

    pub(super) fn compile() {
        println!("cargo::rerun-if-changed=programs");
        println!("cargo::rerun-if-env-changed=PATH");
        let Some(clang) = find_clang() else {
            println!(
                "cargo::error=the kernel path takes clang {CLANG_MIN} or later: apt-get install clang-{CLANG_MIN}, or build without the feature kernel-path (make FEATURES=)"
            );
            return;
        };
        let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
        for program in PROGRAMS {
            let source = Path::new("programs").join(format!("{program}.bpf.c"));
            SkeletonBuilder::new()
                .source(&source)
                .obj(out.join(format!("{program}.bpf.o")))
                .clang(&clang)
                .clang_args(["-mcpu=v3", "-Wall", "-Werror", "-I", &headers()])
                .build()
                .unwrap_or_else(|error| panic!("{}: {error:#}", source.display()));
        }
    }

    /// A clang that is new enough: the one that `CLANG` names; without the variable `clang`, else one with a number.
    fn find_clang() -> Option<String> {
        println!("cargo::rerun-if-env-changed=CLANG");
        let numbered = (CLANG_MIN..=CLANG_LATEST).map(|version| format!("clang-{version}"));
        let names = match env::var("CLANG") {
            Ok(named) => vec![named],
            Err(_) => std::iter::once("clang".to_owned()).chain(numbered).collect(),
        };
        names.into_iter().find(|name| version(name).is_some_and(|version| version >= CLANG_MIN))
    }

    fn version(name: &str) -> Option<u32> {
        let output = Command::new(name).arg("--version").output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        let (_, rest) = text.split_once("clang version ")?;
        rest.split('.').next()?.parse().ok()
    }

    /// Where Debian and its like keep `asm/types.h`, which clang does not look for when it compiles for BPF.
    fn headers() -> String {
        format!("/usr/include/{}-linux-gnu", env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets it"))
    }
}
