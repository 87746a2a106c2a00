//! The form of the pages: mandoc and groff report no problem, no line is wider than 80 columns, the
//! sections are there, and names and cross-references lead to pages.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use regex_lite::Regex;

use super::mdoc::Page;
use super::{ALIASES, Checks, names};

/// The sections that pages of a section of the manual must have.
fn wanted(section: &str) -> &'static [&'static str] {
    match section {
        "1" => &["NAME", "SYNOPSIS", "DESCRIPTION", "EXIT STATUS", "SEE ALSO"],
        "3" => &[
            "NAME", "LIBRARY", "SYNOPSIS", "DESCRIPTION", "RETURN VALUES", "THREAD SAFETY",
            "SEE ALSO",
        ],
        _ => &["NAME", "DESCRIPTION", "SEE ALSO"],
    }
}

/// All that a command prints, or its name and exit status if it fails without output.
pub fn said(dir: &Path, command: &[&str]) -> Result<String, String> {
    let output = Command::new(command[0])
        .args(&command[1..])
        .current_dir(dir)
        .stdin(std::process::Stdio::null())
        .output()
        .map_err(|e| format!("{}: {e}: run make deps", command[0]))?;
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    if text.is_empty() && !output.status.success() {
        return Ok(format!("{}: {}", command[0], output.status));
    }
    Ok(text.into_owned())
}

/// mandoc and groff report nothing, and nothing is wider than 80 columns.
pub fn well_formed(dir: &Path, pages: &[&Page], checks: &mut Checks) -> Result<(), String> {
    let files: Vec<&str> = pages.iter().map(|page| page.file.as_str()).collect();
    let lint = said(
        dir,
        &[&["mandoc", "-T", "lint", "-W", "style"], &files[..]].concat(),
    )?;
    // Which pages are installed here does not matter; `references` checks cross-references.
    let ignored = ["referenced manual not found", "outdated mandoc.db"];
    let mut lines: Vec<&str> = lint
        .lines()
        .filter(|line| !ignored.iter().any(|text| line.contains(text)))
        .collect();
    let groff = said(
        dir,
        &[&["groff", "-ww", "-mdoc", "-z", "-Tutf8"], &files[..]].concat(),
    )?;
    // groff 1.23 says so of long lines of a prototype, which it does not fill.
    let of_prototypes = "cannot adjust line";
    lines.extend(groff.lines().filter(|line| !line.contains(of_prototypes)));
    let overstrike = Regex::new(".\x08").map_err(|e| e.to_string())?;
    for page in pages {
        let of = format!("{}:", page.file);
        let about: Vec<&str> = lines
            .iter()
            .filter(|line| line.contains(&of))
            .copied()
            .collect();
        lines.retain(|line| !line.contains(&of));
        checks.check(
            about.is_empty(),
            format!("{}: mandoc or groff: {about:?}", page.file),
        );
        let shown = said(
            dir,
            &["mandoc", "-T", "ascii", "-O", "width=80", &page.file],
        )?;
        let shown = overstrike.replace_all(&shown, "");
        let wide: Vec<&str> = shown
            .lines()
            .filter(|line| line.chars().count() > 80)
            .collect();
        checks.check(
            wide.is_empty(),
            format!("{}: wider than 80 columns: {wide:?}", page.file),
        );
        has_its_sections(page, checks);
    }
    checks.check(lines.is_empty(), format!("mandoc or groff: {lines:?}"));
    Ok(())
}

fn has_its_sections(page: &Page, checks: &mut Checks) {
    let has = |section: &&str| page.sections.iter().any(|own| own == section);
    let missing: Vec<&str> = wanted(&page.section)
        .iter()
        .filter(|section| !has(section))
        .copied()
        .collect();
    checks.check(
        missing.is_empty(),
        format!("{}: no section {missing:?}", page.file),
    );
    let named = page.names().contains(page.name.as_str());
    checks.check(
        named,
        format!("{}: NAME does not contain {}", page.file, page.name),
    );
}

/// Each name leads to a page, and each link to a page with that name.
pub fn names_lead_to_pages(pages: &[Page], checks: &mut Checks) {
    let files: BTreeMap<&str, &Page> = pages
        .iter()
        .map(|page| (page.file.as_str(), page))
        .collect();
    for page in pages {
        if let Some(link) = &page.link {
            let describes = files.get(link.as_str()).is_some_and(|target| {
                let alias = ALIASES.contains(&page.name.as_str()) && target.link.is_none();
                target.names().contains(page.name.as_str()) || alias
            });
            checks.check(
                describes,
                format!("{}: {link} does not describe it", page.file),
            );
            continue;
        }
        for name in page.names() {
            let there = files.get(format!("{name}.{}", page.section).as_str());
            let right = there.is_some_and(|there| {
                there.file == page.file || there.link.as_ref() == Some(&page.file)
            });
            checks.check(right, format!("{}: no file for its name {name}", page.file));
            if page.section == "3" {
                let shown = page
                    .prototypes
                    .iter()
                    .any(|prototype| prototype.name == name)
                    || page.macros.iter().any(|shown| shown == name);
                checks.check(
                    shown,
                    format!("{}: the SYNOPSIS does not show {name}", page.file),
                );
            }
        }
    }
}

/// The pages of other packages that pages.lst lists, with their packages.
pub fn elsewhere(list: &str) -> BTreeMap<&str, &str> {
    let lines = list
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.filter_map(|line| line.split_once(' ')).collect()
}

/// Compares pages.lst with the installed packages, and prints which packages are not installed.
pub fn list_is_true(pages: &BTreeMap<&str, &str>, checks: &mut Checks) -> Result<(), String> {
    let packages: BTreeSet<&str> = pages.values().copied().collect();
    let page = Regex::new(r"(?m)^/usr/share/man/man\d/(\S+?)\.gz$").map_err(|e| e.to_string())?;
    for package in packages {
        // A page that has moved is in one of several, in different releases of Debian.
        let mut files = String::new();
        for name in package.split('|') {
            let query = ["dpkg-query", "-W", "-f", "${db:Status-Status}", name];
            if said(Path::new("/"), &query)? == "installed" {
                files += &said(Path::new("/"), &["dpkg-query", "-L", name])?;
            }
        }
        if files.is_empty() {
            println!(
                "note: {package} is not installed, so its pages in pages.lst were not checked"
            );
            continue;
        }
        let there: BTreeSet<String> = page
            .captures_iter(&files)
            .map(|m| m[1].to_string())
            .collect();
        let of = pages.iter().filter(|(_, of)| **of == package);
        let missing: Vec<&&str> = of
            .map(|(page, _)| page)
            .filter(|p| !there.contains(**p))
            .collect();
        checks.check(
            missing.is_empty(),
            format!("pages.lst: {package} does not contain {missing:?}"),
        );
    }
    Ok(())
}

/// Cross-references lead to pages, and libibverbs-rs(7) refers to all pages.
pub fn references(
    everything: &[Page],
    pages: &[&Page],
    elsewhere: &BTreeMap<&str, &str>,
    checks: &mut Checks,
) {
    let ours: BTreeSet<&str> = everything.iter().map(|page| page.file.as_str()).collect();
    for page in everything {
        for wanted in page.marked("Xr") {
            let there = ours.contains(wanted) || elsewhere.contains_key(wanted);
            let why = format!("{}: no page {wanted} here or in pages.lst", page.file);
            checks.check(there, why);
        }
    }
    let Some(index) = pages.iter().find(|page| page.name == "libibverbs-rs") else {
        return;
    };
    let named = index.marked("Xr");
    let missing: Vec<&str> = names(pages, |page| &page.file)
        .into_iter()
        .filter(|file| !named.contains(file) && *file != index.file)
        .collect();
    let why = format!("{}: no cross-reference to {missing:?}", index.file);
    checks.check(missing.is_empty(), why);
}
