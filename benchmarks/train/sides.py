"""Measures one side of cases: ours, a peer or the GEMM chain."""

import concurrent.futures
import os
import shutil

from cases import CHAIN_REFERENCE, LENGTHS, PEERS, VARIANTS
from gpu_monitor import GpuMonitor
from programs import (NUM_WARM_UPS, ROOT, Failure, logged_paths, plan, prepare_store, start_chain,
                      start_peer, summarize_steps, train_steps)


class Laboratory:
    """The limits and the folders of measurements."""

    def __init__(self, out, num_gpus, num_steps, settings):
        self.out, self.num_gpus = os.path.abspath(out), num_gpus
        self.num_steps, self.settings = num_steps, list(settings)

    def log(self, name):
        return os.path.join(self.out, "logs", f"{name}-x{self.num_gpus}.log")

    def store(self, case):
        lengths, num_examples, _ = LENGTHS[case.documents]
        name = f"{case.documents}-{case.vocab_size}" + ("-completions" if case.completions else "")
        return prepare_store(os.path.join(self.out, "stores", name), lengths, num_examples,
                             case.vocab_size, 0.5 if case.completions else 1)

    def measure_ours(self, case, variant, timeout):
        """Figures of packtrain, with the memory it plans."""
        log = self.log(f"{case.name}-{variant}")
        folder = log.removesuffix(".log")
        shutil.rmtree(folder, ignore_errors=True)
        config = os.path.join(ROOT, "configs", case.config)
        settings = [*case.overrides(self.num_gpus), *VARIANTS[variant],
                    f"data.train={self.store(case)}", *self.settings]
        planned = plan(config, settings, self.num_gpus, folder + ".plan")
        with GpuMonitor(self.num_gpus) as monitor:
            steps = train_steps(config, folder, self.num_steps, timeout, settings, self.num_gpus)
        return (summarize_steps(steps[NUM_WARM_UPS:], self.num_gpus) | monitor.summary()
                | {"planned_gib": planned["predicted_allocated_bytes"] / 2**30, "variant": variant,
                   "paths": logged_paths(folder + ".log")})

    def measure_peer(self, cases, name, timeout):
        """{case name: figures} of one peer, in one process; cases differ only in tokens."""
        peer, first = PEERS[name], cases[0]
        arguments = [*first.shape_arguments(), *first.document_arguments(), *peer.options,
                     "--tokens", ",".join(str(case.tokens) for case in cases),
                     "--warm-up", str(NUM_WARM_UPS + 1),
                     "--steps", str(self.num_steps - NUM_WARM_UPS)]
        log = self.log("-".join([name, *(case.name for case in cases)]))
        found = {}
        with GpuMonitor(self.num_gpus) as monitor:
            try:
                rows = start_peer(peer.program, arguments, self.num_gpus, log, timeout, self.out)
            except Failure as failure:
                rows = failure.rows
                found = {case.name: {"error": str(failure)} for case in cases}
        for case, row in zip(cases, rows):
            found[case.name] = row | monitor.summary()
        return found

    def measure_chain(self, cases, timeout):
        """{case name: figures} of the GEMM chain on all GPUs at the same time, each by itself. It also
        runs at CHAIN_REFERENCE tokens. All cases have one shape."""
        tokens = sorted({case.tokens for case in cases} | {CHAIN_REFERENCE}, reverse=True)
        arguments = [*cases[0].shape_arguments(), "--tokens", ",".join(map(str, tokens))]
        with GpuMonitor(self.num_gpus) as monitor, \
                concurrent.futures.ThreadPoolExecutor(self.num_gpus) as pool:
            runs = list(pool.map(
                lambda gpu: start_chain(arguments, gpu, self.log(f"chain-{cases[0].size}-{gpu}"),
                                        timeout), range(self.num_gpus)))
        means = {row["tokens"]: mean_row([rows[index] for rows in runs])
                 for index, row in enumerate(runs[0])}
        reference = {"reference_tok_s": means[CHAIN_REFERENCE]["tok_s"]}
        return {case.name: means[case.tokens] | reference | monitor.summary() for case in cases}


def mean_row(rows):
    """The mean of all GPUs, with the slowest and the fastest."""
    rates = [row["tok_s"] for row in rows]
    return {"tok_s": sum(rates) / len(rates), "slowest": min(rates), "fastest": max(rates),
            "tflops": sum(row["tflops"] for row in rows) / len(rows)}


def peer_group(case, name, missing):
    """The cases of `missing` that one process of this peer measures together with `case`."""
    if not PEERS[name].groups:
        return [case]
    same = [other for other in missing
            if other.shape_arguments() == case.shape_arguments()
            and other.document_arguments() == case.document_arguments()]
    return sorted(same, key=lambda other: -other.tokens)
