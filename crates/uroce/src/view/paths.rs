//! Path resolution: decides which paths lead to the tree. Pure: links that the kernel has are read
//! through the trait [`Links`].
//!
//! [`may_concern`] decides for nearly all paths of a program that they do not, from their first bytes and
//! without allocation. For the others [`walk`] follows the path as the kernel would (path_resolution(7)),
//! over the tree and the kernel's directories together.

use super::tree::{Directory, Node, Tree};

/// The most symbolic links in a path, as in the kernel (MAXSYMLINKS).
const LINKS_MAX: usize = 40;

/// The symbolic links of the kernel's file systems.
pub trait Links {
    /// The target of a link; None if the path is no link.
    fn target(&self, path: &str) -> Option<String>;
}

/// The target of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// The path leads to a node of the tree, at this path without links.
    Ours(String, Node),
    /// The path does not lead to the tree, and the kernel finds what it leads to by the same path.
    Kernel,
    /// The path does not lead to the tree, but through links or directories of the tree: the kernel
    /// has it at this path.
    KernelAt(String),
    /// Nowhere, with an errno value.
    Error(i32),
}

/// Whether an absolute path can lead to the tree, judged by its text: it begins with a directory that the
/// tree is in, or it has a `..` behind which it may do so. Programs open other files of `/sys` and `/dev` at
/// times when nothing may be allocated, as memory allocators do.
pub fn may_concern(path: &[u8]) -> bool {
    let (first, rest) = first_name(path);
    let begins_so = match first {
        b"" => true,
        b"sys" => match first_name(rest) {
            (b"" | b"class" | b"bus" | b"dev", _) => true,
            (b"devices", rest) => first_name(rest).0 != b"system",
            _ => false,
        },
        b"dev" => matches!(first_name(rest).0, b"" | b"infiniband"),
        _ => false,
    };
    begins_so || goes_up(path)
}

/// The first name in a path that is not `.`, and the rest behind it; an empty name if there is none.
fn first_name(path: &[u8]) -> (&[u8], &[u8]) {
    let mut rest = path;
    loop {
        match rest {
            [b'/', after @ ..] => rest = after,
            [b'.', b'/', ..] => rest = &rest[1..],
            [b'.'] => return (b"", b""),
            _ => break,
        }
    }
    let end = rest.iter().position(|byte| *byte == b'/');
    rest.split_at(end.unwrap_or(rest.len()))
}

/// Whether a path has the name `..`, which is not its first.
fn goes_up(path: &[u8]) -> bool {
    if !has_two_dots(path) {
        return false;
    }
    let mut parts = path.windows(3).enumerate();
    parts.any(|(at, part)| part == b"/.." && matches!(path.get(at + 3), None | Some(b'/')))
}

/// Whether two dots follow each other. Takes eight bytes at a time, as this is what an ordinary call costs
/// most for.
fn has_two_dots(path: &[u8]) -> bool {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const DOTS: u64 = ONES * b'.' as u64;
    let has_zero = |word: u64| word.wrapping_sub(ONES) & !word & (ONES << 7) != 0;
    let mut rest = path;
    while let Some((first, _)) = rest.split_first_chunk::<9>() {
        let [head @ .., _] = *first;
        let [_, tail @ ..] = *first;
        let unlike = |bytes| u64::from_ne_bytes(bytes) ^ DOTS;
        if has_zero(unlike(head) | unlike(tail)) {
            return true;
        }
        rest = &rest[8..];
    }
    rest.windows(2).any(|pair| pair == b"..")
}

/// The directory of an absolute path without links; that of "/" is "/".
fn parent(path: &str) -> &str {
    match path.rfind('/') {
        Some(0) | None => "/",
        Some(at) => &path[..at],
    }
}

fn join(directory: &str, name: &str) -> String {
    match directory {
        "/" => format!("/{name}"),
        _ => format!("{directory}/{name}"),
    }
}

/// Whether an absolute path can lead to the tree: taken as if it had no links, or through links at a place
/// from where it goes up again.
fn concerns(tree: &Tree, path: &str) -> bool {
    let mut normal = String::from("/");
    for name in path.split('/') {
        match name {
            "" | "." => {}
            ".." if normal.len() > 1 && tree.concerns(&normal) => return true,
            ".." => normal.truncate(parent(&normal).len()),
            name => normal = join(&normal, name),
        }
    }
    tree.concerns(&normal)
}

/// The state of a walk.
struct PathWalk<'a, L> {
    tree: &'a Tree,
    links: &'a L,
    /// The path that the walk has reached: absolute, without links.
    at: String,
    /// The node of the tree there.
    node: Option<Node>,
    /// The names that are left, the next one last.
    left: Vec<String>,
    /// How many links were followed.
    followed: usize,
    /// The walk went through something that the kernel does not have.
    left_kernel: bool,
}

/// Follows `path` from the directory `from`, which is absolute and without links. `follow`: follow a link at
/// the end of the path, too.
pub fn walk(tree: &Tree, links: &impl Links, from: &str, path: &str, follow: bool) -> Found {
    let whole = if path.starts_with('/') {
        path.to_owned()
    } else {
        format!("{from}/{path}")
    };
    if path.is_empty() || !concerns(tree, &whole) {
        return Found::Kernel;
    }
    let is_relative = !path.starts_with('/');
    let start = if is_relative { from } else { "/" };
    let node = tree.node(start);
    let mut walk = PathWalk {
        tree,
        links,
        at: start.to_owned(),
        left: Vec::new(),
        followed: 0,
        left_kernel: is_relative && node.is_some(),
        node,
    };
    walk.push(path);
    let must_be_directory = path.ends_with('/') || path.ends_with("/.") || path == ".";
    walk.run(follow || must_be_directory, must_be_directory)
}

impl<L: Links> PathWalk<'_, L> {
    fn push(&mut self, path: &str) {
        let names = path.split('/').rev();
        let names = names.filter(|name| !name.is_empty() && *name != ".");
        self.left.extend(names.map(str::to_owned));
    }

    fn run(mut self, follow: bool, must_be_directory: bool) -> Found {
        while let Some(name) = self.left.pop() {
            let step = self.step(&name, follow);
            if let Err(errno) = step {
                return Found::Error(errno);
            }
        }
        match self.node {
            Some(Node::File(_) | Node::Character(_)) if must_be_directory => {
                Found::Error(libc::ENOTDIR)
            }
            Some(node) => Found::Ours(self.at, node),
            None if self.left_kernel && must_be_directory => Found::KernelAt(self.at + "/"),
            None if self.left_kernel => Found::KernelAt(self.at),
            None => Found::Kernel,
        }
    }

    /// Goes to the entry `name` of the directory that the walk is at.
    fn step(&mut self, name: &str, follow: bool) -> Result<(), i32> {
        if let Some(Node::File(_) | Node::Character(_) | Node::Link(_)) = self.node {
            return Err(libc::ENOTDIR);
        }
        if name == ".." {
            self.at.truncate(parent(&self.at).len());
            self.node = self.tree.node(&self.at);
            return Ok(());
        }
        let path = join(&self.at, name);
        let node = self.tree.node(&path);
        let may_follow = follow || !self.left.is_empty();
        let target = match &node {
            Some(Node::Link(target)) => Some(target.clone()),
            Some(_) => None,
            None if self.is_only_ours() => return Err(libc::ENOENT),
            None => self.links.target(&path),
        };
        match target {
            Some(target) if may_follow => return self.follow(&target, node.is_some()),
            _ => {}
        }
        self.left_kernel |= matches!(&node, Some(node) if !is_shared(node));
        self.at = path;
        self.node = node;
        Ok(())
    }

    /// Whether the kernel has no entries in the directory that the walk is at.
    fn is_only_ours(&self) -> bool {
        matches!(&self.node, Some(node) if !is_shared(node))
    }

    fn follow(&mut self, target: &str, is_ours: bool) -> Result<(), i32> {
        self.followed += 1;
        if self.followed > LINKS_MAX {
            return Err(libc::ELOOP);
        }
        self.left_kernel |= is_ours;
        if target.starts_with('/') {
            self.at = "/".into();
            self.node = self.tree.node("/");
        }
        self.push(target);
        Ok(())
    }
}

/// Whether this is a directory in which the kernel may have entries of its own.
pub fn is_shared(node: &Node) -> bool {
    matches!(node, Node::Directory(Directory::Above))
}
