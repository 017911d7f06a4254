//! The page that is part of the repository is what its sources give: built anew here, and compared.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use libtest_mimic::{Arguments, Failed};
use tabane_netns::needs::{NODE, require, trial};

fn main() -> ExitCode {
    let lack = lack();
    let trial = |name, test: fn() -> Result<(), Failed>| trial(name, lack.as_deref(), test);
    let trials = vec![
        trial("the_built_page_is_that_of_its_sources", the_built_page_is_that_of_its_sources),
        trial("the_sources_of_the_page_have_the_types_that_they_say", the_types_are_right),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn page() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("page")
}

fn lack() -> Option<String> {
    if let Err(missing) = require(&[NODE]) {
        return Some(missing.to_string());
    }
    let is_there = page().join("node_modules/esbuild/package.json").is_file();
    (!is_there).then(|| "needs the packages of the page: `make page-packages`".to_owned())
}

fn run(program: &str, arguments: &[&str]) -> Result<(), Failed> {
    let output = Command::new(program).args(arguments).current_dir(page()).output()?;
    let said = [output.stdout, output.stderr].concat();
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&said).into_owned().into()) }
}

fn files(folder: &Path) -> Result<BTreeMap<String, Vec<u8>>, Failed> {
    let entries = fs::read_dir(folder)?.map(|entry| {
        let entry = entry?;
        Ok((entry.file_name().to_string_lossy().into_owned(), fs::read(entry.path())?))
    });
    entries.collect()
}

fn the_built_page_is_that_of_its_sources() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let built = folder.path().join("dist");
    run("node", &["build.mjs", &built.to_string_lossy()])?;
    let (built, kept) = (files(&built)?, files(&page().join("dist"))?);
    assert!(built.contains_key("page.js"), "{:?}", built.keys());
    assert_eq!(built.keys().collect::<Vec<_>>(), kept.keys().collect::<Vec<_>>());
    let differing: Vec<_> = built.iter().filter(|(name, bytes)| kept[*name] != **bytes).collect();
    let differing: Vec<_> = differing.iter().map(|(name, _)| name.as_str()).collect();
    assert!(differing.is_empty(), "{differing:?} of web/page/dist is another: `make page` builds it");
    Ok(())
}

fn the_types_are_right() -> Result<(), Failed> {
    run("node", &["node_modules/typescript/bin/tsc", "--noEmit"])
}
