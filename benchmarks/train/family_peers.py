"""The peer of benchmarks/train/families: one process for all models."""

import json
import os

from programs import Failure, start_peer
from setting_bench import by_strategy


def jobs_of(benches, strategies):
    """(bench, missing strategies) of each bench that misses any."""
    found = [(bench, bench.missing("peer", strategies)) for bench in benches]
    return [(bench, missing) for bench, missing in found if missing]


def write_jobs(path, jobs):
    """Writes the jobs in the format of hf.py."""
    with open(path, "w", encoding="utf-8") as file:
        json.dump([[bench.setting.config, bench.write_plans(missing)] for bench, missing in jobs],
                  file)


def save_rows(jobs, rows, error):
    """`error`: the reason when rows are missing."""
    for bench, missing in jobs:
        own = [row for row in rows if row["config"] == bench.setting.config]
        errors = [row["error"] for row in own if "error" in row]
        figures = by_strategy([row for row in own if "error" not in row])
        if own or error:
            bench.save("peer", missing, figures,
                       None if len(figures) == len(missing) else (errors or [error])[0])


def measure_peers(benches, strategies, attention):
    """`attention`: hf.py's --attention."""
    jobs = jobs_of(benches, strategies)
    timeout = jobs and jobs[0][0].time_limit(sum(len(missing) for _, missing in jobs))
    if not timeout:
        return
    bench, _ = jobs[0]
    path = os.path.join(bench.out, "jobs.json")
    write_jobs(path, jobs)
    options = ["--jobs", path, "--compile", "layers", "--attention", attention,
               *bench.peer_steps()]
    rows, error = [], None
    try:
        rows = start_peer("hf.py", options, bench.setting.num_gpus, bench.log("peers"), timeout,
                          bench.out)
    except Failure as failure:
        rows, error = failure.rows, str(failure)
    save_rows(jobs, rows, error)
