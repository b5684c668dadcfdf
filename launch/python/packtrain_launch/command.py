"""Builds the mpirun line of a job and its environment."""

import os
import re
import shutil
import subprocess
import sys

from packtrain_tools.errors import ToolError

from packtrain_launch.arguments import Settings
from packtrain_launch.hosts import Host

DEVICE = 69
_FORWARDED = re.compile("LD_LIBRARY_PATH|OMP_NUM_THREADS|NCCL_.*|PACKTRAIN_.*")


def find_program(program: str | None, home: str, environment: dict[str, str]) -> str:
    """In a bundle and in the installed package the program is next to packtrain-run. A bundle's libraries go into
    `environment`. Otherwise the program is in the checkout's build folder."""
    if program is None and os.path.exists(f"{home}/bin/packtrain"):
        if os.path.exists(f"{home}/env"):
            _read_bundle(f"{home}/env", environment)
        program = f"{home}/bin/packtrain"
    elif program is None:
        program = os.path.normpath(f"{home}/../build/bin/packtrain")
    if not os.access(program, os.X_OK):
        raise ToolError(f"there is no program {program}", "Run launch/build.", DEVICE)
    return program


def check_mpirun(environment: dict[str, str]) -> None:
    if shutil.which("mpirun", path=environment.get("PATH")) is None:
        raise ToolError(f"there is no mpirun on PATH={environment.get('PATH', '')}",
                        "Install Open MPI 4.1. One process needs none: packtrain train CONFIG. Neither do ranks that "
                        "torchrun --no-python starts.", DEVICE)


def _read_bundle(script: str, environment: dict[str, str]) -> None:
    """Reads the variables that launch/bundled/env sets."""
    read = subprocess.run(["bash", "-c", '. "$1" && env -0', "-", script], stdout=subprocess.PIPE, check=False)
    if read.returncode != 0:
        raise ToolError(f"{script} found no libraries", exit_code=DEVICE)
    for entry in read.stdout.decode(errors="surrogateescape").split("\0"):
        name, _, value = entry.partition("=")
        if name in ("LD_LIBRARY_PATH", "PACKTRAIN_PYTHON"):
            environment[name] = value


def tell_terminal(environment: dict[str, str]) -> None:
    """Sets the terminal's width for the ranks. They write to mpirun's pipe and cannot detect whether the
    step line can be redrawn."""
    if sys.stderr.isatty() and environment.get("TERM", "dumb") != "dumb":
        columns = os.get_terminal_size(sys.stderr.fileno()).columns
        environment.setdefault("PACKTRAIN_TERMINAL_WIDTH", str(columns or 80))


def count_cores() -> int:
    """Physical cores this process may use: mpirun's own count of slots."""
    listed = subprocess.run(["lscpu", "--parse=CORE,SOCKET"], capture_output=True, text=True, check=True).stdout
    cores = {line for line in listed.splitlines() if not line.startswith("#")}
    return min(len(cores), len(os.sched_getaffinity(0)))


class Command:
    """Makes the lines that start `program`."""

    def __init__(self, settings: Settings, program: str, environment: dict[str, str]):
        self.settings, self.program = settings, program
        self.environment = dict(environment)
        self.cores = count_cores()
        self._names = set()
        for variable in settings.variables:
            name, equals, value = variable.partition("=")
            self._names.add(name)
            if equals:
                self.environment[name] = value
        if settings.interface and "/" not in settings.interface:
            self.environment.setdefault("NCCL_SOCKET_IFNAME", settings.interface)
        if "OMP_NUM_THREADS" not in self.environment:  # assumes equal hosts
            roster = settings.roster
            most = max(host.num_ranks for host in roster.used) if roster else settings.num_local_ranks
            self.environment["OMP_NUM_THREADS"] = str(max(self.cores // most, 1))

    def line(self, arguments: list[str], hosts: list[Host] | None = None, keeps_signal: bool = False,
             quiet: bool = True) -> list[str]:
        """`arguments`: of packtrain. `hosts` None: the machine's own ranks. `keeps_signal`: a rank ignores
        SIGUSR1 until it has set up its handler. `quiet`: suppresses MPI's own messages, which it prints at
        every end of a rank."""
        guard = ["env", "--ignore-signal=USR1"] if keeps_signal else []
        placed = self._place_on(hosts) if hosts is not None else self._place_here()
        # Open MPI 4.1 sometimes loses messages while it counts equal ones, when a rank ends before they are
        # sent.
        words = ["--quiet"] if quiet else ["--mca", "orte_base_help_aggregate", "0", "--mca", "mpi_abort_delay", "1"]
        return ["mpirun", *words, *placed, *self._shared_flags(hosts), *guard, self.program, *arguments]

    def _place_here(self) -> list[str]:
        num_ranks = self.settings.num_local_ranks
        oversubscribe = ["--oversubscribe"] if num_ranks > self.cores else []
        return ["-np", str(num_ranks), *oversubscribe]

    @staticmethod
    def _place_on(hosts: list[Host]) -> list[str]:
        listed = ",".join(f"{host.name}:{host.num_ranks}" for host in hosts)
        return ["-np", str(sum(host.num_ranks for host in hosts)), "--host", listed]

    def _shared_flags(self, hosts: list[Host] | None) -> list[str]:
        flags = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        flags += self._binding(hosts)
        for name, value in {**self._mca(hosts), **self.settings.mca}.items():
            flags += ["--mca", name, value]
        forwarded = self._names | {name for name in self.environment if _FORWARDED.fullmatch(name)}
        for name in sorted(forwarded):
            flags += ["-x", name]
        return flags

    def _binding(self, hosts: list[Host] | None) -> list[str]:
        bind_to = self.settings.bind_to
        by = ["--map-by", "slot"] if hosts is not None else []  # ranks of a host are consecutive
        if bind_to == "core":
            by = ["--map-by", f"slot:PE={self.environment['OMP_NUM_THREADS']}"]
        return [*by, "--bind-to", bind_to]

    def _mca(self, hosts: list[Host] | None) -> dict[str, str]:
        # Ranks of a host use shared memory. Its single-copy path needs ptrace rights, which containers
        # withhold.
        mca = {"pml": "ob1", "btl": "self,vader", "btl_vader_single_copy_mechanism": "none"}
        if hosts is None:
            return mca
        mca["btl"] = "self,vader,tcp"
        # A silent host is detected in 10 + 3 x 5 s; Open MPI's own default is 8 minutes.
        mca |= {"oob_tcp_keepalive_time": "10", "oob_tcp_keepalive_intvl": "5", "oob_tcp_keepalive_probes": "3"}
        if self.settings.interface:
            mca |= {"btl_tcp_if_include": self.settings.interface, "oob_tcp_if_include": self.settings.interface}
        if self.settings.launch_agent:
            mca["plm_rsh_agent"] = self.settings.launch_agent
        return mca
