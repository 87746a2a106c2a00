//! The configured providers: the files of the configuration directory (/etc/libibverbs.d).
//!
//! A line has the form `driver NAME`. Leading spaces and tabs are skipped, a line that begins with `#`
//! is a comment, fields end at a space, a tab or the newline, and text after NAME is ignored. As in the
//! C library a line is a C string, so a NUL ends it.

use core::ffi::{CStr, c_int};
use ibverbs_abi::Errno;
use std::{ffi::CString, os::fd::AsFd};

use crate::{discover::StackPath, sys};

/// How many bytes of a file are read at once. Usually a file has one line.
const CHUNK: usize = 1024;

/// A line that is neither empty nor a comment.
#[derive(Debug, PartialEq, Eq)]
pub enum Directive<'a> {
    /// A provider's name; empty if the line ends after `driver `.
    Driver(&'a [u8]),
    /// The first field of any other line.
    Bad(&'a [u8]),
}

/// The directives of a file, in order.
pub fn parse(text: &[u8]) -> impl Iterator<Item = Directive<'_>> {
    text.split_inclusive(|&c| c == b'\n').filter_map(directive)
}

fn directive(line: &[u8]) -> Option<Directive<'_>> {
    let line = line.split(|&c| c == 0).next()?;
    let line = skip_blanks(line);
    if let Some(b'\n' | b'#') = line.first() {
        return None;
    }
    Some(match split_field(line) {
        (b"driver", Some(rest)) => Directive::Driver(split_field(skip_blanks(rest)).0),
        (other, _) => Directive::Bad(other),
    })
}

fn skip_blanks(text: &[u8]) -> &[u8] {
    let blanks = text
        .iter()
        .take_while(|c| matches!(c, b' ' | b'\t'))
        .count();
    text.get(blanks..).unwrap_or_default()
}

/// The first field, and the text after its separator, or `None` if no separator follows.
fn split_field(text: &[u8]) -> (&[u8], Option<&[u8]>) {
    let mut fields = text.splitn(2, |c| matches!(c, b'\n' | b'\t' | b' '));
    (fields.next().unwrap_or_default(), fields.next())
}

/// Reads every regular file of `dir` and returns the providers' names in the order of their lines.
/// Calls `warn` once for each file or line that is wrong, and continues with the next one.
pub fn read(dir: &CStr, warn: &mut dyn FnMut(&[&[u8]])) -> Vec<CString> {
    let mut names = Vec::new();
    let Ok(mut entries) = sys::Dir::open(dir) else {
        warn(&[
            b"Warning: couldn't open config directory '",
            dir.to_bytes(),
            b"'.\n",
        ]);
        return names;
    };
    let dirfd = entries.fd();
    let mut text = Vec::with_capacity(CHUNK);
    while let Some((file, regular)) = entries.next_entry() {
        let path = Path { dir, file };
        if path.is_too_long() {
            path.not_read(warn);
            continue;
        }
        // readdir already says that most files are regular. Those need no stat unless opening them
        // fails: in a directory that may be listed but not searched, stat fails and is what to report.
        if !(regular && read_file(dirfd, file, &mut text).is_ok()) {
            match path.is_regular() {
                Err(_) => {
                    let [dir, slash, file] = path.parts();
                    let text = b"Warning: couldn't stat config file '";
                    warn(&[text, dir, slash, file, b"'.\n"]);
                    continue;
                }
                Ok(false) => continue,
                Ok(true) if read_file(dirfd, file, &mut text).is_err() => {
                    path.not_read(warn);
                    continue;
                }
                Ok(true) => {}
            }
        }
        read_directives(&text, path, &mut names, warn);
    }
    names
}

/// The path of a file of the configuration directory. It is rarely needed: files are opened by their names.
#[derive(Clone, Copy)]
struct Path<'a> {
    dir: &'a CStr,
    file: &'a CStr,
}

impl<'a> Path<'a> {
    fn parts(self) -> [&'a [u8]; 3] {
        [self.dir.to_bytes(), b"/", self.file.to_bytes()]
    }

    /// Whether it has more than PATH_MAX bytes.
    fn is_too_long(self) -> bool {
        let len: usize = self.parts().into_iter().map(<[u8]>::len).sum();
        len >= libc::PATH_MAX as usize
    }

    /// Whether stat(2) says that it is a regular file.
    #[inline(never)]
    fn is_regular(self) -> Result<bool, Errno> {
        let st = StackPath::joined(&self.parts())
            .finish()
            .and_then(sys::stat)?;
        Ok(st.st_mode & libc::S_IFMT == libc::S_IFREG)
    }

    /// Warns that it cannot be read.
    fn not_read(self, warn: &mut dyn FnMut(&[&[u8]])) {
        let [dir, slash, file] = self.parts();
        let text = b"Warning: couldn't read config file ";
        warn(&[text, dir, slash, file, b".\n"]);
    }
}

/// Adds the providers that a file names to `names`; `path` is the file's name in warnings.
fn read_directives(
    text: &[u8],
    path: Path,
    names: &mut Vec<CString>,
    warn: &mut dyn FnMut(&[&[u8]]),
) {
    for directive in parse(text) {
        match directive {
            // The name is part of a C string, so it has no NUL and this always succeeds.
            Directive::Driver(name) => names.extend(CString::new(name)),
            Directive::Bad(word) => {
                let [dir, slash, file] = path.parts();
                let text = b"Warning: ignoring bad config directive '";
                warn(&[text, word, b"' in file '", dir, slash, file, b"'.\n"]);
            }
        }
    }
}

/// Replaces `text` with the content of a file, up to the first read error. An error is returned only if the
/// file cannot be opened. A short read is the end of a regular file, so no further read is needed to see the
/// end.
fn read_file(dirfd: c_int, file: &CStr, text: &mut Vec<u8>) -> Result<(), Errno> {
    let fd = sys::openat(dirfd, file, libc::O_RDONLY | libc::O_CLOEXEC)?;
    text.clear();
    loop {
        let used = text.len();
        text.resize(used + CHUNK, 0);
        let free = text.get_mut(used..).unwrap_or_default();
        let len = sys::read(fd.as_fd(), free).unwrap_or(0);
        text.truncate(used + len);
        if len < CHUNK {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Directive::*, *};

    fn all(text: &[u8]) -> Vec<Directive<'_>> {
        parse(text).collect()
    }

    #[test]
    fn drivers() {
        assert_eq!(all(b"driver rxe\n"), [Driver(b"rxe")]);
        assert_eq!(all(b"driver rxe"), [Driver(b"rxe")]);
        assert_eq!(all(b" \t driver\t \trxe more words\n"), [Driver(b"rxe")]);
        assert_eq!(all(b"driver a\ndriver b\n"), [Driver(b"a"), Driver(b"b")]);
        assert_eq!(all(b"driver /opt/x\n"), [Driver(b"/opt/x")]);
        assert_eq!(all(b"driver #x\n"), [Driver(b"#x")]);
        assert_eq!(all(b"driver rxe\r\n"), [Driver(b"rxe\r")]);
        assert_eq!(all(b"driver \xff\n"), [Driver(b"\xff")]);
    }

    #[test]
    fn a_driver_without_a_name() {
        assert_eq!(all(b"driver\n"), [Driver(b"")]);
        assert_eq!(all(b"driver \n"), [Driver(b"")]);
        assert_eq!(all(b"driver "), [Driver(b"")]);
        assert_eq!(all(b"driver"), [Bad(b"driver")]);
    }

    #[test]
    fn comments_and_empty_lines() {
        assert_eq!(all(b""), []);
        assert_eq!(all(b"\n \t\n# driver rxe\n  #x"), []);
    }

    #[test]
    fn bad_directives() {
        assert_eq!(all(b"drivers rxe\n"), [Bad(b"drivers")]);
        assert_eq!(all(b"Driver rxe\n"), [Bad(b"Driver")]);
        assert_eq!(all(b"driver\rrxe\n"), [Bad(b"driver\rrxe")]);
        // Blanks that the end of the file follows are a line with an empty field.
        assert_eq!(all(b"driver a\n  "), [Driver(b"a"), Bad(b"")]);
        assert_eq!(all(b"\r\n"), [Bad(b"\r")]);
    }

    #[test]
    fn nul_ends_a_line_but_not_the_file() {
        assert_eq!(
            all(b"driver rx\0e\ndriver siw\n"),
            [Driver(b"rx"), Driver(b"siw")]
        );
        assert_eq!(all(b"\0\n"), [Bad(b"")]);
        assert_eq!(all(b"driver\0 rxe\n"), [Bad(b"driver")]);
    }

    #[test]
    fn long_lines() {
        let mut text = b"driver ".to_vec();
        text.resize(100_000, b'x');
        assert_eq!(all(&text), [Driver(&text[7..])]);
        let blanks = vec![b' '; 100_000];
        assert_eq!(
            all(&[&blanks[..], b"driver rxe\n"].concat()),
            [Driver(b"rxe")]
        );
    }

    proptest::proptest! {
        #[test]
        fn takes_any_bytes(text: Vec<u8>) {
            let lines = text.split_inclusive(|&c| c == b'\n').count();
            assert!(parse(&text).count() <= lines);
        }
    }

    #[test]
    fn directories() {
        let dir = std::env::temp_dir().join(format!("ibverbs-config-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("subdirectory")).unwrap();
        std::fs::write(dir.join("a.driver"), b"driver rxe\nfoo\n").unwrap();
        std::os::unix::fs::symlink("a.driver", dir.join("link")).unwrap();
        std::os::unix::fs::symlink("nowhere", dir.join("broken")).unwrap();
        let path = CString::new(dir.to_str().unwrap()).unwrap();
        let mut warnings = Vec::new();
        let names = read(&path, &mut |parts| {
            warnings.push(String::from_utf8(parts.concat()).unwrap());
        });
        assert_eq!(names, [c"rxe".into(), c"rxe".into()] as [CString; 2]);
        warnings.sort();
        let dir_name = dir.display();
        assert_eq!(
            warnings,
            [
                format!("Warning: couldn't stat config file '{dir_name}/broken'.\n"),
                format!(
                    "Warning: ignoring bad config directive 'foo' in file '{dir_name}/a.driver'.\n"
                ),
                format!(
                    "Warning: ignoring bad config directive 'foo' in file '{dir_name}/link'.\n"
                ),
            ]
        );
        std::fs::remove_dir_all(&dir).unwrap();
        warnings.clear();
        let names = read(&path, &mut |parts| {
            warnings.push(String::from_utf8(parts.concat()).unwrap());
        });
        assert!(names.is_empty());
        assert_eq!(
            warnings,
            [format!(
                "Warning: couldn't open config directory '{dir_name}'.\n"
            )]
        );
    }
}
