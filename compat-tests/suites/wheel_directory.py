"""Where the wheel's directory() makes its links: in no directory that another user can change or replace.

Run as root, with the directory of the package libibverbs_rs and an empty directory. Prints `ok NAME` or
`not ok NAME` for each check.
"""

import os
import sys
import tempfile

sys.dont_write_bytecode = True
package, work = sys.argv[1:]
sys.path.insert(0, package)
import libibverbs_rs  # noqa: E402

OTHER = 23456


def make(name, mode=0o755, owner=None):
    path = os.path.join(work, name)
    os.mkdir(path)
    os.chmod(path, mode)
    if owner is not None:
        os.chown(path, owner, -1)
    return path


def found(home, temporary):
    """directory() with this HOME and TMPDIR; None if it raises RuntimeError."""
    os.environ.pop("XDG_CACHE_HOME", None)
    os.environ.update(HOME=home, TMPDIR=temporary)
    tempfile.tempdir = None
    try:
        path = libibverbs_rs.directory()
    except RuntimeError:
        return None
    assert os.path.islink(os.path.join(path, "libibverbs.so.1"))
    mode = os.lstat(path).st_mode & 0o777
    return path if mode == 0o700 else "mode {:o}".format(mode)


def check(name, good):
    print("ok" if good else "not ok", name, flush=True)


def main():
    temporary = make("tmp", 0o1777)
    own = make("own")
    path = found(own, temporary)
    check("own-home", path and path.startswith(own + "/.cache/libibverbs-rs/python-"))
    check("again", found(own, temporary) == path)
    os.chmod(path, 0o770)
    check("shared-leaf", found(own, temporary).startswith(temporary + "/"))
    alice = make("alice", owner=OTHER)
    check("other-home", found(alice, temporary).startswith(temporary + "/") and os.listdir(alice) == [])
    shared = make("shared", 0o777)
    check("shared-home", found(shared, temporary).startswith(temporary + "/") and os.listdir(shared) == [])
    os.symlink(alice, os.path.join(work, "link"))
    check("link-to-other", found(os.path.join(work, "link"), temporary).startswith(temporary + "/"))
    taken = os.path.basename(found(alice, temporary))
    os.rename(os.path.join(temporary, taken), os.path.join(temporary, "old"))
    os.mkdir(os.path.join(temporary, taken), 0o700)
    os.chown(os.path.join(temporary, taken), OTHER, -1)
    check("taken", found(alice, temporary) is None)
    check("nowhere", found(alice, make("unsafe", 0o777)) is None)


main()
