#!/usr/bin/python3
"""build-wheel.py DIST OUT: makes the Python wheel in OUT from the files that packaging/build-dist has staged.

DIST is the build directory of build-dist. The wheel is for every CPython 3 on x86-64 with glibc 2.28 or later
(manylinux_2_28). The same input gives the same bytes.
"""
import base64
import hashlib
import os
import subprocess
import sys
import tempfile
import time
import zipfile

REPO = os.path.realpath(os.path.join(os.path.dirname(__file__), ".."))
TAG = "py3-none-manylinux_2_28_x86_64"


def field(name):
    return subprocess.run([os.path.join(REPO, "scripts/package-field"), name], check=True,
                          stdout=subprocess.PIPE).stdout.decode().strip()


def read(*path):
    with open(os.path.join(*path), "rb") as file:
        return file.read()


def helper(dist):
    """The object that loads bundled copies by their names, linked for glibc 2.28."""
    with tempfile.TemporaryDirectory() as work:
        out = os.path.join(work, "libload_here.so")
        subprocess.run(
            ["gcc", "-shared", "-fPIC", "-O2", "-fno-optimize-sibling-calls", "-s",
             "-L" + os.path.join(dist, "glibc-2.28"), "-Wl,-rpath,.",
             "-Wl,-soname,libload_here.so", "-Wl,--build-id=none", "-o", out,
             os.path.join(REPO, "packaging/python/load_here.c")], check=True)
        return read(out)


def metadata(version):
    return """\
Metadata-Version: 2.1
Name: libibverbs-rs
Version: {version}
Summary: RDMA verbs library in Rust, with an RDMA device that needs no hardware
Home-page: {homepage}
License: MIT OR Apache-2.0
Requires-Python: >=3.8
Description-Content-Type: text/markdown

{readme}""".format(version=version, homepage=field("homepage"),
                   readme=read(REPO, "packaging/python/README.md").decode()).encode()


def contents(dist, version):
    """Mode and bytes of each file, by name."""
    stage = os.path.join(dist, "stage/usr/local")
    info = "libibverbs_rs-{}.dist-info/".format(version)
    source = os.path.join(REPO, "packaging/python/libibverbs_rs")
    init = read(source, "__init__.py").replace(b"@VERSION@", version.encode())
    return {
        "libibverbs_rs/__init__.py": (0o644, init),
        "libibverbs_rs/__main__.py": (0o644, read(source, "__main__.py")),
        "libibverbs_rs/lib/libibverbs.so.1": (0o755, read(stage, "lib/libibverbs.so.1." + version)),
        "libibverbs_rs/lib/libload_here.so": (0o755, helper(dist)),
        "libibverbs_rs/bin/with-ibverbs-rs": (0o755, read(stage, "bin/with-ibverbs-rs")),
        info + "licenses/LICENSE-MIT": (0o644, read(REPO, "LICENSE-MIT")),
        info + "licenses/LICENSE-APACHE": (0o644, read(REPO, "LICENSE-APACHE")),
        info + "licenses/LICENSE-CRATES": (
            0o644, read(stage, "share/doc/libibverbs-rs/LICENSE-CRATES")),
        info + "METADATA": (0o644, metadata(version)),
        info + "WHEEL": (0o644, "Wheel-Version: 1.0\nGenerator: libibverbs-rs\nRoot-Is-Purelib: false\n"
                                "Tag: {}\n".format(TAG).encode()),
        info + "entry_points.txt": (0o644, b"[console_scripts]\n"
                                           b"with-ibverbs-rs = libibverbs_rs.__main__:with_ibverbs_rs\n"),
    }


def record(files, name):
    lines = []
    for path, (_, data) in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append("{},sha256={},{}\n".format(path, digest, len(data)))
    return "".join([*lines, name + ",,\n"]).encode()


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    dist, out = sys.argv[1:]
    version = field("version")
    files = contents(dist, version)
    name = "libibverbs_rs-{}.dist-info/RECORD".format(version)
    files[name] = (0o644, record(files, name))
    stamp = time.gmtime(max(315532800, int(os.environ.get("SOURCE_DATE_EPOCH", "315532800"))))[:6]
    os.makedirs(out, exist_ok=True)
    wheel = os.path.join(out, "libibverbs_rs-{}-{}.whl".format(version, TAG))
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path, (mode, data) in files.items():
            entry = zipfile.ZipInfo(path, stamp)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100000 | mode) << 16
            archive.writestr(entry, data)
    print(wheel)


main()
