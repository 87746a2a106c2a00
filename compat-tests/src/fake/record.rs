//! The record of the fake kernel, made comparable: a line for each call, and indented lines with
//! its bytes.

use crate::normalise::replace;

/// The part of the bytes passed to the kernel that is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Record {
    Nothing,
    Everything,
    /// All but the bytes of MODIFY_QP, parts of which some providers do not initialize.
    Calls,
}

/// The record without what may differ between the two libraries.
pub fn comparable(log: &str, record: Record) -> String {
    let log = &without_unset_type(log);
    match record {
        Record::Nothing => String::new(),
        Record::Everything => without_repeated_queries(log),
        Record::Calls => without_repeated_queries(&without_modify_qp(log)),
    }
}

/// Without the type of the queue pair in OPEN_QP, and the seven bytes behind it: providers leave these on
/// the stack, where they look like an address now and then. Ours are 0.
fn without_unset_type(log: &str) -> String {
    let command = r"write .* OPEN_QP .*|.* data=0x28\n.* attr 0x0000 in len=32 .*";
    let data = r"\n *0000: ptr ptr [0-9a-f]{8} [0-9a-f]{8}";
    replace(
        &format!("(?m)^((?:{command}){data}) (?:ptr|[0-9a-f]{{8}} [0-9a-f]{{8}})"),
        log,
        "${1} type",
    )
}

/// Without the bytes of MODIFY_QP. The call that follows ends them, also if it is another MODIFY_QP.
fn without_modify_qp(log: &str) -> String {
    let mut within = false;
    let mut kept = String::new();
    for line in log.lines() {
        if within {
            if line.starts_with(' ') {
                continue;
            }
            within = line.is_empty();
        } else {
            within = line.contains("MODIFY_QP");
        }
        kept.push_str(line);
        kept.push('\n');
    }
    kept
}

/// When the C library searches for a GID, it queries each entry twice, for the GID and for its type:
/// identical consecutive queries become one. That is an intended difference (ARCHITECTURE.md).
fn without_repeated_queries(log: &str) -> String {
    let mut kept = String::new();
    let mut in_search = false;
    let mut last = "";
    for call in calls(log) {
        if call.starts_with("== ") {
            let title = call.lines().next().unwrap_or("");
            in_search = title.contains("ah_from_wc");
            last = "";
        }
        if !(in_search && call == last && call.contains("QUERY_GID_ENTRY")) {
            kept.push_str(call);
        }
        last = call;
    }
    kept
}

/// The calls of a record, each with its indented lines.
fn calls(log: &str) -> Vec<&str> {
    let mut starts: Vec<usize> = vec![0];
    let mut at = 0;
    for line in log.split_inclusive('\n') {
        if at > 0 && !line.starts_with([' ', '\n']) {
            starts.push(at);
        }
        at += line.len();
    }
    starts.push(log.len());
    starts.windows(2).map(|w| &log[w[0]..w[1]]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEARCH: &str = "== ibv_create_ah_from_wc()\nioctl QUERY_GID_ENTRY\n  1\n\
                          ioctl QUERY_GID_ENTRY\n  1\nioctl QUERY_GID_ENTRY\n  2\n";

    #[test]
    fn repeated_queries_of_a_search_become_one() {
        let one = "== ibv_create_ah_from_wc()\nioctl QUERY_GID_ENTRY\n  1\n\
                   ioctl QUERY_GID_ENTRY\n  2\n";
        assert_eq!(comparable(SEARCH, Record::Everything), one);
        let other = SEARCH.replace("ah_from_wc", "query");
        assert_eq!(comparable(&other, Record::Everything), other);
    }

    #[test]
    fn bytes_of_modify_qp_are_dropped_on_demand() {
        let log = "write MODIFY_QP\n 1\n 2\nwrite QUERY_QP\n 3\n";
        assert_eq!(comparable(log, Record::Everything), log);
        let without = "write MODIFY_QP\nwrite QUERY_QP\n 3\n";
        assert_eq!(comparable(log, Record::Calls), without);
    }
}
