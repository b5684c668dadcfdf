"""The table of benchmarks/train/families: one row for each model. Speeds are those of the median step. In
few steps the mean would include the first use of a size, which times its GEMM algorithms."""

from family_cases import STRATEGIES
from paper_report import cell, ratio

RATE = "tok_s"

COLUMNS = ("model", "GPUs", *(f"{name} tok/s/GPU" for name in STRATEGIES),
           "padding_free / padding", "balanced / padding", "TFLOP/s", "MFU", "GiB",
           *(f"peer's {name}" for name in STRATEGIES), "peer's GiB",
           "ours / peer, padding_free", "balanced / peer's best")


def table_row(setting, results):
    ours, peers = ([results[side].get(name, {}) for name in STRATEGIES]
                   for side in ("ours", "peer"))
    padding, padding_free, balanced = ours
    best = max(peers, key=lambda row: row.get(RATE, 0))
    return (setting.label, str(setting.num_gpus), *(cell(row, RATE) for row in ours),
            ratio(padding_free, padding, RATE), ratio(balanced, padding, RATE),
            cell(balanced, "tflops"), cell(balanced, "mfu", "{:.1f} %", 100),
            cell(balanced, "peak_gib", "{:.1f}"),
            *(cell(row, RATE) for row in peers), cell(best, "peak_gib", "{:.1f}"),
            ratio(padding_free, peers[1], RATE), ratio(balanced, best, RATE))


def markdown(all_results):
    """`all_results`: pairs of a setting and its results, as in setting_bench."""
    measured = [pair for pair in all_results if pair[1]["ours"] or pair[1]["peer"]]
    rows = [COLUMNS, ("---",) * len(COLUMNS), *(table_row(*pair) for pair in measured)]
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    for setting, results in all_results:
        for what, error in results["errors"].items():
            lines += ["", f"{setting.name}, {what}: {error}"]
    return "\n".join(lines) + "\n"
