//! Programs that cannot load our library, and the messages that say so.

use std::path::{Path, PathBuf};

use crate::elf::{self, Kind};
use crate::own_library::Library;
use crate::program::A_LIBRARY;
use crate::{privilege, program};

/// Why our library cannot be loaded into a program.
pub enum Reason {
    NotElf,
    Library,
    DynamicLinker,
    OtherMachine,
    Static,
    /// The program's dynamic linker is not glibc's but this one.
    OtherCLibrary(PathBuf),
}

/// The dynamic linker of a program, or why our library cannot be loaded into it. `file` must be a real path.
pub fn dynamic_linker(file: &Path, library: &Library) -> Result<PathBuf, Reason> {
    let program = elf::inspect(file).ok_or(Reason::NotElf)?;
    // (if our library cannot be read, the dynamic linker reports it)
    let other_machine =
        elf::inspect(&library.file).is_some_and(|ours| ours.machine != program.machine);
    match program.kind {
        Kind::Library if is_dynamic_linker(file) => Err(Reason::DynamicLinker),
        Kind::Library => Err(Reason::Library),
        _ if other_machine => Err(Reason::OtherMachine),
        Kind::Static => Err(Reason::Static),
        Kind::Dynamic(ld) if !ld.to_string_lossy().contains("ld-linux") => {
            Err(Reason::OtherCLibrary(ld))
        }
        Kind::Dynamic(ld) => Ok(ld),
    }
}

/// Judged by its name, `ld-linux-x86-64.so.2`, or `ld-2.31.so` before glibc 2.34.
fn is_dynamic_linker(file: &Path) -> bool {
    file.file_name()
        .is_some_and(|name| name.to_string_lossy().starts_with("ld-"))
}

impl Reason {
    /// The verdict of `--check`.
    pub fn verdict(&self, file: &Path, library: &Library) -> String {
        let file = file.display();
        match self {
            Self::NotElf => format!("{file} is neither a script nor an ELF program"),
            Self::Library => format!("{file} is {A_LIBRARY}"),
            Self::DynamicLinker => format!("{file} is the dynamic linker: name the program that it loads"),
            Self::OtherMachine => {
                format!("not ours: the program is built for another machine than {}", library.file.display())
            }
            Self::Static => {
                "none: the program is static, and nothing can replace the libibverbs that is linked into it \
                 (link it with our libibverbs.a)"
                    .into()
            }
            Self::OtherCLibrary(ld) => {
                format!("not ours: the program runs on another C library than glibc ({})", ld.display())
            }
        }
    }
}

/// The warning for a program that would run without our library. None if it loads the library, or if the
/// kernel or the dynamic linker reports the reason itself.
pub fn reason_when_run(program: &Path, library: &Library) -> Option<String> {
    let file = program::loaded(program).file;
    let name = file.display();
    if let Some(privilege) = privilege::gained_by_us(&file) {
        return Some(format!(
            "{name} is {privilege}, {}: libibverbs-rs is neither in it nor in what it starts \
             (install the package instead)",
            privilege::IGNORED
        ));
    }
    match dynamic_linker(&file, library) {
        Err(Reason::Static) => Some(format!(
            "{name} is static: libibverbs-rs is not in it, only in what it starts \
             (link it with our libibverbs.a)"
        )),
        Err(Reason::Library) => Some(format!("{name} is {A_LIBRARY}")),
        Err(Reason::OtherMachine) => Some(format!(
            "{name} is built for another machine than {}: libibverbs-rs is not in it",
            library.file.display()
        )),
        _ => None,
    }
}
