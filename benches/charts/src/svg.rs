//! The SVG text: what is drawn from top to bottom, and how wide words are.

use std::fmt::Write;

/// The width of a telephone.
pub const WIDTH: f64 = 390.0;
/// The space at each side.
pub const MARGIN: f64 = 6.0;
pub const LINE: f64 = 16.0;
/// The mean width of a letter.
pub const LETTER: f64 = 6.6;

/// The number of colors that curves and bars take in turn.
pub const COLORS: usize = 8;

const STYLE: &str = "text{font:12px sans-serif;fill:#1f2328}.t{font-size:14px;font-weight:600}\
.n{fill:#57606a}.e{text-anchor:end}.m{text-anchor:middle}path{fill:none;stroke-width:1.5}.w{stroke-width:3}
.r{stroke:#1f2328;stroke-dasharray:3}.g{fill:#fff}.x{stroke:#d0d7de;stroke-width:1}
.c0{stroke:#0969da;fill:#0969da}.c1{stroke:#cf222e;fill:#cf222e}.c2{stroke:#1a7f37;fill:#1a7f37}
.c3{stroke:#bc6c00;fill:#bc6c00}.c4{stroke:#8250df;fill:#8250df}.c5{stroke:#bf3989;fill:#bf3989}
.c6{stroke:#6e7781;fill:#6e7781}.c7{stroke:#1b7c83;fill:#1b7c83}path[class]{fill:none}
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.n{fill:#9da7b1}.r{stroke:#e6edf3}.g{fill:#0d1117}
.x{stroke:#30363d}}";

/// A picture that grows downwards.
pub struct Svg {
    title: String,
    body: String,
    /// The place below all that is drawn so far.
    pub y: f64,
}

impl Svg {
    pub fn new(title: &str) -> Self {
        let mut svg = Self {
            title: escaped(title),
            body: String::new(),
            y: 4.0,
        };
        for line in fitted(title, WIDTH - 2.0 * MARGIN, LETTER * 1.25) {
            svg.y += LINE;
            svg.text(MARGIN, svg.y, "t", &line);
        }
        svg
    }

    /// Text whose base line begins (class `e`: ends, `m`: is centered) at the point.
    pub fn text(&mut self, x: f64, y: f64, class: &str, text: &str) {
        let text = escaped(text);
        self.line(format_args!(
            r#"<text class="{class}" x="{x:.1}" y="{y:.1}">{text}</text>"#
        ));
    }

    pub fn path(&mut self, class: &str, path: &str) {
        self.line(format_args!(r#"<path class="{class}" d="{path}"/>"#));
    }

    pub fn bar(&mut self, class: &str, (x, y): (f64, f64), (width, height): (f64, f64)) {
        self.line(format_args!(
            r#"<rect class="{class}" x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height}"/>"#
        ));
    }

    pub fn dot(&mut self, class: &str, x: f64, y: f64) {
        self.line(format_args!(
            r#"<circle class="{class}" cx="{x:.1}" cy="{y:.1}" r="2.5"/>"#
        ));
    }

    /// A note below all that is drawn so far, in as many lines as it needs.
    pub fn note(&mut self, text: &str) {
        for line in fitted(text, WIDTH - 2.0 * MARGIN, LETTER) {
            self.y += LINE;
            self.text(MARGIN, self.y, "n", &line);
        }
    }

    /// A sample of each class of color with its name, in as few lines as they fit into.
    pub fn legend(&mut self, names: &[(String, String)]) {
        let mut x = WIDTH;
        for (class, name) in names {
            let width = 28.0 + LETTER * name.chars().count() as f64;
            if x + width > WIDTH - MARGIN {
                (x, self.y) = (MARGIN, self.y + LINE);
            }
            let y = self.y - 4.0;
            self.path(class, &format!("M{x:.1} {y:.1}h16"));
            self.text(x + 20.0, self.y, "", name);
            x += width;
        }
        self.y += 8.0;
    }

    pub fn finish(self) -> String {
        let (title, body, height) = (self.title, self.body, (self.y + 10.0).ceil());
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
             height=\"{height}\" role=\"img\">\n<title>{title}</title>\n<style>{STYLE}</style>\n\
             <rect class=\"g\" width=\"{WIDTH}\" height=\"{height}\"/>\n{body}</svg>\n"
        )
    }

    fn line(&mut self, element: std::fmt::Arguments) {
        // Writing to a string does not fail.
        let _ = writeln!(self.body, "{element}");
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

/// The lines of a text in this width.
fn fitted(text: &str, width: f64, letter: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line)
                if (line.chars().count() + 1 + word.chars().count()) as f64 * letter <= width =>
            {
                *line += " ";
                *line += word;
            }
            _ => lines.push(word.into()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_broken_into_lines() {
        assert_eq!(fitted("one two three", 7.0, 1.0), ["one two", "three"]);
        assert_eq!(fitted("long", 1.0, 1.0), ["long"]);
        assert!(fitted("", 7.0, 1.0).is_empty());
    }

    #[test]
    fn text_is_escaped() {
        assert_eq!(escaped("a < b & c"), "a &lt; b &amp; c");
    }
}
