#!/usr/bin/env python3
"""Makes the synthetic traces of ../traces: drawn from the figures that P0 and P4 publish, for their own values are not.

    python3 synthesize.py        writes ../traces/synthetic-*.csv; needs NumPy

The shape between the published figures is chosen here. Each file says in its first line that it is synthetic.
"""

from pathlib import Path

import numpy as np

TRACES = Path(__file__).resolve().parent.parent / "traces"
SEED = 20_240_911
ROUNDS = np.arange(201, 401)
CALLS = np.arange(500_001, 505_001)


def within(draw, low, high, count):
    """`count` values of `draw(count)` between `low` and `high`; the others are drawn again."""
    values = np.empty(0)
    while len(values) < count:
        fresh = draw(2 * count)
        values = np.append(values, fresh[(low <= fresh) & (fresh <= high)])
    return values[:count]


def write(name, what, head, rows):
    with open(TRACES / f"synthetic-{name}.csv", "w", encoding="ascii") as out:
        out.write(f"# synthetic, by synthesize.py with seed {SEED}: {what}\n{head}\n")
        out.writelines(row + "\n" for row in rows)


def round_trips(name, what, times):
    rows = [f"{size},{n},{us:.2f}" for size, series in times.items() for n, us in zip(ROUNDS, series)]
    write(name, what, "size_bytes,round,rtt_us", rows)


def x550(random):
    """P4, X550: 1 KB has a period, and a quarter of it lies below the minimum of 1 B."""
    small = within(lambda n: random.normal(107.6, 0.69, n), 104.59, 109.57, len(ROUNDS))
    levels = np.array([92.5, 98.0, 108.0, 117.0, 134.0, 143.0, 149.0, 151.0])
    large = levels[ROUNDS % len(levels)] + np.clip(random.normal(0, 1.2, len(ROUNDS)), -2, 2)
    round_trips("x550", "P4's X550, with the anomaly", {1: small, 1024: large})


def gigabit(random):
    """P4, 1 GbE: no anomaly."""
    small = within(lambda n: random.normal(158.65, 0.8, n), 156.64, 160.15, len(ROUNDS))
    large = 189.2 + within(lambda n: random.gamma(4.0, 0.95, n), 0.04, 27.45, len(ROUNDS))
    round_trips("gigabit", "P4's 1 GbE, without the anomaly", {1: small, 1024: large})


def bluefield(random):
    """P4, BlueField-2: wide and overlapping, but no anomaly."""
    small = within(lambda n: random.normal(26.0, 4.5, n), 19.64, 42.62, len(ROUNDS))
    large = within(lambda n: random.normal(33.8, 4.2, n), 23.81, 51.36, len(ROUNDS))
    round_trips("bluefield", "P4's BlueField-2, without the anomaly", {1: small, 1024: large})


def send_calls(random):
    """P0.send: every 25th call fills the ring, every 328th waits while it drains."""
    count = len(CALLS)
    took = within(lambda n: random.lognormal(np.log(2.75), 0.25, n), 1.7, 5.9, count)
    ring, drain = np.arange(count) % 25 == 7, np.arange(count) % 328 == 187
    took[ring] = within(lambda n: random.normal(27.0, 16.0, n), 6.0, 94.0, ring.sum())
    took[drain] = within(lambda n: random.normal(27_430.0, 60.0, n), 27_270.0, 27_480.0, drain.sum())
    starts = np.concatenate(([0.0], np.cumsum(took + 0.3)[:-1]))
    rows = [f"{call},{start:.3f},{us:.3f}" for call, start, us in zip(CALLS, starts, took)]
    write("send", "P0's send(), three classes", "call,start_us,duration_us", rows)


if __name__ == "__main__":
    for make in (x550, gigabit, bluefield, send_calls):
        make(np.random.default_rng(SEED))
