#!/usr/bin/python3
"""inline.py OURS OUR_FACTS THEIRS THEIR_FACTS [-D NAME=VALUE]... [--but NAME]... HEADER...: compares the
behaviour of inline functions.

OURS and THEIRS are lists of include directories, separated by colons. Generates a program that calls each
inline function that both headers have. Every function that an inline function may call (in contexts and
objects, and those that the library exports) is replaced by one that prints its arguments. The context is
passed with all operations, with none, and with its size ending before and after each operation. The arguments
are pseudo-random, the same for both headers; the replaced functions return different results in turn. The
program is compiled with each of the headers, without and with optimization. The outputs must be equal: the
calls with their arguments, the results, errno, and the changes in memory.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile

# These require the operation: with a context that lacks it, rdma-core's crash.
NEEDS_SLOT = {"ibv_close_xrcd"}

START = r"""
#include <stdio.h>
#include <stdbool.h>

enum { SLOTS = 16, ROOM = 1024, RESULT = SLOTS - 1, MR = SLOTS - 2 };
static _Alignas(16) char arena[SLOTS][ROOM], before[SLOTS][ROOM];
static struct { char in_front[64]; struct verbs_context ctx; } extended;
#define CTX (&extended.ctx.context)
static unsigned long state;
static int mode; /* selects what the replaced functions return */

static unsigned int number(void)
{
	static const unsigned int some[] = { 0, 1, 2, 3, 4, 7, 8, 31, 255, 0xffffffff };

	state = state * 6364136223846793005UL + 1442695040888963407UL;
	unsigned int high = state >> 33;
	return high % 4 ? some[high / 4 % 10] : high;
}

/* a number, or which object it points to: addresses differ between the programs */
static void show(unsigned long value)
{
	unsigned long at = value - (unsigned long)arena;

	if (at < sizeof(arena))
		printf("object %lu+%lu", at / ROOM, at % ROOM);
	else if (value == (unsigned long)CTX)
		printf("the context");
	else if (value == (unsigned long)&extended.ctx)
		printf("the extended context");
	else
		printf("%#lx", value);
}

static void show_changes(void)
{
	for (int i = 0; i < SLOTS; i++)
		for (int at = 0; at < ROOM; at += 8) {
			unsigned long now, then;

			memcpy(&now, arena[i] + at, 8);
			memcpy(&then, before[i] + at, 8);
			if (now != then) {
				printf(" %d+%d:", i, at);
				show(now);
			}
		}
}

static void fill(void)
{
	for (int i = 0; i < SLOTS; i++)
		for (int at = 0; at < ROOM; at += 4) {
			unsigned int word = number();

			memcpy(arena[i] + at, &word, 4);
		}
}

static void *some_result(void)
{
	return mode % 2 ? NULL : arena[RESULT];
}

static int some_number(void)
{
	static const int some[] = { 0, EOPNOTSUPP, ENOSYS, EINVAL, -1 };

	return some[mode];
}
"""


def facts(path):
    with open(path) as file:
        return file.read().splitlines()


def split_arguments(text):
    """Splits a function's type into the result type and the list of argument types."""
    depth = 0
    for begin in range(len(text) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(text[begin], 0)
        if depth == 0:
            break
    inside = text[begin + 1 : -1]
    parts, depth, last = [], 0, 0
    for at, letter in enumerate(inside + ","):
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            parts.append(inside[last:at].strip())
            last = at + 1
    return text[:begin].strip(), [p for p in parts if p and p != "void"]


def mock(name, symbol, result, arguments, static="static "):
    """A function that prints its arguments."""
    params = (
        ", ".join(f"{kind}{'' if kind.endswith('*') else ' '}a{i}" for i, kind in enumerate(arguments))
        or "void"
    )
    shows = ' printf(", ");'.join(f"\n\tshow((unsigned long)a{i});" for i in range(len(arguments)))
    back = {"void": ""}.get(result, f"return ({result})some_number();")
    if result.endswith("*"):
        back = f"return ({result})some_result();"
    body = f'\tprintf(" -> {name}(");{shows}\n\tprintf(")");\n\t{back}\n'
    return f"{static}{result} {symbol}({params})\n{{\n{body}}}\n"


class Program:
    def __init__(self, theirs, ours, but):
        common = set(ours)
        self.inlines, self.externs, self.slots, self.with_context = [], [], {}, []
        self.boundaries = []
        present = {
            re.match(r"function inline (\w+)", f).group(1) for f in common if f.startswith("function inline")
        }
        for fact in theirs:
            if match := re.match(r"function inline (\w+) (.*)", fact):
                if match[1] in present and match[1] not in but:
                    self.inlines.append((match[1], *split_arguments(match[2])))
            elif match := re.match(r"function (\w+) (.*)", fact):
                if "..." not in fact and fact in common:
                    self.externs.append((match[1], *split_arguments(match[2])))
            elif match := re.match(r"field (\w+)\.(\w+) .* type (.*)\(\*\)(\(.*\))$", fact):
                if match[1] not in (
                    "verbs_context_ops",
                    "verbs_device_ops",
                    "_ibv_device_ops",
                    "ibv_parent_domain_init_attr",
                ) and not match[2].startswith("_compat"):
                    result, arguments = split_arguments(match[3] + match[4])
                    self.slots.setdefault(match[1], []).append((match[2], result, arguments))
            elif match := re.match(r"field (\w+)\.context .* type struct ibv_context \*$", fact):
                self.with_context.append(match[1])
        self.slots["verbs_context"] = [
            s
            for s in self.slots["verbs_context"]
            if any(f.startswith(f"field verbs_context.{s[0]} ") for f in common)
        ]

    def source(self, headers, macros):
        text = ["#define _GNU_SOURCE\n", *(f"#include <{h}>\n" for h in headers), START]
        for struct, slots in self.slots.items():
            for field, result, arguments in slots:
                text.append(mock(f"{struct}.{field}", f"{struct}_{field}", result, arguments))
        for name, result, arguments in self.externs:
            # in parentheses, as some are macros too
            text.append(mock(name, f"({name})", result, arguments, ""))
        if "verbs_is_destroy_err" in [i[0] for i in self.inlines]:
            text.append("bool verbs_allow_disassociate_destroy;\n")
        text.append("static void set_slots(int present)\n{\n")
        for field, _, _ in self.slots["verbs_context"]:
            text.append(f"\textended.ctx.{field} = present ? verbs_context_{field} : NULL;\n")
        for field, _, _ in self.slots["ibv_context_ops"]:
            absent = "NULL" if field == "alloc_mw" else f"ibv_context_ops_{field}"
            text.append(f"\tCTX->ops.{field} = present ? ibv_context_ops_{field} : {absent};\n")
        text.append("}\n")
        for name, result, arguments in self.inlines:
            text.append(self.caller(name, result, arguments))
        text.append("static const size_t ends[] = {\n\tsizeof(struct verbs_context),\n")
        for field, _, _ in self.slots["verbs_context"]:
            text.append(f"\tsizeof(struct verbs_context) - offsetof(struct verbs_context, {field}),\n")
            text.append(f"\tsizeof(struct verbs_context) - offsetof(struct verbs_context, {field}) - 1,\n")
        text.append("};\n\nstatic void each(const char *name, void (*call)(void), int needs_slot)\n{\n")
        text.append(r"""
	for (size_t end = 0; end < sizeof(ends) / sizeof(ends[0]); end++)
		for (int kind = 0; kind < 3; kind++)
			for (int seed = 0; seed < 24; seed++) {
				if ((kind && needs_slot) || (end && seed >= (kind ? 1 : 5)))
					continue;
				extended.ctx.sz = ends[end];
				CTX->abi_compat = kind == 1 ? NULL : __VERBS_ABI_IS_EXTENDED;
				set_slots(kind != 2);
				state = seed * 77777;
				mode = seed % 5;
				fill();
				printf("%s end %zu kind %d seed %d:", name, end, kind, seed);
				errno = 0;
				call();
				printf(" errno %d", errno);
				show_changes();
				printf("\n");
			}
}
""")
        text.append("int main(void)\n{\n")
        for name, _, _ in self.inlines:
            text.append(f'\teach("{name}", call_{name}, {int(name in NEEDS_SLOT)});\n')
        text.append(macros + "\treturn 0;\n}\n")
        return "".join(text)

    def caller(self, name, result, arguments):
        """Makes arguments and calls the function."""
        lines = [f"static void call_{name}(void)\n{{\n"]
        values = []
        for at, kind in enumerate(arguments):
            struct = re.fullmatch(r"(?:const )?struct (\w+) \*", kind)
            if kind == "struct ibv_context *":
                values.append("CTX")
            elif kind.endswith("*"):
                values.append(f"({kind})arena[{at}]")
                if struct:
                    lines += self.prepare(struct[1], f"arena[{at}]")
            elif kind == "unsigned short" and any(
                "ibv_command_buffer" in a or "ib_uverbs_attr" in a for a in arguments
            ):
                values.append("1")
            elif name == "_ioctl_init_cmdb":
                values.append("number() % 20")
            else:
                values.append(f"({kind})number()")
        lines += self.prepare("ibv_wq", "arena[RESULT]") if result == "struct ibv_wq *" else []
        if name == "verbs_is_destroy_err":
            lines.append(
                "\tverbs_allow_disassociate_destroy = mode % 2;\n"
                "\t*(int *)arena[0] = mode < 3 ? EIO : mode - 3;\n"
            )
        call = f"{name}({', '.join(values)})"
        lines.append("\tmemcpy(before, arena, sizeof(arena));\n")
        lines.append(
            f"\t{call};\n"
            if result == "void"
            else f"\tunsigned long result = (unsigned long){call};\n" f'\tprintf(" = ");\n\tshow(result);\n'
        )
        return "".join(lines) + "}\n\n"

    def prepare(self, struct, place):
        object_ = f"((struct {struct} *){place})"
        lines = [f"\t{object_}->context = CTX;\n"] if struct in self.with_context else []
        if struct == "ibv_qp_ex":
            lines.append(f"\t{object_}->qp_base.context = CTX;\n")
        if struct not in ("verbs_context", "ibv_context_ops"):
            for field, _, _ in self.slots.get(struct, []):
                lines.append(f"\t{object_}->{field} = {struct}_{field};\n")
        if struct in ("ibv_mw", "ibv_mr"):
            lines.append(f"\t{object_}->pd = (struct ibv_pd *)arena[number() % 2 + 3];\n")
        if struct == "ibv_mw_bind":
            lines.append(f"\t{object_}->bind_info.mr = number() % 3 ? (struct ibv_mr *)arena[MR] : NULL;\n")
            lines.append("\t((struct ibv_mr *)arena[MR])->pd = (struct ibv_pd *)arena[number() % 2 + 3];\n")
        if struct == "ibv_query_device_ex_input":
            lines.append(f"\t{object_}->comp_mask = number() % 2;\n")
        if struct in ("ibv_qp_init_attr_ex", "ibv_srq_init_attr_ex"):
            lines.append(f"\t{object_}->comp_mask = number() % 3 ? number() % 8 : number();\n")
        if struct == "ibv_parent_domain_init_attr":
            lines.append(f"\t{object_}->pd = number() % 2 ? NULL : (struct ibv_pd *)arena[3];\n")
        if struct == "ib_uverbs_attr":
            lines.append(f"\t{object_}->attr_id = 1;\n")
        if struct == "ibv_command_buffer":
            lines.append(
                f"\t{object_}->next_attr = {object_}->hdr.attrs + 1;\n"
                f"\t{object_}->last_attr = {object_}->hdr.attrs + 3;\n"
            )
        return lines


# Macros that select a function at compile time.
MACROS = r"""
	static const int flags[] = { 0, 1, 7, 1 << 20, 1 << 21 | 1, 1 << 29, 1 << 30, 0x3ff00000 };
	struct ibv_pd *pd = (struct ibv_pd *)arena[0];
	CTX->abi_compat = __VERBS_ABI_IS_EXTENDED;
	mode = 0;
#define TRY(access)                                                       \
	printf("\nregister with %s:", #access);                           \
	ibv_reg_mr(pd, arena[1], 5, access);                              \
	ibv_reg_mr_iova(pd, arena[1], 5, 0x1234, access)
	TRY(0);
	TRY(IBV_ACCESS_LOCAL_WRITE);
	TRY(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
	TRY(IBV_ACCESS_RELAXED_ORDERING);
	TRY(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING);
	TRY(IBV_ACCESS_OPTIONAL_RANGE);
	TRY(1 << 30);
	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		volatile int access = flags[i];

		printf("\n%#x", access);
		TRY(access);
	}
	for (size_t end = 0; end < sizeof(ends) / sizeof(ends[0]); end++) {
		extended.ctx.sz = ends[end];
		set_slots(1);
		printf("\nthe macros with end %zu:", end);
#ifndef BUT_QUERY_PORT
		ibv_query_port(CTX, 1, (struct ibv_port_attr *)arena[2]);
#endif
		printf(" %d %d", verbs_get_ctx_op(CTX, query_port) == &extended.ctx,
		       verbs_get_ctx_op(CTX, alloc_dm) == NULL);
	}
	printf("\n%d %d\n",
	       vext_field_avail(struct ibv_port_attr, flags, offsetof(struct ibv_port_attr, flags)),
	       vext_field_avail(struct ibv_port_attr, flags, offsetof(struct ibv_port_attr, flags) + 1));
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-D", action="append", default=[])
    parser.add_argument("--but", action="append", default=[], help="skip this function")
    for name in ("ours", "our_facts", "theirs", "their_facts"):
        parser.add_argument(name)
    parser.add_argument("headers", nargs="+")
    args = parser.parse_args()
    program = Program(facts(args.their_facts), facts(args.our_facts), args.but)
    source = program.source(args.headers, MACROS)
    with tempfile.TemporaryDirectory() as work:
        path = f"{work}/inline.c"
        with open(path, "w") as file:
            file.write(source)
        for optimise in ("-O0", "-O2"):
            outputs = []
            for who, folders in (("theirs", args.theirs), ("ours", args.ours)):
                flags = [f"-I{i}" for i in folders.split(":")] + [f"-D{d}" for d in args.D]
                subprocess.run(
                    ["gcc", "-std=gnu17", "-w", optimise, *flags, "-o", f"{work}/{who}", path], check=True
                )
                ran = subprocess.run([f"{work}/{who}"], capture_output=True, text=True)
                if ran.returncode:
                    sys.exit(f"{who} exited with {ran.returncode} after: {ran.stdout[-300:]}")
                outputs.append(ran.stdout.splitlines())
            theirs, ours = outputs
            wrong = [(t, o) for t, o in zip(theirs, ours) if t != o]
            for t, o in wrong[:10]:
                print(f"  theirs: {t}\n  ours:   {o}")
            reached = sum(" -> " in line for line in theirs)
            print(
                f"{len(program.inlines)} inline functions {optimise}: {len(theirs)} calls,"
                f" {reached} of them call a function, {len(wrong)} differ"
            )
            if wrong or len(theirs) != len(ours):
                sys.exit(1)
            if os.environ.get("SHOW"):
                print("\n".join(theirs[:: max(1, len(theirs) // int(os.environ["SHOW"]))]))


main()
