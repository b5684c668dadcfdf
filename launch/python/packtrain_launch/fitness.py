"""Runs `packtrain doctor` before a start, and replaces unfit hosts by spares."""

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from packtrain_launch.hosts import Host, Roster
from packtrain_launch.job import say

SOUND, SLOW, BROKEN, STOPPED = 0, 76, 69, 75
_CONFIG, _DATA = 64, 65

# Runs doctor on hosts (None: this machine). Returns its exit code and output. `aloud`: prints the output as
# it arrives.
Look = Callable[[list[Host] | None, bool], tuple[int, str]]


def read_blame(report: str) -> dict[str, set[int]]:
    """The ranks in doctor's lines: {"SLOW": ranks, "BROKEN": ranks}."""
    blame: dict[str, set[int]] = {"SLOW": set(), "BROKEN": set()}
    verdict = ""
    for line in report.splitlines():
        begin = re.match(r"(OK|SLOW|BROKEN) ", line)
        if begin:
            verdict = begin[1]
        if verdict in blame:
            blame[verdict].update(int(rank) for rank in re.findall(r"\brank (\d+) on ", line))
    return blame


def _hosts_of(roster: Roster, ranks: set[int]) -> list[Host]:
    named = {roster.host_of(rank) for rank in ranks}
    return [host for host in roster.used if host in named]


def _find_unfit_alone(roster: Roster, look: Look) -> list[Host]:
    """The hosts on which doctor alone cannot run or finds something broken."""
    with ThreadPoolExecutor(max_workers=16) as pool:
        seen = list(pool.map(lambda host: look([host], False), roster.used))
    unfit = [host for host, (status, _) in zip(roster.used, seen) if status not in (SOUND, SLOW, STOPPED)]
    for host, (status, report) in zip(roster.used, seen):
        if host in unfit:
            say(f"{host.name} alone: exit code {status}: {report.strip()[-1000:]}")
    return unfit


def _replace(roster: Roster, hosts: list[Host], what: str) -> None:
    for host in hosts:
        spare = roster.replace(host)
        say(f"{host.name} is {what}: " + (f"{spare} takes its place" if spare else "left out"))


def _replace_slow(roster: Roster, report: str) -> bool:
    """Returns true when another set of hosts is left to check."""
    slow = _hosts_of(roster, read_blame(report)["SLOW"])[:len(roster.spares)]
    _replace(roster, slow, "slow")
    return bool(slow)


def _replace_broken(roster: Roster, status: int, report: str, look: Look) -> bool:
    """Returns true when another set of hosts is left to check."""
    broken = _hosts_of(roster, read_blame(report)["BROKEN"]) if status == BROKEN else []
    if not broken:
        say(f"doctor ended with exit code {status}: looking at each host alone")
        broken = _find_unfit_alone(roster, look)
    num_lost = max(len(broken) - len(roster.spares), 0)
    if broken and len(roster.used) - num_lost < roster.min_hosts:
        say(f"{', '.join(host.name for host in broken)}: broken, and {len(roster.spares)} spares are there")
        return False
    _replace(roster, broken, "broken")
    return bool(broken)


def make_fit(roster: Roster | None, look: Look) -> int:
    """Checks exactly the hosts that the job will use, and replaces unfit ones by spares until all are fit.
    Returns SOUND where training may start."""
    while True:
        status, report = look(roster.used if roster else None, True)
        if status in (SOUND, STOPPED):
            return status
        if status == SLOW:
            if roster is None or not _replace_slow(roster, report):
                say("doctor found something slow, training starts all the same")
                return SOUND
        elif roster is None or status in (_CONFIG, _DATA) or not _replace_broken(roster, status, report, look):
            say(f"doctor ended with exit code {status}: training does not start")
            return status
