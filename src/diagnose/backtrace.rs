//! Where in the program a call came from: the functions, the innermost first.

use std::backtrace::Backtrace;

/// Functions that are shown at most.
const MAX_SHOWN: usize = 8;

/// Where the call came from, without the frames of this library.
pub fn called_from() -> String {
    functions(&Backtrace::force_capture().to_string())
}

/// All functions on the stack, as text.
pub fn whole() -> String {
    Backtrace::force_capture().to_string()
}

/// The names of functions that are not the program's, if nothing says where they are.
const OTHERS: [&str; 10] = [
    "ibverbs",
    "std::",
    "core::",
    "<",
    "__rust",
    "uroce",
    "ibv_",
    "on_fault",
    "__libc_start",
    // Inlined, so that the name is short.
    "{closure",
];

/// The functions of the program in a backtrace as text: a line with number and name, and one with the place.
fn functions(text: &str) -> String {
    let mut frames: Vec<(&str, Option<&str>)> = Vec::new();
    for line in text.lines().map(str::trim) {
        if let Some(place) = line.strip_prefix("at ") {
            if let Some((_, of)) = frames.last_mut() {
                *of = Some(place);
            }
        } else if let Some((_, name)) = line.split_once(": ") {
            frames.push((name, None));
        }
    }
    // Where this library's sources were: functions that were inlined have short names.
    let mut places = frames.iter().filter_map(|(_, place)| *place);
    let own = places.find_map(|place| Some(place.split_once("src/diagnose/backtrace.rs:")?.0));
    let is_other = |(name, place): &(&str, Option<&str>)| {
        let in_library = |place: &str| {
            let ours = own.and_then(|own| place.strip_prefix(own));
            place.starts_with("/rustc/")
                || place.contains("/registry/src/")
                || ours.is_some_and(|of| of.starts_with("src/") || of.starts_with("crates/"))
        };
        // A function of this library that was inlined, with a type of it.
        let of_library = ["<uroce::", "<ibverbs"];
        OTHERS.iter().any(|of| name.starts_with(of))
            || of_library.iter().any(|of| name.contains(of))
            || place.is_some_and(in_library)
    };
    let found: Vec<String> = frames
        .iter()
        .filter(|frame| !is_other(frame))
        .take(MAX_SHOWN)
        .map(|(name, place)| match place {
            Some(place) => format!("{name} ({place})"),
            None => name.to_string(),
        })
        .collect();
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

    #[test]
    fn inlined_frames_of_this_library() {
        let text = "   0: called_from\n      at /usr/src/x/src/diagnose/backtrace.rs:10:16\n   \
        1: call_once<fn() -> String, ()>\n      at /rustc/5980/library/core/src/ops/function.rs:250:5\n   \
        2: observe\n      at /usr/src/x/src/diagnose/calls/mod.rs:84:14\n   3: ibv_post_send\n      \
        at /usr/include/infiniband/verbs.h:3\n   4: send_all\n   5: main\n      at ./a.c:9:1\n   \
        6: __libc_start_call_main\n   7: for_each<uroce::provider::post::post_recv::{closure_env#0}>\n";
        assert_eq!(functions(text), "send_all <- main (./a.c:9:1)");
    }
}
