"""libibverbs-rs: libibverbs.so.1 in Rust, with uroce, an RDMA device that needs no hardware.

A program runs on this library with `python -m libibverbs_rs run PROGRAM` (or `with-ibverbs-rs PROGRAM`). A
Python program loads it into its own process with enable(), before it imports a module that loads libibverbs:

    import libibverbs_rs
    libibverbs_rs.enable(uroce="1")
    import nixl
"""

import contextlib
import ctypes
import hashlib
import os
import re
import stat
import subprocess
import sys
import tempfile

__all__ = ["directory", "enable", "environment", "wrapper"]
__version__ = "@VERSION@"

_HERE = os.path.dirname(os.path.realpath(__file__))
_loaded = None


def _links_are_right(path):
    target = os.path.join(_HERE, "lib", "libibverbs.so.1")
    for name in ("libibverbs.so.1", "libibverbs.so"):
        link = os.path.join(path, name)
        if os.path.realpath(link) == target:
            continue
        new = "{}.{}".format(link, os.getpid())
        os.symlink(target, new)
        os.replace(new, link)


def _trusted_owners():
    owners = {0, os.geteuid()}
    # A user namespace may not know the host's root, who owns the directories above.
    with contextlib.suppress(OSError), open("/proc/self/uid_map", encoding="ascii") as uid_map:
        if uid_map.read().split() != ["0", "0", "4294967295"]:
            with open("/proc/sys/kernel/overflowuid", encoding="ascii") as overflow:
                owners.add(int(overflow.read()))
    return owners


def _private_directory(path):
    """Creates a directory that no other user can change or replace, and returns its path without links.

    Root may have kept the HOME of another user (sudo -E): then this raises OSError and creates nothing.
    """
    if not os.path.isabs(path):
        raise OSError("{} is not absolute".format(path))
    nearest = path
    while not os.path.lexists(nearest):
        nearest = os.path.dirname(nearest)
    real = os.path.realpath(nearest)
    above = real
    owners = _trusted_owners()
    while True:
        found = os.lstat(above)
        shared = found.st_mode & 0o022 and not found.st_mode & stat.S_ISVTX
        if not stat.S_ISDIR(found.st_mode) or found.st_uid not in owners or shared:
            raise PermissionError("others can change what is in {}".format(above))
        if above == os.path.dirname(above):
            break
        above = os.path.dirname(above)
    missing = os.path.relpath(path, nearest).split(os.sep)
    for name in missing if path != nearest else []:
        real = os.path.join(real, name)
        with contextlib.suppress(FileExistsError):
            os.mkdir(real, 0o700)
    found = os.lstat(real)
    if found.st_uid != os.geteuid() or found.st_mode & 0o170022 != stat.S_IFDIR:
        raise PermissionError("{} is not a directory of this user alone".format(real))
    return real


def directory():
    """The directory with libibverbs.so.1 and libibverbs.so, for LD_LIBRARY_PATH and IBVERBS_RS_DIR.

    Wheels contain no symbolic links, so the second name is made when it is needed: in the user's cache, or in
    a directory of TMPDIR. No other user can change or replace that directory.
    """
    name = "python-" + hashlib.sha256(_HERE.encode()).hexdigest()[:16]
    caches = [os.environ.get("XDG_CACHE_HOME"), os.path.join(os.path.expanduser("~"), ".cache")]
    for cache in filter(None, caches):
        with contextlib.suppress(OSError):
            path = _private_directory(os.path.join(cache, "libibverbs-rs", name))
            _links_are_right(path)
            return path
    path = os.path.join(tempfile.gettempdir(), "libibverbs-rs-{}-{}".format(os.geteuid(), name))
    try:
        path = _private_directory(path)
    except OSError as error:
        raise RuntimeError("{}: set XDG_CACHE_HOME".format(error)) from error
    _links_are_right(path)
    return path


def wrapper():
    """The path of with-ibverbs-rs, which runs a program on this library."""
    return os.path.join(_HERE, "bin", "with-ibverbs-rs")


def environment(uroce=None):
    """The environment in which with-ibverbs-rs finds this library. `uroce` is the value of IBV_UROCE."""
    variables = dict(os.environ, IBVERBS_RS_DIR=directory())
    if uroce is not None:
        variables["IBV_UROCE"] = uroce
    return variables


def _bundled():
    """The file names of the copies of libibverbs in this Python's packages that this library can replace.

    The rest is kept, because the providers that come with it do not work on this library.
    """
    variables = environment()
    variables["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    report = subprocess.run(
        [wrapper(), "--check", sys.executable], env=variables, stdout=subprocess.PIPE, check=False)
    lines = report.stdout.decode(errors="replace").splitlines()
    found = (re.match(r"  replaced: (\S+) of ", line) for line in lines)
    return sorted({match.group(1) for match in found if match})


def _loaded_files():
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        return set(re.findall(r"(/.*/libibverbs[^/\n]*\.so[^/\n]*)$", maps.read(), re.MULTILINE))


def enable(uroce=None):
    """Loads the library into this process, so that what is imported later uses it. Returns its path.

    `uroce` sets IBV_UROCE, also for child processes: "1" is a software device on the interface of the default
    route, "uroce0=lo" one on loopback.

    Copies of libibverbs that other wheels bundle are replaced too. Raises RuntimeError if another libibverbs
    is already loaded: call enable() before the first import of torch, nixl or mooncake. Not thread-safe: the
    working directory changes for a moment. Child processes do not inherit the library; start them with
    wrapper() and environment().
    """
    global _loaded
    if _loaded:
        return _loaded
    ours = os.path.join(_HERE, "lib", "libibverbs.so.1")
    others = _loaded_files() - {ours}
    if others:
        names = ", ".join(sorted(others))
        raise RuntimeError("another libibverbs is loaded already: {}. Call enable() earlier.".format(names))
    if uroce is not None:
        # os.environ calls setenv, so C code sees it too.
        os.environ["IBV_UROCE"] = uroce
    library = ctypes.CDLL(ours, mode=ctypes.RTLD_GLOBAL)
    # The dynamic linker takes a library that is loaded for another one if it has been loaded under that name
    # before, without a directory. The helper searches the working directory for what it loads.
    helper = ctypes.CDLL(os.path.join(_HERE, "lib", "libload_here.so"))
    helper.libibverbs_rs_load_here.restype = ctypes.c_void_p
    back = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        with tempfile.TemporaryDirectory(prefix="libibverbs-rs-") as links:
            os.chdir(links)
            found = os.stat(".")
            if found.st_uid != os.geteuid() or found.st_mode & 0o077:
                raise RuntimeError("another user has replaced {}".format(links))
            for name in ["libibverbs.so", *_bundled()]:
                os.symlink(ours, name)
                if not helper.libibverbs_rs_load_here(name.encode()):
                    raise RuntimeError("the dynamic linker does not load {} as {}".format(ours, name))
            os.fchdir(back)
    finally:
        os.fchdir(back)
        os.close(back)
    if _loaded_files() != {ours}:
        raise RuntimeError("the dynamic linker has loaded a second copy of {}".format(ours))
    _loaded = library._name
    return _loaded
