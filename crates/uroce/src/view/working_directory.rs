//! The working directories of the processes that share this memory: the program, and children of vfork(2),
//! which run in it until they call execve(2). Python's subprocess makes its children so, and lets them change
//! the directory.
//!
//! Not here: which directory the kernel has, and who asks (`state.rs`). Pure.

/// Processes beside the program that are remembered. A child of vfork ends soon.
const CHILDREN_MAX: usize = 15;

struct WorkingDirectory {
    process: u32,
    /// The directory, if it is one of the tree that the kernel does not have.
    path: Option<String>,
    /// Relative paths may concern the tree.
    concerns: bool,
}

/// The working directories that concern the tree.
pub struct WorkingDirectories {
    /// The program's first.
    all: Vec<WorkingDirectory>,
}

impl WorkingDirectories {
    pub const fn new() -> WorkingDirectories {
        WorkingDirectories { all: Vec::new() }
    }

    /// Records that a process has changed its directory: to `path` of the tree, or to one of the kernel's.
    /// `concerns`: relative paths may lead to the tree from there. Returns whether those of any process may.
    pub fn set(&mut self, process: u32, path: Option<String>, concerns: bool) -> bool {
        let changed = WorkingDirectory {
            process,
            path,
            concerns,
        };
        match self.all.iter_mut().find(|of| of.process == process) {
            Some(of) => *of = changed,
            None => self.all.push(changed),
        }
        if self.all.len() > 1 + CHILDREN_MAX {
            self.all.remove(1);
        }
        self.all.iter().any(|of| of.concerns)
    }

    /// The directory of a process, if it is one of the tree that the kernel does not have. A process of which
    /// nothing was recorded has the program's.
    pub fn of(&self, process: u32) -> Option<&str> {
        let own = self.all.iter().find(|of| of.process == process);
        own.or(self.all.first())?.path.as_deref()
    }

    /// A process begins that has a copy of this memory, and its parent's directory. Allocates nothing.
    pub fn forked(&mut self, parent: u32, child: u32) {
        let inherited = self.all.iter().position(|of| of.process == parent);
        self.all.swap(0, inherited.unwrap_or(0));
        self.all.truncate(1);
        self.all[0].process = child;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_of_vfork_does_not_move_the_program() {
        let mut all = WorkingDirectories::new();
        assert!(!all.set(10, None, false));
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
        all.set(10, None, false);
        all.set(11, Some("/sys/class/infiniband".into()), true);
        all.forked(11, 20);
        assert_eq!(all.of(20), Some("/sys/class/infiniband"));
        all.forked(20, 30);
        assert!(!all.set(30, None, false));
    }

    #[test]
    fn the_program_is_not_forgotten() {
        let mut all = WorkingDirectories::new();
        all.set(1, Some("/dev/infiniband".into()), true);
        for child in 2..100 {
            all.set(child, None, false);
        }
        assert_eq!(all.of(1), Some("/dev/infiniband"));
        assert!(all.all.len() == 1 + CHILDREN_MAX);
    }
}
