//! The token: who has it may ask.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use subtle::ConstantTimeEq;
use tabane::error::BadInput;
use tabane_config::key::Key;

/// Digits of a token that is made here: 128 bits.
const DIGITS: usize = 32;
/// Characters of one that a file holds.
const ALLOWED: std::ops::RangeInclusive<usize> = 32..=256;

/// What requests have to carry.
pub(crate) struct Token(String);

impl Token {
    /// A new one.
    pub(crate) fn new() -> anyhow::Result<Self> {
        let random = Key::generate()?.hex();
        Ok(Self(random.chars().take(DIGITS).collect()))
    }

    /// The one in a file, which others may not read.
    pub(crate) fn read(path: &Path) -> Result<Self, BadInput> {
        let wrong = |what: String| BadInput::new(format!("token file {}: {what}", path.display()));
        let unreadable = |error: std::io::Error| wrong(error.to_string());
        let file = File::open(path).map_err(unreadable)?;
        let mode = file.metadata().map_err(unreadable)?.permissions().mode();
        if mode & 0o007 != 0 {
            return Err(wrong(format!("everyone may open it; allowed: `chmod o= {}`", path.display())));
        }
        let mut text = String::new();
        file.take(4096).read_to_string(&mut text).map_err(unreadable)?;
        Self::parse(&text).ok_or_else(|| {
            let (least, most) = (ALLOWED.start(), ALLOWED.end());
            wrong(format!("no token; allowed: one line of {least} to {most} letters, digits and `-._~+/=`"))
        })
    }

    /// A line with a token as RFC 6750 section 2.1 writes them.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.strip_suffix('\n').unwrap_or(text);
        let fits = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte));
        (fits && ALLOWED.contains(&text.len())).then(|| Self(text.to_owned()))
    }

    /// Whether it is this one; takes as long for any text of the same length.
    pub(crate) fn is(&self, given: &str) -> bool {
        self.0.as_bytes().ct_eq(given.as_bytes()).into()
    }

    /// The token, for who starts the program.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const TEXT: &str = "0123456789abcdef0123456789abcdef";

    fn file(text: &str, mode: u32) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().expect("a file");
        fs::write(file.path(), text).expect("written");
        fs::set_permissions(file.path(), fs::Permissions::from_mode(mode)).expect("allowed");
        file
    }

    #[test]
    fn only_the_same_text_is_the_token() {
        let token = Token::parse(&format!("{TEXT}\n")).expect("a token");
        assert!(token.is(TEXT));
        for other in ["", &TEXT[1..], &TEXT.to_uppercase(), &format!("{TEXT}0"), &format!("{TEXT}\n")] {
            assert!(!token.is(other), "{other:?}");
        }
    }

    #[test]
    fn each_start_has_a_token_of_its_own() {
        let [one, other] = [(); 2].map(|()| Token::new().expect("random bytes"));
        assert_eq!(one.reveal().len(), DIGITS);
        assert!(!one.is(other.reveal()));
        assert!(Token::parse(one.reveal()).is_some());
    }

    #[test]
    fn a_file_holds_one_token_that_others_cannot_read() {
        assert!(Token::read(file(&format!("{TEXT}\n"), 0o640).path()).expect("a token").is(TEXT));
        let open = file(TEXT, 0o644);
        let sentence = Token::read(open.path()).expect_err("everyone may read it").to_string();
        assert!(sentence.ends_with(&format!("allowed: `chmod o= {}`", open.path().display())), "{sentence}");
        for text in ["", "short", &format!("{TEXT} {TEXT}"), &format!("{TEXT}\n\n"), &"a".repeat(257)] {
            let sentence = Token::read(file(text, 0o600).path()).expect_err(text).to_string();
            assert!(sentence.contains("no token; allowed: one line of 32 to 256"), "{sentence}");
        }
        let sentence = Token::read(Path::new("/nowhere/token")).expect_err("no file").to_string();
        assert!(sentence.starts_with("token file /nowhere/token: No such file"), "{sentence}");
    }
}
