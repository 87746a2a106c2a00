//! The distribution's programs in the virtual machine with the root directory of a release as its file
//! system. The script packages/guest runs there; the results of both libraries are compared here.

use std::path::Path;

use super::same;
use crate::compare;
use crate::context::Context;
use crate::machine::boot::{Boot, End};
use crate::normalise::replace;
use crate::paths;
use crate::process::read;
use crate::verdict::{Failure, Verdict, ensure};

/// How many machines may be started for one library: a kernel under emulation panics in some boots.
const BOOTS: u32 = 3;
/// Fewer programs than this mean that the script did not run to its end.
const PROGRAMS: usize = 14;

/// Runs the programs; what they print is in the directory `WHERE` of the case.
pub fn run(cx: &Context, root: &Path, library: &str) -> Verdict {
    let script = read(&cx.source("packages/guest"));
    cx.write("job", format!("WHERE={library}\n"))?;
    let boot = Boot {
        root: root.into(),
        ..Boot::limit(1500)
    };
    let name = format!("programs/{library}-ran");
    for attempt in 1..=BOOTS {
        let why = match boot.run(cx, &script)? {
            End::Status(0) => return cx.report(&name, Ok(())),
            End::Status(status) => format!("the script ended with {status}"),
            End::Stopped(why) => why,
        };
        println!("boot {attempt}: {why}");
        if attempt == BOOTS {
            let why = format!("the machine with this root did not finish: {why}");
            return cx.report(&name, Err(Failure::new(why)));
        }
    }
    Ok(())
}

/// Compares each program's output, and the library that it loaded.
pub fn compare(cx: &Context, original: &str, ours: &str) -> Verdict {
    let mut names = paths::names(cx.dir().join("original"))?;
    names.retain(|name| !name.ends_with(".lib"));
    let text = |library: &str, name: &str| read(&cx.dir().join(library).join(name));
    for name in &names {
        let (c, mine) = (mask(&text("original", name)), mask(&text("ours", name)));
        let verdict = compare::same(("the distribution's library", &c), ("ours", &mine));
        cx.report(&format!("programs/{name}"), verdict)?;
        let loaded = |library| text(library, &format!("{name}.lib"));
        let seen = loaded("original") + &loaded("ours");
        let expected = format!("{original}\n{ours}\n");
        same(cx, &format!("programs/{name}-library"), &expected, &seen)?;
    }
    for library in ["original", "ours"] {
        print!("repeated on {library}: {}", text(library, "again.lib"));
    }
    let good = |name: &&String| text("ours", name).lines().last() == Some("exit code 0");
    let count = names.iter().filter(good).count();
    let why = format!("{count} of {} programs ended with 0", names.len());
    let enough = names.len() >= PROGRAMS && count + 2 >= names.len();
    cx.report("programs/at-most-two-fail", ensure(enough, why))
}

/// Masks what changes from run to run: numbers of queue pairs and packets, keys and addresses,
/// times; and whether rping's thread for events gets to its last words before the program ends, or asks for
/// the next event after the main thread has closed the channel.
fn mask(text: &str) -> String {
    const MASKS: &[(&str, &str)] = &[
        (r"(?m)^Correlation coefficient r\^2: .*\n", ""),
        (r"(QPN|PSN) 0x[0-9a-f]+", "$1 #"),
        (r"[0-9.]+ seconds = [0-9.inf]+ ", "# seconds = # "),
        (r"0x[0-9a-f]+", "#"),
        (r"[0-9]+\.[0-9]+", "#"),
        (r"(?m)(PORT|port) [0-9]+", "$1 #"),
        (r"(?m)^( *[0-9]+ +[0-9]+ +).*", "$1#"),
        (r"(RDMA addr|rkey|len) [0-9a-f]+", "$1 #"),
    ];
    let masked = MASKS
        .iter()
        .fold(text.to_string(), |text, (pattern, with)| {
            replace(pattern, &text, with)
        });
    let is_last_word = |line: &str| {
        line.starts_with("client DISCONNECT EVENT")
            || line.contains("RDMA_CM_EVENT_TIMEWAIT_EXIT")
            || line == "rdma_get_cm_event: Bad file descriptor"
    };
    let kept = masked.lines().filter(|line| !is_last_word(line));
    kept.map(|line| format!("{line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_masked_and_words_are_not() {
        let of = |qpn: &str, seconds: &str, how: &str| {
            mask(&format!(
                "  local address:  LID 0x0000, QPN {qpn}, PSN 0x3f5a1c, GID ::1\n\
                 819200 bytes in {seconds} seconds = 4854.52 Mbit/sec\n\
                 client DISCONNECT EVENT...\n\
                 unhandled event: RDMA_CM_EVENT_TIMEWAIT_EXIT, ignoring\n\
                 rdma_get_cm_event: Bad file descriptor\n{how}\n"
            ))
        };
        let one = of("0x000011", "0.01", "exit code 0");
        assert_eq!(one, of("0x000012", "1.25", "exit code 0"));
        assert_ne!(one, of("0x000011", "0.01", "exit code 1"));
        assert!(
            !one.contains("DISCONNECT") && !one.contains("TIMEWAIT") && !one.contains("get_cm")
        );
    }
}
