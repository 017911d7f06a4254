#!/usr/bin/env python3
"""Whether the options of a bundle have their effect, and whether trials would notice if they had none.

    lab/effects.py [OPTION...]        such as --no-gso or tx_queue_len; without one, all that a trial of traffic exercises

Runs the trial that exercises an option, as a comment above it says, twice: as it is, which has to pass, and with daemons that never hear of the
option, which has to fail. So a trial that only types the option is found, and an option that does nothing fails its trial.
"""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TRIALS = "lab/tests/traffic"
# What a daemon is not to hear of, and where the daemon is.
UNHEARD, DAEMON = "TABANE_UNHEARD", "TABANE_HEARING"
WITHOUT_VALUE = ("--insecure", "--no-")


def hear_all_but(option, arguments):
    """In the daemon's place: the arguments without the option, and files without the key."""
    if option.startswith("--"):
        kept, is_value = [], False
        for word in arguments:
            if word == option:
                is_value = not option.startswith(WITHOUT_VALUE)
            elif is_value:
                is_value = False
            else:
                kept.append(word)
        return kept
    *tables, key = option.split(".")
    for file in (Path(word) for word in arguments if word.endswith(".toml")):
        if file.is_file():
            settings = tomllib.loads(file.read_text())
            forget(settings, tables, key)
            file.write_text("".join(f"{name} = {toml(value)}\n" for name, value in settings.items()))
    return [re.sub(rf",{key}(=[^,]*)?(?=,|$)", "", word) for word in arguments]


def forget(settings, tables, key):
    if not tables:
        settings.pop(key, None)
        return
    inner = settings.get(tables[0], [])
    for table in inner if isinstance(inner, list) else [inner]:
        if isinstance(table, dict):
            forget(table, tables[1:], key)


def toml(value):
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{name} = {toml(inner)}" for name, inner in value.items()) + " }"
    return "[" + ", ".join(map(toml, value)) + "]" if isinstance(value, list) else json.dumps(value)


def trials():
    """Options of `up` and keys, each with the name of its trial, or how the names of its trials begin."""
    for file in sorted((ROOT / TRIALS).rglob("*.rs")):
        exercised = []
        for line in file.read_text().splitlines():
            if found := re.match(r"\s*// Exercises: (.*)", line):
                exercised += found[1].split(", ")
            elif exercised and (found := re.search(r'"(\w*_[\w{}]*)"', line)):
                for command, *options in (what.split(" ") for what in exercised):
                    names = [command] if options == ["="] else options if command == "up" else []
                    yield from ((name, found[1].split("{")[0]) for name in names)
                exercised = []


def passes(trial, features, **heard):
    daemon = ROOT / "target/debug/tabane"
    environment = {**os.environ, **heard, DAEMON: str(daemon), "TABANE_BIN": __file__ if heard else str(daemon)}
    command = ["cargo", "test", "--quiet", "--locked", "--workspace", *features, "--test", "all", "--", trial]
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    if not re.search(r"test result: .* [1-9]\d* (passed|failed)|[1-9]\d* failed", result.stdout):
        sys.exit(f"{trial} does not run here:\n{result.stdout[-2000:]}{result.stderr[-2000:]}")
    return result.returncode == 0


def main(wanted):
    features = os.environ.get("FEATURES", "--features kernel-path").split()
    wrong, known = [], {}
    for option, trial in trials():
        if wanted and option not in wanted:
            continue
        if trial not in known:
            known[trial] = passes(trial, features)
        as_it_is = known[trial]
        unheard = passes(trial, features, **{UNHEARD: option})
        is_right = as_it_is and not unheard
        told = ["fails", "passes"]
        print(f"{'ok   ' if is_right else 'WRONG'} {option}: {trial} {told[as_it_is]}, and without the option {told[unheard]}", flush=True)
        wrong += [] if is_right else [option]
    if wrong:
        sys.exit(f"these have no effect, or their trials would not notice: {' '.join(wrong)}")


if option := os.environ.get(UNHEARD):
    daemon = os.environ[DAEMON]
    os.execv(daemon, [daemon, *hear_all_but(option, sys.argv[1:])])
main(sys.argv[1:])
