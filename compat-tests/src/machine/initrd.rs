//! The initial RAM disk of the virtual machine, as a cpio archive ("newc", see cpio(5)): busybox, the kernel
//! modules, and vm/init.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

const FILE: u32 = 0o100_755;
const DIRECTORY: u32 = 0o040_755;

/// Writes the archive. `kernel` is the directory with the kernel's modules.
pub fn write(to: &Path, kernel: &Path, busybox: &Path, init: &Path) -> io::Result<()> {
    let mut archive = io::BufWriter::new(fs::File::create(to)?);
    for dir in [
        "bin", "proc", "sys", "dev", "newroot", "rw", "lower", "mods",
    ] {
        entry(&mut archive, dir, DIRECTORY, &[])?;
    }
    entry(&mut archive, "init", FILE, &fs::read(init)?)?;
    entry(&mut archive, "bin/busybox", FILE, &fs::read(busybox)?)?;
    for file in fs::read_dir(kernel.join("mods"))? {
        let file = file?;
        let name = format!("mods/{}", file.file_name().to_string_lossy());
        entry(&mut archive, &name, FILE, &fs::read(file.path())?)?;
    }
    entry(&mut archive, "TRAILER!!!", 0, &[])?;
    archive.flush()
}

/// A member: the header, the name with a NUL, and the contents, each padded to four bytes.
fn entry(archive: &mut impl Write, name: &str, mode: u32, contents: &[u8]) -> io::Result<()> {
    let too_large = |_| io::Error::other(format!("{name} is too large"));
    let size = u32::try_from(contents.len()).map_err(too_large)?;
    let name_size = u32::try_from(name.len() + 1).map_err(too_large)?;
    // inode, mode, user, group, links, time, size, device and special device (major, minor), name, checksum
    let fields = [0, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, name_size, 0];
    let mut header = String::from("070701");
    header.extend(fields.map(|field| format!("{field:08x}")));
    header.push_str(name);
    header.push('\0');
    padded(archive, header.as_bytes())?;
    padded(archive, contents)
}

fn padded(archive: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    archive.write_all(bytes)?;
    archive.write_all(&[0; 3][..bytes.len().wrapping_neg() % 4])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_as_cpio_has_it() {
        let mut archive = Vec::new();
        entry(&mut archive, "a/bc", FILE, b"xyzab").unwrap();
        let expected = "07070100000000000081ed000000000000000000000001000000000000000500000000\
            00000000000000000000000000000005000000\
            00a/bc\0\0xyzab\0\0\0";
        assert_eq!(String::from_utf8_lossy(&archive), expected);
        assert_eq!(archive.len() % 4, 0);
    }
}
