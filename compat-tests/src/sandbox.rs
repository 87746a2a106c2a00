//! Sandboxes: each separates a case from the machine and from all other cases.
//!
//! A case in a namespace is started by unshare(1), with namespaces of its own for mounts, network,
//! processes and System V IPC; all of it ends with the case. As root it needs no user namespace. An
//! ordinary user is root in a user namespace of its own. Then the case's process calls `enter`, which
//! replaces the directories that programs share.

use std::ffi::CString;
use std::path::Path;
use std::process::Command;

use crate::paths::Paths;
use crate::process::{path_with_sbin, read};
use crate::verdict::{Failure, Verdict};

/// The sandbox of a case. All but `Host` need the right to create namespaces: root, or a kernel that gives it
/// to ordinary users. Without it the case is skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sandbox {
    /// None: the case runs on this machine, as the user who runs the tests. For what neither opens ports nor
    /// looks at /tmp or /run.
    Host,
    /// Own network (only `lo`, up), processes, System V IPC, /tmp, /run, /dev/shm and /var/tmp.
    Namespace,
    /// As `Namespace`, and skipped unless the real root runs the tests: for chroot, other user IDs, device
    /// nodes.
    Root,
    /// The virtual machine, which the case boots itself (its process runs on the host).
    Vm,
}

/// How this machine lets the runner create namespaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Isolation {
    /// As root, without a user namespace.
    Root,
    /// Within a user namespace.
    User,
    /// The machine allows no namespaces, for this reason.
    None(String),
}

const NAMESPACES: &[&str] = &[
    "--mount", "--net", "--pid", "--ipc", "--fork", "--kill-child", "--mount-proc",
];

impl Isolation {
    /// Tries what works.
    pub fn find() -> Self {
        let mut why = String::from("unshare is missing");
        for isolation in [Isolation::Root, Isolation::User] {
            let prefix = isolation.prefix();
            match Command::new(&prefix[0])
                .args(&prefix[1..])
                .arg("true")
                .output()
            {
                Ok(output) if output.status.success() => return isolation,
                Ok(output) => why = String::from_utf8_lossy(&output.stderr).trim().to_string(),
                Err(error) => why = error.to_string(),
            }
        }
        Isolation::None(why)
    }

    /// The command that starts a process in new namespaces.
    fn prefix(&self) -> Vec<String> {
        let mut words = vec!["unshare"];
        if *self == Isolation::User {
            words.extend(["--user", "--map-root-user"]);
        }
        words.extend(NAMESPACES);
        words.push("--");
        words.into_iter().map(String::from).collect()
    }

    /// The command that starts the process of a case in this sandbox; why it is skipped if there is none.
    pub fn command_for(&self, sandbox: Sandbox) -> Result<Vec<String>, Failure> {
        match (sandbox, self) {
            (Sandbox::Host | Sandbox::Vm, _) => Ok(Vec::new()),
            (_, Isolation::None(why)) => Err(Failure::skip(format!("no namespaces here: {why}"))),
            (Sandbox::Root, Isolation::User) => Err(Failure::skip("needs root")),
            _ => Ok(self.prefix()),
        }
    }
}

/// Makes the namespaces of this process a sandbox: the loopback interface is up, /tmp, /run,
/// /dev/shm and /var/tmp are empty, and what the case needs of the host stands below /tmp, where every user
/// can read it. `host` has the paths outside; returns those inside.
pub fn enter(host: &Paths) -> Result<Paths, Failure> {
    let status = Command::new("sh")
        .args(["-ec", ENTER, "enter"])
        .args([&host.case, &host.staged, &host.repo])
        .env("PATH", path_with_sbin())
        .status()?;
    if !status.success() {
        return Err(Failure::new(format!(
            "the namespace could not be set up: {status}"
        )));
    }
    let inside = Paths::in_namespace();
    std::env::set_current_dir(&inside.case)?;
    Ok(inside)
}

/// The new /tmp is filled before it hides the old one, in which the source tree may be.
const ENTER: &str = r#"
new=$1/root
mkdir -p "$new"
mount -n -t tmpfs -o mode=1777 tmpfs "$new"
mkdir "$new/case" "$new/staged" "$new/repo"
mount -n --bind "$1" "$new/case"
mount -n --bind "$2" "$new/staged"
mount -n --bind "$3" "$new/repo"
mount -n -o remount,bind,ro "$new/repo" 2>/dev/null || true
mount -n --move "$new" /tmp
mount -n -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/lock
for dir in /dev/shm /var/tmp; do
    mount -n -t tmpfs -o mode=1777 tmpfs $dir
done
ip link set lo up
"#;

/// Whether this process may take other user IDs.
pub fn can_change_user() -> bool {
    let map = read("/proc/self/uid_map".as_ref());
    let mut fields = map
        .split_whitespace()
        .map(|field| field.parse::<u64>().unwrap_or(0));
    let covers = fields.next() == Some(0) && fields.nth(1).is_some_and(|count| count > ORDINARY);
    covers && is_root()
}

/// Whether this process runs as root, or as root of its user namespace.
pub fn is_root() -> bool {
    read("/proc/self/status".as_ref())
        .lines()
        .find_map(|line| line.strip_prefix("Uid:"))
        .and_then(|ids| ids.split_whitespace().nth(1))
        .is_some_and(|effective| effective == "0")
}

/// The user ID of the ordinary user as whom programs run.
pub const ORDINARY: u64 = 65534;

/// The command that runs another as an ordinary user without capabilities; empty if this process is one.
///
/// In a user namespace of an ordinary user there is no other user to change to. The command makes one more
/// namespace in which that user has a number of its own, and not [`ORDINARY`], which all users without a
/// number have: a program could not tell two of them apart.
pub fn as_ordinary_user() -> Vec<String> {
    let command: &[&str] = if can_change_user() {
        &[
            "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
        ]
    } else if is_root() {
        &["unshare", "--user", "--map-user=1000", "--map-group=1000"]
    } else {
        &[]
    };
    command.iter().map(|word| word.to_string()).collect()
}

pub const CAP_NET_BIND_SERVICE: u32 = 10;
pub const CAP_NET_RAW: u32 = 13;

/// Gives a file one capability, permitted and effective (struct vfs_cap_data, revision 2). Skips the case
/// where the file system or the kernel refuses this.
pub fn give_capability(file: &Path, capability: u32) -> Verdict {
    let words: [u32; 5] = [0x0200_0001, 1 << capability, 0, 0, 0];
    let data: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let path = CString::new(file.as_os_str().as_encoded_bytes()).map_err(|e| e.to_string())?;
    // SAFETY: both strings end with NUL, and `data` has the length that is passed; setxattr only reads them.
    let set = unsafe {
        libc::setxattr(
            path.as_ptr(),
            c"security.capability".as_ptr(),
            data.as_ptr().cast(),
            data.len(),
            0,
        )
    };
    if set == 0 {
        return Ok(());
    }
    let error = std::io::Error::last_os_error();
    Err(Failure::skip(format!("file capabilities: {error}")))
}

/// Runs a shell script as root of the sandbox, for setting it up.
pub fn sh(script: &str) -> Verdict {
    println!("+ sh: {}", script.trim());
    let output = Command::new("sh")
        .args(["-ec", script])
        .env("PATH", path_with_sbin())
        .output()?;
    if output.status.success() {
        return Ok(());
    }
    let shown = String::from_utf8_lossy(&output.stderr);
    Err(Failure::new(format!("{}: {}", script.trim(), output.status)).with(shown))
}
