//! sysfs: its mount point, and reading its files.

use core::{
    ffi::{CStr, c_char, c_int},
    fmt, slice,
};
use once_cell::race::OnceBox;
use std::{borrow::Cow, os::fd::AsFd};

use ibverbs_abi::Errno;
use ibverbs_abi::{IBV_SYSFS_PATH_MAX, verbs_sysfs_dev};
use libc::size_t;

use super::stack_path::StackPath;
use crate::{env, sys};

/// sysfs's mount point: SYSFS_PATH if the environment is trusted, else /sys. Determined by the first call.
/// Never blocks, so that a child of fork can call it whatever its parent's threads were doing.
pub fn path() -> &'static CStr {
    static PATH: OnceBox<Cow<CStr>> = OnceBox::new();
    PATH.get_or_init(|| {
        let env = if env::trusted() {
            env::get(c"SYSFS_PATH")
        } else {
            None
        };
        Box::new(env.map_or(Cow::Borrowed(c"/sys"), |env| Cow::Owned(mount_point(env))))
    })
}

/// SYSFS_PATH, truncated to the length of a device's `ibdev_path`, without trailing slashes.
fn mount_point(env: &CStr) -> std::ffi::CString {
    let bytes = env.to_bytes();
    let bytes = bytes.get(..IBV_SYSFS_PATH_MAX).unwrap_or(bytes);
    let kept = bytes
        .iter()
        .rposition(|&c| c != b'/')
        .map_or(0, |last| last + 1);
    // Cannot fail: the bytes come from a CStr and have no NUL.
    std::ffi::CString::new(bytes.get(..kept).unwrap_or_default()).unwrap_or_default()
}

/// Reads the start of a file and terminates it with a NUL, which replaces a final newline or follows the last
/// byte.
///
/// Returns the length without the NUL; 0 for an empty file, which leaves `buf` unchanged. Fails with the
/// errno of the system call; or, if there is no space for the NUL, with whatever errno is.
pub fn read_file_at(dirfd: c_int, file: &CStr, buf: &mut [u8]) -> Result<usize, Errno> {
    let len = {
        let fd = sys::openat(dirfd, file, libc::O_RDONLY | libc::O_CLOEXEC)?;
        sys::read(fd.as_fd(), buf)?
    };
    terminate(buf, len).ok_or_else(Errno::last)
}

fn terminate(buf: &mut [u8], len: usize) -> Option<usize> {
    let Some(last) = len.checked_sub(1) else {
        return Some(0);
    };
    if let Some(byte @ b'\n') = buf.get_mut(last) {
        *byte = 0;
        return Some(last);
    }
    *buf.get_mut(len)? = 0;
    Some(len)
}

/// Reads `DIR/FILE` as [`read_file_at`] does.
#[inline(never)]
pub fn read_file(dir: &[u8], file: fmt::Arguments, buf: &mut [u8]) -> Result<usize, Errno> {
    let mut path = StackPath::new().push(dir).push(b"/").push_fmt(file);
    read_file_at(libc::AT_FDCWD, path.finish()?, buf)
}

/// Reads a file in the device's directory in `/sys/class/infiniband` as [`read_file_at`] does. EINVAL, also
/// in errno, for a device without sysfs (mlx5 over VFIO).
///
/// # Safety
/// `dev` is NULL, or points to a device that is valid and unchanged during the call.
pub unsafe fn read_ibdev(
    dev: *const verbs_sysfs_dev,
    file: fmt::Arguments,
    buf: &mut [u8],
) -> Result<usize, Errno> {
    // SAFETY: `dev` is NULL or valid, as the caller promises.
    match unsafe { dev.as_ref() } {
        Some(dev) => read_file(field(&dev.ibdev_path), file, buf),
        None => {
            Errno(libc::EINVAL).set();
            Err(Errno(libc::EINVAL))
        }
    }
}

/// A string field's bytes up to its NUL.
pub fn field(chars: &[c_char]) -> &[u8] {
    // SAFETY: c_char and u8 have the same size and alignment, and every byte is a valid u8.
    let bytes = unsafe { slice::from_raw_parts(chars.as_ptr().cast::<u8>(), chars.len()) };
    bytes.split(|&c| c == 0).next().unwrap_or(bytes)
}

/// Sets a string field to the concatenation of `parts`, as snprintf does: truncated if it is too long, with a
/// NUL. False if it was truncated.
#[must_use]
pub fn set_field<const N: usize>(chars: &mut [c_char; N], parts: &[&[u8]]) -> bool {
    let room = N.saturating_sub(1);
    let mut bytes = parts.iter().flat_map(|part| part.iter());
    let mut len = 0;
    for (to, from) in chars.iter_mut().take(room).zip(bytes.by_ref()) {
        *to = *from as c_char;
        len += 1;
    }
    if let Some(end) = chars.get_mut(len) {
        *end = 0;
    }
    bytes.next().is_none()
}

/// sysfs's mount point. The library owns the string, which is valid as long as the library is loaded.
pub extern "C" fn ibv_get_sysfs_path() -> *const c_char {
    path().as_ptr()
}

/// Reads `dir/file` into `buf`, NUL-terminated. Returns the length without the NUL, or -1 with errno set.
///
/// # Safety
/// `dir` and `file` are C strings, and `buf` is writable for `size` bytes.
pub unsafe extern "C" fn ibv_read_sysfs_file(
    dir: *const c_char,
    file: *const c_char,
    buf: *mut c_char,
    size: size_t,
) -> c_int {
    // SAFETY: two C strings, and `size` writable bytes at `buf`, as the caller promises.
    unsafe {
        read_path(
            CStr::from_ptr(dir).to_bytes(),
            CStr::from_ptr(file),
            buf,
            size,
        )
    }
}

/// `ibv_read_ibdev_sysfs_file`, with its format expanded to `path`. -1 and EINVAL for a device without sysfs.
///
/// # Safety
/// `buf` is writable for `size` bytes; `sysfs_dev` is NULL, or points to a valid device.
pub unsafe fn read_ibdev_path(
    buf: *mut c_char,
    size: size_t,
    sysfs_dev: *const verbs_sysfs_dev,
    path: &CStr,
) -> c_int {
    // SAFETY: `sysfs_dev` is NULL or valid, as the caller promises.
    let Some(dev) = (unsafe { sysfs_dev.as_ref() }) else {
        Errno(libc::EINVAL).set();
        return -1;
    };
    // SAFETY: `buf` is writable for `size` bytes, as the caller promises.
    unsafe { read_path(field(&dev.ibdev_path), path, buf, size) }
}

/// Reads a file of a software device: None if the path does not lead to one, else the text or the error.
pub type SoftwareReader = fn(path: &str) -> Option<Result<Vec<u8>, Errno>>;

/// The reader of software devices' files; not set unless there are some.
static SOFTWARE_READER: OnceBox<SoftwareReader> = OnceBox::new();

/// Makes the functions for programs read files of software devices, too. The first call counts.
pub fn set_software_reader(reader: SoftwareReader) {
    let _ = SOFTWARE_READER.set(Box::new(reader));
}

/// Reads a file of a software device as [`read_file_at`] does; None if the path does not lead to one.
fn read_software(path: &CStr, buf: &mut [u8]) -> Option<Result<usize, Errno>> {
    let text = SOFTWARE_READER.get()?(path.to_str().ok()?)?;
    Some(text.or_else(Errno::fail).and_then(|text| {
        let len = text.len().min(buf.len());
        buf[..len].copy_from_slice(&text[..len]);
        terminate(buf, len).ok_or_else(Errno::last)
    }))
}

/// # Safety
/// `buf` is NULL, or writable for `size` bytes and used by nothing else during the call.
unsafe fn read_path(dir: &[u8], file: &CStr, buf: *mut c_char, size: size_t) -> c_int {
    // The result is a c_int. No sysfs value is that long.
    let size = size.min(c_int::MAX as usize);
    let buf = if buf.is_null() {
        &mut [][..]
    } else {
        // SAFETY: not NULL, so writable for `size` bytes and not shared, as the caller promises.
        unsafe { slice::from_raw_parts_mut(buf.cast::<u8>(), size) }
    };
    let mut path = StackPath::new().push(dir).push(b"/").push(file.to_bytes());
    let len = match path.finish() {
        Ok(path) => {
            read_software(path, buf).unwrap_or_else(|| read_file_at(libc::AT_FDCWD, path, buf))
        }
        Err(errno) => {
            errno.set();
            Err(errno)
        }
    };
    len.map_or(-1, |len| len as c_int)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_points() {
        assert_eq!(mount_point(c"/a/b///").as_c_str(), c"/a/b");
        assert_eq!(mount_point(c"/a/b").as_c_str(), c"/a/b");
        assert_eq!(mount_point(c"///").as_c_str(), c"");
        assert_eq!(mount_point(c"").as_c_str(), c"");
        let long = std::ffi::CString::new(vec![b'x'; 300]).unwrap();
        assert_eq!(mount_point(&long).as_bytes().len(), 256);
        let mut slash = vec![b'x'; 255];
        slash.extend_from_slice(b"//y");
        assert_eq!(
            mount_point(&std::ffi::CString::new(slash).unwrap())
                .as_bytes()
                .len(),
            255
        );
    }

    #[test]
    fn values_are_terminated_as_in_the_c_library() {
        let check = |text: &[u8], size: usize| {
            let mut buf = vec![b'?'; size];
            buf[..text.len()].copy_from_slice(text);
            terminate(&mut buf, text.len()).map(|len| buf[..len + 1].to_vec())
        };
        assert_eq!(check(b"6\n", 8).as_deref(), Some(&b"6\0"[..]));
        assert_eq!(check(b"6", 8).as_deref(), Some(&b"6\0"[..]));
        assert_eq!(check(b"\n", 8).as_deref(), Some(&b"\0"[..]));
        assert_eq!(check(b"a\n\n", 8).as_deref(), Some(&b"a\n\0"[..]));
        assert_eq!(check(b"1234567\n", 8).as_deref(), Some(&b"1234567\0"[..]));
        assert_eq!(check(b"12345678", 8), None);
        assert_eq!(terminate(&mut [b'?'; 4], 0), Some(0));
        assert_eq!(terminate(&mut [], 0), Some(0));
    }

    #[test]
    fn reads_files() {
        let dir = std::env::temp_dir().join(format!("ibverbs-sysfs-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let put = |name: &str, text: &[u8]| std::fs::write(dir.join(name), text).unwrap();
        let path = std::ffi::CString::new(dir.to_str().unwrap()).unwrap();
        put("node_type", b"1: CA\n");
        put("empty", b"");
        put("huge", &[b'9'; 5000]);
        let mut buf = [0xff_u8; 16];
        let read = |file: &CStr, buf: &mut [u8]| {
            // SAFETY: two C strings, and a buffer of the size that is passed.
            unsafe {
                let buf_ptr = buf.as_mut_ptr().cast();
                ibv_read_sysfs_file(path.as_ptr(), file.as_ptr(), buf_ptr, buf.len())
            }
        };
        assert_eq!(read(c"node_type", &mut buf), 5);
        assert_eq!(&buf[..6], b"1: CA\0");
        buf.fill(0xff);
        assert_eq!(read(c"empty", &mut buf), 0);
        assert_eq!(buf[0], 0xff);
        assert_eq!(read(c"huge", &mut buf), -1);
        assert_eq!(read(c"missing", &mut buf), -1);
        assert_eq!(Errno::last(), Errno(libc::ENOENT));
        assert_eq!(read(c"node_type/x", &mut buf), -1);
        assert_eq!(Errno::last(), Errno(libc::ENOTDIR));
        assert_eq!(read(c".", &mut buf), -1);
        assert_eq!(Errno::last(), Errno(libc::EISDIR));
        let long = std::ffi::CString::new(vec![b'x'; 5000]).unwrap();
        assert_eq!(read(&long, &mut buf), -1);
        assert_eq!(Errno::last(), Errno(libc::ENAMETOOLONG));
        // SAFETY: the buffer is writable for its length, and a NULL device is permitted.
        let len = unsafe {
            read_ibdev_path(
                buf.as_mut_ptr().cast(),
                buf.len(),
                core::ptr::null(),
                c"node_type",
            )
        };
        assert_eq!((len, Errno::last()), (-1, Errno(libc::EINVAL)));
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn fields() {
        let mut name = [b'?' as c_char; 6];
        assert!(set_field(&mut name, &[b"rx", b"e0"]));
        assert_eq!(field(&name), b"rxe0");
        assert!(set_field(&mut name, &[b"rxe", b"", b"10"]));
        assert_eq!(field(&name), b"rxe10");
        assert!(!set_field(&mut name, &[b"rxe", b"100"]));
        assert_eq!(field(&name), b"rxe10");
        assert!(set_field(&mut name, &[]));
        assert_eq!(field(&name), b"");
        assert_eq!(field(&[b'x' as c_char; 3]), b"xxx");
    }
}
