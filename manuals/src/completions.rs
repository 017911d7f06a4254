//! Completions: a file for each shell, under the name by which that shell finds it.

use std::fs;
use std::io;
use std::path::Path;

use clap::Command;
use clap_complete::{Shell, generate};

/// The shells, the directory of each, and what is before and after the program's name.
const SHELLS: [(Shell, &str, &str, &str); 3] =
    [(Shell::Bash, "bash", "", ""), (Shell::Zsh, "zsh", "_", ""), (Shell::Fish, "fish", "", ".fish")];

/// Writes the completions of `program` below `directory`.
pub(crate) fn write(program: &Command, directory: &Path) -> io::Result<()> {
    let name = program.get_name();
    for (shell, folder, before, after) in SHELLS {
        let folder = directory.join(folder);
        fs::create_dir_all(&folder)?;
        let mut script = Vec::new();
        generate(shell, &mut program.clone(), name, &mut script);
        fs::write(folder.join(format!("{before}{name}{after}")), script)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_shell_gets_what_users_type() {
        let directory = tempfile::tempdir().expect("a directory");
        for program in crate::programs() {
            write(&program, directory.path()).expect("written");
        }
        for file in ["bash/tabane", "zsh/_tabane", "fish/tabane.fish"] {
            let script = fs::read_to_string(directory.path().join(file)).expect(file);
            for word in ["genkey", "receive-interval", "stagger"] {
                assert!(script.contains(word), "{file} lacks {word}");
            }
            assert!(
                !script.contains("resolve-names"),
                "{file} has a command that the daemon starts for itself"
            );
        }
        for name in ["tabane-probe", "tabane-web", "tabane-follow"] {
            for file in [format!("bash/{name}"), format!("zsh/_{name}"), format!("fish/{name}.fish")] {
                assert!(directory.path().join(&file).is_file(), "{file}");
            }
        }
    }
}
