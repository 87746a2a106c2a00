//! gcc and clang report no warnings about our headers, in any standard of C and C++, also for the expansions
//! of the macros (headers/uses.c, headers/provider.c).

use super::sid;
use crate::case::Case;
use crate::context::Context;
use crate::paths::text;
use crate::process::{Ended, last_lines};
use crate::provider_layouts::{LAYOUTS, Layout, abis};
use crate::verdict::{Failure, Verdict, ensure};

const COMPILERS: [&str; 2] = ["gcc", "clang"];
const STANDARDS: &[&str] = &["c99", "c11", "gnu17", "c++11", "c++14", "c++17", "c++20"];
const STRICT: &[&str] = &["-Wall", "-Wextra", "-Wpedantic", "-Werror"];
const HEADERS: &[&str] = &[
    "verbs", "verbs_api", "opcode", "sa", "tm_types", "ib_user_ioctl_verbs",
];
/// Each gives exactly one warning, that it is obsolete.
const OBSOLETE: [&str; 2] = ["arch", "sa-kern-abi"];
const FOR_PROVIDERS: &[&str] = &["driver", "cmd_ioctl", "cmd_write", "kern-abi"];

pub fn cases() -> Vec<Case> {
    let mut cases = vec![
        Case::new("headers/warnings/control", control).limit(300),
        Case::new("headers/warnings/order", order),
    ];
    for compiler in COMPILERS {
        for standard in STANDARDS {
            let name = format!("headers/warnings/{compiler}-{standard}");
            cases.push(Case::new(name, move |cx| {
                Compiler {
                    cx,
                    compiler,
                    standard,
                }
                .all()
            }));
        }
    }
    cases
}

struct Compiler<'a> {
    cx: &'a Context,
    compiler: &'static str,
    standard: &'static str,
}

impl Compiler<'_> {
    fn language(&self) -> &'static str {
        if self.standard.starts_with("c++") {
            "c++"
        } else {
            "c"
        }
    }

    fn compile(&self, flags: &[&str], file: &str) -> Result<Ended, Failure> {
        let include = format!("-I{}", self.cx.paths.repo.join("include").display());
        let standard = format!("-std={}", self.standard);
        let head = [self.compiler, "-x", self.language(), &standard, &include];
        Ok(self.cx.program([&head, flags, &[file]].concat()).run()?)
    }

    fn all(&self) -> Verdict {
        for header in HEADERS {
            self.cx.report(&format!("{header}.h"), self.alone(header))?;
        }
        for header in OBSOLETE {
            self.cx
                .report(&format!("{header}.h"), self.obsolete(header))?;
        }
        let uses = text(self.cx.source("headers/uses.c"));
        for optimise in ["-O0", "-O2"] {
            for (name, define) in [("", "-UX"), ("-static", "-DRDMA_STATIC_PROVIDERS=rxe,mlx5")] {
                let flags = [STRICT, &[optimise, define, "-c", "-o", "/dev/null"]].concat();
                let verdict = self.compile(&flags, &uses).and_then(|ended| silent(&ended));
                self.cx
                    .report(&format!("uses.c{optimise}{name}"), verdict)?;
            }
        }
        if self.language() == "c" {
            self.for_providers()
        } else {
            Ok(())
        }
    }

    fn for_providers(&self) -> Verdict {
        for header in FOR_PROVIDERS {
            self.cx.report(&format!("{header}.h"), self.alone(header))?;
        }
        let provider = text(self.cx.source("headers/provider.c"));
        // The kernel's structs end with a flexible array, and the provider's part follows.
        let more = ["-Wno-gnu-variable-sized-type-not-at-end"];
        let more = if self.compiler == "clang" {
            &more[..]
        } else {
            &[]
        };
        // Without the macro, a provider is one of the oldest ABI.
        let newer = abis().split_off(1).into_iter();
        let newer = newer.map(|abi| (format!("-{abi}"), format!("-DIBVERBS_PABI_VERSION={abi}")));
        let older = [("", "-UX"), ("-debug", "-DVERBS_DEBUG")];
        let older = older.map(|(name, define)| (name.to_string(), define.to_string()));
        for (name, define) in older.into_iter().chain(newer) {
            let flags = [STRICT, more, &["-O2", &define, "-c", "-o", "/dev/null"]].concat();
            let verdict = self
                .compile(&flags, &provider)
                .and_then(|ended| silent(&ended));
            self.cx.report(&format!("provider.c{name}"), verdict)?;
        }
        Ok(())
    }

    /// A header compiles on its own, and may be included twice.
    fn alone(&self, header: &str) -> Verdict {
        let line = format!("#include <infiniband/{header}.h>\n");
        let file = self.cx.write("alone.c", line.repeat(2))?;
        let flags = [STRICT, &["-fsyntax-only"]].concat();
        silent(&self.compile(&flags, &file.to_string_lossy())?)
    }

    /// An obsolete header gives one warning, about that.
    fn obsolete(&self, header: &str) -> Verdict {
        let line = format!("#include <infiniband/{header}.h>\n");
        let file = self.cx.write("obsolete.c", line)?;
        let flags = ["-Wall", "-Wextra", "-fsyntax-only"];
        let ended = self.compile(&flags, &file.to_string_lossy())?;
        let warnings = ended
            .err
            .lines()
            .filter(|line| line.contains("warning: "))
            .count();
        let right = ended.ok() && warnings == 1 && ended.err.contains("is obsolete: use");
        let failure = || Failure::new(format!("{warnings} warnings, not one")).with(&ended.err);
        if right { Ok(()) } else { Err(failure()) }
    }
}

/// The compiler succeeded without any message.
fn silent(ended: &Ended) -> Verdict {
    let said = last_lines(&ended.err, 20);
    if ended.ok() && said.is_empty() {
        return Ok(());
    }
    Err(Failure::new(format!("exit code {}", ended.exit)).with(said))
}

/// The compilers do warn, about rdma-core's own headers in C++20.
fn control(cx: &Context) -> Verdict {
    let include = format!("-I{}", sid()?.display());
    let uses = cx.source("headers/uses.c").to_string_lossy().into_owned();
    // Headers of -I directories get warnings, those of the system do not.
    let head = ["g++", "-x", "c++", "-std=c++20", &include];
    let ended = cx
        .program([&head, STRICT, &["-c", "-o", "/dev/null", &uses]].concat())
        .run()?;
    let count = ended
        .err
        .lines()
        .filter(|line| line.contains(" error: "))
        .count();
    println!("g++ -std=c++20 has {count} warnings about rdma-core's headers");
    ensure(
        !ended.ok() && count > 0,
        "g++ does not warn about rdma-core's headers in C++20",
    )
}

/// The structures have the sizes of their provider ABI, also if a provider includes verbs.h first, which
/// must not change the size of its contexts.
fn order(cx: &Context) -> Verdict {
    let defined = LAYOUTS.iter().map(|layout| {
        let abi = format!("-DIBVERBS_PABI_VERSION={}", layout.abi);
        let release = format!("-DIBVERBS_PABI_RELEASE={}", layout.release);
        (layout, [abi, release])
    });
    // Without the macros, a provider has the oldest ABI; without the release, the oldest layout of its ABI.
    let with_abi = LAYOUTS.iter().map(|layout| {
        let oldest = LAYOUTS.iter().find(|older| older.abi == layout.abi);
        (
            oldest.unwrap_or(layout),
            [
                format!("-DIBVERBS_PABI_VERSION={}", layout.abi),
                "-UX".into(),
            ],
        )
    });
    let undefined = (&LAYOUTS[0], ["-UX", "-UX"].map(String::from));
    for (Layout { context, ops, .. }, macros) in defined.chain(with_abi).chain([undefined]) {
        let source = format!(
            "#include <infiniband/verbs.h>\n#include <infiniband/driver.h>\n\
            _Static_assert(sizeof(struct verbs_context) == {context}, \"a provider's context\");\n\
            _Static_assert(sizeof(struct verbs_context_ops) == {ops}, \"its ops\");\n"
        );
        let file = cx.write("order.c", source)?;
        let compiler = Compiler {
            cx,
            compiler: "gcc",
            standard: "gnu17",
        };
        let flags = ["-fsyntax-only", &macros[0], &macros[1]];
        silent(&compiler.compile(&flags, &file.to_string_lossy())?)?;
    }
    Ok(())
}
