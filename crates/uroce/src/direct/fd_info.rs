//! Fields of a descriptor in /proc/self/fdinfo. The kernel knows them without the file system and the
//! memory behind the descriptor, so whoever serves those cannot keep the reader waiting (FUSE,
//! userfaultfd(2)).

use std::io;
use std::os::fd::RawFd;

/// A field of a descriptor of this process. Opens a descriptor, and closes it again. Fails as open(2), and
/// with EINVAL if there is no such field, or if it has no number.
fn number(fd: RawFd, name: &str) -> io::Result<i64> {
    let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{fd}"))?;
    parse(&text, name).ok_or(io::ErrorKind::InvalidInput.into())
}

/// The mount that a file is on. All memfds of the system are on one that has nothing else. Opens a
/// descriptor, and closes it again. Fails as open(2), and with EINVAL before Linux 3.15.
pub fn mount(fd: RawFd) -> io::Result<i64> {
    number(fd, "mnt_id")
}

/// The process of a pidfd, as /proc names it; it has no process of another PID namespace (0, -1). Opens a
/// descriptor, and closes it again. Fails as open(2), and with EINVAL for another descriptor.
pub fn process(pidfd: RawFd) -> io::Result<i64> {
    number(pidfd, "Pid")
}

/// The number in the line `name:`.
fn parse(text: &str, name: &str) -> Option<i64> {
    let mut fields = text.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = fields.find(|(field, _)| *field == name)?;
    value.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn a_field_has_a_line() {
        let text = "pos:\t0\nflags:\t02000002\nmnt_id:\t15\nino:\t9\nPid:\t-1\nNSpid:\t\n";
        assert_eq!(parse(text, "mnt_id"), Some(15));
        assert_eq!(parse(text, "Pid"), Some(-1));
        assert_eq!(parse(text, "NSpid"), None);
        assert_eq!(parse(text, "id"), None);
        assert_eq!(parse("", "Pid"), None);
    }

    #[test]
    fn files_are_on_the_mount_of_their_path() {
        let open = |path| std::fs::File::open(path).unwrap();
        let files = ["/proc/version", "/proc/uptime", "/sys/class"].map(open);
        let [one, two, other] = files
            .each_ref()
            .map(|file| mount(file.as_raw_fd()).unwrap());
        assert!(one == two && one != other);
        assert!(process(files[0].as_raw_fd()).is_err());
    }
}
