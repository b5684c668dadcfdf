"""The hosts of a job: from the command line, a hostfile or a Slurm allocation."""

import re
import subprocess
from dataclasses import dataclass, field

from packtrain_tools.errors import CONFIG, ToolError

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]*")
_NUMBER = re.compile(r"[1-9][0-9]{0,4}")


@dataclass(frozen=True)
class Host:
    name: str
    num_ranks: int


@dataclass
class _Entry:
    """A host of a list; `num_ranks` is None where the list has no number."""
    name: str
    num_ranks: int | None
    where: str


def _error(where: str, message: str, advice: str = "") -> ToolError:
    return ToolError(f"{where}: {message}", advice, CONFIG)


def _parse_number(text: str, where: str, what: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise _error(where, f"`{text}` is no number of {what}", "It is a whole number from 1 on.")
    return int(text)


def _parse_name(text: str, where: str) -> tuple[str, int | None]:
    """`NAME` or `NAME:RANKS`."""
    name, colon, number = text.partition(":")
    if not _NAME.fullmatch(name):
        raise _error(where, f"`{text}` is no host", "A host is NAME or NAME:RANKS.")
    return name, _parse_number(number, where, "ranks") if colon else None


def parse_hosts(text: str) -> list[_Entry]:
    """`a:4,b:4` of --hosts."""
    entries = [_Entry(*_parse_name(word, "--hosts"), "--hosts") for word in text.split(",")]
    for index, entry in enumerate(entries):
        if any(entry.name == other.name for other in entries[:index]):
            raise _error("--hosts", f"{entry.name} is listed twice")
    return entries


def _parse_line(words: list[str], where: str) -> _Entry:
    name, num_ranks = _parse_name(words[0], where)
    for word in words[1:]:
        key, equals, value = word.replace("-", "_").partition("=")
        if not equals or key not in ("slots", "max_slots"):
            raise _error(where, f"`{word}` is not known here",
                         "A line is `HOST`, `HOST:RANKS` or `HOST slots=RANKS`; # begins a comment.")
        if key == "slots":
            if num_ranks is not None:
                raise _error(where, f"gives the ranks of {name} twice")
            num_ranks = _parse_number(value, where, "slots")
    return _Entry(name, num_ranks, where)


def read_hostfile(path: str) -> list[_Entry]:
    """Reads Open MPI's format, or one host a line. A host on several lines without a number runs one rank
    for each line, as in the lists of batch systems ($PBS_NODEFILE)."""
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
    except OSError as error:
        raise _error(path, error.strerror or str(error)) from None
    except UnicodeDecodeError:
        raise _error(path, "is no text") from None
    listed: dict[str, list[_Entry]] = {}
    for number, line in enumerate(lines, 1):
        words = line.split("#")[0].split()
        if words:
            entry = _parse_line(words, f"{path}:{number}")
            listed.setdefault(entry.name, []).append(entry)
    if not listed:
        raise _error(path, "lists no hosts")
    return [_merge(entries) for entries in listed.values()]


def _merge(entries: list[_Entry]) -> _Entry:
    """Merges the lines of one host into one entry."""
    if len(entries) == 1:
        return entries[0]
    if any(entry.num_ranks is not None for entry in entries):
        raise _error(entries[1].where, f"{entries[1].name} is listed twice")
    return _Entry(entries[0].name, len(entries), entries[0].where)


def read_slurm(environment: dict[str, str]) -> list[_Entry]:
    """The hosts of the current Slurm allocation; empty outside of one."""
    nodes = environment.get("SLURM_JOB_NODELIST")
    if not nodes:
        return []
    listed = subprocess.run(["scontrol", "show", "hostnames", nodes], capture_output=True, text=True,
                            check=False)
    if listed.returncode != 0:
        raise _error("SLURM_JOB_NODELIST", f"scontrol cannot read {nodes}: {listed.stderr.strip()}")
    names = listed.stdout.split()
    counts = _slurm_counts(environment.get("SLURM_TASKS_PER_NODE", ""))
    counts += [None] * (len(names) - len(counts))
    return [_Entry(name, count, "SLURM_JOB_NODELIST") for name, count in zip(names, counts)]


def _slurm_counts(text: str) -> list[int | None]:
    """`4(x2),3` -> [4, 4, 3]"""
    counts: list[int | None] = []
    for count, times in re.findall(r"(\d+)(?:\(x(\d+)\))?", text):
        counts += [int(count)] * int(times or 1)
    return counts


@dataclass
class Roster:
    """The hosts that run the job, in the order of their ranks, and the spare hosts."""
    used: list[Host]
    spares: list[str] = field(default_factory=list)
    min_hosts: int = 1

    @property
    def num_ranks(self) -> int:
        return sum(host.num_ranks for host in self.used)

    def host_of(self, rank: int) -> Host | None:
        """Returns None for a number that is no rank."""
        for host in self.used:
            if rank < host.num_ranks:
                return host
            rank -= host.num_ranks
        return None

    def replace(self, host: Host) -> str | None:
        """Moves the ranks of `host` to a spare and returns its name. Without a spare the ranks are removed
        and None is returned."""
        index = self.used.index(host)
        if not self.spares:
            del self.used[index]
            return None
        spare = self.spares.pop(0)
        self.used[index] = Host(spare, host.num_ranks)
        return spare


def make_roster(entries: list[_Entry], ranks_per_node: int | None, excluded: list[str], num_spares: int,
                min_hosts: int | None) -> Roster:
    """The last `num_spares` of the hosts that are not excluded become spares. `min_hosts` None: all hosts
    are needed."""
    unknown = [name for name in excluded if name not in {entry.name for entry in entries}]
    if unknown:
        raise _error("--exclude", f"{unknown[0]} is none of the hosts: "
                                  f"{', '.join(entry.name for entry in entries)}")
    hosts = []
    for entry in entries:
        if entry.name in excluded:
            continue
        num_ranks = ranks_per_node or entry.num_ranks
        if num_ranks is None:
            raise _error(entry.where, f"does not say how many ranks {entry.name} runs",
                         "Write HOST:RANKS (in a hostfile also HOST slots=RANKS), or give --ranks-per-node.")
        hosts.append(Host(entry.name, num_ranks))
    num_used = len(hosts) - num_spares
    if num_used < 1:
        raise _error("--spares" if num_spares else "--exclude",
                     f"{len(hosts)} hosts, of which {num_spares} are spares, leave none to run on")
    if min_hosts is not None and min_hosts > num_used:
        raise _error("--min-hosts", f"{min_hosts} hosts are wanted and {num_used} are there")
    for spare in hosts[num_used:]:
        most = max(hosts[:num_used], key=lambda host: host.num_ranks)
        if spare.num_ranks < most.num_ranks:
            raise _error("--spares", f"{spare.name} runs {spare.num_ranks} ranks and cannot replace "
                                     f"{most.name}, which runs {most.num_ranks}")
    return Roster(hosts[:num_used], [host.name for host in hosts[num_used:]],
                  num_used if min_hosts is None else min_hosts)
