//! The documents: links between them lead somewhere, in the source tree and in the site of `make docs`;
//! the pictures are what their texts describe.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use regex_lite::Regex;

use crate::case::{Case, Tier};
use crate::checks::{self, Check};
use crate::context::Context;
use crate::paths;
use crate::process::read;
use crate::verdict::{Details, Failure, Verdict, ensure};

pub fn cases() -> Vec<Case> {
    let site = vec![
        Check::new("make docs", |cx| {
            let ended = cx.program(["scripts/build-docs", &site(cx)]);
            ended.dir(&cx.paths.repo).merged().succeed().map(drop)
        }),
        Check::new("links", |cx| {
            let files = names(cx, &site(cx), "html")?;
            no_broken(&site_links(Path::new(&site(cx)), &files)?)
        }),
        Check::new("every page and guide is in it", complete),
        Check::new("the search finds manual pages", searchable),
    ];
    vec![
        Case::new("docs/links", |cx| {
            let broken = document_links(&cx.paths.repo, &documents(cx)?)?;
            no_broken(&broken)
        })
        .tier(Tier::Check),
        Case::new("docs/diagrams", |cx| {
            let drawn = cx.program(["scripts/diagrams", "--check"]);
            drawn.dir(&cx.paths.repo).merged().succeed().map(drop)
        })
        .tier(Tier::Check),
        checks::case("docs/site", site)
            .before(|| {
                let found = std::process::Command::new("mdbook")
                    .arg("--version")
                    .output();
                let why = "mdbook is missing: make docs installs it";
                found.map(drop).map_err(|_| Failure::skip(why))
            })
            .tier(Tier::All)
            .limit(300),
    ]
}

fn site(cx: &Context) -> String {
    cx.dir().join("site").display().to_string()
}

fn no_broken(broken: &[String]) -> Verdict {
    let count = broken.len();
    ensure(broken.is_empty(), format!("{count} broken links")).with(broken.join("\n"))
}

/// The files below a directory whose names end in `.EXTENSION`.
fn names(cx: &Context, dir: &str, extension: &str) -> Result<Vec<String>, Failure> {
    let pattern = format!("*.{extension}");
    let list = cx.output(["find", dir, "-name", &pattern, "-printf", "%P\\n"])?;
    Ok(list.lines().map(String::from).collect())
}

/// The Markdown files of the source tree.
fn documents(cx: &Context) -> Result<Vec<String>, Failure> {
    let prune = r#"find . \( -name target -o -name build -o -name .git \) -prune \
        -o -name '*.md' -printf '%P\n'"#;
    let list = cx
        .program(["sh", "-c", prune])
        .dir(&cx.paths.repo)
        .run()?
        .out;
    ensure(list.lines().count() > 20, "no documents in the source tree")?;
    Ok(list.lines().map(String::from).collect())
}

/// The broken links of Markdown files, as `FILE: LINK`.
fn document_links(top: &Path, files: &[String]) -> Result<Vec<String>, Failure> {
    let link = Regex::new(r"\]\(([^)\s]+)\)").map_err(|e| e.to_string())?;
    let mut broken = Vec::new();
    for file in files {
        let text = without_code(&read(&top.join(file)));
        for found in link.captures_iter(&text) {
            let target = &found[1];
            if !(leads_outside(target) || document_has(top, file, target)) {
                broken.push(format!("{file}: {target}"));
            }
        }
    }
    Ok(broken)
}

/// Links to other hosts, and to pages of the forge that has the repository.
fn leads_outside(target: &str) -> bool {
    let forge = ["../../issues", "../../security/"];
    let scheme = ["http://", "https://", "mailto:"];
    scheme.iter().any(|scheme| target.starts_with(scheme))
        || forge.iter().any(|page| target.starts_with(page))
}

/// The text without blocks of code, in which `](` is no link.
fn without_code(text: &str) -> String {
    let mut fenced = false;
    let mut kept = String::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced && !line.starts_with("    ") {
            kept += line;
            kept.push('\n');
        }
    }
    kept
}

/// `way` from the directory of `file`.
fn resolved(file: &str, way: &str) -> PathBuf {
    let mut path = Path::new(file)
        .parent()
        .map_or(PathBuf::new(), PathBuf::from);
    for part in Path::new(way).components() {
        match part {
            Component::ParentDir => drop(path.pop()),
            part => path.push(part),
        }
    }
    path
}

/// The file that a link of `file` names, and the anchor there.
fn page_and_anchor<'a>(top: &Path, file: &str, target: &'a str) -> (PathBuf, &'a str) {
    let (way, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = match way {
        "" => PathBuf::from(file),
        way => resolved(file, way),
    };
    (top.join(path), anchor)
}

fn document_has(top: &Path, file: &str, target: &str) -> bool {
    let (path, anchor) = page_and_anchor(top, file, target);
    path.exists() && (anchor.is_empty() || anchors(&read(&path)).contains(anchor))
}

/// The anchors of the headings of a Markdown file, as forges and mdBook name them.
fn anchors(text: &str) -> BTreeSet<String> {
    let heading = |line: &str| line.trim_start_matches('#').trim().to_lowercase();
    let keep = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    without_code(text)
        .lines()
        .filter(|line| line.starts_with('#'))
        .map(|line| heading(line).chars().filter(keep).collect::<String>())
        .map(|heading| heading.replace(' ', "-"))
        .collect()
}

/// The broken links of the site's pages, as `FILE: LINK`.
fn site_links(top: &Path, files: &[String]) -> Result<Vec<String>, Failure> {
    let link = Regex::new(r#"(?:href|src)="([^"]*)""#).map_err(|e| e.to_string())?;
    let mut broken = Vec::new();
    for file in files {
        // The page of all pages has their links without their directories.
        if file == "print.html" || file == "404.html" {
            continue;
        }
        for found in link.captures_iter(&read(&top.join(file))) {
            let target = found[1].replace("&amp;", "&");
            if !(leads_outside(&target) || page_has(top, file, &target)) {
                broken.push(format!("{file}: {target}"));
            }
        }
    }
    Ok(broken)
}

fn page_has(top: &Path, file: &str, target: &str) -> bool {
    let (path, anchor) = page_and_anchor(top, file, target);
    let anchored = || {
        let text = read(&path);
        text.contains(&format!("id=\"{anchor}\""))
    };
    path.is_file() && (anchor.is_empty() || anchored())
}

fn complete(cx: &Context) -> Verdict {
    let made: BTreeSet<String> = names(cx, &site(cx), "html")?.into_iter().collect();
    let mut missing = Vec::new();
    for name in paths::names(cx.source("../man"))? {
        let page = format!("man/{name}.html");
        if name.ends_with(['1', '3', '7']) && !made.contains(&page) {
            missing.push(page);
        }
    }
    for document in documents(cx)? {
        let page = document.replace("README.md", "index.md");
        let page = page.replace(".md", ".html");
        if !made.contains(&page) {
            missing.push(page);
        }
    }
    no_broken(&missing)
}

/// A word that only the text of a manual page has is in the index.
fn searchable(cx: &Context) -> Verdict {
    let files = names(cx, &site(cx), "js")?;
    let index = files.iter().find(|file| file.starts_with("searchindex"));
    let index = index.ok_or("there is no search index")?;
    let text = read(&Path::new(&site(cx)).join(index));
    for words in ["ibv_query_qp_data_in_order", "IBV_SEND_SIGNALED"] {
        ensure(text.contains(words), format!("{words} is not in {index}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn links_lead_to_files_and_headings() {
        assert_eq!(resolved("a/b.md", "../c/d.md"), Path::new("c/d.md"));
        assert_eq!(resolved("b.md", "c.md"), Path::new("c.md"));
        let text = "# The `x` of y\n\n    # code\n```sh\n# code\n```\n## Two, three\n";
        let found: Vec<String> = anchors(text).into_iter().collect();
        assert_eq!(found, ["the-x-of-y", "two-three"]);
    }

    #[test]
    fn broken_links_are_found() {
        let dir = std::env::temp_dir().join(format!("docs-links-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let text = "# One\n[a](b.md) [b](#one) [c](#two) [d](https://example.org) [e](b.md#x)\n";
        fs::write(dir.join("a.md"), text).unwrap();
        fs::write(dir.join("b.md"), "# Other\n").unwrap();
        let broken = document_links(&dir, &["a.md".into()]).unwrap();
        fs::write(
            dir.join("a.html"),
            r##"<a href="b.html"> <a href="#x"> <p id="x">"##,
        )
        .unwrap();
        let of_page = site_links(&dir, &["a.html".into()]).unwrap();
        fs::remove_dir_all(&dir).unwrap();
        assert_eq!(broken, ["a.md: #two", "a.md: b.md#x"]);
        assert_eq!(of_page, ["a.html: b.html"]);
    }
}
