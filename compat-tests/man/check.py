#!/usr/bin/python3
"""Checks that the manual pages in man/ are well-formed, complete and correct.

- mandoc and groff report no problem, and no line is wider than 80 columns.
- Every function that the library exports for programs, or that verbs.h defines inline, has a page. Every name
  in a NAME section has a file. Every cross-reference leads to a page here or in another package (pages.lst).
- The prototypes and structures match those of the headers, both ours and the installed ones; the compiler
  checks this. The examples compile without warnings.
- The constants, errors, types and functions that the pages mention exist. libibverbs-rs(7) lists all
  environment variables that the sources read, and all messages; libibverbs-rs-providers(7) lists all
  functions of the provider interface; with-ibverbs-rs(1) lists the options and variables of the program.

Needs mandoc, groff and gcc. A directory given as argument is checked instead of man/; selftest uses this.
"""
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import mdoc

HERE = Path(__file__).resolve().parent
REPO = HERE.parents[1]
MAN = Path(sys.argv[1]) if len(sys.argv) > 1 else REPO / "man"
WRAPPER = REPO / "crates/with-ibverbs-rs"
# Sets of headers: ours, the distribution's, and ours for providers, whose layouts differ.
OURS = REPO / "include"
PUBLIC = ["infiniband/verbs.h", "infiniband/sa.h"]
HEADER_SETS = [
    ("include/", OURS, PUBLIC),
    ("the distribution's", Path("/usr/include"), PUBLIC),
    ("include/", OURS, ["infiniband/driver.h"]),
]
# Functions that no header declares: their prototypes are compared with the Rust functions.
UNDECLARED = {
    "ibv_register_driver", "ibv_copy_ah_attr_from_kern", "ibv_copy_qp_attr_from_kern",
    "ibv_copy_path_rec_from_kern", "ibv_copy_path_rec_to_kern",
}
# Page names of rdma-core that are not functions. Users search for them.
ALIASES = {"ibv_create_flow_action", "ibv_modify_flow_action", "ibv_wr_post"}
SYSTEM = ["errno.h", "stdio.h", "stddef.h", "sys/mman.h", "sys/resource.h"]
WANTED = {
    "1": ["NAME", "SYNOPSIS", "DESCRIPTION", "EXIT STATUS", "SEE ALSO"],
    "3": ["NAME", "LIBRARY", "SYNOPSIS", "DESCRIPTION", "RETURN VALUES", "THREAD SAFETY", "SEE ALSO"],
    "7": ["NAME", "DESCRIPTION", "SEE ALSO"],
}
VERB = re.compile(r"_*ibv_\w+|verbs_\w+|mult_to_\w+|mbps_to_\w+")

passed, failures = 0, []


def check(ok, what):
    global passed
    if ok:
        passed += 1
    else:
        failures.append(what)
        print(f"FAILED: {what}")


def run(*command, text=None, cwd=MAN):
    """Returns all output of a command, or its name and exit status if it fails without output."""
    done = subprocess.run(command, input=text, cwd=cwd, capture_output=True, text=True)
    said = done.stdout + done.stderr
    return said or (f"{command[0]}: exit status {done.returncode}" if done.returncode else "")


def compiles(source, *flags):
    """Returns the compiler's messages for a C source."""
    return run("gcc", "-std=gnu11", "-fsyntax-only", *flags, "-xc", "-", text=source)


def check_compiles(prefix, parts, *flags):
    """Compiles C sources, each with the failure to report for it: all at once, which is much faster, then in
    halves to find the one that fails."""
    said = parts and compiles(prefix + "".join(source for source, _ in parts), *flags)
    if said and len(parts) > 1:
        half = len(parts) // 2
        check_compiles(prefix, parts[:half], *flags)
        check_compiles(prefix, parts[half:], *flags)
    else:
        for _, wrong in parts:
            check(not said, f"{wrong}: {said}")


# --- form

def well_formed(pages):
    files = [page.path.name for page in pages]
    # Which pages are installed here does not matter; references() checks cross-references.
    lint = [line for line in run("mandoc", "-T", "lint", "-W", "style", *files).splitlines()
            if "referenced manual not found" not in line and "outdated mandoc.db" not in line]
    lint += run("groff", "-ww", "-mdoc", "-z", "-Tutf8", *files).splitlines()
    for page in pages:
        said = [line for line in lint if f"{page.path.name}:" in line]
        lint = [line for line in lint if line not in said]
        check(not said, f"{page.path.name}: mandoc or groff: {said}")
        shown = run("mandoc", "-T", "ascii", "-O", "width=80", page.path.name)
        wide = [line for line in re.sub(".\b", "", shown).splitlines() if len(line) > 80]
        check(not wide, f"{page.path.name}: wider than 80 columns: {wide}")
        has_its_sections(page)
    check(not lint, f"mandoc or groff: {lint}")


def has_its_sections(page):
    missing = [section for section in WANTED[page.section] if section not in page.sections]
    check(not missing, f"{page.path.name}: no section {missing}")
    check(page.name in page.names(), f"{page.path.name}: NAME does not contain {page.name}")


def names_lead_to_pages(pages):
    files = {page.path.name: page for page in pages}
    for page in pages:
        if page.link:
            target = files.get(page.link)
            check(target and (page.name in target.names() or page.name in ALIASES and not target.link),
                  f"{page.path.name}: {page.link} does not describe it")
        else:
            for name in sorted(page.names()):
                there = files.get(f"{name}.{page.section}")
                check(there and (there is page or there.link == page.path.name),
                      f"{page.path.name}: no file for its name {name}")
                if page.section == "3":
                    shown = {prototype[1] for prototype in page.prototypes} | set(page.macros)
                    check(name in shown, f"{page.path.name}: the SYNOPSIS does not show {name}")


def distribution():
    """Returns the pages of other packages that pages.lst lists: {page: package}."""
    pages = {}
    for line in (HERE / "pages.lst").read_text().splitlines():
        if line and not line.startswith("#"):
            page, package = line.split()
            pages[page] = package
    return pages


def list_is_true(pages):
    """Compares pages.lst with the installed packages, and prints which packages are not installed."""
    absent = []
    for package in sorted(set(pages.values())):
        state = subprocess.run(["dpkg-query", "-W", "-f", "${db:Status-Status}", package],
                               capture_output=True, text=True).stdout
        if state != "installed":
            absent.append(package)
            continue
        files = subprocess.run(["dpkg-query", "-L", package], capture_output=True, text=True).stdout
        there = {match[1] for match in re.finditer(r"/usr/share/man/man\d/(\S+?)\.gz$", files, re.M)}
        listed = {page for page, of in pages.items() if of == package}
        check(not listed - there, f"pages.lst: {package} does not contain {sorted(listed - there)}")
    for package in absent:
        print(f"note: {package} is not installed, so its pages in pages.lst were not checked")


def references(pages, elsewhere):
    ours = {page.path.name for page in pages}
    for page in pages:
        for wanted in sorted(page.marked("Xr")):
            check(wanted in ours or wanted in elsewhere,
                  f"{page.path.name}: no page {wanted} here or in pages.lst")
    index = next(page for page in pages if page.name == "libibverbs-rs")
    missing = {page.path.name for page in pages if not page.link} - index.marked("Xr") - {index.path.name}
    check(not missing, f"{index.path.name}: no cross-reference to {sorted(missing)}")


# --- the interface

class Headers:
    """The declarations of a set of headers."""

    def __init__(self, name, folder, files):
        self.name, self.files = name, files
        self.flags = ["-I", str(folder)] if folder == OURS else []
        self.include = "#define RDMA_STATIC_PROVIDERS all\n" + "".join(
            f"#include <{header}>\n" for header in SYSTEM + files)
        self.functions = self.declared()
        self.verbs = {function for function in self.functions if VERB.fullmatch(function)}
        self.text = run("gcc", "-E", "-dD", *self.flags, "-xc", "-", text=self.include)
        self.text += "".join((folder / header).read_text() for header in files)
        self.words = set(re.findall(r"\w+", self.text))
        self.macros = set(re.findall(r"^\s*#\s*define (\w+)\(", self.text, re.M))
        self.verbs |= {macro for macro in self.macros if re.match("(ibv|verbs)_[a-z]", macro)}

    def declared(self):
        with tempfile.TemporaryDirectory() as work:
            path = Path(work) / "declared"
            said = compiles(self.include, *self.flags, "-aux-info", str(path))
            check(not said, f"{self.name} {self.files}: {said}")
            lines = path.read_text().splitlines() if path.exists() else []
        return {match[1] for line in lines if "infiniband/" in line
                for match in re.finditer(r"^/\*[^*]*\*/ .*?(\w+) \(", line)}

    def has_type(self, kind, name):
        return re.search(rf"\b{kind}\s+{name}\s*\{{", self.text)


def version_map():
    """Returns the exported names of libibverbs.map, for programs and for providers, and the nodes of each."""
    public, private, nodes = set(), set(), {}
    text = (REPO / "src/export/libibverbs.map").read_text()
    for node, body in re.findall(r"^(IBVERBS_\S+) \{(.*?)^\}", text, re.S | re.M):
        names = set(re.findall(r"^\t\t(\w+);", body, re.M))
        (private if "PRIVATE" in node else public).update(names)
        for name in {node} | names:
            nodes.setdefault(name, []).append(node)
    return public, private, nodes


def coverage(pages, public, private, header_sets):
    declared = set().union(*(headers.verbs for headers in header_sets))
    # Names with two underscores are helpers of a header; a page for them is optional.
    wanted = public | {name for name in declared if not name.startswith("__")}
    there = {page.name for page in pages if page.section == "3"}
    for name in sorted(wanted):
        check(name in there, f"no page for {name}")
    for page in pages:
        if page.section == "3" and page.name not in ALIASES:
            known = page.name in wanted | declared | private
            check(known, f"{page.path.name}: neither the library nor a header defines {page.name}")
    return wanted | declared


def rust_arguments(name):
    """Returns the number of arguments of an exported function in the Rust sources."""
    for path in sorted((REPO / "src").rglob("*.rs")):
        match = re.search(rf'extern "C" fn {name}\(([^)]*)\)', path.read_text())
        if match:
            return len([argument for argument in match[1].split(",") if argument.strip()])
    return None


def versions_are_true(pages, nodes):
    """Checks that a page mentions exactly the symbol versions of its functions."""
    for page in pages:
        spoken = set(re.findall(r"IBVERBS_(?:1\.\d+|PRIVATE_\d+)", page.source))
        if spoken and page.section == "3":
            # The page of an inline function gives the version of the function that it calls.
            names = page.names() | {f"_{name}" for name in page.names()}
            newest = {nodes[name][-1] for name in names if name in nodes}
            check(spoken == newest,
                  f"{page.path.name}: mentions {sorted(spoken)}, the functions have {sorted(newest)}")


def prototypes_are_true(pages, header_sets):
    for headers in header_sets:
        # driver.h has to be included first, so it is a separate set.
        others = {header for page in pages for header in page.headers}
        others -= {*headers.files, "infiniband/driver.h"}
        include = headers.include + "".join(f"#include <{header}>\n" for header in sorted(others))
        parts = []
        for page in pages:
            source = ""
            for result, name, arguments in page.prototypes:
                if name in headers.macros:
                    # Programs see the prototype of the macro; the function of the same name may differ.
                    values = ", ".join(re.search(r"(\w+)(?:\[\w+\])?$", argument)[1]
                                       for argument in arguments)
                    source += f"{result} man_{name}({', '.join(arguments)}) {{ return {name}({values}); }}\n"
                elif name in headers.functions or name in UNDECLARED:
                    source += f"{result} ({name})({', '.join(arguments) or 'void'});\n"
            if source:
                parts.append((source, f"{page.path.name}: prototypes differ from {headers.name} headers"))
        check_compiles(include, parts, "-Werror", *headers.flags)
    for page in pages:
        for _, name, arguments in page.prototypes:
            declared = [headers.name for headers in header_sets if name in headers.functions]
            if name in UNDECLARED:
                check(not declared, f"{page.path.name}: UNDECLARED contains {name}, but a header declares it")
                check(rust_arguments(name) == len(arguments),
                      f"{page.path.name}: {name} has another number of arguments in src/")
            else:
                check(declared, f"{page.path.name}: no header declares {name}")


def members(body):
    """Yields the type and name of each named member of a structure; an unnamed type is `{}`."""
    while True:
        flat = re.sub(r"\{[^{}]*\}", "@", body)
        if flat == body:
            break
        body = flat
    for declaration in body.split(";"):
        function = re.search(r"\(\*(\w+)\)", declaration)
        name = function or re.search(r"(\w+)\s*(?:\[\w+\])?\s*$", declaration)
        if name:
            yield declaration.replace("@", "{}"), name[1]


def structure_source(kind, name, body, headers, tag):
    """Returns C code that compiles if a structure or enumeration, here named `tag`, matches the headers."""
    if kind == "enum":
        values = re.findall(r"^\s*(\w+)", body, re.M)
        return (f"enum {tag} {{\n" + re.sub(r"(?m)^(\s*)(\w+)", rf"\1{tag}_\2", body) + "};\n"
                + "".join(f"_Static_assert({tag}_{value} == (int){value}, \"{value}\");\n"
                          for value in values))
    # An older header may lack the newest members; all others must match.
    there = re.search(rf"\bstruct\s+{name}\s*\{{.*?^\}}", headers.text, re.S | re.M)[0]
    shown = list(members(body))
    known = [pair for pair in shown if re.search(rf"\b{pair[1]}\b", there)]
    source = f"struct {tag} {{\n{body}}};\n"
    if known == shown or headers.flags:
        source += f"_Static_assert(sizeof(struct {tag}) == sizeof(struct {name}), \"size\");\n"
    for type_, member in known:
        source += f"_Static_assert(offsetof(struct {tag}, {member}) == offsetof(struct {name}, {member})"
        if "{" not in type_:
            source += (f" && __builtin_types_compatible_p(__typeof__(((struct {tag} *)0)->{member}),"
                       f" __typeof__(((struct {name} *)0)->{member}))")
        source += f", \"{member}\");\n"
    return source


def structures_are_true(pages, header_sets):
    shown = []
    for page in pages:
        for _, text in page.literals:
            match = re.match(r"(struct|enum) (\w+) \{\n(.*)\};\n$", text, re.S)
            if match:
                kind, name, body = match.groups()
                shown.append((page.path.name, kind, name, re.sub(r"/\*.*?\*/", "", body, flags=re.S)))
                check(any(headers.has_type(kind, name) for headers in header_sets),
                      f"{page.path.name}: no header has {kind} {name}")
    for headers in header_sets:
        parts = [(structure_source(kind, name, body, headers, f"man_{n}"),
                  f"{page}: {kind} {name} differs from {headers.name} headers")
                 for n, (page, kind, name, body) in enumerate(shown) if headers.has_type(kind, name)]
        check_compiles(headers.include, parts, *headers.flags)


def examples_compile(pages, newest):
    for page in pages:
        for section, text in page.literals:
            if section == "EXAMPLES" and "#include" in text:
                said = compiles(text, "-Wall", "-Wextra", "-Werror", *newest.flags)
                check(not said, f"{page.path.name}: the example does not compile: {said}")


def words_exist(pages, header_sets, wanted, private, nodes):
    words = {name for name in nodes if name.startswith("IBVERBS_")}
    words = words.union(*(headers.words for headers in header_sets))
    functions = wanted | private | words | {"main", "PROVIDER_DRIVER", "ibv_cmd_*"}
    for page in pages:
        for macro, kind in ("Dv", "constant"), ("Er", "error"):
            for word in sorted(page.marked(macro)):
                check(word in words, f"{page.path.name}: {kind} {word} does not exist")
        for name in sorted(page.marked("Fn")):
            check(name in functions, f"{page.path.name}: function {name} does not exist")
        for type_ in sorted(page.marked("Vt")):
            name = type_.replace("*", "").split()[-1]
            check(name in words, f"{page.path.name}: type {type_} does not exist")


def providers_page(pages, private):
    page = next(page for page in pages if page.name == "libibverbs-rs-providers")
    named = page.marked("Fn") | page.marked("Va") | {arg for _, args in page.items for arg in args}
    text = page.source
    for name in sorted(private):
        check(name in named or re.search(rf"\b{name}\b", text), f"{page.path.name}: does not mention {name}")


# --- behaviour of the sources

def sources():
    for folder in "src", "crates":
        for path in sorted((REPO / folder).rglob("*.rs")):
            if "tests" not in str(path.relative_to(REPO)) and WRAPPER not in path.parents:
                yield path.read_text().split("#[cfg(test)]\nmod tests", 1)[0]


def environment_is_true(page):
    read, built = set(), set()
    for text in sources():
        read |= set(re.findall(r'\benv::(?:get|flag|var|var_os)\(\s*c?"(\w+)"', text))
        built |= set(re.findall(r'option_env!\("(\w+)"\)', text))
    shown = {word for section, args in page.items if section == "ENVIRONMENT" for word in args} - {"Ev", ","}
    check(read == shown, f"{page.path.name}: ENVIRONMENT lists {sorted(shown - read)}, which nothing reads, "
                         f"and lacks {sorted(read - shown)}")
    for name in sorted(built):
        check(name in page.marked("Ev"), f"{page.path.name}: does not mention {name}, which the build reads")


def wrapper_is_true(page):
    """Compares the options and variables in with-ibverbs-rs(1) with the program."""
    text = "".join(path.read_text() for path in sorted(WRAPPER.rglob("*.rs")))
    read = set(re.findall(r'\bvar\("([A-Z_]+)"\)', text)) - {"PATH"}
    shown = {word for section, args in page.items if section == "ENVIRONMENT" for word in args} - {"Ev", ","}
    check(read == shown, f"{page.path.name}: ENVIRONMENT lists {sorted(shown - read)}, which nothing reads, "
                         f"and lacks {sorted(read - shown)}")
    options = set(re.findall(r'\bb"(--\w+)"', text))
    named = {f"-{option}" for option in re.findall(r"\bFl (-\w+)", page.source)}
    check(options == named, f"{page.path.name}: lists {sorted(named)}, the program has {sorted(options)}")


def messages_are_true(page):
    start = re.compile(r'"((?:Warning|Fatal): [^"%{\\]*)')
    printed = {match[1].rstrip() for text in sources() for match in start.finditer(text)}
    shown = {mdoc.plain(args[0]).split("%")[0].rstrip(" .") for section, args in page.items
             if section == "DIAGNOSTICS" and args}
    for message in sorted(printed):
        check(any(known.startswith(message.rstrip(" .")) for known in shown),
              f"{page.path.name}: DIAGNOSTICS lacks the message «{message}»")
    for known in sorted(shown):
        check(any(known.startswith(message.rstrip(" .")) for message in printed),
              f"{page.path.name}: the sources do not contain the message «{known}»")


def main():
    everything = mdoc.pages(MAN)
    check(everything, f"{MAN}: no pages")
    pages = [page for page in everything if not page.link]
    elsewhere = distribution()
    header_sets = [Headers(*header_set) for header_set in HEADER_SETS]
    public, private, nodes = version_map()
    check(len(public) > 90 and len(private) > 70, "src/export/libibverbs.map: too few names found")

    well_formed(pages)
    names_lead_to_pages(everything)
    list_is_true(elsewhere)
    references(everything, elsewhere)
    wanted = coverage(everything, public, private, header_sets[:2])
    versions_are_true(pages, nodes)
    prototypes_are_true(pages, header_sets)
    structures_are_true(pages, header_sets)
    examples_compile(pages, header_sets[0])
    words_exist(pages, header_sets, wanted, private, nodes)
    providers_page(pages, private)
    index = next(page for page in pages if page.name == "libibverbs-rs")
    environment_is_true(index)
    messages_are_true(index)
    wrapper_is_true(next(page for page in pages if page.name == "with-ibverbs-rs"))
    print(f"man: {passed} passed, {len(failures)} failed")
    return bool(failures)


sys.exit(main())
