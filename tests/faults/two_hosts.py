"""One run over hosts that are network namespaces, started by mpirun, by torchrun, or by torchrun's variables alone."""

import os
import pathlib
import subprocess
import sys
import tempfile

import namespaces
from runs import PROGRAM
from watch import wait_until

# A rank whose output and exit code can be read even when its launcher dies.
_RANK = """#!/bin/sh
rank=${{OMPI_COMM_WORLD_RANK:-$RANK}}
{before}
"$@" 2> {folder}/errors-$rank
code=$?
echo $code > {folder}/code-$rank.tmp
mv {folder}/code-$rank.tmp {folder}/code-$rank
exit $code
"""
_MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca", "pml", "ob1",
           "--mca", "btl", "self,vader,tcp", "--mca", "btl_vader_single_copy_mechanism", "none"]
_PORT = 29400


class Job:
    """Of `names`, hosts of `hosts`, each with `ranks_per_host` ranks. `before`: shell commands of a rank."""

    def __init__(self, hosts, names, ranks_per_host, command, before=""):
        self.hosts, self.names, self.ranks_per_host = hosts, names, ranks_per_host
        self.num_ranks = ranks_per_host * len(names)
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="job-", dir=hosts.folder))
        rank = self.folder / "rank"
        rank.write_text(_RANK.format(folder=self.folder, before=before))
        rank.chmod(0o755)
        self.command = [rank, *command]
        self.processes = []

    def start(self, launcher):
        {"mpirun": self._by_mpirun, "torchrun": self._by_torchrun, "variables": self._by_variables,
         "by turns": self._by_turns}[launcher]()
        return self

    def _on(self, name, *words, **variables):
        variables = {"OMP_NUM_THREADS": "1", **{key: str(value) for key, value in variables.items()}}
        log = (self.folder / "launcher").open("a")
        self.processes.append(subprocess.Popen(self.hosts.on(name, *words), stdout=log, stderr=log,
                                               env={**os.environ, **variables}))

    def _by_mpirun(self):
        listed = ",".join(f"{name}:{self.ranks_per_host}" for name in self.names)
        network = [word for part in ("btl", "oob") for word in ("--mca", f"{part}_tcp_if_include", namespaces.NETWORK)]
        handed_on = [word for name in os.environ if name.startswith("NCCL_") for word in ("-x", name)]
        agent = self.hosts.agent(self.folder / "agent")
        self._on(self.names[0], *_MPIRUN, *network, "--mca", "plm", "rsh", "--mca", "plm_rsh_agent", agent,
                 "-x", "OMP_NUM_THREADS", *handed_on, "--map-by", f"ppr:{self.ranks_per_host}:node", "--host", listed, "-np",
                 self.num_ranks, *self.command)

    def _by_torchrun(self):
        for name in self.names:
            self._on(name, sys.executable, "-m", "torch.distributed.run", "--no-python", "--nnodes", len(self.names),
                     "--nproc-per-node", self.ranks_per_host, "--rdzv-backend", "c10d", "--rdzv-endpoint",
                     f"{self.names[0]}:{_PORT}", "--rdzv-id", self.folder.name, *self.command)

    def _by_variables(self, by_turns=False):
        shared = {"WORLD_SIZE": self.num_ranks, "LOCAL_WORLD_SIZE": self.ranks_per_host,
                  "MASTER_ADDR": self.names[0], "MASTER_PORT": _PORT}
        for rank in range(self.num_ranks):
            local_rank = rank // len(self.names) if by_turns else rank % self.ranks_per_host
            name = self.names[rank % len(self.names) if by_turns else rank // self.ranks_per_host]
            self._on(name, *self.command, **shared, RANK=rank, LOCAL_RANK=local_rank)

    def _by_turns(self):
        self._by_variables(by_turns=True)

    def wait_for(self, ranks):
        """(exit codes, words) of these ranks."""
        codes = [self.folder / f"code-{rank}" for rank in ranks]
        wait_until(lambda: all(path.exists() for path in codes) or self._have_ended(), f"the ends of ranks {list(ranks)}")
        assert all(path.exists() for path in codes), self._words()
        errors = [(self.folder / f"errors-{rank}").read_text() for rank in ranks]
        return [int(path.read_text()) for path in codes], errors

    def _words(self):
        """Returns the error output of all ranks, then the output of the launcher."""
        return "".join(path.read_text() for path in (*sorted(self.folder.glob("errors-*")), self.folder / "launcher"))

    def _have_ended(self):
        return all(process.poll() is not None for process in self.processes)

    def finish(self):
        codes, errors = self.wait_for(range(self.num_ranks))
        assert codes == [0] * self.num_ranks, errors
        for process in self.processes:
            process.wait(timeout=30)

    def end(self):
        """Ends the remaining launchers: one waits for a dead host for minutes."""
        for process in self.processes:
            process.kill()
            process.wait()


def train(lab, hosts, name, launcher, *overrides, on=("east", "west"), ranks_per_host=2, before=""):
    command = [PROGRAM, "train", lab.config(name), *overrides]
    return Job(hosts, on, ranks_per_host, command, before).start(launcher)
