#!/usr/bin/env python3
"""What SciPy, NumPy and ruptures say of the traces in ../traces: kept in expected.json, which tests/scipy.rs reads.

    python3 -m venv ELSEWHERE && ELSEWHERE/bin/pip install scipy ruptures
    ELSEWHERE/bin/python expect.py
"""

import csv
import json
from pathlib import Path

import numpy as np
import ruptures
import scipy
from scipy import signal, stats

HERE = Path(__file__).resolve().parent
TRACES = HERE.parent / "traces"
# As in probe/src/stats.
BINS_MAX, BANDWIDTH, PROMINENCE, SIGNIFICANCE, SHORTEST, BLOCK = 40, 0.1, 2.0, 5.0, 5, 10


def columns(path):
    with open(path, encoding="ascii") as trace:
        rows = csv.DictReader(line for line in trace if not line.startswith("#"))
        return {key: np.array(values, float) for key, values in
                zip(rows.fieldnames, zip(*(row.values() for row in rows)))}


def series(path):
    """The series of one file, by name."""
    table = columns(path)
    if "duration_us" in table:
        return {"send": table["duration_us"]}
    sizes = table["size_bytes"]
    return {f"{size:.0f}": table["rtt_us"][sizes == size] for size in np.unique(sizes)}


def summary(values):
    described = stats.describe(values, ddof=1)
    percentiles = np.percentile(values, [5, 25, 50, 75, 90, 99, 99.9])
    return {"count": described.nobs, "min": described.minmax[0], "max": described.minmax[1],
            "mean": described.mean, "sd": np.sqrt(described.variance), "percentiles": list(percentiles),
            "mad": stats.median_abs_deviation(values), "iqr": stats.iqr(values),
            "variation": stats.variation(values, ddof=1)}


def histogram(values):
    end = np.percentile(values, 99)
    width = 2 * stats.iqr(values) / len(values) ** (1 / 3)
    bins = int(np.clip(np.ceil((end - values.min()) / width), 1, BINS_MAX))
    counts, edges = np.histogram(values, bins=bins, range=(values.min(), end))
    return {"counts": counts.tolist(), "width": edges[1] - edges[0], "above": int((values > end).sum())}


def correlation(values, lags):
    centred = values - values.mean()
    sums = signal.correlate(centred, centred, method="direct")[len(values) - 1:]
    lag = np.arange(lags + 1)
    return sums[:lags + 1] / sums[0] * len(values) / (len(values) - lag)


def period(values):
    found = correlation(signal.detrend(values), len(values) // 3)
    peaks, _ = signal.find_peaks(found)
    unlike = np.argmax(found <= 0)
    peaks = peaks[peaks >= unlike]
    highest = found[peaks].max()
    if highest < max(0.3, 4.5 / np.sqrt(len(values))):
        return None
    return int(peaks[found[peaks] >= highest - 2 / np.sqrt(len(values))][0])


def classes(values):
    """How many values lie between the deepest valleys of a Gaussian kernel density, lowest class first."""
    logarithms = np.log(values)
    density = stats.gaussian_kde(logarithms, bw_method=BANDWIDTH / logarithms.std(ddof=1))
    grid = np.arange(logarithms.min() - 0.4, logarithms.max() + 0.4, BANDWIDTH / 20)
    height = density(grid) * len(values) * BANDWIDTH * np.sqrt(2 * np.pi)
    peaks, found = signal.find_peaks(height, prominence=0)
    valley = np.maximum(height[peaks] - found["prominences"], 0)
    standing = (height[peaks] >= PROMINENCE * valley) & (
        2 * (np.sqrt(height[peaks]) - np.sqrt(valley)) >= SIGNIFICANCE)
    peaks = peaks[standing]
    borders = [grid[a + np.argmin(height[a:b])] for a, b in zip(peaks, peaks[1:])]
    sizes = np.histogram(logarithms, [-np.inf, *borders, np.inf])[0]
    return {"peaks": list(np.exp(grid[peaks])), "sizes": sizes.tolist()}


def changes(values):
    """Cuts of the whole series by PELT, and the penalty they were made with."""
    noise = 1.482602218505602 * np.median(np.abs(np.diff(values)))
    penalty = 3 * noise**2 / 2 * np.log(len(values))
    cuts = ruptures.Pelt(model="l2", min_size=SHORTEST, jump=1).fit(values).predict(pen=penalty)
    return {"penalty": penalty, "cuts": [int(cut) for cut in cuts[:-1]]}


def inversion(small, large):
    gains = small.reshape(-1, BLOCK).min(axis=1) - large.reshape(-1, BLOCK).min(axis=1)
    faster = int((gains > 0).sum())
    return {"below": int((large < small.min()).sum()), "faster": faster, "gain": np.median(gains),
            "probability": stats.binomtest(faster, len(gains), alternative="greater").pvalue}


def rank_sums(values):
    """Wilcoxon's test over pieces of one series: few values exactly, with and without ties, and many."""
    def exact(one, other):
        return stats.permutation_test((one, other), lambda a, b: stats.rankdata(np.concatenate((a, b)))[:len(a)].sum(),
                                      permutation_type="independent", n_resamples=np.inf, vectorized=False).pvalue
    few, also = values[:6], values[6:13]
    apart = also + few.std()
    many, others = values[:30], values[30:75] + 0.2 * values.std()
    return {"exact": exact(few, also), "exact_apart": exact(few, apart),
            "exact_ties": exact(np.round(few), np.round(apart)),
            "many": stats.mannwhitneyu(many, others, method="asymptotic").pvalue,
            "many_ties": stats.mannwhitneyu(np.round(many), np.round(others), method="asymptotic").pvalue,
            "shifts": [few.std(), 0.2 * values.std()]}


def expectations(path):
    found = series(path)
    values = list(found.values())
    expected = {name: {"summary": summary(one), "histogram": histogram(one), "period": period(one),
                       "correlation": list(correlation(one, 40)), "classes": classes(one),
                       "rank_sums": rank_sums(one)}
                for name, one in found.items()}
    answer = {"series": expected, "changes": changes(np.concatenate(values)[:1000])}
    if len(values) > 1:
        answer["inversion"] = inversion(values[0], values[-1])
    return answer


if __name__ == "__main__":
    report = {"made_with": {"scipy": scipy.__version__, "numpy": np.__version__,
                            "ruptures": ruptures.version.version},
              "traces": {path.name: expectations(path) for path in sorted(TRACES.glob("*.csv"))}}
    (HERE / "expected.json").write_text(json.dumps(report, indent=1, default=lambda number: number.item()) + "\n", encoding="ascii")
