//! Under a prefix of its own, which is then moved, and with directories outside of the prefix.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::{
    Destination, VERSION, answers, build, compile, files, flags, only_left, pkg_config, printed,
    same, text, wrapper_names,
};
use crate::checks::Check;
use crate::context::Context;
use crate::verdict::{Details, Failure, Verdict, ensure};

pub fn checks() -> Vec<Check> {
    let check = |name: &str, body: fn(&Context, &Path) -> Verdict| {
        Check::new(name, move |cx| body(cx, &prefix(cx)?))
    };
    vec![
        check("the links", links),
        check("the SONAME", soname),
        check("the wrapper's directory", wrapper_directory),
        check("--cflags", |cx, prefix| {
            let got = flags(cx, &prefix.join("lib"), &["--cflags"])?;
            same(&format!("-I{}/include", text(prefix)), &got)
        }),
        check("--libs", |cx, prefix| {
            let got = flags(cx, &prefix.join("lib"), &["--libs"])?;
            same(&format!("-L{}/lib -libverbs", text(prefix)), &got)
        }),
        check("a program of MLNX_OFED builds by libibverbs-ofed", ofed),
        check("--atleast-version 1.14.44", |cx, prefix| {
            flags(cx, &prefix.join("lib"), &["--atleast-version=1.14.44"]).map(drop)
        }),
        check("the headers are ours, all of them", headers),
        check("the pages", pages),
        check("bash completes the options", |cx, prefix| {
            let got = completed(cx, prefix, &["with-ibverbs-rs", "--"])?;
            same("--check --help --version", &got)
        }),
        check("bash completes the program", bash_completes_the_program),
        check("bash completes uroce-ctl", bash_completes_uroce_ctl),
        check("zsh finds its completion", |_, prefix| {
            let file =
                fs::read_to_string(prefix.join("share/zsh/site-functions/_with-ibverbs-rs"))?;
            same(
                "#compdef with-ibverbs-rs",
                file.lines().next().unwrap_or_default(),
            )
        }),
        check("a program builds", |cx, prefix| {
            shared(cx, prefix).map(drop)
        }),
        check("the program loads the library", loads),
        check("the program runs", |cx, prefix| {
            let (program, lib) = (shared(cx, prefix)?, prefix.join("lib"));
            answers(cx.program([text(program)]).library(&lib))
        }),
        check("a static program builds by --static", |cx, prefix| {
            linked_statically(cx, prefix).map(drop)
        }),
        check("the static program has the provider, and runs", static_runs),
        check("the wrapper runs a program on it", wrapper_checks),
        check("moved, with --define-prefix", |cx, prefix| {
            let (moved, lib) = moved(cx, prefix)?;
            let got = flags(cx, &lib, &["--define-prefix", "--cflags", "--libs"])?;
            same(
                &format!("-I{}/include -L{} -libverbs", text(moved), text(&lib)),
                &got,
            )
        }),
        check("moved, the wrapper's library", |cx, prefix| {
            let (moved, lib) = moved(cx, prefix)?;
            let library = lib.join("libibverbs-rs/libibverbs.so.1");
            wrapper_names(cx, &moved.join("bin/with-ibverbs-rs"), &library)
        }),
        check("uninstall leaves no file", |cx, prefix| {
            // The same files, so that the other checks keep theirs.
            let other = cx.dir().join("uninstalled");
            copy(cx, prefix, &other)?;
            Destination::new(&[("PREFIX", &other)]).uninstall(cx)?;
            only_left(&other, &[])
        }),
        Check::new("a BINDIR and a LIBDIR that have nothing in common", apart),
    ]
}

/// The prefix, to which the first check that needs it installs.
fn prefix(cx: &Context) -> Result<PathBuf, Failure> {
    static INSTALLED: OnceLock<Verdict> = OnceLock::new();
    let prefix = cx.dir().join("prefix");
    let install = || Destination::new(&[("PREFIX", &prefix)]).install(cx);
    INSTALLED.get_or_init(install).clone()?;
    Ok(prefix)
}

fn links(_: &Context, prefix: &Path) -> Verdict {
    for (link, target) in [
        ("libibverbs.so", "libibverbs.so.1"),
        ("libibverbs.so.1", &format!("libibverbs.so.1.{VERSION}")),
    ] {
        same(target, &text(fs::read_link(prefix.join("lib").join(link))?))?;
    }
    Ok(())
}

fn soname(cx: &Context, prefix: &Path) -> Verdict {
    let headers = cx.output([
        "objdump".into(),
        "-p".into(),
        text(prefix.join("lib/libibverbs.so")),
    ])?;
    let names = headers
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("SONAME"));
    let names: Vec<&str> = names.map(str::trim).collect();
    same("libibverbs.so.1", &names.join(" "))
}

/// Checks that the wrapper's directory has nothing but the library under two names, as a path in
/// LD_LIBRARY_PATH should.
fn wrapper_directory(_: &Context, prefix: &Path) -> Verdict {
    let dir = prefix.join("lib/libibverbs-rs");
    let library = fs::canonicalize(prefix.join(format!("lib/libibverbs.so.1.{VERSION}")))?;
    same(
        &text(library),
        &text(fs::canonicalize(dir.join("libibverbs.so"))?),
    )?;
    let names = [dir.join("libibverbs.so"), dir.join("libibverbs.so.1")];
    ensure(files(&dir)? == names, format!("{:?}", files(&dir)?))
}

fn ofed(cx: &Context, prefix: &Path) -> Verdict {
    let options = ["--cflags", "--libs"];
    let flags = printed(pkg_config(
        cx,
        &prefix.join("lib"),
        "libibverbs-ofed",
        &options,
    ))?;
    compile(cx, "exp", &cx.source("../ofed/tests/exp_query.c"), &flags).map(drop)
}

fn headers(cx: &Context, prefix: &Path) -> Verdict {
    let ours = cx.dir().join("all-headers");
    for part in ["../include/infiniband", "../ofed/include/infiniband"] {
        let copy = ["cp", "-rT", &text(cx.source(part)), &text(&ours)];
        cx.program(copy).succeed()?;
    }
    let ours = text(ours);
    let installed = text(prefix.join("include/infiniband"));
    cx.program(["diff", "-r", &ours, &installed])
        .succeed()
        .map(drop)
}

fn pages(cx: &Context, prefix: &Path) -> Verdict {
    let is_page = |path: &&PathBuf| {
        path.extension()
            .is_some_and(|section| ["1", "3", "7"].iter().any(|number| section == *number))
    };
    let count = |dir: &Path| files(dir).map(|paths| paths.iter().filter(is_page).count());
    let (ours, installed) = (
        count(&cx.source("../man"))?,
        count(&prefix.join("share/man"))?,
    );
    ensure(
        ours == installed && ours > 0,
        format!("{installed} of {ours} are installed"),
    )
}

/// Returns the words to which bash completes the last word of a command.
fn completed(cx: &Context, prefix: &Path, words: &[&str]) -> Result<String, Failure> {
    const SCRIPT: &str = r#". "$0"
function=$(complete -p "$1" | sed 's/.* -F \([^ ]*\) .*/\1/')
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)); "$function" "$1" "${@: -1}" "${@: -2:1}"
echo "${COMPREPLY[*]}""#;
    let programs = cx.dir().join("programs-to-complete");
    fs::create_dir_all(&programs)?;
    let program = programs.join("ibv_only_one");
    fs::write(&program, "")?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
    let path = format!(
        "{}:{}",
        text(&programs),
        std::env::var("PATH").unwrap_or_default()
    );
    let directory = prefix.join("share/bash-completion/completions");
    let file = text(directory.join(words[0]));
    let start = ["bash", "-c", SCRIPT, &file];
    let program = cx.program(start.iter().chain(words).copied());
    let ended = program.env("PATH", path).succeed()?;
    Ok(ended.out.trim_end().to_string())
}

fn bash_completes_the_program(cx: &Context, prefix: &Path) -> Verdict {
    let start = text(cx.dir().join("programs-to-complete/ibv_o"));
    let wrapper = "with-ibverbs-rs";
    let got = [
        completed(cx, prefix, &[wrapper, "--check", "ibv_only_o"])?,
        completed(cx, prefix, &[wrapper, &start])?,
        completed(cx, prefix, &[wrapper, "--", "ibv_only_o"])?,
    ];
    same(
        &format!("ibv_only_one {start}nly_one ibv_only_one"),
        &got.join(" "),
    )
}

/// Commands, and the options of a command, behind an option too.
fn bash_completes_uroce_ctl(cx: &Context, prefix: &Path) -> Verdict {
    let got = [
        completed(cx, prefix, &["uroce-ctl", "c"])?,
        completed(cx, prefix, &["uroce-ctl", "qps", "--"])?,
        completed(cx, prefix, &["uroce-ctl", "--json", "counters", "--z"])?,
    ];
    same("clear counters --pid --json --help --zeros", &got.join(" "))
}

/// A program that is linked dynamically.
fn shared(cx: &Context, prefix: &Path) -> Result<PathBuf, Failure> {
    let flags = flags(cx, &prefix.join("lib"), &["--cflags", "--libs"])?;
    build(cx, "shared", &flags).map(|(program, _)| program)
}

fn loads(cx: &Context, prefix: &Path) -> Verdict {
    let lib = prefix.join("lib");
    let ldd = cx.program(["ldd".to_string(), text(shared(cx, prefix)?)]);
    let list = printed(ldd.library(&lib))?;
    let line = list
        .lines()
        .find_map(|line| line.trim().strip_prefix("libibverbs.so.1 => "));
    let file = line.and_then(|line| line.split_whitespace().next());
    let file = file.ok_or_else(|| Failure::new("no libibverbs.so.1").with(&list))?;
    let library = fs::canonicalize(lib.join("libibverbs.so.1"))?;
    same(&text(library), &text(fs::canonicalize(file)?))
}

/// The flags list the archives of providers too, as those of the C library do.
fn linked_statically(cx: &Context, prefix: &Path) -> Result<PathBuf, Failure> {
    let flags = flags(cx, &prefix.join("lib"), &["--static", "--cflags", "--libs"])?;
    let flags = format!("-static {flags} -DRDMA_STATIC_PROVIDERS=rxe");
    build(cx, "static", &flags).map(|(program, _)| program)
}

fn static_runs(cx: &Context, prefix: &Path) -> Verdict {
    let program = text(linked_statically(cx, prefix)?);
    let symbols = cx.output(["nm", &program])?;
    let count = symbols
        .lines()
        .filter(|line| line.ends_with(" verbs_provider_rxe"))
        .count();
    ensure(
        count == 1,
        format!("verbs_provider_rxe is there {count} times"),
    )?;
    answers(cx.program([program]))
}

fn wrapper_checks(cx: &Context, prefix: &Path) -> Verdict {
    let program = text(shared(cx, prefix)?);
    let wrapper = text(prefix.join("bin/with-ibverbs-rs"));
    let said = cx.output([&wrapper, "--check", &program])?;
    let verdict = format!("verdict: libibverbs-rs, {}/lib/libibverbs-rs", text(prefix));
    ensure(said.contains(&verdict), "another verdict").with(&said)
}

/// Copies what was installed to another place; returns that and its `lib`.
fn moved(cx: &Context, prefix: &Path) -> Result<(PathBuf, PathBuf), Failure> {
    let moved = cx.dir().join("moved");
    copy(cx, prefix, &moved)?;
    let lib = moved.join("lib");
    Ok((moved, lib))
}

/// Copies a tree with its links, unless that has been done.
fn copy(cx: &Context, from: &Path, to: &Path) -> Verdict {
    if to.exists() {
        return Ok(());
    }
    cx.output(["cp", "-a", &text(from), &text(to)]).map(drop)
}

/// The program is run through a link in another directory, and the library is not in the same prefix.
fn apart(cx: &Context) -> Verdict {
    let root = cx.dir().join("apart");
    let (programs, libraries) = (root.join("programs"), root.join("libraries/rdma"));
    let destination = Destination::new(&[
        ("PREFIX", &root.join("prefix")),
        ("BINDIR", &programs),
        ("LIBDIR", &libraries),
    ]);
    destination.install(cx)?;
    let link = cx.dir().join("link");
    symlink(programs.join("with-ibverbs-rs"), &link)?;
    wrapper_names(cx, &link, &libraries.join("libibverbs-rs/libibverbs.so.1"))?;
    destination.uninstall(cx)?;
    only_left(&root, &[])
}
