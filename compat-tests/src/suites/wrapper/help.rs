//! The wrapper's options; what it says of scripts; where it cannot help, and that it runs the program all
//! the same where that works.

use std::fs;

use super::{WORK, busybox, check, copy, mode, ours, plain, says, script, text, wrapped, wrapper};
use crate::checks::Check;
use crate::compare;
use crate::context::{Context, Library};
use crate::process::{Exit, Program};
use crate::verdict::{Details, Failure, Verdict, ensure};

pub fn options() -> Vec<Check> {
    vec![
        Check::new("--version", |cx| {
            let library = text(cx.library_dir(Library::Ours));
            let version = env!("CARGO_PKG_VERSION");
            let expected =
                format!("with-ibverbs-rs {version}\nlibrary: {library}/libibverbs.so.1\n");
            prints(wrapped(cx, ["--version"])?, &expected)
        }),
        Check::new("--help", |cx| {
            let ended = wrapped(cx, ["--help"])?.run()?;
            says(&ended, 0, "^usage: with-ibverbs-rs PROGRAM")
        }),
        Check::new("--check: --, and then a program", |cx| {
            let program = cx.built("where-linked")?;
            let ended = wrapped(cx, ["--check", "--", &program])?.run()?;
            says(&ended, 0, &format!("^program: {program}$"))
        }),
        Check::new("--, and then a program that runs", |cx| {
            prints(wrapped(cx, ["--", "echo", "runs"])?, "runs\n")
        }),
        check(
            "--check: a script's interpreter",
            0,
            "^  a script, run by /bin/sh$",
            |cx| script(cx, "script", "#!/bin/sh\n"),
        ),
        Check::new(
            "--check: the program behind env, behind a script of a script",
            behind_env,
        ),
        check(
            "--check: a script's interpreter that is missing",
            127,
            "/tmp/case/nowhere: no such program",
            |cx| script(cx, "nobody", &format!("#!{WORK}/nowhere\n")),
        ),
        Check::new("a script without an interpreter line", |cx| {
            let plain = script(cx, "plain", "echo \"$0 $1\"\n")?;
            prints(wrapped(cx, [&plain, "runs"])?, &format!("{plain} runs\n"))
        }),
    ]
}

fn behind_env(cx: &Context) -> Verdict {
    let linked = cx.built("where-linked")?;
    let by_env = script(cx, "by-env", &format!("#!/usr/bin/env -S A=1 {linked}\n"))?;
    let twice = script(cx, "twice", &format!("#!{by_env}\n"))?;
    let ended = wrapped(cx, ["--check", &twice])?.run()?;
    says(&ended, 0, &format!("^  a script, run by {linked}$"))
}

/// Passes if the program prints this, whatever its exit code.
fn prints(program: Program, expected: &str) -> Verdict {
    compare::same(("expected", expected), ("got", &program.run()?.out))
}

pub fn refusals() -> Vec<Check> {
    let mut all = programs_without_help();
    all.extend(files_that_are_no_programs());
    all.extend(["", "--check", "--no-such-option ls"].map(|words| {
        let name = if words.is_empty() { "nothing" } else { words };
        Check::new(format!("wrong use: {name}"), move |cx| {
            let ended = wrapped(cx, words.split_whitespace())?.run()?;
            says(&ended, 125, ".")
        })
    }));
    all.push(Check::new("a library that is not there", |cx| {
        let program = wrapped(cx, ["ls"])?.env("IBVERBS_RS_DIR", cx.dir().join("nowhere"));
        says(&program.run()?, 125, "libibverbs.so.1 is missing")
    }));
    all.push(Check::new("it cannot run what is not executable", |cx| {
        let text = text_file(cx, 0o644)?;
        let ended = wrapped(cx, [text])?.run()?;
        says(&ended, 126, "is not executable")
    }));
    all.push(Check::new(
        "it cannot run a program of another machine",
        |cx| {
            let ended = wrapped(cx, [foreign(cx)?])?.run()?;
            says(&ended, 126, "foreign is built for another machine")?;
            says(&ended, 126, "foreign cannot be run")
        },
    ));
    all.push(Check::with_parts(
        "--check runs nothing",
        vec!["says-a-verdict", "runs-nothing"],
        |cx| {
            let mark = cx.dir().join("ran");
            let command = format!("touch {}", text(&mark));
            let ended = wrapped(cx, ["--check", "sh", "-c", &command])?.run()?;
            let ran = ensure(!mark.exists(), "the program ran");
            Ok(vec![says(&ended, 0, "verdict"), ran])
        },
    ));
    all
}

fn programs_without_help() -> Vec<Check> {
    vec![
        check(
            "a static program",
            1,
            "verdict: none: the program is static",
            busybox,
        ),
        check(
            "a set-user-ID program",
            1,
            "verdict: as by itself: .* set-user-ID",
            set_user_id,
        ),
        check(
            "a program of another machine",
            1,
            "verdict: not ours: .* another machine",
            foreign,
        ),
        check(
            "a program on musl",
            1,
            "verdict: not ours: .* another C library",
            |cx| {
                let musl = text(copy(cx, &cx.built("where-linked")?, "musl")?);
                let interpreter = "/lib/ld-musl-x86_64.so.1";
                cx.output(["patchelf", "--set-interpreter", interpreter, &musl])?;
                Ok(musl)
            },
        ),
        check(
            "a program that needs another version",
            1,
            "verdict: none: .* /tmp/case/needs-33 needs IBVERBS_PRIVATE_33, which libibverbs-rs does not",
            |cx| needs_private_33(cx, "needs-33", false),
        ),
        check(
            "a program whose library needs another version",
            1,
            "verdict: none: .* /tmp/case/libneeds-33.so needs IBVERBS_PRIVATE_33,",
            |cx| needs_private_33(cx, "by-library", true),
        ),
        check("no program", 1, "neither a script nor an ELF", |cx| {
            text_file(cx, 0o755)
        }),
        check("no such program", 127, "no such program", |cx| {
            Ok(text(cx.dir().join("nowhere")))
        }),
    ]
}

fn files_that_are_no_programs() -> Vec<Check> {
    vec![
        check(
            "a file that is not executable",
            1,
            "verdict: none: /tmp/case/text is not executable",
            |cx| text_file(cx, 0o644),
        ),
        check(
            "a directory",
            1,
            "verdict: none: /tmp/case is a directory",
            |cx| Ok(text(cx.dir())),
        ),
        check(
            "a library",
            1,
            "verdict: .*/library.so is a shared library, not a program",
            |cx| library(cx, 0o755),
        ),
        check(
            "a library that is not executable",
            1,
            "verdict: none: .*/library.so is a shared library, not a program",
            |cx| library(cx, 0o644),
        ),
    ]
}

/// A program that needs the private names of rdma-core before release 36, by itself or by a library.
fn needs_private_33(cx: &Context, name: &str, by_library: bool) -> Result<String, Failure> {
    let script = r#"
cd "$1"; mkdir -p old
echo 'IBVERBS_PRIVATE_33 { global: ibv_private; };' >old/map
echo 'int ibv_private(void) { return 0; }' >old/private.c
echo 'int ibv_private(void); int call(void) { return ibv_private(); }' >call.c
echo 'int call(void); int main(void) { return call(); }' >main.c
gcc -shared -fPIC -Wl,-soname,libibverbs.so.1,--version-script=old/map -o old/libibverbs.so.1 old/private.c
case $3 in
true)
    gcc -shared -fPIC -o libneeds-33.so call.c old/libibverbs.so.1
    gcc -Wl,-rpath,"$1" -Wl,-rpath-link,old -o "$2" main.c libneeds-33.so ;;
*) gcc -o "$2" main.c call.c old/libibverbs.so.1 ;;
esac"#;
    let (dir, by_library) = (text(cx.dir()), by_library.to_string());
    let made = cx.program(["sh", "-ec", script, "make", &dir, name, &by_library]);
    made.succeed()?;
    Ok(text(cx.dir().join(name)))
}

fn text_file(cx: &Context, bits: u32) -> Result<String, Failure> {
    let path = cx.write("text", "text\n")?;
    mode(&path, bits)?;
    Ok(text(path))
}

fn library(cx: &Context, bits: u32) -> Result<String, Failure> {
    let path = copy(cx, &cx.built("where-consumer")?, "library.so")?;
    mode(&path, bits)?;
    Ok(text(path))
}

fn set_user_id(cx: &Context) -> Result<String, Failure> {
    let path = copy(cx, &cx.built("where-linked")?, "setuid")?;
    mode(&path, 0o4755)?;
    Ok(text(path))
}

/// A program whose ELF header names another machine.
fn foreign(cx: &Context) -> Result<String, Failure> {
    const E_MACHINE: usize = 18;
    const EM_AARCH64: u8 = 183;
    const EM_X86_64: u8 = 62;
    let mut program = fs::read(cx.built("where-linked")?)?;
    program[E_MACHINE] = if program[E_MACHINE] == EM_AARCH64 {
        EM_X86_64
    } else {
        EM_AARCH64
    };
    script(cx, "foreign", "").and_then(|path| {
        fs::write(&path, program)?;
        Ok(path)
    })
}

/// Checks of the line on standard error for a program that runs without our library.
pub fn warnings() -> Vec<Check> {
    vec![
        Check::new("a static program", |cx| {
            let program = runs(cx, [busybox(cx)?, "echo".into(), "text".into()])?;
            warns(
                program,
                "busybox is static: libibverbs-rs is not in it",
                "text\n",
            )
        }),
        Check::new("a script with a static interpreter", |cx| {
            let lines = format!("#!{} sh\necho from a script\n", busybox(cx)?);
            let program = runs(cx, [script(cx, "static-script", &lines)?])?;
            warns(program, "busybox is static: ", "from a script\n")
        }),
        Check::new("no warning for what gets ours", |cx| {
            warns(runs(cx, ["echo", "text"])?, "", "text\n")
        }),
        Check::new("a set-user-ID program that gains nothing", |cx| {
            let ours = ours(cx);
            let expected = format!("called: {ours}\nmapped: {ours}\n");
            warns(runs(cx, [set_user_id(cx)?])?, "", &expected)
        }),
    ]
}

/// Runs like `wrapped`, with standard error apart.
fn runs<S: Into<String>>(
    cx: &Context,
    words: impl IntoIterator<Item = S>,
) -> Result<Program, Failure> {
    let words = words.into_iter().map(Into::into);
    Ok(plain(cx, [wrapper(cx)?].into_iter().chain(words)).apart())
}

/// Passes if the program succeeds, prints this, and if the wrapper prints one line with this warning, or
/// nothing if it is empty.
pub fn warns(program: Program, warning: &str, expected: &str) -> Verdict {
    let ended = program.run()?;
    let err = &ended.err;
    let as_expected = if warning.is_empty() {
        err.is_empty()
    } else {
        err.lines().count() == 1 && err.starts_with("with-ibverbs-rs: ") && err.contains(warning)
    };
    ensure(as_expected, "other warnings").with(err)?;
    let exit = ended.exit;
    ensure(exit == Exit::Code(0), format!("exit code {exit}"))?;
    compare::same(("expected", expected), ("got", &ended.out))
}
