#!/usr/bin/env python3
"""Records what a command prints as an SVG that plays: each line appears when it was printed, at several times the speed.

    make build && packaging/record.py docs/demo.svg target/release/tabane-lab demo

Pauses are cut to two seconds. Reads nothing but the command's standard output; needs Python alone.
"""

import html
import subprocess
import sys
import time

SPEED = 4.0  # times as fast as it was
PAUSE_MAX = 2.0  # seconds, as it plays
STAYS = 8.0  # seconds, before it begins anew
LINES, COLUMNS = 46, 84
LINE, CHARACTER = 17, 8.0  # pixels


def record(command):
    """The lines, each with the second at which it is shown."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    lines, shown, before = [], 0.0, time.monotonic()
    for line in process.stdout:
        now = time.monotonic()
        shown += min((now - before) / SPEED, PAUSE_MAX)
        before = now
        lines.append((shown, line.rstrip("\n").expandtabs()[:COLUMNS]))
    if process.wait() != 0:
        sys.exit(f"record.py: {' '.join(command)}: ended with code {process.returncode}")
    return lines


def svg(command, lines):
    """The picture; a reader who wants no motion sees the end."""
    lines = [(0.0, f"$ {' '.join(command)}")] + lines
    lasts = lines[-1][0] + STAYS
    rows = lines[-LINES:]
    width, height = round(COLUMNS * CHARACTER) + 24, len(rows) * LINE + 24
    styles, texts = [], []
    for number, (at, text) in enumerate(rows):
        begin = 100 * at / lasts
        styles.append(f"@keyframes l{number}{{0%,{max(begin - 0.01, 0):.2f}%{{opacity:0}}{begin:.2f}%,100%{{opacity:1}}}}")
        styles.append(f"#l{number}{{animation:l{number} {lasts:.1f}s steps(1) infinite}}")
        if text.strip():
            texts.append(f'<text id="l{number}" x="12" y="{12 + (number + 1) * LINE - 4}">{html.escape(text)}</text>')
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">',
            f"<title>{html.escape(' '.join(command))}</title>",
            "<style>",
            "text{font:13px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:#d8dee9;white-space:pre}",
            *styles,
            "@media (prefers-reduced-motion:reduce){text{animation:none!important}}",
            "</style>",
            '<rect width="100%" height="100%" rx="6" fill="#1d2129"/>',
            *texts,
            "</svg>",
            "",
        ]
    )


def main():
    if len(sys.argv) < 3:
        sys.exit("record.py: nothing to record; allowed: record.py FILE.svg COMMAND...")
    path, command = sys.argv[1], sys.argv[2:]
    picture = svg(command, record(command))
    with open(path, "w", encoding="utf-8") as file:
        file.write(picture)


if __name__ == "__main__":
    main()
