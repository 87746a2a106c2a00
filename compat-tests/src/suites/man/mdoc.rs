//! Parses manual pages in mdoc, as far as the checks need it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::paths;
use crate::paths::text;

/// Macros whose arguments are collected, at any position in a line.
const MARKED: &[&str] = &["Xr", "Dv", "Er", "Ev", "Vt", "Fn", "Nm"];
/// Other macros that can occur in the middle of a line. They end the arguments of the preceding macro.
const CALLED: &[&str] = &[
    "Ar", "Em", "Fa", "Fl", "In", "Li", "No", "Ns", "Oc", "Oo", "Op", "Pa", "Pc", "Pf", "Po", "Pq",
    "Ql", "Dq", "Qq", "Sq", "Ta", "Va",
];
const PUNCTUATION: &str = ".,:;()[]?!";

/// A function in a SYNOPSIS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prototype {
    pub result: String,
    pub name: String,
    pub arguments: Vec<String>,
}

/// A manual page.
#[derive(Debug, Default)]
pub struct Page {
    /// `NAME.SECTION`.
    pub file: String,
    pub name: String,
    pub section: String,
    pub source: String,
    /// The file to which this one only links.
    pub link: Option<String>,
    pub sections: Vec<String>,
    /// The SYNOPSIS.
    pub prototypes: Vec<Prototype>,
    pub headers: Vec<String>,
    pub macros: Vec<String>,
    /// Literal blocks: section, text.
    pub literals: Vec<(String, String)>,
    /// `.It` lines: section, words.
    pub items: Vec<(String, Vec<String>)>,
    /// Macro, argument, section of the page, for every macro in MARKED.
    marks: Vec<(String, String, String)>,
}

/// The pages of a directory, by name.
pub fn pages(dir: &Path) -> io::Result<Vec<Page>> {
    let mut files: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path
            .extension()
            .is_some_and(|e| e == "1" || e == "3" || e == "7")
        {
            files.push(path);
        }
    }
    files.sort();
    files.iter().map(|path| Page::read(path)).collect()
}

/// The arguments of a macro line; a quoted string is one argument.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = line.trim_start();
    while !rest.is_empty() {
        if let Some(quoted) = rest.strip_prefix('"') {
            // Two quotes stand for one.
            let mut end = 0;
            let bytes = quoted.as_bytes();
            while end < bytes.len() && (bytes[end] != b'"' || bytes.get(end + 1) == Some(&b'"')) {
                end += if bytes[end] == b'"' { 2 } else { 1 };
            }
            words.push(quoted[..end].to_string());
            rest = quoted.get(end + 1..).unwrap_or_default().trim_start();
        } else {
            let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
            words.push(rest[..end].to_string());
            rest = rest[end..].trim_start();
        }
    }
    words
}

/// Text without roff escapes.
pub fn plain(text: &str) -> String {
    text.replace(r"\&", "")
        .replace(r"\-", "-")
        .replace(r"\ ", " ")
        .replace(r"\e", "\\")
}

/// Where the parser is in a page.
#[derive(Default)]
struct ParserState {
    section: String,
    /// The lines of a literal block.
    literal: Option<String>,
    /// The type of the function that follows.
    result: Option<String>,
    /// The function whose arguments follow.
    open: Option<Prototype>,
}

impl Page {
    fn read(path: &Path) -> io::Result<Self> {
        let file = paths::name(path);
        let (name, section) = file.rsplit_once('.').unwrap_or((&file, ""));
        // The link of an alias stays within the directory, so that man(1) opens it in the source tree too.
        let link = fs::read_link(path).ok();
        let link = link.map(text);
        let source = fs::read_to_string(path)?;
        let mut page = Self {
            name: name.into(),
            section: section.into(),
            source: source.clone(),
            link,
            file,
            ..Self::default()
        };
        if page.link.is_none() {
            let mut state = ParserState::default();
            source.lines().for_each(|line| page.line(line, &mut state));
        }
        Ok(page)
    }

    fn line(&mut self, line: &str, state: &mut ParserState) {
        if let Some(text) = &mut state.literal {
            if line == ".Ed" {
                self.literals
                    .push((state.section.clone(), std::mem::take(text)));
                state.literal = None;
            } else {
                text.push_str(&plain(line));
                text.push('\n');
            }
            return;
        }
        let Some(line) = line.strip_prefix('.') else {
            return;
        };
        let tokens = words(line);
        let Some((name, args)) = tokens.split_first() else {
            return;
        };
        match name.as_str() {
            "Sh" => {
                state.section = args.join(" ");
                self.sections.push(state.section.clone());
            }
            "Bd" if args.iter().any(|arg| arg == "-literal") => state.literal = Some(String::new()),
            "It" => self.items.push((state.section.clone(), args.to_vec())),
            _ => {}
        }
        if state.section == "SYNOPSIS" {
            self.synopsis(name, args, state);
        }
        self.mark(&tokens, &state.section);
    }

    fn synopsis(&mut self, name: &str, args: &[String], state: &mut ParserState) {
        let first = args.first().cloned().unwrap_or_default();
        match name {
            "In" => self.headers.push(first),
            "Fd" => {
                let text = args.join(" ");
                let name = text
                    .strip_prefix("#define ")
                    .and_then(|rest| rest.split_once('('));
                self.macros.extend(name.map(|(name, _)| name.to_string()));
            }
            "Ft" => state.result = Some(args.join(" ")),
            "Fn" => {
                if let Some(result) = state.result.take() {
                    let arguments = args.get(1..).unwrap_or_default().to_vec();
                    self.prototypes.push(Prototype {
                        result,
                        name: first,
                        arguments,
                    });
                }
            }
            "Fo" => {
                let result = state.result.clone().unwrap_or_default();
                state.open = Some(Prototype {
                    result,
                    name: first,
                    arguments: Vec::new(),
                });
            }
            "Fa" => {
                if let Some(open) = &mut state.open {
                    open.arguments.push(args.join(" "));
                }
            }
            "Fc" => {
                self.prototypes.extend(state.open.take());
                state.result = None;
            }
            _ => {}
        }
    }

    fn mark(&mut self, tokens: &[String], section: &str) {
        for (at, name) in tokens.iter().enumerate() {
            if !MARKED.contains(&name.as_str()) {
                continue;
            }
            let ends = |token: &&String| {
                let token = token.as_str();
                !MARKED.contains(&token)
                    && !CALLED.contains(&token)
                    && token != "Ft"
                    && token != "|"
            };
            let is_text =
                |token: &&String| !(token.len() == 1 && PUNCTUATION.contains(token.as_str()));
            let args: Vec<String> = tokens[at + 1..]
                .iter()
                .take_while(ends)
                .filter(is_text)
                .map(|t| plain(t))
                .collect();
            let args = match name.as_str() {
                "Xr" => vec![args[..args.len().min(2)].join(".")],
                "Vt" => vec![args.join(" ")],
                "Fn" => args.into_iter().take(1).collect(),
                _ => args,
            };
            let marks = args
                .into_iter()
                .map(|arg| (name.clone(), arg, section.to_string()));
            self.marks.extend(marks);
        }
    }

    /// The arguments of a macro in the whole page.
    pub fn marked(&self, name: &str) -> BTreeSet<&str> {
        let of = self.marks.iter().filter(|(mark, _, _)| mark == name);
        of.map(|(_, arg, _)| arg.as_str()).collect()
    }

    /// The names in the NAME section.
    pub fn names(&self) -> BTreeSet<&str> {
        let of = self
            .marks
            .iter()
            .filter(|(mark, _, section)| mark == "Nm" && section == "NAME");
        of.map(|(_, arg, _)| arg.as_str()).collect()
    }

    /// The words of the items of a section, without macros and commas.
    pub fn items_of(&self, section: &str) -> BTreeSet<&str> {
        let items = self.items.iter().filter(|(of, _)| of == section);
        let words = items.flat_map(|(_, words)| words.iter().map(String::as_str));
        words.filter(|word| !["Ev", ","].contains(word)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn macro_lines_are_split() {
        assert_eq!(words(r#"Fa "struct x *y" z"#), ["Fa", "struct x *y", "z"]);
        assert_eq!(words(r#"It "a ""b"" c""#), ["It", r#"a ""b"" c"#]);
    }

    #[test]
    fn a_page_is_read() {
        let text = ".Sh NAME\n.Nm f ,\n.Nm g\n.Sh SYNOPSIS\n.In x.h\n.Ft int\n.Fn f \"int a\"\n.Ft void\n\
            .Fo g\n.Fa \"int b\"\n.Fa \"int c\"\n.Fc\n.Sh SEE ALSO\n.Xr h 3 ,\n.Bd -literal\na\\e b\n.Ed\n";
        let mut page = Page::default();
        let mut state = ParserState::default();
        text.lines().for_each(|line| page.line(line, &mut state));
        assert_eq!(page.names().into_iter().collect::<Vec<_>>(), ["f", "g"]);
        assert_eq!(page.headers, ["x.h"]);
        let names: Vec<_> = page
            .prototypes
            .iter()
            .map(|p| (p.name.as_str(), p.arguments.len()))
            .collect();
        assert_eq!(names, [("f", 1), ("g", 2)]);
        assert!(page.marked("Xr").contains("h.3"));
        assert_eq!(page.literals, [("SEE ALSO".into(), "a\\ b\n".into())]);
    }
}
