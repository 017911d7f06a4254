//! The file of a running bundle: `tabane reload` reads it again, and `tabane save` writes what was changed by hand into it, and leaves the
//! rest as the user wrote it.
//!
//! The daemon cannot open files. So `reload` reads the file and the keys that it names with the rights of its user, checks everything, and
//! sends what it has understood; the daemon compares that with what is in force (`shell/reload.rs`). `save` compares the two itself, and
//! edits the keys that differ (`save/edit.rs`). The result is checked as `tabane check` does before it takes the place of the file.

mod edit;

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};

use clap::Args;
use tabane_api::{InForce, Request, Told, origin};
use tabane_config::difference::{Difference, differences};
use tabane_config::key::Key;
use tabane_config::{Access, Config, FixedConfig, read};

use crate::remote;
use crate::source::read_again;
use crate::stdout::print;
use edit::Edit;
use tabane_config::problem::{BadInput, one_line};

/// What differs when the group keys do.
const KEYS: &str = "group keys";

/// The files of keys that the user names: those that a bundle names are not taken.
#[derive(Args, Debug)]
pub(crate) struct KeyFiles {
    /// File of the group key in force, when FILE has another one; given again: of one that is accepted, too
    #[arg(long = "key", value_name = "PATH")]
    keys: Vec<PathBuf>,
    /// File of this node's key, for a new FILE
    #[arg(long, value_name = "PATH")]
    node_key: Option<PathBuf>,
}

/// The file of the bundle `name` that is meant, as an absolute path: the one that is `given`, or the one of the service.
pub(crate) fn file_of(name: &str, running: &InForce, given: Option<&Path>) -> anyhow::Result<PathBuf> {
    let service = origin::file_of_service(name);
    let file = match (given, &running.origin.file) {
        (Some(given), _) => given,
        (None, Some(file)) if *file != service => {
            let file = one_line(&file.display().to_string());
            let why = format!(
                "{name} says that it was started from {file}; allowed: to name the file that is meant"
            );
            return Err(BadInput::new(why).into());
        }
        (None, _) if service.exists() => &service,
        (None, _) => {
            let why =
                format!("{name} was started without a file; allowed: to name one, such as ./{name}.toml");
            return Err(BadInput::new(why).into());
        }
    };
    Ok(std::path::absolute(file)?)
}

/// Has the bundle `name` change what differs from the file of its service, or from `file`, and prints what that was.
pub(crate) fn reload(name: &str, file: Option<&Path>) -> anyhow::Result<()> {
    let running = tabane_api::in_force(name)?;
    let file = file_of(name, &running, file)?;
    let text = read(&file, &file.display().to_string()).map_err(BadInput::from)?;
    let config: Config = read_again(name, &file, &text, &running.origin)?;
    remote::change(name, &Request::Reload { told: Told::of(&config), file })
}

/// Writes what is in force of the bundle `name` into the file of its service, or into `file`, and prints what has changed there.
pub(crate) fn save(name: &str, file: Option<&Path>, key_files: &KeyFiles) -> anyhow::Result<()> {
    let running = tabane_api::in_force(name)?;
    let file = file_of(name, &running, file)?;
    let in_force = running.told.understood().map_err(BadInput::new)?;
    let Some(text) = existing(&file)? else {
        return save_whole(name, &running, &in_force, (&file, key_files));
    };
    let before = read_again(name, &file, &text, &running.origin)?;
    let keys = (&running.groups[..], &absolute(&key_files.keys)?[..]);
    let (edited, keys) = edited((&file, &text), &before, &in_force, keys)?;
    let after = read_again(name, &file, &edited, &running.origin)?;
    if edited != text {
        replace(&file, &edited).map_err(|error| unwritable(&file, &error))?;
    }
    tabane_api::ask(name, &Request::Filed { told: Told::of(&after), file: file.clone() })?;
    let mut lines: Vec<String> =
        differences(&bare(&before), &bare(&after)).iter().map(Difference::change).collect();
    lines.extend(keys);
    if lines.is_empty() {
        lines.push(format!("nothing in {} had to change", file.display()));
    }
    lines.extend(left(&running.groups, &after, &in_force));
    print(&lines.into_iter().map(|line| line + "\n").collect::<String>())
}

/// A file as it is when it says what is in force, and a sentence when its keys are others. `before`: what it says now. `keys`: the numbers
/// of the group keys in force, and their files.
pub fn edited(
    (file, text): (&Path, &str),
    before: &Config,
    in_force: &Config,
    keys: (&[String], &[PathBuf]),
) -> Result<(String, Option<String>), BadInput> {
    let mut edit = Edit::of(file, text, before)?;
    edit.take(in_force)?;
    let keys = edit.take_keys(keys.0, keys.1);
    Ok((edit.text(), keys))
}

/// A new file with all that is in force, but for what rights the daemon has, and who has rights over it: a bundle that was taken over
/// would give itself more at its next start.
fn save_whole(
    name: &str,
    running: &InForce,
    in_force: &Config,
    (file, key_files): (&Path, &KeyFiles),
) -> anyhow::Result<()> {
    if key_files.keys.is_empty() && !running.groups.is_empty() {
        let why = "a new file has to name the group key; allowed: `--key PATH`, its file";
        return Err(BadInput::new(format!("{}: {why}", file.display())).into());
    }
    let is_usual = in_force.access == Access::default();
    let fixed = FixedConfig { access: Access::default(), ..in_force.fixed.clone() };
    let in_force = &Config { fixed, ..in_force.clone() };
    let mut edit = Edit::of(file, &in_force.to_string(), in_force)?;
    edit.take_keys(&running.groups, &absolute(&key_files.keys)?);
    if let Some(node_key) = &key_files.node_key {
        edit.take_node_key(&std::path::absolute(node_key)?);
    }
    let text = edit.text();
    let config = read_again(name, file, &text, &running.origin)?;
    let mut new = OpenOptions::new().write(true).create_new(true).mode(0o644).open(file)?;
    new.write_all(text.as_bytes()).and_then(|()| new.sync_all()).map_err(|error| unwritable(file, &error))?;
    tabane_api::ask(name, &Request::Filed { told: Told::of(&config), file: file.to_owned() })?;
    let but = if is_usual { "" } else { ", but for user, sandbox and groups, which are yours to write" };
    print(&format!("{} says what is in force{but}\n", file.display()))
}

fn absolute(files: &[PathBuf]) -> io::Result<Vec<PathBuf>> {
    files.iter().map(std::path::absolute).collect()
}

/// What still differs from the file: a flag of `tabane up` lies over it, or the file of a key is not known.
fn left(groups: &[String], after: &Config, in_force: &Config) -> Vec<String> {
    let mut left: Vec<String> =
        differences(&bare(after), &bare(in_force)).iter().map(Difference::beside_file).collect();
    if group_numbers(after) != groups {
        left.push(KEYS.to_owned());
    }
    let why = |what: &str| match what {
        KEYS => "still differ: `--key PATH` names the file of the one in force",
        _ => "still differs: a flag of `tabane up` lies over the file, or a start is needed",
    };
    left.into_iter().map(|what| format!("{what}: {}", why(&what))).collect()
}

/// The configuration without keys: those of a running bundle are not told.
fn bare(config: &Config) -> Config {
    let mut bare = config.clone();
    bare.live.set_keys(&[]);
    bare.fixed.node_key = None;
    bare
}

/// The numbers of the group keys.
fn group_numbers(config: &Config) -> Vec<String> {
    config.live.keys().iter().map(|key| format!("{:016x}", Key::group(key))).collect()
}

/// The text of the file; `None`: there is none.
fn existing(file: &Path) -> Result<Option<String>, BadInput> {
    if !file.exists() {
        return Ok(None);
    }
    read(file, &file.display().to_string()).map(Some).map_err(BadInput::from)
}

/// Puts another file in the place of one, with its owner and mode: a reader finds the old text or the new one.
fn replace(file: &Path, text: &str) -> io::Result<()> {
    let file = fs::canonicalize(file)?;
    let old = fs::metadata(&file)?;
    let mut new = file.clone().into_os_string();
    new.push(".new");
    let new = PathBuf::from(new);
    let mut written = OpenOptions::new().write(true).create_new(true).mode(old.mode()).open(&new)?;
    let done = written
        .write_all(text.as_bytes())
        .and_then(|()| written.set_permissions(old.permissions()))
        .and_then(|()| fchown(&written, Some(old.uid()), Some(old.gid())))
        .and_then(|()| written.sync_all())
        .and_then(|()| fs::rename(&new, &file));
    if done.is_err() {
        // The first error is the one to report.
        let _ = fs::remove_file(&new);
    }
    done
}

fn unwritable(file: &Path, error: &io::Error) -> BadInput {
    BadInput::new(format!("cannot write {}: {error}", file.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_keeps_its_mode() {
        let directory = tempfile::tempdir().expect("a directory");
        let (file, link) = (directory.path().join("tb.toml"), directory.path().join("link.toml"));
        fs::write(&file, "old").expect("written");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).expect("permissions");
        std::os::unix::fs::symlink(&file, &link).expect("a link");
        replace(&link, "new").expect("replaced");
        assert_eq!(fs::read_to_string(&file).expect("text"), "new");
        assert_eq!(fs::metadata(&file).expect("there").mode() & 0o777, 0o640);
        assert!(fs::symlink_metadata(&link).expect("there").is_symlink());
        fs::write(directory.path().join("tb.toml.new"), "somebody else's").expect("written");
        assert!(replace(&file, "newer").is_err());
        assert_eq!(fs::read_to_string(&file).expect("text"), "new");
    }
}
