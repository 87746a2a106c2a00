"""Parses manual pages in mdoc, as far as check.py needs it."""
import re
from pathlib import Path

# Macros whose arguments are collected, at any position in a line.
MARKED = {"Xr", "Dv", "Er", "Ev", "Vt", "Fn", "Nm"}
# Other macros that can occur in the middle of a line. They end the arguments of the preceding macro.
CALLED = MARKED | {
    "Ar", "Em", "Fa", "Fl", "In", "Li", "No", "Ns", "Oc", "Oo", "Op", "Pa", "Pc", "Pf", "Po", "Pq",
    "Ql", "Dq", "Qq", "Sq", "Ta", "Va", "Ft",
}
PUNCTUATION = set(".,:;()[]?!")


def words(line):
    """The arguments of a macro line; a quoted string is one argument."""
    return [quoted or bare for quoted, bare in re.findall(r'"((?:[^"]|"")*)"|(\S+)', line)]


def plain(text):
    """Text without roff escapes."""
    return text.replace(r"\&", "").replace(r"\-", "-").replace(r"\ ", " ").replace(r"\e", "\\")


class Page:
    def __init__(self, path):
        self.path = path
        self.name, self.section = path.name.rsplit(".", 1)
        self.source = path.read_text()
        match = re.fullmatch(r"\.so man\d/(\S+)\n", self.source)
        # The target, if this file is only a link to another page.
        self.link = match and match[1]
        self.sections = []
        # (macro, argument, section of the page) of every macro in MARKED
        self.marks = []
        # prototypes (return type, name, arguments), headers and macros of the SYNOPSIS
        self.prototypes, self.headers, self.macros = [], [], []
        # (section, text) of literal blocks
        self.literals = []
        # .It lines: (section, words)
        self.items = []
        if not self.link:
            self.read()

    def read(self):
        section, literal, ft, fo = "", None, None, None
        for line in self.source.splitlines():
            if literal is not None:
                if line == ".Ed":
                    self.literals.append((section, "\n".join(literal) + "\n"))
                    literal = None
                else:
                    literal.append(plain(line))
                continue
            if not line.startswith("."):
                continue
            macro, *args = words(line[1:])
            if macro == "Sh":
                section = " ".join(args)
                self.sections.append(section)
            elif macro == "Bd" and "-literal" in args:
                literal = []
            elif macro == "It":
                self.items.append((section, args))
            if section == "SYNOPSIS":
                if macro == "In":
                    self.headers.append(args[0])
                elif macro == "Fd":
                    self.macros += re.findall(r"#define (\w+)\(", " ".join(args))
                elif macro == "Ft":
                    ft = " ".join(args)
                elif macro == "Fn":
                    if ft:
                        self.prototypes.append((ft, args[0], args[1:]))
                    ft = None
                elif macro == "Fo":
                    fo = (ft, args[0], [])
                elif macro == "Fa" and fo:
                    fo[2].append(" ".join(args))
                elif macro == "Fc":
                    self.prototypes.append(fo)
                    ft = fo = None
            self.mark([macro, *args], section)

    def mark(self, tokens, section):
        for at, macro in enumerate(tokens):
            if macro not in MARKED:
                continue
            args = []
            for token in tokens[at + 1:]:
                if token in CALLED or token == "|":
                    break
                if token not in PUNCTUATION:
                    args.append(plain(token))
            if macro == "Xr":
                self.marks.append((macro, ".".join(args[:2]), section))
            elif macro == "Vt":
                self.marks.append((macro, " ".join(args), section))
            elif macro == "Fn":
                self.marks += [(macro, arg, section) for arg in args[:1]]
            else:
                self.marks += [(macro, arg, section) for arg in args]

    def marked(self, macro, section=None):
        return {arg for m, arg, s in self.marks if m == macro and section in (None, s)}

    def names(self):
        """The names in the NAME section."""
        return self.marked("Nm", "NAME")


def pages(folder):
    return [Page(path) for path in sorted(Path(folder).iterdir()) if re.search(r"\.[137]$", path.name)]
