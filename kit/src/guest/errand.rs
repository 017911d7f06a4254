//! What a guest is sent to do, and the directory in which it leaves what came of it.

use tempfile::TempDir;

use super::HERE;
use crate::usual::*;

const DISK: &str = "/dev/vda";
const PACKED: &str = "/run/bin";
/// Packs, as the file that is its first argument, the other ones, what else is started often, and the libraries of all.
const PACK: &str = r#"
    image=$1; shift
    PATH=$PATH:/usr/sbin:/sbin
    set -- "$@" $(command -v ip) $(command -v tc) $(command -v iperf3)
    libraries=$(ldd "$@" | sed -n 's/.*=> \(\/[^ ]*\).*/\1/p' | sort -u)
    tar --create --dereference --absolute-names --transform='s,.*/,,' --file="$image" -- "$@" $libraries
"#;
const LAST_WORDS: usize = 5;

#[derive(Debug)]
pub(super) struct Errand {
    directory: TempDir,
    lab: PathBuf,
    daemon: PathBuf,
    /// Programs beside it, as far as they are built.
    beside: Vec<PathBuf>,
}

impl Errand {
    pub(super) fn new(daemon: &Path) -> Result<Errand> {
        let directory = tempfile::tempdir().context("a directory for the guest")?;
        let lab = env::current_exe().context("the path of this program")?;
        let daemon = fs::canonicalize(daemon).with_context(|| daemon.display().to_string())?;
        let beside = ["tabaned", "tabane-probe"].map(|name| daemon.with_file_name(name));
        let beside = beside.into_iter().filter(|path| path.is_file()).collect();
        Ok(Errand { directory, lab, daemon, beside })
    }

    /// The directory that the guest may write to, under the same name as here.
    pub(super) fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Packs the programs that topologies start a hundred times, with their libraries, into the file that [`Errand::script`] unpacks.
    pub(super) fn pack(&self) -> Result<PathBuf> {
        let image = self.file("programs");
        let mut packing = Command::new("sh");
        packing.args(["-c", PACK, "sh"]).arg(&image).args([&self.lab, &self.daemon]).args(&self.beside);
        process::run(&mut packing).context("programs for the guest").map(|_| image)
    }

    /// What a shell in the guest does. There, all but /run and the directory is read-only, and every read from a file goes through
    /// QEMU, 4 KB at a time: so the programs come on a disk of their own.
    pub(super) fn script(&self, root: &Path, modules: &[&str], arguments: &[String]) -> String {
        let words: Vec<String> = arguments.iter().map(|word| quoted(word)).collect();
        let [progress, figures, code] =
            ["progress", "figures", "code"].map(|name| quoted_path(&self.file(name)));
        let [lab, daemon] = [&self.lab, &self.daemon].map(|path| quoted_path(&packed(path)));
        [
            format!("export TMPDIR=/run TABANE_BIN={daemon} PATH={PACKED}:$PATH:/usr/sbin:/sbin"),
            format!("exec >{progress} 2>&1"),
            format!("modprobe -d {} -a {} || exit 1", quoted_path(root), modules.join(" ")),
            format!("mkdir /run/netns {PACKED}"),
            format!("tar --extract --file={DISK} --blocking-factor=2048 --directory={PACKED} || exit 1"),
            format!("export LD_LIBRARY_PATH={PACKED}"),
            format!("cd {}", quoted_path(self.directory())),
            format!("{lab} {} --{HERE} {figures}", words.join(" ")),
            format!("echo $? >{code}"),
        ]
        .join("\n")
    }

    pub(super) fn step(&self) -> Option<String> {
        let line = last_lines(&self.progress(), 1);
        Some(line).filter(|line| !line.is_empty())
    }

    pub(super) fn has_begun(&self) -> bool {
        self.file("progress").exists()
    }

    pub(super) fn last_words(&self) -> String {
        last_lines(&self.progress(), LAST_WORDS)
    }

    /// The figures, if the program ended well; `console` is what the kernel said last.
    pub(super) fn figures(&self, console: &str) -> Result<String> {
        let code = fs::read_to_string(self.file("code"));
        match code.as_deref().map(str::trim) {
            Ok("0") => fs::read_to_string(self.file("figures")).context("the guest left no figures"),
            Ok(code) => bail!("the guest's program ended with code {code}: {}", self.last_words()),
            Err(_) => bail!("the guest went down before its time: {}; {console}", self.last_words()),
        }
    }

    fn progress(&self) -> String {
        let bytes = fs::read(self.file("progress")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(count)..].join("; ")
}

/// Where the guest has what is `path` here.
fn packed(path: &Path) -> PathBuf {
    Path::new(PACKED).join(path.file_name().unwrap_or_default())
}

fn quoted_path(path: &Path) -> String {
    quoted(&path.to_string_lossy())
}

fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errand() -> Errand {
        Errand::new(&env::current_exe().unwrap()).unwrap()
    }

    #[test]
    fn words_reach_the_shell_as_they_are() {
        let errand = errand();
        let script = errand.script(Path::new("/k"), &["tun"], &["it's".to_string(), "a b".to_string()]);
        let name = errand.lab.file_name().unwrap().display();
        assert!(script.contains(&format!(r"'/run/bin/{name}' 'it'\''s' 'a b' --here '/")), "{script}");
        assert!(script.contains("modprobe -d '/k' -a tun || exit 1"), "{script}");
    }

    #[test]
    fn what_the_guest_said_last_is_its_step() {
        let errand = errand();
        assert_eq!((errand.has_begun(), errand.step()), (false, None));
        fs::write(errand.file("progress"), "  first\n  second\n\n").unwrap();
        assert!(errand.has_begun());
        assert_eq!(errand.step().as_deref(), Some("second"));
        assert_eq!(errand.last_words(), "first; second");
    }

    #[test]
    fn figures_are_those_of_a_program_that_ended_well() {
        let errand = errand();
        let complaint = || errand.figures("panic").unwrap_err().to_string();
        fs::write(errand.file("progress"), "  step\n").unwrap();
        assert_eq!(complaint(), "the guest went down before its time: step; panic");
        fs::write(errand.file("code"), "2\n").unwrap();
        assert_eq!(complaint(), "the guest's program ended with code 2: step");
        fs::write(errand.file("code"), "0\n").unwrap();
        fs::write(errand.file("figures"), "{}").unwrap();
        assert_eq!(errand.figures("").unwrap(), "{}");
    }
}
