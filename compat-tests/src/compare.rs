//! Comparing texts, with a readable difference.

use std::fmt::Write;

use crate::verdict::{Failure, Verdict};

/// Lines that are printed of a difference.
const SHOWN: usize = 60;
/// Equal lines that are printed around a change.
const AROUND: usize = 2;

/// Passes if both texts are equal.
pub fn same(expected: (&str, &str), got: (&str, &str)) -> Verdict {
    if expected.1 == got.1 {
        return Ok(());
    }
    let why = format!("{} and {} differ", expected.0, got.0);
    let shown = difference(expected.1, got.1);
    Err(Failure::new(why).with(format!("--- {}\n+++ {}\n{shown}", expected.0, got.0)))
}

/// The changed lines, `-` and `+`, with some equal ones around them, as diff(1) prints them.
pub fn difference(expected: &str, got: &str) -> String {
    let (a, b): (Vec<_>, Vec<_>) = (expected.lines().collect(), got.lines().collect());
    let edits = edits(&a, &b);
    let near = |i: usize| {
        let from = i.saturating_sub(AROUND);
        edits[from..(i + AROUND + 1).min(edits.len())]
            .iter()
            .any(|(mark, _)| *mark != ' ')
    };
    let mut shown = String::new();
    let mut gap = true;
    let mut count = 0;
    for (i, (mark, line)) in edits.iter().enumerate() {
        if !near(i) {
            gap = true;
            continue;
        }
        if count == SHOWN {
            shown.push_str("... (more)\n");
            break;
        }
        if gap && i > 0 {
            shown.push_str("@@\n");
        }
        gap = false;
        count += 1;
        let _ = writeln!(shown, "{mark}{line}");
    }
    if shown.is_empty() {
        shown.push_str("(only the ends of the last lines differ)\n");
    }
    shown
}

/// A line of a difference: ` `, `-` or `+`, and the text.
type Edit<'a> = (char, &'a str);

/// The lines of both, in order. By the longest common subsequence between the first and the last
/// difference; where that is too large to compute, all lines in between count as changed.
fn edits<'a>(a: &[&'a str], b: &[&'a str]) -> Vec<Edit<'a>> {
    let head = a.iter().zip(b).take_while(|(x, y)| x == y).count();
    let (a_rest, b_rest) = (&a[head..], &b[head..]);
    let tail = a_rest
        .iter()
        .rev()
        .zip(b_rest.iter().rev())
        .take_while(|(x, y)| x == y)
        .count();
    let (a_mid, b_mid) = (
        &a_rest[..a_rest.len() - tail],
        &b_rest[..b_rest.len() - tail],
    );
    let mut result: Vec<Edit<'a>> = a[..head].iter().map(|line| (' ', *line)).collect();
    if a_mid.len() * b_mid.len() > 4_000_000 {
        result.extend(a_mid.iter().map(|line| ('-', *line)));
        result.extend(b_mid.iter().map(|line| ('+', *line)));
    } else {
        common(a_mid, b_mid, &mut result);
    }
    result.extend(
        a_rest[a_rest.len() - tail..]
            .iter()
            .map(|line| (' ', *line)),
    );
    result
}

/// Adds the edits that keep the longest common subsequence.
fn common<'a>(a: &[&'a str], b: &[&'a str], result: &mut Vec<Edit<'a>>) {
    let width = b.len() + 1;
    // longest[i * width + j]: of a[i..] and b[j..]
    let mut longest = vec![0u32; (a.len() + 1) * width];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            longest[i * width + j] = if a[i] == b[j] {
                longest[(i + 1) * width + j + 1] + 1
            } else {
                longest[(i + 1) * width + j].max(longest[i * width + j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    while i < a.len() || j < b.len() {
        if i < a.len() && j < b.len() && a[i] == b[j] {
            result.push((' ', a[i]));
            (i, j) = (i + 1, j + 1);
        } else if j == b.len()
            || (i < a.len() && longest[(i + 1) * width + j] >= longest[i * width + j + 1])
        {
            result.push(('-', a[i]));
            i += 1;
        } else {
            result.push(('+', b[j]));
            j += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_pass() {
        assert_eq!(same(("c", "a\nb\n"), ("ours", "a\nb\n")), Ok(()));
    }

    #[test]
    fn a_difference_names_both_and_shows_the_lines() {
        let failure =
            same(("c", "1\n2\n3\n4\n5\n6\n"), ("ours", "1\n2\n3\nx\n5\n6\n")).unwrap_err();
        assert_eq!(failure.why, "c and ours differ");
        assert_eq!(
            failure.details,
            "--- c\n+++ ours\n@@\n 2\n 3\n-4\n+x\n 5\n 6\n"
        );
    }

    #[test]
    fn a_missing_newline_at_the_end_is_a_difference() {
        assert!(same(("c", "a"), ("ours", "a\n")).is_err());
    }

    #[test]
    fn inserted_and_removed_lines_keep_the_common_ones() {
        assert_eq!(difference("a\nb\nc", "b\nc\nd"), "-a\n b\n c\n+d\n");
        assert_eq!(difference("", "x"), "+x\n");
    }
}
