"""The table of benchmarks/train/run: one row for each setting of ours that was measured."""

COLUMNS = (
    "case", "GPUs", "ZeRO, reduction", "gathers, reductions by", "tokens a GPU", "ours tok/s/GPU",
    "peer", "tok/s/GPU", "chain", "chain at 16k", "ours / chain", "ours / chain at 16k",
    "ours / peer", "peer / chain", "of 1 GPU", "TFLOP/s", "peer's", "GiB", "planned", "peer's GiB",
    "waits ms, gather + reduce", "% of step", "MHz", "W")


def number(value, form="{:,.0f}"):
    return form.format(value) if value is not None else ""


def ratio(above, below, key="tok_s", form="{:.3f}"):
    values = [figures.get(key) for figures in (above, below)]
    return form.format(values[0] / values[1]) if all(values) else ""


def fastest_peer(results):
    """(name, figures) of the fastest of the measured peers."""
    peers = {side.removeprefix("peer-"): figures for side, figures in results.items()
             if side.startswith("peer-") and "tok_s" in figures}
    return max(peers.items(), key=lambda item: item[1]["tok_s"], default=("", {}))


def waits(ours):
    """Waits for communication in a step: gathers, reductions, and the share of both."""
    if "gather_wait_ms" not in ours:
        return "", ""
    gather, reduce = ours["gather_wait_ms"], ours["reduce_wait_ms"]
    return f"{gather:.1f} + {reduce:.1f}", f"{(gather + reduce) / ours['step_s'] / 10:.1f}"


def table_row(case, num_gpus, variant, results, on_one_gpu):
    ours, chain = results.get(f"ours-{variant}", {}), results.get("chain", {})
    name, peer = fastest_peer(results)
    reference = {"tok_s": chain.get("reference_tok_s")}
    wait, share = waits(ours)
    return (
        case.name, str(num_gpus), variant, ours.get("paths", ""), number(ours.get("tokens", case.tokens)),
        number(ours.get("tok_s")), name, number(peer.get("tok_s")), number(chain.get("tok_s")),
        number(reference["tok_s"]), ratio(ours, chain), ratio(ours, reference),
        ratio(ours, peer, form="{:.2f}"), ratio(peer, chain), ratio(ours, on_one_gpu),
        number(ours.get("tflops")), number(peer.get("tflops")),
        number(ours.get("peak_gib"), "{:.1f}"), number(ours.get("planned_gib"), "{:.1f}"),
        number(peer.get("peak_gib"), "{:.1f}"), wait, share, number(ours.get("sm_mhz")),
        number(ours.get("power_w")))


def case_rows(case, num_gpus, all_results):
    results = all_results[case.name, num_gpus]
    variants = [variant for variant in case.variants_on(num_gpus) if f"ours-{variant}" in results]
    alone = all_results.get((case.name, 1), {}).get("ours-default", {}) if num_gpus > 1 else {}
    return [table_row(case, num_gpus, variant, results, alone)
            for variant in variants or case.variants_on(num_gpus)[:1]]


def errors(all_results):
    return [f"{name}, {num_gpus} GPUs, {side}: {figures['error']}"
            for (name, num_gpus), results in all_results.items()
            for side, figures in results.items() if "error" in figures]


def markdown(cases, gpu_counts, all_results):
    """`all_results`: figures by (case name, number of GPUs) and side."""
    rows = [COLUMNS, ("---",) * len(COLUMNS)]
    for num_gpus in gpu_counts:
        for case in cases:
            if all_results.get((case.name, num_gpus)):
                rows += case_rows(case, num_gpus, all_results)
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    for error in errors(all_results):
        lines += ["", error]
    return "\n".join(lines) + "\n"
