//! Where in the program a call came from: the functions, the innermost first.

use std::backtrace::Backtrace;

/// Functions that are shown at most.
const MAX_SHOWN: usize = 8;

/// Where the call came from, without the frames of this library.
pub fn called_from() -> String {
    functions(&Backtrace::force_capture().to_string())
}

/// The functions of the program in a backtrace as text: a line with number and name, and one with the place.
fn functions(text: &str) -> String {
    let mut found: Vec<String> = Vec::new();
    let mut is_ours = true;
    for line in text.lines() {
        let line = line.trim();
        if let Some(place) = line.strip_prefix("at ") {
            if let (false, Some(last)) = (is_ours, found.last_mut()) {
                last.push_str(&format!(" ({place})"));
            }
            continue;
        }
        let Some((_, name)) = line.split_once(": ") else {
            continue;
        };
        is_ours = [
            "ibverbs", "std::", "core::", "<", "__rust", "uroce", "ibv_", "on_fault",
        ]
        .iter()
        .any(|of| name.starts_with(of));
        // What is called by the program may have a name of its own kind.
        if !is_ours {
            found.push(name.into());
        }
    }
    found.truncate(MAX_SHOWN);
    match found.is_empty() {
        true => "unknown places: the program has no symbols".into(),
        false => found.join(" <- "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_the_program() {
        let text = "   0: std::backtrace::Backtrace::create\n   1: \
        ibverbs::diagnose::report::write\n             \
                    at src/x.rs:3:4\n   2: send_all\n             at ./a.c:12:2\n   3: main\n";
        assert_eq!(functions(text), "send_all (./a.c:12:2) <- main");
        assert!(functions("").starts_with("unknown"));
    }
}
