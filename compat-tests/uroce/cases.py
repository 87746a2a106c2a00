"""The tables of cases: those of the virtual machine's suites (../vm/cases, ../suites/cases), which kernel rxe runs, with
`cases` here over them."""
import os
import shlex

HERE = os.path.dirname(os.path.abspath(__file__))
LIMIT = 40  # seconds that a program may take


def table(path, columns):
    """The lines of a table, as lists of their columns."""
    with open(os.path.join(HERE, path)) as file:
        for line in file:
            if line.strip() and not line.lstrip().startswith("#"):
                fields = [field.strip() for field in line.split("|", columns - 1)]
                if len(fields) != columns:
                    raise ValueError(f"{path}: not {columns} columns: {line.strip()}")
                yield fields


class Case:
    """NAME | EXPECT | WITH | SERVER | CLIENT: see `cases`."""

    def __init__(self, name, expect, words, server, client):
        self.name, self.expect, self.server, self.client = name, expect, server, client
        self.kill, self.limit, self.times, self.clients, self.rest, self.vars = False, LIMIT, 1, 1, False, {}
        self.hosts, self.mtu = "any", None
        for word in words.split():
            key, _, value = word.partition("=")
            if word in ("kill", "rest"):
                setattr(self, word, True)
            elif key in ("limit", "times", "clients"):
                setattr(self, key, int(value))
            elif key == "hosts":
                self.hosts = value
            elif key == "mtu":
                self.mtu = int(value)
            elif key.isupper():
                self.vars[key] = value
            elif word != "user":  # all of them are
                raise ValueError(f"{name}: unknown word {word}")

    def command(self, role, host, peer, port):
        """The arguments of the server or the client on `host`; `peer` is the server's address."""
        text = self.server if role == "server" or self.client[:1] == "+" else self.client
        argv = shlex.split(text)
        if role == "client" and self.client[:1] == "+":
            argv += shlex.split(self.client[1:])
        if argv[0].endswith("_pingpong") and role == "client" and self.clients > 1:
            del argv[argv.index("-c") : argv.index("-c") + 2]  # only the server of ibv_xsrq_pingpong is told how many
        # perftest asks for a GID by -x, the ping-pongs by -g
        flag = "-g" if "_pingpong" in argv[0] else "-x"
        if "_pingpong" in argv[0] and "-d" not in argv:
            argv += ["-d", host.device]
        if argv[0].startswith("ib_") and flag not in argv:
            argv += [flag, "1"]  # perftest would take the first, which may be a link-local one
        for i, word in enumerate(argv):
            if word == flag and argv[i + 1] in ("0", "1", "2"):
                argv[i + 1] = str(host.gid_index(int(argv[i + 1])))
        words = {"%p": str(port), "%a": peer, "rxe0": host.device, "10.9.9.1": peer}
        return [words.get(word, word.replace("%p", str(port))) for word in argv]


def of_machine():
    """The cases of ../vm/cases that do not change the machine: programs alone, and the ping-pongs."""
    for name, kind, expect, words, command in table("../vm/cases", 5):
        words = words.replace("no-preload", "")  # one of the machine's routes to the library
        simple = all(word == "user" or ("=" in word and word.split("=")[0].isupper()) for word in words.split())
        if not simple or "@" in words or "/mnt/" in command:
            continue
        if kind == "one":
            yield Case(f"tools:{name}", f"-/{expect}", words, "-", command)
        elif kind == "pair":
            yield Case(f"pingpong:{name}", expect, words, f"{command} -p %p", "+ %a")


def of_suites():
    """The cases of ../suites/cases that need no librdmacm."""
    for name, expect, words, server, client in table("../suites/cases", 5):
        suite = name.split(":")[0]
        if suite in ("perftest", "qperf") and "cm" not in words.split() and "-cm 1" not in client:
            yield Case(name, expect, words.replace("wait=1", ""), server, client)


def all_cases():
    cases = {}
    for case in [*of_machine(), *of_suites()]:
        cases[case.name] = case
    for name, expect, words, server, client in table("cases", 5):
        if server == "=":  # the command as it is there
            server, client = cases[name].server, cases[name].client
        if expect == "none":
            del cases[name]
        else:
            cases[name] = Case(name, expect, words, server, client)
    return list(cases.values())
