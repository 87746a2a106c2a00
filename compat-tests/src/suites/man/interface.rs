//! Checks of what the pages say of the interface: every function has a page, prototypes and
//! structures match the headers, examples compile, and the constants, errors, types and functions
//! that pages mention exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::headers::{HeaderPart, Headers, OWN, VersionMap, all, check_compiles, compiles, regex};
use super::mdoc::{Page, Prototype};
use super::{ALIASES, Checks};
use crate::verdict::Failure;

/// Functions that no header declares: their prototypes are compared with the Rust functions.
const UNDECLARED: &[&str] = &[
    "ibv_register_driver", "ibv_copy_ah_attr_from_kern", "ibv_copy_qp_attr_from_kern",
    "ibv_copy_path_rec_from_kern", "ibv_copy_path_rec_to_kern", "ibverbs_rs_set_name",
];

/// All functions for programs: those that the library exports, and those that a header defines.
pub fn functions(map: &VersionMap, sets: &[Headers]) -> BTreeSet<String> {
    let declared = sets.iter().take(2).flat_map(|headers| headers.verbs.iter());
    map.public.iter().chain(declared).cloned().collect()
}

/// Every function has a page, and every page of a function a function.
pub fn coverage(pages: &[Page], map: &VersionMap, sets: &[Headers], checks: &mut Checks) {
    let of_section_3 = || pages.iter().filter(|page| page.section == "3");
    let there: BTreeSet<&str> = of_section_3().map(|page| page.name.as_str()).collect();
    let known = functions(map, sets);
    // Names with two underscores are helpers of a header; a page for them is optional.
    for name in known
        .iter()
        .filter(|name| map.public.contains(*name) || !name.starts_with("__"))
    {
        checks.check(there.contains(name.as_str()), format!("no page for {name}"));
    }
    for page in of_section_3().filter(|page| !ALIASES.contains(&page.name.as_str())) {
        let right = known.contains(&page.name) || map.private.contains(&page.name);
        let why = format!(
            "{}: neither the library nor a header defines {}",
            page.file, page.name
        );
        checks.check(right, why);
    }
}

/// A page mentions exactly the symbol versions of its functions.
pub fn versions(pages: &[&Page], map: &VersionMap, checks: &mut Checks) {
    for page in pages.iter().filter(|page| page.section == "3") {
        let spoken = all(r"(IBVERBS_(?:1\.\d+|PRIVATE_\d+))", &page.source);
        if spoken.is_empty() {
            continue;
        }
        // The page of an inline function gives the version of the function that it calls.
        let names = page
            .names()
            .into_iter()
            .flat_map(|name| [name.to_string(), format!("_{name}")]);
        // Functions of the provider interface are those of provider ABI 34, if it has them.
        let newest: BTreeSet<String> = names
            .filter_map(|name| map.nodes.get(&name)?.last().cloned())
            .map(|node| match node.as_str() {
                "IBVERBS_PRIVATE_25" => "IBVERBS_PRIVATE_34".into(),
                _ => node,
            })
            .collect();
        let why = format!(
            "{}: mentions {spoken:?}, the functions have {newest:?}",
            page.file
        );
        checks.check(spoken == newest, why);
    }
}

/// The prototypes are those of the headers, or of the Rust functions if no header declares them.
pub fn prototypes(
    pages: &[&Page],
    sets: &[Headers],
    repo: &Path,
    checks: &mut Checks,
) -> Result<(), Failure> {
    for headers in sets {
        // driver.h has to be included first, so it is a separate set.
        let mut others: BTreeSet<&str> = pages
            .iter()
            .flat_map(|page| page.headers.iter().map(String::as_str))
            .collect();
        others.retain(|header| {
            !headers.files.contains(header) && !["infiniband/driver.h", OWN].contains(header)
        });
        let lines: String = others
            .iter()
            .map(|header| format!("#include <{header}>\n"))
            .collect();
        let mut parts: Vec<HeaderPart> = Vec::new();
        let is_of_set = |page: &&&Page| {
            headers.files.contains(&OWN) || !page.headers.iter().any(|header| header == OWN)
        };
        for page in pages.iter().filter(is_of_set) {
            let source: String = page
                .prototypes
                .iter()
                .map(|p| declaration(p, headers))
                .collect();
            if !source.is_empty() {
                let why = format!(
                    "{}: prototypes differ from {} headers",
                    page.file, headers.name
                );
                parts.push((source, why));
            }
        }
        let flags = [&["-Werror".to_string()], &headers.flags[..]].concat();
        check_compiles(
            &format!("{}{lines}", headers.include),
            &parts,
            &flags,
            checks,
        )?;
    }
    let sources = rust_sources(&repo.join("src"))?;
    for page in pages {
        for Prototype {
            name, arguments, ..
        } in &page.prototypes
        {
            let declared = sets.iter().any(|headers| headers.functions.contains(name));
            if UNDECLARED.contains(&name.as_str()) {
                let why = format!(
                    "{}: UNDECLARED contains {name}, but a header declares it",
                    page.file
                );
                checks.check(!declared, why);
                let right = rust_arguments(&sources, name) == Some(arguments.len());
                let why = format!(
                    "{}: {name} has another number of arguments in src/",
                    page.file
                );
                checks.check(right, why);
            } else {
                checks.check(
                    declared,
                    format!("{}: no header declares {name}", page.file),
                );
            }
        }
    }
    Ok(())
}

/// C code that compiles if the prototype is right.
fn declaration(prototype: &Prototype, headers: &Headers) -> String {
    let Prototype {
        result,
        name,
        arguments,
    } = prototype;
    if headers.macros.contains(name) {
        // Programs see the prototype of the macro; the function of the same name may differ.
        let value = regex(r"(\w+)(?:\[\w+\])?$");
        let values: Vec<String> = arguments
            .iter()
            .filter_map(|argument| value.captures(argument).map(|found| found[1].to_string()))
            .collect();
        let (arguments, values) = (arguments.join(", "), values.join(", "));
        let call = format!("{result} man_{name}({arguments}) {{ return {name}({values}); }}\n");
        return call + &exact_type(prototype, headers);
    }
    if headers.functions.contains(name) || UNDECLARED.contains(&name.as_str()) {
        let arguments = if arguments.is_empty() {
            "void".into()
        } else {
            arguments.join(", ")
        };
        return format!("{result} ({name})({arguments});\n");
    }
    String::new()
}

/// An assertion that a macro's prototype is exactly the type of the function of the same name, or of the one
/// that the macro calls: a call alone compiles also with types that C converts.
fn exact_type(prototype: &Prototype, headers: &Headers) -> String {
    let name = &prototype.name;
    let definition = regex(&format!(
        r"(?m)^\s*#\s*define {name}\([^)]*\)(?:\s|\\)*(\w+)\("
    ));
    let called = definition
        .captures(&headers.text)
        .map(|found| found[1].to_string());
    let arguments = prototype.arguments.join(", ");
    let equal: Vec<String> = [Some(name.clone()), called]
        .into_iter()
        .flatten()
        .filter(|function| headers.functions.contains(function))
        .map(|function| {
            let result = &prototype.result;
            format!(
                "__builtin_types_compatible_p(__typeof__(({function})), {result} ({arguments}))"
            )
        })
        .collect();
    if equal.is_empty() {
        return String::new();
    }
    format!("_Static_assert({}, \"{name}\");\n", equal.join(" || "))
}

/// The texts of the Rust sources below a directory, by path.
pub fn rust_sources(dir: &Path) -> Result<Vec<(PathBuf, String)>, Failure> {
    let mut sources = Vec::new();
    let mut dirs = vec![dir.to_path_buf()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir)? {
            let path = entry?.path();
            if path.is_dir() {
                dirs.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let text = fs::read_to_string(&path)?;
                sources.push((path, text));
            }
        }
    }
    sources.sort();
    Ok(sources)
}

/// The number of arguments of an exported function in the Rust sources.
fn rust_arguments(sources: &[(PathBuf, String)], name: &str) -> Option<usize> {
    let function = regex(&format!(r#"extern "C" fn {name}\(([^)]*)\)"#));
    let found = sources
        .iter()
        .find_map(|(_, text)| function.captures(text))?;
    Some(
        found[1]
            .split(',')
            .filter(|argument| !argument.trim().is_empty())
            .count(),
    )
}

/// A structure or an enumeration that a page shows: page, kind, name, body without comments.
type Shown = (String, String, String, String);

/// Structures and enumerations are those of the headers.
pub fn structures(pages: &[&Page], sets: &[Headers], checks: &mut Checks) -> Result<(), Failure> {
    let structure = regex(r"(?s)^(struct|enum) (\w+) \{\n(.*)\};\n$");
    let comment = regex(r"(?s)/\*.*?\*/");
    let mut shown: Vec<Shown> = Vec::new();
    for page in pages {
        for (_, text) in &page.literals {
            let Some(found) = structure.captures(text) else {
                continue;
            };
            let (kind, name) = (found[1].to_string(), found[2].to_string());
            let exists = sets.iter().any(|headers| headers.has_type(&kind, &name));
            checks.check(
                exists,
                format!("{}: no header has {kind} {name}", page.file),
            );
            let body = comment.replace_all(&found[3], "").into_owned();
            shown.push((page.file.clone(), kind, name, body));
        }
    }
    for headers in sets {
        let mut parts = Vec::new();
        for (n, (page, kind, name, body)) in shown.iter().enumerate() {
            if headers.has_type(kind, name) {
                let source = structure_source(kind, name, body, headers, &format!("man_{n}"));
                let why = format!(
                    "{page}: {kind} {name} differs from {} headers",
                    headers.name
                );
                parts.push((source, why));
            }
        }
        check_compiles(&headers.include, &parts, &headers.flags, checks)?;
    }
    Ok(())
}

/// C code that compiles if a structure or enumeration, here named `tag`, matches the headers.
fn structure_source(kind: &str, name: &str, body: &str, headers: &Headers, tag: &str) -> String {
    if kind == "enum" {
        let renamed = regex(r"(?m)^(\s*)(\w+)").replace_all(body, format!("${{1}}{tag}_$2"));
        let asserts: String = all(r"(?m)^\s*(\w+)", body)
            .iter()
            .map(|value| format!("_Static_assert({tag}_{value} == (int){value}, \"{value}\");\n"))
            .collect();
        return format!("enum {tag} {{\n{renamed}}};\n{asserts}");
    }
    // An older header may lack the newest members; all others must match.
    let there = regex(&format!(r"(?ms)\bstruct\s+{name}\s*\{{.*?^\}}")).find(&headers.text);
    let there = there.map_or("", |found| found.as_str());
    let shown = members(body);
    let has = |member: &String| regex(&format!(r"\b{member}\b")).is_match(there);
    let known: Vec<_> = shown.iter().filter(|(_, member)| has(member)).collect();
    let mut source = format!("struct {tag} {{\n{body}}};\n");
    if known.len() == shown.len() || !headers.flags.is_empty() {
        source +=
            &format!("_Static_assert(sizeof(struct {tag}) == sizeof(struct {name}), \"size\");\n");
    }
    for (kind, member) in known {
        let offset = |of: &str| format!("offsetof(struct {of}, {member})");
        source += &format!("_Static_assert({} == {}", offset(tag), offset(name));
        if !kind.contains('{') {
            let of = |of: &str| format!("__typeof__(((struct {of} *)0)->{member})");
            source += &format!(
                " && __builtin_types_compatible_p({}, {})",
                of(tag),
                of(name)
            );
        }
        source += &format!(", \"{member}\");\n");
    }
    source
}

/// The declaration and name of each named member of a structure; an unnamed type is `{}`.
fn members(body: &str) -> Vec<(String, String)> {
    let inner = regex(r"\{[^{}]*\}");
    let mut body = body.to_string();
    loop {
        let flat = inner.replace_all(&body, "@").into_owned();
        if flat == body {
            break;
        }
        body = flat;
    }
    let function = regex(r"\(\*(\w+)\)");
    let plain = regex(r"(\w+)\s*(?:\[\w+\])?\s*$");
    body.split(';')
        .filter_map(|declaration| {
            let name = function
                .captures(declaration)
                .or_else(|| plain.captures(declaration))?;
            Some((declaration.replace('@', "{}"), name[1].to_string()))
        })
        .collect()
}

/// The examples compile without warnings.
pub fn examples(pages: &[&Page], newest: &Headers, checks: &mut Checks) -> Result<(), Failure> {
    let mut flags: Vec<String> = ["-Wall", "-Wextra", "-Werror"].map(String::from).into();
    flags.extend(newest.flags.iter().cloned());
    for page in pages {
        for (section, text) in &page.literals {
            if section == "EXAMPLES" && text.contains("#include") {
                let said = compiles(text, &flags)?;
                let why = format!("{}: the example does not compile: {said}", page.file);
                checks.check(said.is_empty(), why);
            }
        }
    }
    Ok(())
}

/// The constants, errors, functions and types that pages mention exist.
pub fn words(pages: &[&Page], sets: &[Headers], map: &VersionMap, checks: &mut Checks) {
    let mut words: BTreeSet<&str> = map
        .nodes
        .keys()
        .map(String::as_str)
        .filter(|name| name.starts_with("IBVERBS_"))
        .collect();
    words.extend(
        sets.iter()
            .flat_map(|headers| headers.words.iter().map(String::as_str)),
    );
    let known = functions(map, sets);
    let mut functions = words.clone();
    functions.extend(known.iter().chain(&map.private).map(String::as_str));
    functions.extend(["main", "PROVIDER_DRIVER", "ibv_cmd_*"]);
    for page in pages {
        for (name, kind) in [("Dv", "constant"), ("Er", "error")] {
            for word in page.marked(name) {
                let why = format!("{}: {kind} {word} does not exist", page.file);
                checks.check(words.contains(word), why);
            }
        }
        for name in page.marked("Fn") {
            let why = format!("{}: function {name} does not exist", page.file);
            checks.check(functions.contains(name), why);
        }
        for kind in page.marked("Vt") {
            let bare = kind.replace('*', "");
            let exists = bare
                .split_whitespace()
                .last()
                .is_some_and(|name| words.contains(name));
            checks.check(exists, format!("{}: type {kind} does not exist", page.file));
        }
    }
}

/// libibverbs-rs-providers(7) mentions all functions of the provider interface.
pub fn providers(pages: &[&Page], map: &VersionMap, checks: &mut Checks) {
    let Some(page) = pages
        .iter()
        .find(|page| page.name == "libibverbs-rs-providers")
    else {
        return checks.check(false, "no page libibverbs-rs-providers".into());
    };
    let words = all(r"(\w+)", &page.source);
    for name in &map.private {
        let why = format!("{}: does not mention {name}", page.file);
        checks.check(words.contains(name), why);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_have_types_and_names() {
        let body = "\tint a;\n\tstruct { int x; } b;\n\tvoid (*c)(int);\n\tint d[4];\n";
        let names: Vec<String> = members(body).into_iter().map(|(_, name)| name).collect();
        assert_eq!(names, ["a", "b", "c", "d"]);
        assert!(members(body)[1].0.contains('{'));
    }
}
