#!/usr/bin/env python3
"""The share of mutants that tests catch, for each folder: mutants.py OUTCOMES...

OUTCOMES are files outcomes.json of cargo-mutants, such as those of several shards. The table is that of docs/quality.md.
Fails where fewer are caught in the core than the project wants of itself.
"""

import collections
import json
import pathlib
import sys

# Of the mutants in the core that compile.
CAUGHT_LEAST = 0.80
CORE = "proto"
# A test that does not end within its time has noticed, too.
CAUGHT = ("CaughtMutant", "Timeout")
JUDGED = (*CAUGHT, "MissedMutant")

found = {}
for path in sys.argv[1:]:
    for outcome in json.loads(pathlib.Path(path).read_text())["outcomes"]:
        if isinstance(outcome["scenario"], dict) and outcome["summary"] in JUDGED:
            mutant = outcome["scenario"]["Mutant"]
            found[mutant["name"]] = (mutant["file"], outcome["summary"] in CAUGHT)


def folder(file):
    """`proto/src/send` for both `proto/src/send.rs` and what is below it."""
    return "/".join(pathlib.Path(file).with_suffix("").parts[:3])


folders = collections.defaultdict(lambda: [0, 0])
for file, is_caught in found.values():
    for name in (folder(file), file.split("/")[0]):
        folders[name][0] += is_caught
        folders[name][1] += 1

print("| folder | mutants | caught |\n|---|---|---|")
for name, (caught, count) in sorted(folders.items()):
    print(f"| `{name}` | {count} | {caught / count:.0%} |")
for name in sorted(name for name, (_, is_caught) in found.items() if not is_caught):
    print(f"missed: {name}")
caught, count = folders.get(CORE, (0, 0))
if count and caught < CAUGHT_LEAST * count:
    sys.exit(f"{caught} of {count} mutants of {CORE} are caught, {CAUGHT_LEAST:.0%} are wanted")
if not found:
    sys.exit("no mutant was tried")
