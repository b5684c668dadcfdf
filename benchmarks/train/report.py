"""The table of benchmarks/train/run."""

COLUMNS = ("case", "tokens", "ours tok/s", "peer tok/s", "chain tok/s", "ours / chain",
           "ours / peer", "ours TFLOP/s", "peer TFLOP/s", "ours GiB", "peer GiB", "MHz", "W")


def figure(results, side, key, form="{:,.0f}"):
    value = results.get(side, {}).get(key)
    return form.format(value) if value is not None else ""


def ratio(results, above, below, form="{:.3f}"):
    values = [results.get(side, {}).get("tok_s") for side in (above, below)]
    return form.format(values[0] / values[1]) if all(values) else ""


def table_row(case, results):
    return (
        case.name, figure(results, "ours", "tokens"), figure(results, "ours", "tok_s"),
        figure(results, "peer", "tok_s"), figure(results, "chain", "tok_s"),
        ratio(results, "ours", "chain"), ratio(results, "ours", "peer", "{:.2f}"),
        figure(results, "ours", "tflops"), figure(results, "peer", "tflops"),
        figure(results, "ours", "peak_gib", "{:.1f}"), figure(results, "peer", "peak_gib", "{:.1f}"),
        figure(results, "ours", "sm_mhz"), figure(results, "ours", "power_w"))


def markdown(cases, all_results):
    rows = [COLUMNS, ("---",) * len(COLUMNS)]
    rows += [table_row(case, all_results[case.name]) for case in cases]
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    for case in cases:
        for side, values in all_results[case.name].items():
            if "error" in values:
                lines += ["", f"{case.name}, {side}: {values['error']}"]
    return "\n".join(lines) + "\n"
