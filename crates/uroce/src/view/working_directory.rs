//! The working directories of the processes that share this memory: the program, and children of vfork(2),
//! which run in it until they call execve(2). Python's subprocess makes its children so, and lets them change
//! the directory.
//!
//! Not here: which directory the kernel has, and who asks (`state.rs`). Pure.

/// Processes beside the program that are remembered. A child of vfork ends soon.
const CHILDREN_MAX: usize = 15;

#[derive(Default)]
struct WorkingDirectory {
    process: u32,
    /// The directory, if it is one of the tree that the kernel does not have.
    path: Option<String>,
    /// Relative paths may concern the tree.
    concerns: bool,
}

/// The working directories that concern the tree.
pub struct WorkingDirectories {
    program: WorkingDirectory,
    /// The latest last.
    children: Vec<WorkingDirectory>,
}

impl WorkingDirectories {
    pub const fn new() -> WorkingDirectories {
        let program = WorkingDirectory {
            process: 0,
            path: None,
            concerns: false,
        };
        WorkingDirectories {
            program,
            children: Vec::new(),
        }
    }

    /// Sets which process is the program. It has the directory that was recorded for it.
    pub fn set_program(&mut self, process: u32) {
        self.program.process = process;
    }

    /// Records that a process has changed its directory: to `path` of the tree, or to one of the kernel's.
    /// `concerns`: relative paths may lead to the tree from there. Returns whether those of any process may.
    pub fn set(&mut self, process: u32, path: Option<String>, concerns: bool) -> bool {
        let changed = WorkingDirectory {
            process,
            path,
            concerns,
        };
        if process == self.program.process {
            self.program = changed;
        } else {
            self.children.retain(|of| of.process != process);
            if self.children.len() == CHILDREN_MAX {
                self.children.remove(0);
            }
            self.children.push(changed);
        }
        self.program.concerns || self.children.iter().any(|of| of.concerns)
    }

    /// The directory of a process, if it is one of the tree that the kernel does not have. A process of which
    /// nothing was recorded has the program's.
    pub fn of(&self, process: u32) -> Option<&str> {
        let child = self.children.iter().find(|of| of.process == process);
        child.unwrap_or(&self.program).path.as_deref()
    }

    /// A process begins that has a copy of this memory, and its parent's directory. Allocates nothing.
    pub fn forked(&mut self, parent: u32, child: u32) {
        let inherited = self.children.iter_mut().find(|of| of.process == parent);
        if let Some(inherited) = inherited {
            self.program = core::mem::take(inherited);
        }
        self.children.clear();
        self.program.process = child;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_of_vfork_does_not_move_the_program() {
        let mut all = WorkingDirectories::new();
        all.set_program(10);
        assert!(all.set(11, Some("/sys/class/infiniband".into()), true));
        assert_eq!(
            (all.of(10), all.of(11)),
            (None, Some("/sys/class/infiniband"))
        );
        assert!(all.set(10, Some("/dev/infiniband".into()), true));
        assert!(all.set(11, None, false), "the program is in the tree");
        assert_eq!((all.of(10), all.of(11)), (Some("/dev/infiniband"), None));
        assert_eq!(
            all.of(12),
            Some("/dev/infiniband"),
            "not changed since vfork"
        );
        assert!(!all.set(10, None, false));
    }

    #[test]
    fn a_child_of_fork_has_its_parents() {
        let mut all = WorkingDirectories::new();
        all.set_program(10);
        all.set(11, Some("/sys/class/infiniband".into()), true);
        all.forked(11, 20);
        assert_eq!(all.of(20), Some("/sys/class/infiniband"));
        all.forked(20, 30);
        assert!(!all.set(30, None, false));
    }

    #[test]
    fn the_program_is_not_forgotten() {
        let mut all = WorkingDirectories::new();
        all.set_program(1);
        all.set(1, Some("/dev/infiniband".into()), true);
        for child in 2..100 {
            all.set(child, None, false);
        }
        assert_eq!(all.of(1), Some("/dev/infiniband"));
        assert!(all.children.len() == CHILDREN_MAX);
    }
}
