//! Builds pyverbs, the Python binding, without the modules for vendors' libraries.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Build;
use super::compiler::{self, judge};
use super::rdma_core::RdmaCore;
use crate::context::Library;
use crate::paths;
use crate::paths::text;
use crate::verdict::{Failure, Verdict};

/// Optimization takes too long.
const SETTINGS: &str = "-DCMAKE_BUILD_TYPE=Debug -DPYTHON_EXECUTABLE=/usr/bin/python3 \
    -DCYTHON_EXECUTABLE=/usr/bin/cython3";

/// Builds the modules into `python/pyverbs`, and puts the programs that use them beside it.
pub fn build(build: &Build, programs: &[PathBuf]) -> Verdict {
    let core = RdmaCore::configured(build, "cmake-pyverbs", SETTINGS)?;
    let folder = build.sources.join("rdma-core/pyverbs");
    let modules = modules(&folder)?;
    let translated = build.out.join("cmake-pyverbs/pyverbs");
    for module in &modules {
        translate(&folder, &translated, module)?;
    }
    let sources: BTreeSet<PathBuf> = modules
        .iter()
        .map(|module| translated.join(format!("{module}.c")))
        .collect();
    let compiled = core.compile(|path, _| {
        path == "pyverbs/dmabuf_alloc_stub.c" || sources.contains(Path::new(path))
    })?;
    let support = core.support()?;
    let suffix = suffix()?;
    for library in Library::BOTH {
        let python = build.built(library).join("python");
        fs::create_dir_all(python.join("pyverbs"))?;
        for file in fs::read_dir(&folder)? {
            let path = file?.path();
            if path.extension().is_some_and(|e| e == "py") {
                fs::copy(
                    &path,
                    python
                        .join("pyverbs")
                        .join(path.file_name().unwrap_or_default()),
                )?;
            }
        }
        for program in programs {
            fs::copy(
                program,
                python.join(program.file_name().unwrap_or_default()),
            )?;
        }
        let objects = compiled.of(library);
        for module in &modules {
            let mut files = vec![objects.object(module)?.clone()];
            if module == "dmabuf" {
                files.push(objects.object("dmabuf_alloc_stub")?.clone());
            }
            files.extend(support.of(library).all_objects());
            // Python's symbols are in the program that loads the module.
            let more = "-shared -Wl,-z,lazy -Wl,--unresolved-symbols=ignore-in-object-files -lrdmacm \
                -libverbs -lnl-route-3 -lnl-3";
            let more: Vec<&str> = more.split_whitespace().collect();
            let target = format!("python/pyverbs/{module}{suffix}");
            build.link(library, &target, &files, &more)?;
        }
    }
    judge(
        "pyverbs",
        &compiled,
        &build.out.join("cmake-pyverbs"),
        &build.include,
    )
}

/// The names of the modules that are written in Cython.
fn modules(folder: &Path) -> Result<Vec<String>, Failure> {
    let files = paths::names(folder)?.into_iter();
    Ok(files
        .filter_map(|name| Some(name.strip_suffix(".pyx")?.to_string()))
        .collect())
}

/// Translates a module to C, unless an earlier run has.
fn translate(folder: &Path, to: &Path, module: &str) -> Verdict {
    let target = to.join(format!("{module}.c"));
    if target.exists() {
        return Ok(());
    }
    let source = text(folder.join(format!("{module}.pyx")));
    let words = ["/usr/bin/cython3".into(), source, "-o".into(), text(target)];
    compiler::run(&words, folder)?;
    Ok(())
}

/// The end of the file names of modules for this Python.
fn suffix() -> Result<String, Failure> {
    let program = "import sysconfig; print(sysconfig.get_config_var('EXT_SUFFIX'))";
    let output = Command::new("/usr/bin/python3")
        .args(["-c", program])
        .output()?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().into())
}
