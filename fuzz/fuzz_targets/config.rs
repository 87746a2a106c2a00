//! The lines of a configuration file, compared with the format that `config.rs` describes.
#![no_main]

use std::ffi::CString;

use ibverbs::provider::config::{Directive, parse};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &[u8]| {
    let mut lines = text.split_inclusive(|&c| c == b'\n').filter(|line| {
        // The C library skips lines that are empty or a comment after their leading blanks.
        let line: &[u8] = line.split(|&c| c == 0).next().unwrap_or_default();
        let line = line.iter().find(|c| !matches!(c, b' ' | b'\t'));
        !matches!(line, Some(b'\n' | b'#'))
    });
    for directive in parse(text) {
        let line = lines.next().expect("each directive has a line");
        let word = match directive {
            Directive::Driver(name) => {
                CString::new(name).expect("a name is a C string");
                name
            }
            Directive::Bad(word) => {
                // A line that consists of the word `driver` alone, without a separator, is bad.
                assert!(word != b"driver" || !line.contains(&b'\n') || line.contains(&0));
                word
            }
        };
        assert!(!word.iter().any(|c| matches!(c, b'\n' | b'\t' | b' ' | 0)));
        assert!(line.windows(word.len().max(1)).any(|part| part == word) || word.is_empty());
    }
    assert!(lines.next().is_none(), "a line without a directive");
});
