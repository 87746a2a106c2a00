#!/usr/bin/python3
"""facts.py [-I DIR | -D NAME[=VALUE]]... [--of DIR]... HEADER...: prints what headers declare to a C
compiler, one fact per line.

Only declarations in files below the --of directories are printed (default: the -I directories). The facts
are: the size and alignment of each struct and union; the offset, size and type of each field (for
verbs_context the distance from the end, which is the ABI); the value of each enumerator; the type of each
function, and whether it is inline; the value of each macro, or its number of parameters, or its expansion.
Headers of the same interface have the same facts.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile

from clang import cindex
from clang.cindex import CursorKind, TypeKind

RECORDS = (CursorKind.STRUCT_DECL, CursorKind.UNION_DECL)
# Names that headers define for internal use.
OWN = re.compile(r"^(_+ibv_\w+|__IBV_\w+|_RDMA_STATIC\w*)$", re.I)
NOT_OWN = {
    "___ibv_query_port",
    "__ibv_reg_mr",
    "__ibv_reg_mr_iova",
    "_ibv_query_gid_ex",
    "_ibv_query_gid_table",
    "_ibv_query_comp_cntr_caps",
    "__ibv_query_gid_ex",
    "_ibv_device_ops",
    "__ibv_get_device_list",
}


def type_name(kind):
    """A type's name without the parts that depend on the location or spelling of its declaration."""
    text = kind.get_canonical().spelling
    text = re.sub(r"(struct|union|enum) [\w:]*\((unnamed|anonymous)[^)]*\)", r"\1 (unnamed)", text)
    return text.replace("_Atomic(int)", "atomic_int")


class Facts:
    def __init__(self, folders):
        self.folders = [os.path.realpath(f) + "/" for f in folders]
        self.lines = set()
        self.macros = {}

    def here(self, cursor):
        file = cursor.location.file
        return file is not None and any(os.path.realpath(file.name).startswith(f) for f in self.folders)

    def add(self, line):
        self.lines.add(line)

    def record(self, name, kind, root, base=0, prefix=""):
        """Adds the fields of a struct, including those of unnamed structs in it."""
        for field in kind.get_fields():
            offset = base + field.get_field_offsetof()
            path = prefix + field.spelling
            inner = field.type
            while inner.kind == TypeKind.CONSTANTARRAY:
                inner = inner.element_type
            declaration = inner.get_declaration()
            spelling = inner.get_canonical().spelling
            nameless = declaration.kind in RECORDS and re.search(r"\((unnamed|anonymous)", spelling)
            if field.is_bitfield():
                self.add(f"field {name}.{path} bit {offset} width {field.get_bitfield_width()}")
                continue
            if field.spelling:
                size = field.type.get_size()
                if name == "verbs_context":
                    self.add(
                        f"field {name}.{path} from the end {root.get_size() - offset // 8} size {size}"
                        f" type {type_name(field.type)}"
                    )
                else:
                    self.add(
                        f"field {name}.{path} offset {offset // 8} size {size} type {type_name(field.type)}"
                    )
            if nameless:
                self.record(name, inner, root, offset, path + "." if field.spelling else prefix)

    def visit(self, unit):
        for cursor in unit.cursor.get_children():
            if not self.here(cursor):
                continue
            name = cursor.spelling
            if cursor.kind in RECORDS and cursor.is_definition() and name and "(" not in name:
                word = "struct" if cursor.kind == CursorKind.STRUCT_DECL else "union"
                self.add(f"{word} {name} size {cursor.type.get_size()} align {cursor.type.get_align()}")
                self.record(name, cursor.type, cursor.type)
            elif cursor.kind == CursorKind.ENUM_DECL and cursor.is_definition():
                nameless = not name or "(" in name
                self.add(f"enum {name} size {cursor.type.get_size()}") if not nameless else None
                for value in cursor.get_children():
                    if value.kind == CursorKind.ENUM_CONSTANT_DECL:
                        of = "" if nameless else f" of {name}"
                        self.add(f"enumerator {value.spelling} = {value.enum_value}{of}")
            elif cursor.kind == CursorKind.FUNCTION_DECL:
                if OWN.match(name) and name not in NOT_OWN:
                    continue
                inline = " inline" if cursor.is_definition() else ""
                self.add(f"function{inline} {name} {type_name(cursor.type)}")
            elif cursor.kind == CursorKind.TYPEDEF_DECL:
                self.add(f"typedef {name} {type_name(cursor.underlying_typedef_type)}")
            elif cursor.kind == CursorKind.VAR_DECL:
                self.add(f"variable {name} {type_name(cursor.type)}")
            elif cursor.kind == CursorKind.MACRO_DEFINITION and not (OWN.match(name) and name not in NOT_OWN):
                tokens = [t.spelling for t in cursor.get_tokens()][1:]
                self.macros[name] = (cursor, tokens)


def function_like(cursor):
    """Whether a macro has parameters. Clang does not report that: a parenthesis follows the name directly."""
    begin = cursor.extent.start
    with open(begin.file.name, errors="replace") as file:
        line = file.read().split("\n")[begin.line - 1]
    return line[begin.column - 1 + len(cursor.spelling) :][:1] == "("


def evaluate(names, source, flags):
    """The values of macros that are constant expressions, and the expansions of the others."""
    with tempfile.TemporaryDirectory() as work:
        path = f"{work}/values.c"
        number = "(unsigned long long)(%s)"
        # an address is not a constant expression
        probe = [
            f'_Static_assert({number % n} | 1, ""); static const unsigned long long v_{n} = {number % n};'
            for n in names
        ]

        def compile_only():
            with open(path, "w") as file:
                file.write(
                    source + '#include <stdio.h>\n#line 1 "probe"\n' + "\n".join(p or "" for p in probe)
                )
                file.write("\nint main(void) {\n")
                file.writelines(f'printf("{n} %llu\\n", v_{n});\n' for n, p in zip(names, probe) if p)
                file.write("return 0; }\n")
            command = ["gcc", *flags, "-ftrack-macro-expansion=0", "-o", f"{work}/values", path]
            return subprocess.run(command, capture_output=True, text=True)

        # gcc reports an unknown name only once: repeat until there are no errors
        while (result := compile_only()).returncode:
            wrong = {int(n) for n in re.findall(r"^probe:(\d+):\d+: error", result.stderr, re.M)}
            if not wrong & set(range(1, len(probe) + 1)):
                sys.exit(result.stderr)
            probe = [None if n in wrong else p for n, p in enumerate(probe, 1)]
        printed = subprocess.run([f"{work}/values"], capture_output=True, text=True, check=True).stdout
        values = dict(line.split() for line in printed.splitlines())
        rest = [n for n in names if n not in values]
        with open(path, "w") as file:
            file.write(source + "".join(f"\n@@{n}@ {n}" for n in rest) + "\n")
        text = subprocess.run(
            ["gcc", *flags, "-E", "-P", path], capture_output=True, text=True, check=True
        ).stdout
        # the name in front of the space is expanded as well
        expanded = {}
        for name, line in zip(rest, [l for l in text.split("\n") if l.startswith("@@")]):
            expanded[name] = " ".join(line.split("@", 3)[3].split()).replace("{ }", "{}")
        return values, expanded


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-I", action="append", default=[])
    parser.add_argument("-D", action="append", default=[])
    parser.add_argument("--of", action="append", default=[])
    parser.add_argument("headers", nargs="+")
    args = parser.parse_args()
    flags = ["-std=gnu17", "-w", *(f"-I{i}" for i in args.I), *(f"-D{d}" for d in args.D)]
    source = "".join(f"#include <{h}>\n" for h in args.headers)
    gcc_include = subprocess.run(
        ["gcc", "-print-file-name=include"], capture_output=True, text=True
    ).stdout.strip()
    unit = cindex.Index.create().parse(
        "facts.c",
        [*flags, f"-idirafter{gcc_include}"],
        [("facts.c", source)],
        cindex.TranslationUnit.PARSE_DETAILED_PROCESSING_RECORD,
    )
    errors = [d for d in unit.diagnostics if d.severity >= cindex.Diagnostic.Error]
    if errors:
        sys.exit("\n".join(str(e) for e in errors))
    facts = Facts(args.of or args.I)
    facts.visit(unit)
    # macros that were undefined again do not count
    defined = subprocess.run(
        ["gcc", *flags, "-E", "-dM", "-"], input=source, capture_output=True, text=True
    ).stdout
    left = set(re.findall(r"^#define (\w+)", defined, re.M))
    plain = []
    for name, (cursor, tokens) in facts.macros.items():
        if name not in left:
            continue
        if function_like(cursor):
            depth = " ".join(tokens)
            params = re.match(r"\( ([^)]*)\)", depth) or re.match(r"\(()", depth)
            count = len([p for p in params.group(1).split(",") if p.strip()])
            facts.add(f"macro {name} with {count} parameters")
        elif not tokens:
            facts.add(f"macro {name} empty")
        elif tokens == [name]:
            facts.add(f"macro {name} is {name}")
        else:
            plain.append(name)
    values, expanded = evaluate(sorted(plain), source, flags)
    for name, value in values.items():
        facts.add(f"macro {name} = {value}")
    for name, text in expanded.items():
        facts.add(f"macro {name} is {text}")
    print("\n".join(sorted(facts.lines)))


main()
