"""The cases: those that kernel rxe runs in the virtual machine (../vm/cases, ../suites/cases), with the
additions and changes in `cases`."""
import os
import shlex

HERE = os.path.dirname(os.path.abspath(__file__))
LIMIT = 40  # time limit of a program in seconds


def table(path, columns):
    """Yields the rows of a table as lists of columns."""
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
            elif word != "user":  # all cases run as an ordinary user
                raise ValueError(f"{name}: unknown word {word}")

    def command(self, role, host, peer, port):
        """The command line of the server or client on `host`; `peer` is the server's address."""
        text = self.server if role == "server" or self.client[:1] == "+" else self.client
        argv = shlex.split(text)
        if role == "client" and self.client[:1] == "+":
            argv += shlex.split(self.client[1:])
        if argv[0].endswith("_pingpong") and role == "client" and self.clients > 1:
            # only the server of ibv_xsrq_pingpong takes the number of clients
            del argv[argv.index("-c") : argv.index("-c") + 2]
        # the option for the GID index is -x in perftest, -g in the ping-pong programs
        flag = "-g" if "_pingpong" in argv[0] else "-x"
        if "_pingpong" in argv[0] and "-d" not in argv:
            argv += ["-d", host.device]
        if argv[0].startswith("ib_") and flag not in argv:
            argv += [flag, "1"]  # perftest's default is the first GID, which may be link-local
        for i, word in enumerate(argv):
            if word == flag and argv[i + 1] in ("0", "1", "2"):
                argv[i + 1] = str(host.gid_index(int(argv[i + 1])))
        words = {"%p": str(port), "%a": peer, "rxe0": host.device, "10.9.9.1": peer}
        return [words.get(word, word.replace("%p", str(port))) for word in argv]


def of_machine():
    """The cases of ../vm/cases that do not change the machine: single programs, and ping-pongs."""
    for name, kind, expect, words, command in table("../vm/cases", 5):
        words = words.replace("no-preload", "")  # selects how the virtual machine loads the library
        simple = all(w == "user" or ("=" in w and w.split("=")[0].isupper()) for w in words.split())
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
        if server == "=":  # the command of the other table
            server, client = cases[name].server, cases[name].client
        if expect == "none":
            del cases[name]
        else:
            cases[name] = Case(name, expect, words, server, client)
    return list(cases.values())
