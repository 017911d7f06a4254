#!/usr/bin/env python3
"""What the programs that users install are made of: a CycloneDX 1.5 list, and the licence texts of all of it.

    cargo metadata --format-version 1 --locked --filter-platform TARGET | packaging/sbom.py DIRECTORY

Writes DIRECTORY/tabane.cdx.json and DIRECTORY/licences.txt. Only what the lock file resolves for TARGET and is linked or
runs in the build counts; what tests need does not. Features are those of the whole workspace, so a few packages are named
that the programs do without. A package without a licence ends it; one without a text is named.
"""

import json
import sys
from pathlib import Path

PROGRAMS = ("tabane", "tabaned", "tabane-probe", "tabane-web", "tabane-follow")
TEXTS = ("licen[cs]e*", "LICEN[CS]E*", "copying*", "COPYING*", "notice*", "NOTICE*", "UNLICENSE*")


def closure(metadata):
    """Packages that the programs need, by identity, with what each of them needs."""
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    new = [package["id"] for package in metadata["packages"] if package["name"] in PROGRAMS and not package["source"]]
    found = {}
    while new:
        name = new.pop()
        if name not in found:
            kinds = lambda dependency: {kind["kind"] for kind in dependency["dep_kinds"]}
            found[name] = sorted(dep["pkg"] for dep in nodes[name]["deps"] if kinds(dep) & {None, "build"})
            new += found[name]
    return found


def texts(package, root):
    """Licence texts of a package; the workspace's own lie at its root."""
    directory = Path(package["manifest_path"]).parent if package["source"] else Path(root)
    files = {path for pattern in TEXTS for path in directory.glob(pattern) if path.is_file()}
    return sorted(files)


def url(package):
    return f"pkg:cargo/{package['name']}@{package['version']}"


def component(package, checksum):
    kind = "library" if package["source"] else "application"
    entry = {"type": kind, "bom-ref": url(package), "purl": url(package), "name": package["name"],
             "version": package["version"], "licenses": [{"expression": package["license"].replace("/", " OR ")}]}
    return entry | ({"hashes": [{"alg": "SHA-256", "content": checksum}]} if checksum else {})


def checksums(root):
    """SHA-256 of each package, as the lock file has it."""
    sums, fields = {}, {}
    for line in (Path(root) / "Cargo.lock").read_text(encoding="utf-8").splitlines():
        key, _, value = line.partition(" = ")
        if line == "[[package]]":
            fields = {}
        elif key in ("name", "version", "checksum"):
            fields[key] = value.strip('"')
            if key == "checksum":
                sums[fields["name"], fields["version"]] = fields[key]
    return sums


def main(directory):
    metadata = json.load(sys.stdin)
    root, needed = metadata["workspace_root"], closure(metadata)
    packages = {package["id"]: package for package in metadata["packages"] if package["id"] in needed}
    if any(not package["license"] for package in packages.values()):
        sys.exit("sbom: no licence: " + ", ".join(p["name"] for p in packages.values() if not p["license"]))
    sums = checksums(root)
    ordered = sorted(packages.values(), key=lambda package: (package["name"], package["version"]))
    bom = {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
           "components": [component(p, sums.get((p["name"], p["version"]))) for p in ordered],
           "dependencies": [{"ref": url(p), "dependsOn": [url(packages[d]) for d in needed[p["id"]]]} for p in ordered]}
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "tabane.cdx.json").write_text(json.dumps(bom, indent=1) + "\n", encoding="utf-8")
    silent = []
    with open(directory / "licences.txt", "w", encoding="utf-8") as out:
        for package in ordered:
            found = texts(package, root)
            out.write(f"{'=' * 100}\n{package['name']} {package['version']}: {package['license']}\n{package['repository'] or ''}\n")
            for path in found:
                out.write(f"{'-' * 100}\n{path.name}\n\n{path.read_text(encoding='utf-8', errors='replace').strip()}\n")
            silent += [] if found else [package["name"]]
    print(f"{len(ordered)} packages in {directory}/tabane.cdx.json, their licences in {directory}/licences.txt")
    if silent:
        print("published without a text of their licence: " + ", ".join(silent))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
