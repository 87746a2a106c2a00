//! Parses configuration files, and checks the directives against the format that `config.rs` documents.
#![no_main]

use std::ffi::CString;

use ibverbs::provider::config::{Directive, parse};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &[u8]| {
    let mut lines = text.split_inclusive(|&c| c == b'\n').filter(|line| {
        // The C library skips empty lines and comments, with or without leading blanks.
        let line: &[u8] = line.split(|&c| c == 0).next().unwrap_or_default();
        let line = line.iter().find(|c| !matches!(c, b' ' | b'\t'));
        !matches!(line, Some(b'\n' | b'#'))
    });
    for directive in parse(text) {
        let line = lines.next().expect("more directives than lines");
        let word = match directive {
            Directive::Driver(name) => {
                CString::new(name).expect("a zero byte in a name");
                name
            }
            Directive::Bad(word) => {
                // A line may consist of the word alone, without a separator after it.
                assert!(word != b"driver" || !line.contains(&b'\n') || line.contains(&0));
                word
            }
        };
        assert!(!word.iter().any(|c| matches!(c, b'\n' | b'\t' | b' ' | 0)));
        assert!(line.windows(word.len().max(1)).any(|part| part == word) || word.is_empty());
    }
    assert!(lines.next().is_none(), "a line without a directive");
});
