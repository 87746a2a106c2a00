//! Texts of other processes as a terminal may show them.

use serde_json::Value;

/// The most characters of a text in a table.
const TEXT_MAX: usize = 512;

/// Whether a character controls a terminal, or is invisible and changes the order or place of others.
fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{feff}'
        )
        || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
        || matches!(c, '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

pub fn printable(text: &str) -> String {
    let plain = |c| if is_unprintable(c) { '?' } else { c };
    text.chars().take(TEXT_MAX).map(plain).collect()
}

/// A text of a process, without characters that control a terminal.
pub fn plain(value: &Value) -> String {
    printable(value.as_str().unwrap_or(""))
}

/// A value as JSON, with escapes for what is not printable: JSON demands that of some characters only.
pub fn printable_json(value: &Value) -> String {
    let mut text = String::new();
    // Outside strings, JSON has printable characters only.
    for c in value.to_string().chars() {
        if !is_unprintable(c) {
            text.push(c);
            continue;
        }
        let mut units = [0; 2];
        for unit in c.encode_utf16(&mut units) {
            text += &format!("\\u{unit:04x}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn no_text_controls_the_terminal() {
        assert_eq!(plain(&json!("a\u{1b}[2J\u{9b}m\u{202e}")), "a?[2J?m?");
        assert_eq!(plain(&json!("x".repeat(5000))).len(), TEXT_MAX);
    }
}
