#!/usr/bin/python3
"""linked-crates.py [--cyclonedx | --copyright | --licences]: lists the crates that are linked into what
`make install` installs.

Without an option: name, version and licence of each, a line per crate. --cyclonedx: a bill of materials in
CycloneDX 1.5. --copyright: the paragraphs of debian/copyright for the vendored crates. --licences: the
copyright notices and licence texts of the crates, for packages of other kinds.
It reads Cargo.lock through `cargo metadata`, which downloads the manifests of crates that are not there: also
those that only tests need. With CARGO_NET_OFFLINE=true it needs no network.
"""
import hashlib
import json
import os
import re
import subprocess
import sys
import time

REPO = os.path.realpath(os.path.join(os.path.dirname(__file__), ".."))
INSTALLED = ("libibverbs-rs", "uroce-ctl", "with-ibverbs-rs")


def metadata():
    command = [os.environ.get("CARGO", "cargo"), "metadata", "--format-version", "1", "--locked", "--quiet",
               "--filter-platform", "x86_64-unknown-linux-gnu"]
    return json.loads(subprocess.run(command, cwd=REPO, check=True, stdout=subprocess.PIPE).stdout)


def linked(data):
    """The packages by id, and the ids that each one links."""
    packages = {package["id"]: package for package in data["packages"]}
    nodes = {node["id"]: node for node in data["resolve"]["nodes"]}

    def links(identifier):
        return sorted(
            dep["pkg"] for dep in nodes[identifier]["deps"]
            if any(kind["kind"] is None for kind in dep["dep_kinds"]) and not is_macro(packages[dep["pkg"]]))

    found = {}
    waiting = [package["id"] for package in packages.values()
               if package["name"] in INSTALLED and package["source"] is None]
    while waiting:
        identifier = waiting.pop()
        if identifier not in found:
            found[identifier] = links(identifier)
            waiting.extend(found[identifier])
    return packages, found


def is_macro(package):
    """Procedural macros run in the compiler; nothing of them is linked."""
    return any("proc-macro" in target["kind"] for target in package["targets"])


def checksums():
    """SHA-256 of the crates' archives, as Cargo.lock has them."""
    with open(os.path.join(REPO, "Cargo.lock"), encoding="utf-8") as lock:
        entries = re.findall(r'name = "(.*)"\nversion = "(.*)"\nsource = .*\nchecksum = "(.*)"', lock.read())
    return {(name, version): checksum for name, version, checksum in entries}


def cyclonedx(packages, found):
    sums = checksums()

    def reference(identifier):
        return "pkg:cargo/{name}@{version}".format(**packages[identifier])

    def component(identifier):
        package = packages[identifier]
        entry = {
            "type": "library",
            "bom-ref": reference(identifier),
            "name": package["name"],
            "version": package["version"],
            "scope": "required",
            "licenses": [{"expression": package["license"].replace("/", " OR ")}],
            "purl": reference(identifier),
        }
        checksum = sums.get((package["name"], package["version"]))
        if checksum:
            entry["hashes"] = [{"alg": "SHA-256", "content": checksum}]
        return entry

    order = sorted(found, key=reference)
    main = next(i for i in order if packages[i]["name"] == INSTALLED[0])
    seconds = int(os.environ.get("SOURCE_DATE_EPOCH", "315532800"))
    digest = hashlib.sha256("\n".join(map(reference, order)).encode()).hexdigest()
    serial = "-".join([digest[:8], digest[8:12], "5" + digest[13:16], "8" + digest[17:20], digest[20:32]])
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": "urn:uuid:" + serial,
        "version": 1,
        "metadata": {
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds)),
            "component": component(main),
        },
        "components": [component(i) for i in order if i != main],
        "dependencies": [{"ref": reference(i), "dependsOn": sorted(map(reference, found[i]))} for i in order],
    }


def copyright_paragraphs(packages, found):
    for package in vendored(packages, found):
        authors = ", ".join(package["authors"]) or "the developers of " + package["name"]
        licence = package["license"].replace("/", " or ").replace(" OR ", " or ").replace("MIT", "Expat")
        yield "\nFiles: vendor/{name}-{version}/*\nCopyright: {authors}\nLicense: {licence}\n".format(
            name=package["name"], version=package["version"], authors=authors, licence=licence)


# The licence with the copyright notice comes first where there is a choice.
TEXTS = ("LICENSE-MIT", "LICENSE")


def licences(packages, found):
    yield "The library, with-ibverbs-rs and uroce-ctl contain these crates.\n"
    for package in vendored(packages, found):
        directory = os.path.dirname(package["manifest_path"])
        text = next((name for name in TEXTS if os.path.exists(os.path.join(directory, name))), None)
        if text is None:
            sys.exit("{name} {version} has none of the files {texts}".format(texts=TEXTS, **package))
        with open(os.path.join(directory, text), encoding="utf-8") as file:
            yield "\n{line}\n{name} {version}: {license}\n\n{text}\n".format(
                line="=" * 78, text=file.read().strip(), **package)


def vendored(packages, found):
    from_registry = (packages[i] for i in found if packages[i]["source"])
    return sorted(from_registry, key=lambda package: (package["name"], package["version"]))


def main():
    packages, found = linked(metadata())
    option = sys.argv[1] if len(sys.argv) > 1 else ""
    if option == "--cyclonedx":
        print(json.dumps(cyclonedx(packages, found), indent=2))
    elif option == "--copyright":
        print("".join(copyright_paragraphs(packages, found)), end="")
    elif option == "--licences":
        print("".join(licences(packages, found)), end="")
    elif option:
        sys.exit(__doc__)
    else:
        for package in vendored(packages, found):
            print(package["name"], package["version"], package["license"])


main()
