//! The tables of C programs that say which checks, scenes or mistakes they have. The cases are made from
//! them, so that a new check is one entry: `{ "name", function, "what is expected", ... }`.

use std::fs;
use std::path::PathBuf;

use crate::paths;

/// The entries of the tables of this element type (`struct check`) in the C sources of a directory of
/// compat-tests: the string literals of each.
///
/// # Panics
/// If the sources cannot be read, or have no such table: the cases would silently be none.
pub fn entries(directory: &str, element: &str) -> Vec<Vec<String>> {
    let dir = paths::repo().join("compat-tests").join(directory);
    let mut sources: Vec<PathBuf> = fs::read_dir(&dir)
        .unwrap_or_else(|error| panic!("{}: {error}", dir.display()))
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "c"))
        .collect();
    sources.sort();
    let text = |path: &PathBuf| fs::read_to_string(path).unwrap_or_default();
    let all: Vec<Vec<String>> = sources
        .iter()
        .flat_map(|path| tables(&text(path), element))
        .collect();
    assert!(!all.is_empty(), "{directory}: no table of {element}");
    all
}

/// The entries of the tables in a source that have a string.
fn tables(source: &str, element: &str) -> Vec<Vec<String>> {
    let is_start = |line: &&str| line.contains(element) && line.trim_end().ends_with("[] = {");
    let mut all = Vec::new();
    let mut lines = source.lines();
    while lines.by_ref().find(is_start).is_some() {
        let table = lines.by_ref().take_while(|line| line.trim() != "};");
        let table: Vec<&str> = table.map(str::trim).collect();
        // Each entry ends with `},`.
        let rows = table.join(" ");
        let entries = rows.split("},").map(literals);
        all.extend(entries.filter(|strings| !strings.is_empty()));
    }
    all
}

/// The string literals of an entry; those that follow one another are one.
fn literals(entry: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut chars = entry.chars();
    let mut adjacent = false;
    while let Some(c) = chars.next() {
        match c {
            '"' => {
                if !adjacent {
                    found.push(String::new());
                }
                let string = found.last_mut().expect("one was pushed");
                while let Some(c) = chars.next().filter(|c| *c != '"') {
                    // The only escapes are of quotes and backslashes.
                    string.extend(if c == '\\' { chars.next() } else { Some(c) });
                }
                adjacent = true;
            }
            c if c.is_whitespace() => {}
            _ => adjacent = false,
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_its_strings() {
        let source = "struct check *other;\n\
            static const struct check all[] = {\n\
            \t{ \"one\", check_one, \"a\", \"say \\\"b\\\" \"\n\
            \t  \"and c\" },\n\
            \t{ \"two\", NULL, \"d\", \"e\", pair },\n\
            \t{ 0 },\n\
            };\n\
            const struct other x[] = {\n\t{ \"three\" },\n};\n";
        let rows = tables(source, "struct check");
        assert_eq!(rows[0], ["one", "a", "say \"b\" and c"]);
        assert_eq!(rows[1], ["two", "d", "e"]);
        assert_eq!(rows.len(), 2);
    }

    #[test]
    fn the_tables_are_found() {
        assert!(entries("uroce/verbs", "struct check").len() > 15);
        let mistakes = entries("c/mistakes", "struct mistake");
        assert!(mistakes.len() > 100 && mistakes.iter().all(|row| row.len() == 3));
    }
}
