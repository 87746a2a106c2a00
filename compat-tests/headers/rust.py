#!/usr/bin/python3
"""rust.py: compares include/ with the Rust types (crates/ibverbs-abi), in both directions.

cbindgen writes the Rust types as a C header. Its facts (facts.py) are compared with those of our headers:
size and offset of each field, value of each enumerator and constant. Types cannot be compared by name:
unnamed structs of C have names in Rust, and enums are integers there. Types of the kernel's interface that
are in the kernel's headers, not in ours, are skipped (crates/ibverbs-abi/tests/layout compares them).

The last line is a summary; the exit code is 1 if anything differs.
"""

import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.realpath(__file__))
REPO = os.path.realpath(f"{HERE}/../..")
HEADERS = [
    "infiniband/driver.h",
    "infiniband/cmd_write.h",
    "infiniband/opcode.h",
    "infiniband/sa.h",
    "infiniband/tm_types.h",
    "infiniband/sa-kern-abi.h",
]

# Intended differences, with reasons.
RUST_ONLY = [
    (
        r"verbs_dmah|verbs_create_cq_prov_attr\w*|ibv_buf",
        "of provider ABIs from 57 on; ibv_buf is opaque to programs",
    ),
    (r"CREATE_CQ_CMD_FLAGS_WITH_MEM_\w+", "of provider ABIs from 57 on"),
    (r"verbs_software_ops", "between the library and uroce"),
    (r"ibv_command_buffer\.flags", "bit-fields in C, a byte in Rust"),
    (r"ibv_flow_action_esp(_\w+)?", "in C, macros for the kernel's names"),
]
C_ONLY = [
    (
        r"verbs_context_ops(\..*)?",
        "in Rust, from a macro; crates/ibverbs-abi/tests/layout compares its slots",
    ),
    (r"empty", "in C, stands for no response"),
    (r"IBVERBS_PABI_VERSION", "in Rust, part of the symbols"),
    (r"__VERBS_ABI_IS_EXTENDED|IBV_ALLOCATOR_USE_DEFAULT", "pointers"),
    (r"_ABI_ALIGN_\w+|IB_USER_VERBS_CMD_\w+_V\d", "in C, used to declare commands"),
    (r"ib_uverbs_flow_action_esp_encap\.\w+_data_u64", "second names for pointers"),
]


def facts(*arguments):
    result = subprocess.run([f"{HERE}/facts.py", *arguments], capture_output=True, text=True)
    if result.returncode:
        sys.exit(f"{' '.join(arguments)}: {result.stderr}")
    return result.stdout.splitlines()


def cbindgen():
    """The facts of cbindgen's header of crates/ibverbs-abi. All types are listed: by default cbindgen omits
    those that no function uses."""
    names = set()
    for folder, _, files in os.walk(f"{REPO}/crates/ibverbs-abi/src"):
        for file in files:
            with open(f"{folder}/{file}") as source:
                names |= set(re.findall(r"^\s*pub (?:struct|union|type) (\w+)", source.read(), re.M))
    with tempfile.TemporaryDirectory() as work:
        with open(f"{REPO}/cbindgen.toml") as file:
            config = file.read()
        # a struct comes before its members that point back to it
        listed = ", ".join(f'"{name}"' for name in sorted(names, key=lambda n: n.lstrip("_")))
        with open(f"{work}/cbindgen.toml", "w") as file:
            file.write(config.replace("[export]\n", f"[export]\ninclude = [{listed}]\n"))
        os.mkdir(f"{work}/abi")
        made = subprocess.run(
            [
                "cbindgen",
                "--config",
                f"{work}/cbindgen.toml",
                "--crate",
                "ibverbs-abi",
                "--output",
                f"{work}/abi/abi.h",
                f"{REPO}/crates/ibverbs-abi",
            ],
            capture_output=True,
            text=True,
        )
        if made.returncode:
            sys.exit(made.stderr[-3000:])
        return facts("-I", f"{work}/abi", "abi.h")


class Side:
    """Structs with their fields, and constants."""

    def __init__(self, lines):
        self.sizes, self.fields, self.numbers, self.aliases = {}, {}, {}, {}
        for line in lines:
            if match := re.match(r"(?:struct|union) (\w+) size (\d+)", line):
                self.sizes[match[1]] = int(match[2])
            elif match := re.match(r"field (\w+)\.(\S+) from the end (\d+) size (-?\d+) type (.*)", line):
                self.fields.setdefault(match[1], {})[match[2]] = (-int(match[3]), int(match[4]), match[5])
            elif match := re.match(r"field (\w+)\.(\S+) offset (\d+) size (-?\d+) type (.*)", line):
                self.fields.setdefault(match[1], {})[match[2]] = (int(match[3]), int(match[4]), match[5])
            elif match := re.match(r"enumerator (\w+) = (-?\d+)", line):
                self.numbers[match[1]] = int(match[2])
            elif match := re.match(r"macro (\w+) = (\d+)", line):
                self.numbers[match[1]] = int(match[2])
            elif match := re.match(r"typedef (\w+) (?:struct|union) (\w+)$", line):
                self.aliases[match[1]] = match[2]


def flatten(rust, ours, name, inner, base, prefix, parts, into):
    """Collects the fields of a Rust struct by their paths in C, where members of unnamed structs belong to
    the struct around them."""
    for field, (offset, size, kind) in rust.fields.get(inner, {}).items():
        field = field.removesuffix("_")
        path = prefix + field
        part = re.fullmatch(r"(?:struct|union) (\w+)", kind)
        part = part[1] if part else None
        if part and part not in ours.sizes and part in rust.sizes:
            parts.add(part)
            named = path in ours.fields.get(name, {})
            if named:
                into[path] = (base + offset, size)
            flatten(rust, ours, name, part, base + offset, path + "." if named else prefix, parts, into)
        else:
            into[path] = (base + offset, size)


def main():
    rust = Side(cbindgen())
    ours = Side(facts("-I", f"{REPO}/include", *HEADERS))
    for alias, name in rust.aliases.items():
        rust.sizes.setdefault(alias, rust.sizes.get(name))
        rust.fields.setdefault(alias, rust.fields.get(name, {}))
    wrong, used, equal = [], set(), 0

    def only(rules, name, what):
        for rule in rules:
            if re.fullmatch(rule[0], name):
                used.add(rule)
                return
        wrong.append(f"{name}: {what}")

    parts = set()
    for name, size in sorted(ours.sizes.items()):
        if name not in rust.sizes:
            only(C_ONLY, name, "in include/ only")
            continue
        if size != rust.sizes[name]:
            wrong.append(f"{name}: size {size} in include/, {rust.sizes[name]} in crates/ibverbs-abi")
        fields = {}
        flatten(rust, ours, name, name, 0, "", parts, fields)
        for path, (offset, length, kind) in ours.fields.get(name, {}).items():
            if path not in fields:
                # the members of a command's payload may be reached without its name
                only(C_ONLY, f"{name}.{path}", "in include/ only")
            elif fields[path] != (offset, length) and length >= 0:
                wrong.append(
                    f"{name}.{path}: {offset}, {length} in include/, {fields[path]} in crates/ibverbs-abi"
                )
            else:
                equal += 1
        for path in fields.keys() - ours.fields.get(name, {}).keys():
            # skip the members of kernel types
            if not any(path.startswith(f"{other}.") for other in ours.fields.get(name, {})):
                only(RUST_ONLY, f"{name}.{path}", "in crates/ibverbs-abi only")
    for name in sorted(rust.sizes.keys() - ours.sizes.keys() - parts):
        if re.match(r"(ibv|verbs)_|_ibv", name):
            only(RUST_ONLY, name, "in crates/ibverbs-abi only")
    for name, value in sorted(ours.numbers.items()):
        if name not in rust.numbers:
            only(C_ONLY, name, f"{value} in include/ only")
            continue
        theirs = rust.numbers[name]
        # -1 as an unsigned int or long
        if theirs != value and (theirs - value) % (1 << 32):
            wrong.append(f"{name}: {value} in include/, {theirs} in crates/ibverbs-abi")
        else:
            equal += 1
    for name in sorted(rust.numbers.keys() - ours.numbers.keys()):
        if re.match(r"IBV_|VERBS_|VSYSFS_|CREATE_CQ_", name):
            only(RUST_ONLY, name, "in crates/ibverbs-abi only")
    for problem in wrong:
        print(f"  {problem}")
    for rule in RUST_ONLY + C_ONLY:
        if rule not in used:
            wrong.append(rule)
            print(f"  this difference no longer exists: {rule[0]}")
    print(
        f"crates/ibverbs-abi: {len(ours.sizes)} structs,"
        f" {equal} fields and constants equal, {len(wrong)} wrong"
    )
    return 1 if wrong or equal < 1000 else 0


sys.exit(main())
