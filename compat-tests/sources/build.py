#!/usr/bin/python3
"""build.py SOURCES OUT LIBDIR [NAME...]: builds rdma-core's parts, perftest and qperf (or those named),
unchanged, twice: with rdma-core's headers and library ("c"), and with ours from LIBDIR ("ours"). The results
are in OUT/built/c and OUT/built/ours, in bin and lib.

rdma-core's build would compile its own libibverbs too, so its compile commands are taken from cmake, and run
with our header directory before all others. It is checked that everything compiles and links, that sources
which include infiniband/ headers get ours where we have them, and that the compiler reports no warnings that
it does not report with rdma-core's headers, and none about ours.

The last line is a summary; the exit code is 1 if a check failed.
"""

import concurrent.futures
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time

REPO = os.path.realpath(f"{os.path.dirname(os.path.realpath(__file__))}/../..")
HEADERS = f"{REPO}/include"
OURS = set(os.listdir(f"{HEADERS}/infiniband"))
VARIANTS = ("c", "ours")

# rdma-core's programs, with their sources besides the one of the same name.
VERBS_PROGRAMS = {
    "ibv_asyncwatch": "asyncwatch",
    "ibv_devices": "device_list",
    "ibv_devinfo": "devinfo",
    **{f"ibv_{kind}_pingpong": f"{kind}_pingpong" for kind in ("rc", "srq", "uc", "ud", "xsrq")},
}
CM_PROGRAMS = {
    "ucmatose": "cmatose",
    **{
        name: name
        for name in (
            "cmtime",
            "mckey",
            "rcopy",
            "rdma_client",
            "rdma_server",
            "rdma_xclient",
            "rdma_xserver",
            "riostream",
            "rping",
            "rstream",
            "udaddy",
            "udpong",
        )
    },
}


def tell(text):
    print(text, flush=True)


class Failed(Exception):
    pass


def run(command, **how):
    result = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        stdin=subprocess.DEVNULL,
        **how,
    )
    if result.returncode:
        raise Failed(f"{shlex.join(command)[:300]}\n{(result.stdout + result.stderr)[-3000:]}")
    return result


def warnings(text, base):
    """The compiler's warnings, without line and directory."""
    found = re.findall(r"^(\S+?):\d+:(?:\d+:)? (warning: .*)$", text, re.M)
    return sorted(
        {f"{os.path.relpath(file, base) if os.path.isabs(file) else file}: {what}" for file, what in found}
    )


def judge(name, outcome, texts, deps, base):
    """Yields what is wrong with a build: new warnings, warnings about our headers, other headers in place of
    ours."""
    old, new = (warnings(texts[v], base) for v in VARIANTS)
    wrong = [f"new: {w}" for w in new if w not in old]
    wrong += [
        f"of ours: {w}" for w in re.findall(rf"^{re.escape(HEADERS)}\S*: warning: .*", texts["ours"], re.M)
    ]
    used = {d for d in deps if re.search(r"/infiniband/[^/]+$", d) and os.path.basename(d) in OURS}
    wrong += [f"not ours: {d}" for d in sorted(used) if not os.path.realpath(d).startswith(f"{HEADERS}/")]
    if not used:
        wrong.append("it uses no header of ours")
    verdict = "FAILED" if wrong else "ok"
    tell(
        f"{verdict:7} {name:34} {outcome}; {len(used)} headers of ours,"
        f" {len(new)} warnings ({len(old)} with theirs)"
    )
    for line in wrong[:20]:
        tell(f"        {line}")
    return not wrong


class RdmaCore:
    """The settings are those of rdma-core's package, except for pyverbs, which takes too long with
    optimization."""

    NAME, SETTINGS = "cmake", ["-DNO_PYVERBS=1", "-DCMAKE_BUILD_TYPE=RelWithDebInfo"]

    def __init__(self, tree, out, libdir):
        self.tree, self.out, self.libdir = tree, out, libdir
        self.cmake = f"{out}/{self.NAME}"
        if not os.path.exists(f"{self.cmake}/compile_commands.json"):
            run(
                [
                    "cmake",
                    "-S",
                    tree,
                    "-B",
                    self.cmake,
                    "-DNO_MAN_PAGES=1",
                    "-DCMAKE_EXPORT_COMPILE_COMMANDS=1",
                    *self.SETTINGS,
                ]
            )
        # headers that it generates from the kernel's
        run(["cmake", "--build", self.cmake, "--target", "kern-abi"])
        with open(f"{self.cmake}/compile_commands.json") as file:
            self.commands = json.load(file)

    def compile(self, pick):
        """Compiles the sources that `pick` accepts in both variants; returns objects by source, output, and
        headers."""
        jobs, objects = [], {v: {} for v in VARIANTS}
        for entry in self.commands:
            command = shlex.split(entry["command"])
            at = command.index("-o")
            path = os.path.relpath(entry["file"], self.tree)
            if not pick(path, command[at + 1], entry):
                continue
            for variant in VARIANTS:
                target = f"{self.out}/{variant}/{command[at + 1]}"
                os.makedirs(os.path.dirname(target), exist_ok=True)
                mine = command[: at + 1] + [target, "-MD", "-MF", f"{target}.d"] + command[at + 2 :]
                if variant == "ours":
                    mine.insert(1, f"-I{HEADERS}")
                jobs.append((variant, target, mine, entry["directory"]))
                objects[variant][path] = target
        texts, deps = dict.fromkeys(VARIANTS, ""), set()
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            results = pool.map(lambda job: run(job[2], cwd=job[3]), jobs)
            for (variant, target, _, _), result in zip(jobs, results):
                texts[variant] += result.stderr
                if variant == "ours":
                    with open(f"{target}.d") as file:
                        deps.update(file.read().replace("\\\n", " ").split())
        return objects, texts, deps

    def support(self):
        """rdma-core's small static libraries, which do not use libibverbs."""
        objects, _, _ = self.compile(
            lambda path, target, _: path.split("/")[0] in ("ccan", "util") and "pic" in target.lower()
        )
        return objects

    def link(self, variant, target, objects, *more):
        library = [f"-L{self.libdir}"] if variant == "ours" else []
        built = f"{self.out}/built/{variant}"
        run(
            [
                "gcc",
                "-o",
                f"{built}/{target}",
                *objects,
                f"-L{built}/lib",
                *library,
                "-Wl,--no-undefined",
                f"-Wl,-rpath-link={built}/lib" + (f":{self.libdir}" if variant == "ours" else ""),
                *more,
            ]
        )

    def verbs_examples(self):
        objects, texts, deps = self.compile(lambda path, *_: path.startswith("libibverbs/examples/"))
        for variant in VARIANTS:
            place = {os.path.basename(path)[:-2]: target for path, target in objects[variant].items()}
            for program, source in VERBS_PROGRAMS.items():
                tools = [place["pingpong"]] if source.endswith("_pingpong") else []
                self.link(variant, f"bin/{program}", [place[source], *tools], "-libverbs")
        count = len(objects["ours"])
        return judge(
            "rdma-core: libibverbs' examples",
            f"{count} sources, {len(VERBS_PROGRAMS)} programs",
            texts,
            deps,
            self.tree,
        )

    def librdmacm(self):
        support = self.support()
        objects, texts, deps = self.compile(
            lambda path, target, _: re.fullmatch(r"librdmacm/\w+\.c", path) and "rdmacm.dir" in target
        )
        preload, more, _ = self.compile(lambda path, target, _: "rspreload.dir" in target)
        for variant in VARIANTS:
            texts[variant] += more[variant]
            lib = f"{self.out}/built/{variant}/lib"
            self.link(
                variant,
                "lib/librdmacm.so.1",
                [*objects[variant].values(), *support[variant].values()],
                "-shared",
                "-Wl,-soname,librdmacm.so.1",
                f"-Wl,--version-script={self.tree}/librdmacm/librdmacm.map",
                "-libverbs",
                "-lnl-route-3",
                "-lnl-3",
                "-lpthread",
            )
            if not os.path.lexists(f"{lib}/librdmacm.so"):
                os.symlink("librdmacm.so.1", f"{lib}/librdmacm.so")
            self.link(
                variant,
                "lib/librspreload.so",
                [*preload[variant].values()],
                "-shared",
                "-lrdmacm",
                "-libverbs",
                f"-Wl,--version-script={self.tree}/librdmacm/librspreload.map",
                "-lpthread",
                "-ldl",
            )
        good = judge(
            "rdma-core: librdmacm",
            f"{len(objects['ours']) + len(preload['ours'])} sources, 2 libraries",
            texts,
            deps,
            self.tree,
        )
        objects, texts, deps = self.compile(lambda path, *_: path.startswith("librdmacm/examples/"))
        for variant in VARIANTS:
            place = {os.path.basename(path)[:-2]: target for path, target in objects[variant].items()}
            for program, source in CM_PROGRAMS.items():
                self.link(
                    variant,
                    f"bin/{program}",
                    [place[source], place["common"]],
                    "-lrdmacm",
                    "-libverbs",
                    "-lpthread",
                )
        return (
            judge(
                "rdma-core: librdmacm's examples",
                f"{len(objects['ours'])} sources, {len(CM_PROGRAMS)} programs",
                texts,
                deps,
                self.tree,
            )
            and good
        )

    def providers(self):
        """Compiles all providers; also links rxe, to be run."""
        kinds = sorted(
            {
                e["file"].split("/providers/")[1].split("/")[0]
                for e in self.commands
                if "/providers/" in e["file"]
            }
        )
        good = True
        for kind in kinds:
            objects, texts, deps = self.compile(lambda path, *_: path.startswith(f"providers/{kind}/"))
            good &= judge(
                f"rdma-core: provider {kind}", f"{len(objects['ours'])} sources", texts, deps, self.tree
            )
            if kind == "rxe":
                support = self.support()
                for variant in VARIANTS:
                    self.link(
                        variant,
                        "lib/librxe-rdmav34.so",
                        [*objects[variant].values(), *support[variant].values()],
                        "-shared",
                        "-libverbs",
                        "-lpthread",
                        "-lnl-route-3",
                        "-lnl-3",
                        f"-Wl,--version-script={self.tree}/buildlib/provider.map",
                    )
        return good


class Pyverbs(RdmaCore):
    """The Python binding, without the modules for vendors' libraries."""

    NAME, SETTINGS = "cmake-pyverbs", [
        "-DCMAKE_BUILD_TYPE=Debug",
        "-DPYTHON_EXECUTABLE=/usr/bin/python3",
        "-DCYTHON_EXECUTABLE=/usr/bin/cython3",
    ]

    def build(self):
        folder = f"{self.tree}/pyverbs"
        modules = sorted(f[:-4] for f in os.listdir(folder) if f.endswith(".pyx"))

        def translate(module):
            target = f"{self.cmake}/pyverbs/{module}.c"
            if not os.path.exists(target):
                run(["/usr/bin/cython3", f"{folder}/{module}.pyx", "-o", target])

        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(translate, modules))
        made = {f"{self.cmake}/pyverbs/{module}.c" for module in modules}
        objects, texts, deps = self.compile(
            lambda path, target, entry: entry["file"] in made or path == "pyverbs/dmabuf_alloc_stub.c"
        )
        support = self.support()
        suffix = run(
            ["/usr/bin/python3", "-c", "import sysconfig; print(sysconfig.get_config_var('EXT_SUFFIX'))"]
        ).stdout.strip()
        for variant in VARIANTS:
            place = {os.path.basename(path)[:-2]: target for path, target in objects[variant].items()}
            target = f"{self.out}/built/{variant}/python/pyverbs"
            os.makedirs(target, exist_ok=True)
            for file in os.listdir(folder):
                if file.endswith(".py"):
                    shutil.copy(f"{folder}/{file}", target)
            for module in modules:
                more = [place["dmabuf_alloc_stub"]] if module == "dmabuf" else []
                # Python's symbols are in the program that loads it
                self.link(
                    variant,
                    f"python/pyverbs/{module}{suffix}",
                    [place[module], *more, *support[variant].values()],
                    "-shared",
                    "-Wl,-z,lazy",
                    "-Wl,--unresolved-symbols=ignore-in-object-files",
                    "-lrdmacm",
                    "-libverbs",
                    "-lnl-route-3",
                    "-lnl-3",
                )
        return judge(
            "rdma-core: pyverbs",
            f"{len(objects['ours'])} sources, {len(modules)} modules",
            texts,
            deps,
            self.cmake,
        )


class Autotools:
    """A source with a configure script."""

    def __init__(self, tree, out, libdir):
        self.tree, self.out, self.libdir = tree, out, libdir

    def build(self, name, programs):
        texts, deps = {}, set()
        for variant in VARIANTS:
            work = f"{self.out}/{variant}/{name}"
            shutil.rmtree(work, ignore_errors=True)
            shutil.copytree(self.tree, work, symlinks=True)
            if not os.path.exists(f"{work}/configure"):
                run(["sh", "./autogen.sh"], cwd=work)
            settings = ["CFLAGS=-g -O2 -Wall -MD"]
            if variant == "ours":
                settings += [
                    f"CPPFLAGS=-I{HEADERS}",
                    f"LDFLAGS=-L{self.libdir} -Wl,-rpath-link={self.libdir}",
                ]
            # automake's dependency tracking would use the file of -MD
            run(["./configure", "--disable-dependency-tracking", *settings], cwd=work)
            made = run(["make", f"-j{os.cpu_count()}"], cwd=work)
            texts[variant] = made.stderr
            found = [os.path.join(folder, f) for folder, _, files in os.walk(work) for f in files]
            for path in found:
                if variant == "ours" and path.endswith(".d"):
                    with open(path) as file:
                        deps.update(file.read().replace("\\\n", " ").split())
                is_program = (
                    os.path.basename(path) in programs and os.access(path, os.X_OK) and "/.libs/" not in path
                )
                if is_program and not path.endswith(".c"):
                    shutil.copy(path, f"{self.out}/built/{variant}/bin/")
        missing = [p for p in programs if not os.path.exists(f"{self.out}/built/ours/bin/{p}")]
        if missing:
            raise Failed(f"{name} has not been built in full: {' '.join(missing)}")
        return judge(name, f"{len(programs)} programs", texts, deps, f"{self.out}/ours/{name}")


PERFTEST = [f"ib_{what}_{kind}" for what in ("send", "write", "read", "atomic") for kind in ("bw", "lat")] + [
    "raw_ethernet_bw",
    "raw_ethernet_lat",
    "raw_ethernet_burst_lat",
    "raw_ethernet_fs_rate",
]


def main():
    sources, out, libdir, *names = sys.argv[1:]
    for variant in VARIANTS:
        for folder in ("bin", "lib"):
            os.makedirs(f"{out}/built/{variant}/{folder}", exist_ok=True)
    core = []

    def rdma_core():
        if not core:
            core.append(RdmaCore(f"{sources}/rdma-core", out, libdir))
        return core[0]

    steps = {
        "examples": lambda: rdma_core().verbs_examples(),
        "librdmacm": lambda: rdma_core().librdmacm(),
        "providers": lambda: rdma_core().providers(),
        "perftest": lambda: Autotools(f"{sources}/perftest", out, libdir).build("perftest", PERFTEST),
        "pyverbs": lambda: Pyverbs(f"{sources}/rdma-core", out, libdir).build(),
        "qperf": lambda: Autotools(f"{sources}/qperf", out, libdir).build("qperf", ["qperf"]),
    }
    passed = failed = 0
    with open(f"{sources}/complete") as file:
        tell("sources: " + ", ".join(line.strip() for line in file))
    # pyverbs takes longer than all others
    for name in names or [step for step in steps if step != "pyverbs"]:
        start = time.monotonic()
        try:
            good = steps[name]()
        except Failed as problem:
            tell(f"FAILED  {name}\n{problem}")
            good = False
        passed, failed = passed + good, failed + (not good)
        tell(f"        {name}: {time.monotonic() - start:.0f} s")
    tell(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


sys.exit(main())
