//! `infiniband/ofed.h`: it compiles without a warning, changes nothing in verbs.h but what it says, and the
//! programs of ofed/tests, written as in the time of OFED 1.x and MLNX_OFED 4.x, run on it: on uroce, and on
//! Soft-RoCE with both libraries, because the library has no part in it.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use regex_lite::Regex;

use crate::case::{Case, Tier};
use crate::compare;
use crate::context::{Context, Library};
use crate::machine::boot::Boot;
use crate::process::{Ended, read, succeeded};
use crate::sandbox::Sandbox;
use crate::verdict::{Details, Failure, Verdict, ensure};

/// A compiler with a language standard, and what it needs for the declarations of POSIX.
struct Compiler(&'static str, &'static [&'static str]);

const POSIX: [&str; 2] = ["-D_DEFAULT_SOURCE", "-D_XOPEN_SOURCE=700"];
const COMPILERS: [Compiler; 4] = [
    Compiler("gcc", &["-std=gnu17", "-O1"]),
    Compiler("g++", &["-xc++", "-std=c++17", "-O2"]),
    Compiler("clang", &["-std=c99", "-O2", POSIX[0], POSIX[1]]),
    Compiler("clang++", &["-xc++", "-std=c++20", "-O1"]),
];
const STRICT: [&str; 4] = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"];
const STANDARDS: [&str; 7] = ["c99", "c11", "gnu17", "c++11", "c++14", "c++17", "c++20"];
/// The options that an old program is compiled with; pkg-config reports the same for
/// libibverbs-ofed.
const OFED: [&str; 2] = ["-include", "infiniband/ofed.h"];
const ON_A_DEVICE: [&str; 3] = ["xrc", "exp", "exp_query"];
/// Programs that implement the device themselves.
const WITHOUT_DEVICE: [&str; 3] = ["convert_data", "convert_objects", "convert_steering"];

pub fn cases() -> Vec<Case> {
    let check = |name: &str, body: fn(&Context) -> Verdict| {
        Case::new(format!("ofed/{name}"), body).tier(Tier::Check)
    };
    let mut cases = vec![
        check("warnings", warnings),
        check("layout", layout),
        check("no-successor", no_successor),
        check("after-verbs", after_verbs),
        check("two-files", two_files),
        check("documented", documented),
        Case::new("ofed/rxe", rxe).sandbox(Sandbox::Vm).limit(600),
    ];
    let program_cases = [("ofed", &WITHOUT_DEVICE), ("uroce/ofed", &ON_A_DEVICE)];
    for (prefix, programs) in program_cases {
        for &program in programs {
            let body = move |cx: &Context| run_program(cx, program);
            cases.push(
                Case::new(format!("{prefix}/{program}"), body)
                    .sandbox(Sandbox::Namespace)
                    .tier(Tier::Check),
            );
        }
    }
    cases
}

fn include(cx: &Context, dir: &str) -> String {
    format!("-I{}", cx.paths.repo.join(dir).display())
}

/// Runs a compiler on a source, with our headers.
fn compile(
    cx: &Context,
    compiler: &str,
    flags: &[&str],
    source: &str,
    output: &str,
) -> Result<Ended, Failure> {
    let mut argv = vec![compiler.to_string()];
    argv.extend(flags.iter().map(|flag| flag.to_string()));
    let dirs = ["include", "ofed/include", "ofed/include/infiniband/ofed"];
    argv.extend(dirs.map(|dir| include(cx, dir)));
    argv.extend([source.into(), "-o".into(), output.into()]);
    if !flags.contains(&"-c") {
        let dir = cx.library_dir(Library::Ours);
        argv.extend([format!("-L{}", dir.display()), "-libverbs".into()]);
    }
    Ok(cx.program(argv).run()?)
}

/// The header alone, twice, and after verbs.h, in each standard of both languages.
fn warnings(cx: &Context) -> Verdict {
    let sources = [
        (
            "alone",
            "#include <infiniband/ofed.h>\n#include <infiniband/ofed.h>\n",
        ),
        (
            "after",
            "#include <infiniband/verbs.h>\n#include <infiniband/ofed.h>\n",
        ),
        (
            "old",
            "#include <infiniband/verbs_exp.h>\n#include <infiniband/peer_ops.h>\n",
        ),
        (
            "driver",
            "#include <infiniband/ofed.h>\n#include <infiniband/driver.h>\n",
        ),
    ];
    for (name, text) in sources {
        let source = cx.write(&format!("{name}.h"), text)?.display().to_string();
        for compiler in ["gcc", "clang"] {
            for standard in STANDARDS {
                let cpp = standard.starts_with("c++");
                if cpp && name == "driver" {
                    continue;
                }
                let language = if cpp { "-xc++" } else { "-xc" };
                let standard = format!("-std={standard}");
                let flags = [&STRICT[..], &[language, &standard, "-fsyntax-only", "-c"]].concat();
                let ended = compile(cx, compiler, &flags, &source, "/dev/null")?;
                succeeded(&format!("{compiler} {standard} {name}"), &ended)?;
            }
        }
    }
    Ok(())
}

/// Sizes and offsets: what a program that includes ofed.h shares with the library is where it was.
fn layout(cx: &Context) -> Verdict {
    const COMMON: &str = r"
        SIZE(ibv_send_wr) SIZE(ibv_recv_wr) SIZE(ibv_async_event) SIZE(ibv_wc) SIZE(ibv_qp_attr)
        SIZE(ibv_qp_init_attr_ex) SIZE(ibv_srq_init_attr_ex) SIZE(ibv_context)
        AT(ibv_send_wr, qp_type) AT(ibv_send_wr, bind_mw) AT(ibv_send_wr, tso)
        AT(ibv_async_event, event_type) AT(ibv_qp_init_attr, qp_type) AT(ibv_qp_init_attr, sq_sig_all)
        AT(ibv_srq, handle) AT(ibv_srq, mutex) AT(ibv_srq, events_completed)";
    const PRELUDE: &str = r#"
#include <stddef.h>
#include <stdio.h>
#define SIZE(type) printf("size %s %zu\n", #type, sizeof(struct type));
#define AT(type, member) printf("%s.%s %zu\n", #type, #member, offsetof(struct type, member));
"#;
    let print = |name: &str, header: &str, more: &str| {
        let text = format!("#include <{header}>\n{PRELUDE}int main(void) {{ {COMMON} {more} }}\n");
        let source = cx.write(&format!("{name}.c"), text)?.display().to_string();
        let program = cx.dir().join(name).display().to_string();
        let ended = compile(cx, "gcc", &["-Wno-unused"], &source, &program)?;
        succeeded("gcc", &ended)?;
        cx.output([program])
    };
    let plain = print("plain", "infiniband/verbs.h", "")?;
    let ofed = print("ofed", "infiniband/ofed.h", "")?;
    compare::same(("with verbs.h", &plain), ("with ofed.h", &ofed))?;

    // The members that ofed.h adds to an SRQ are those that a provider has behind it.
    const RENAME: &str = r#"printf("domain %zu cq %zu number %zu size %zu\n""#;
    let library = format!(
        "{RENAME}, offsetof(struct verbs_srq, xrcd), offsetof(struct verbs_srq, cq),
         offsetof(struct verbs_srq, srq_num), sizeof(struct verbs_srq));"
    );
    let program = format!(
        "{RENAME}, offsetof(struct ibv_srq, xrc_domain), offsetof(struct ibv_srq, xrc_cq),
         offsetof(struct ibv_srq, xrc_srq_num), sizeof(struct ibv_srq));"
    );
    let library = print("provider", "infiniband/driver.h", &library)?;
    let program = print("program", "infiniband/ofed.h", &program)?;
    compare::same(("struct verbs_srq", &library), ("struct ibv_srq", &program))
}

/// Checks that functions without a successor compile with a warning that says so, and fail with
/// ENOSYS.
fn no_successor(cx: &Context) -> Verdict {
    const PROGRAM: &str = r#"
#include <infiniband/ofed.h>
int main(void)
{
	struct ibv_exp_dct_init_attr attr;
	struct ibv_exp_open_device_attr open_attr = { 0, { 0, NULL } };
	int failed = ibv_exp_create_dct(NULL, &attr) || errno != ENOSYS ||
		     ibv_exp_ec_poll(NULL, 1) != -ENOSYS || ibv_exp_create_mr(NULL) ||
		     ibv_exp_peer_commit_qp(NULL, NULL) != ENOSYS ||
		     ibv_exp_open_device(NULL, &open_attr) || errno != EINVAL;

	open_attr.comp_mask = IBV_EXP_SET_ATTR_PEER_INFO;
	return failed || ibv_exp_open_device(NULL, &open_attr) || errno != ENOSYS;
}
"#;
    let source = cx.write("none.c", PROGRAM)?.display().to_string();
    let program = cx.dir().join("none").display().to_string();
    for Compiler(compiler, flags) in COMPILERS {
        let flags = [flags, &["-Wall", "-Wextra"]].concat();
        let ended = compile(cx, compiler, &flags, &source, &program)?;
        succeeded(compiler, &ended)?;
        let count = ended.err.matches("verbs have no successor").count();
        ensure(
            count >= 6,
            format!("{compiler}: {count} warnings about missing successors"),
        )?;
        let library = cx.library_dir(Library::Ours);
        cx.program([program.as_str()]).library(&library).succeed()?;
    }
    Ok(())
}

/// Checks the headers after verbs.h: the one function that needs a new member says what to do.
fn after_verbs(cx: &Context) -> Verdict {
    const PROGRAM: &str = r"
#include <infiniband/verbs.h>
#include <infiniband/ofed.h>
int main(void)
{
	struct ibv_qp_init_attr attr;
	uint32_t number;

	return ibv_create_xrc_rcv_qp(&attr, &number);
}
";
    let source = cx.write("late.c", PROGRAM)?.display().to_string();
    let program = cx.dir().join("late").display().to_string();
    let ended = compile(cx, "gcc", &["-O1"], &source, &program)?;
    ensure(
        !ended.ok() && ended.err.contains("include <infiniband/ofed.h> before"),
        "ibv_create_xrc_rcv_qp after verbs.h is not refused",
    )
}

/// Two files of a program and a shared library have one list of objects: what one registers, another frees.
fn two_files(cx: &Context) -> Verdict {
    const ONE: &str = r#"
#include <stdio.h>
#include <infiniband/ofed.h>
void *list_of_library(void);
void *list_of_other_file(void);
int main(void)
{
	return &ibv_ofed_list != list_of_library() || &ibv_ofed_list != list_of_other_file();
}
"#;
    const OTHER: &str = r#"#include <infiniband/ofed.h>
__attribute__((visibility("default"))) void *list_of_NAME(void);
void *list_of_NAME(void) { return &ibv_ofed_list; }
"#;
    let file = |name: &str, text: &str| -> Result<String, Failure> {
        Ok(cx.write(name, text)?.display().to_string())
    };
    let main = file("main.c", ONE)?;
    let other = file("other.c", &OTHER.replace("NAME", "other_file"))?;
    let library = file("library.c", &OTHER.replace("NAME", "library"))?;
    let shared = cx.dir().join("libother.so").display().to_string();
    let hidden = ["-shared", "-fPIC", "-fvisibility=hidden"];
    succeeded(
        "the library",
        &compile(cx, "gcc", &hidden, &library, &shared)?,
    )?;
    let program = cx.dir().join("program").display().to_string();
    let files = [main.as_str(), other.as_str()];
    succeeded(
        "the program",
        &compile(cx, "gcc", &files, &shared, &program)?,
    )?;
    let path = cx.library_dir(Library::Ours);
    let ended = cx.program([program]).library(&path).run()?;
    succeeded("a program with a library", &ended)
}

/// docs/porting.md names every function of the header, and no other.
fn documented(cx: &Context) -> Verdict {
    let declared = Regex::new(r"(?m)^(?:static|IBV_OFED|ibv_)[^;{}=]*?\b(ibv_\w+)\(")
        .map_err(|e| e.to_string())?;
    let exp_name = Regex::new(r"`(ibv_exp_\w+)`").map_err(|e| e.to_string())?;
    let mut functions = BTreeSet::new();
    for entry in fs::read_dir(cx.paths.repo.join("ofed/include/infiniband/ofed"))? {
        let path = entry?.path();
        if path.is_file() {
            let text = read(&path);
            functions.extend(declared.captures_iter(&text).map(|c| c[1].to_string()));
        }
    }
    functions.retain(|name| !name.starts_with("ibv_ofed_"));
    let page = read(&cx.paths.repo.join("docs/porting.md"));
    let mut wrong: Vec<String> = functions
        .iter()
        .filter(|name| !Regex::new(&format!(r"`{name}\b")).is_ok_and(|r| r.is_match(&page)))
        .map(|name| format!("not documented: {name}"))
        .collect();
    for found in exp_name.captures_iter(&page) {
        if !functions.contains(&found[1]) {
            wrong.push(format!("not in the header: {}", &found[1]));
        }
    }
    ensure(
        functions.len() > 60,
        format!("{} functions", functions.len()),
    )?;
    if wrong.is_empty() {
        return Ok(());
    }
    Err(Failure::new("docs/porting.md and ofed.h differ").with(wrong.join("\n")))
}

/// Compiles a program of ofed/tests as an old program is: unchanged, by a flag.
fn build(cx: &Context, compiler: &Compiler, program: &str) -> Result<PathBuf, Failure> {
    let Compiler(command, flags) = compiler;
    let source = cx
        .source(&format!("../ofed/tests/{program}.c"))
        .display()
        .to_string();
    let output = cx.dir().join(format!("{program}-{command}"));
    let flags = [*flags, &["-g"], &STRICT, &OFED].concat();
    let ended = compile(cx, command, &flags, &source, &output.display().to_string())?;
    succeeded(command, &ended)?;
    Ok(output)
}

/// Compiled by each compiler, on uroce.
fn run_program(cx: &Context, program: &str) -> Verdict {
    for compiler in &COMPILERS {
        let file = build(cx, compiler, program)?;
        let ended = cx
            .program([file.display().to_string()])
            .library(&cx.library_dir(Library::Ours))
            .env("IBV_UROCE", "uroce0=lo")
            .env("DEVICE", "uroce0")
            .succeed()?;
        ensure(
            ended.out.contains("checks passed"),
            format!("{program} printed {:?}", ended.out),
        )?;
    }
    Ok(())
}

/// The test on Soft-RoCE, which has RC but not XRC, with both libraries.
fn rxe(cx: &Context) -> Verdict {
    let mut commands = Vec::new();
    for library in Library::BOTH {
        for program in ["exp", "exp_query"] {
            let file = build(cx, &COMPILERS[0], program)?;
            commands.push(format!(
                "LD_LIBRARY_PATH={} DEVICE=rxe0 GID_INDEX=1 {}",
                cx.library_dir(library).display(),
                file.display()
            ));
        }
    }
    let script = format!("{{ {}; }} >\"$OUT/output\" 2>&1", commands.join(" && "));
    let ended = Boot::limit(500).succeeds(cx, &script);
    let output = read(&cx.dir().join("output"));
    ended.with(&output)?;
    let passed = output.matches("checks passed").count();
    ensure(passed == 4, format!("{passed} of 4 programs have passed"))
}
