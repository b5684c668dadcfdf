"""Tables of benchmarks/train/paper: one row for each strategy, and the gain of balancing."""

from paper_cases import OF_PEERS, STRATEGIES

COLUMNS = ("strategy", "ours tok/s/GPU", "over padding", "peer tok/s/GPU", "ours / peer",
           "ours / peer's padding_free", "TFLOP/s", "tokens a GPU and step", "ms a step", "padding",
           "slowest GPU", "GiB", "peer's GiB", "loss", "MHz", "W")
RATE = "tok_s_mean"


def cell(row, key, form="{:,.0f}", scale=1.0):
    return form.format(row[key] * scale) if row.get(key) is not None else ""


def ratio(above, below, rate=RATE):
    return f"{above[rate] / below[rate]:.2f}" if rate in above and rate in below else ""


def table_row(strategy, results):
    ours, peers = results["ours"], results["peer"]
    row, peer = ours.get(strategy, {}), peers.get(strategy, {})
    return (strategy, cell(row, RATE), ratio(row, ours.get("padding", {})), cell(peer, RATE),
            ratio(row, peer), ratio(row, peers.get("padding_free", {})), cell(row, "tflops"),
            cell(row, "tokens"), cell(row, "step_s", "{:.0f}", 1e3),
            cell(row, "padding_fraction", "{:.3f}"), cell(row, "cost_imbalance", "{:.2f}"),
            cell(row, "peak_gib", "{:.1f}"), cell(peer, "peak_gib", "{:.1f}"),
            cell(row, "loss", "{:.4f}"), cell(row, "sm_mhz"), cell(row, "power_w"))


def verdicts(results):
    """Ratios that answer the paper's question, if they were measured."""
    balanced = results["ours"].get("balanced", {})
    against = {"the peer's padding": results["peer"].get("padding", {}),
               "the peer's padding_free (online mini-batches)":
                   results["peer"].get("padding_free", {}),
               "transformers' batch_rebalance": results["peer"].get("batch_rebalance", {}),
               "the peer with our plan": results["peer"].get("balanced", {}),
               "our fixed_length": results["ours"].get("fixed_length", {})}
    found = [f"{ratio(balanced, other)} x {name}" for name, other in against.items()
             if ratio(balanced, other)]
    return ["", "balanced: " + ", ".join(found) + "."] if found else []


def accumulation(results):
    """Both ways in which the peer accumulates gradients, where a step has several micro-batches."""
    told = [f"{name} {row['speeds']['reduced']:,.0f} reduced after each micro-batch, "
            f"{row['speeds']['local']:,.0f} once a step" for name, row in results["peer"].items()
            if len(row.get("speeds", {})) == 2]
    return ["", "Peer's gradients: " + "; ".join(told) + "."] if told else []


def ways(results):
    """Ours with gradients reduced after each micro-batch and once a step, against the peer's faster way."""
    sides = [results.get(side, {}) for side in ("shard", "local")]
    rows = []
    for name in STRATEGIES:
        shard, local = (side.get(name, {}) for side in sides)
        peer = results["peer"].get(name, {})
        if shard or local:
            rows.append((name, cell(shard, RATE), cell(local, RATE), cell(peer, RATE), ratio(local, shard),
                         ratio(shard, peer), ratio(local, peer), cell(shard, "peak_gib", "{:.1f}"),
                         cell(local, "peak_gib", "{:.1f}"), cell(shard, "loss", "{:.4f}"),
                         cell(local, "loss", "{:.4f}")))
    if not rows:
        return []
    titles = ("strategy", "shard tok/s/GPU", "local tok/s/GPU", "peer tok/s/GPU", "local / shard", "shard / peer",
              "local / peer", "shard's GiB", "local's GiB", "shard's loss", "local's loss")
    return ["", "Gradients reduced after each micro-batch (shard) and once a step (local):", "",
            *("| " + " | ".join(row) + " |" for row in (titles, ("---",) * len(titles), *rows))]


def table(setting, results):
    rows = [COLUMNS, ("---",) * len(COLUMNS)]
    rows += [table_row(strategy, results) for strategy in STRATEGIES + OF_PEERS
             if strategy in results["ours"] or strategy in results["peer"]]
    lines = [f"**{setting.model}, {setting.lengths}, {setting.num_gpus} GPUs**", ""]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    lines += verdicts(results) + accumulation(results) + ways(results)
    for what, error in results["errors"].items():
        lines += ["", f"{what}: {error}"]
    return lines + [""]


def scaling(all_results):
    """Tokens/s a GPU by strategy and number of GPUs, if there are several numbers."""
    lines = []
    pairs = dict.fromkeys((setting.model, setting.lengths) for setting, _ in all_results)
    for model, lengths in pairs:
        by_gpus = {setting.num_gpus: results["ours"] for setting, results in all_results
                   if (setting.model, setting.lengths) == (model, lengths)}
        if len(by_gpus) < 2:
            continue
        counts = sorted(by_gpus)
        lines += [f"**{model}, {lengths}: tokens/s a GPU, by GPUs**", "",
                  "| strategy | " + " | ".join(map(str, counts)) + " |",
                  "|" + "---|" * (len(counts) + 1)]
        lines += [f"| {name} | " + " | ".join(cell(by_gpus[count].get(name, {}), RATE)
                                             for count in counts) + " |" for name in STRATEGIES]
        lines += [""]
    return lines


def markdown(all_results):
    """`all_results`: pairs of a setting and its results."""
    lines = [line for pair in all_results for line in table(*pair)]
    return "\n".join(lines + scaling(all_results))
