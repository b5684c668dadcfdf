"""The command line of packtrain-run."""

import argparse
import os
import re
from dataclasses import dataclass

from packtrain_tools.errors import CONFIG, Parser, ToolError

from packtrain_launch.hosts import Roster, make_roster, parse_hosts, read_hostfile, read_slurm

DESCRIPTION = "Runs packtrain's ranks under mpirun, on this machine or on several hosts."
EPILOG = """COMMAND is a packtrain subcommand, `train` when left out. SIGTERM, SIGINT, SIGHUP and SIGUSR1 ask
training (train, compare) to save and stop; SIGQUIT ends the job at once, and so does any of them for another
subcommand, which has nothing to save. The exit code is the job's (docs/operations.md)."""


@dataclass
class Settings:
    num_ranks: int | None  # on this machine; None: on the hosts of the roster
    roster: Roster | None
    arguments: list[str]  # subcommand, configuration, overrides
    program: str | None
    max_restarts: int
    doctor: bool
    doctor_limit_s: int | None  # None: by the number of ranks
    variables: list[str]  # NAME or NAME=VALUE
    bind_to: str
    interface: str | None
    launch_agent: str | None
    mca: dict[str, str]
    dry_run: bool

    @property
    def num_local_ranks(self) -> int:
        """Number of local ranks, without a roster."""
        assert self.num_ranks is not None
        return self.num_ranks

    @property
    def trains(self) -> bool:
        return self.arguments[0] == "train"

    @property
    def saves_when_stopped(self) -> bool:
        return self.arguments[0] in ("train", "compare")


def _whole_number(least: int):
    def parse(text: str) -> int:
        if not re.fullmatch("[0-9]{1,5}", text) or int(text) < least:
            raise argparse.ArgumentTypeError(f"`{text}` is no whole number from {least} on")
        return int(text)
    return parse


def _make_parser() -> Parser:
    parser = Parser(prog="packtrain-run", description=DESCRIPTION, epilog=EPILOG, allow_abbrev=False,
                    usage="packtrain-run (-n N | --hosts A:N,B:N | --hostfile FILE) [OPTION ...] [COMMAND] "
                          "CONFIG [section.key=value ...]")
    add = parser.add_argument
    add("-n", type=_whole_number(1), metavar="N", dest="num_ranks", help="ranks on this machine")
    add("--hosts", metavar="A:N,B:N", help="hosts, and the ranks of each; ranks of a host follow each other. "
        "In a Slurm allocation its hosts are taken where none are named")
    add("--hostfile", metavar="FILE", help="the same a line each: HOST, HOST:N or HOST slots=N")
    add("--ranks-per-node", type=_whole_number(1), metavar="N", help="ranks of every host")
    add("--exclude", action="append", default=[], metavar="HOST,...", help="hosts of the list to leave out")
    add("--spares", type=_whole_number(0), default=0, metavar="N",
        help="keep the last N hosts back: each replaces one that doctor finds broken or slow. Implies --doctor")
    add("--min-hosts", type=_whole_number(1), metavar="N",
        help="continue with as few hosts as N where no spare is left (default: with all or not at all)")
    add("--restarts", type=_whole_number(0), default=0, metavar="N", dest="max_restarts",
        help="start training again from its newest checkpoint when a rank or a host died, at most N times since the "
        "newest; three restarts in a row that saved nothing end with code 93")
    add("--doctor", action="store_true",
        help="`packtrain doctor` looks at exactly the hosts to be used before each start and restart of training")
    add("--doctor-limit", type=_whole_number(1), metavar="SECONDS", dest="doctor_limit_s",
        help="what doctor may take before it is ended as hanging (default 60, and 1 more for every 20 ranks)")
    add("-x", action="append", default=[], metavar="NAME[=VALUE]", dest="variables",
        help="hand this environment variable to the ranks of other hosts too, as NCCL_*, PACKTRAIN_*, "
        "LD_LIBRARY_PATH and OMP_NUM_THREADS are")
    add("--interface", metavar="NAME|A.B.C.D/N", help="network between the hosts, for Open MPI and NCCL")
    add("--bind-to", choices=["none", "core", "l3cache", "numa", "socket"], default="none",
        help="bind ranks to cores as mpirun does (default none)")
    add("--launch-agent", metavar="PROGRAM", help="starts mpirun's helper on a host, instead of ssh")
    add("--mca", nargs=2, action="append", default=[], metavar=("NAME", "VALUE"),
        help="a setting of Open MPI, instead of packtrain-run's own of that name")
    add("--program", metavar="PATH", help="packtrain itself, the same path on every host")
    add("--dry-run", action="store_true", help="print the mpirun line and start nothing")
    add("arguments", nargs=argparse.REMAINDER, metavar="[COMMAND] CONFIG [section.key=value ...]")
    return parser


def _read_roster(options: argparse.Namespace, environment: dict[str, str]) -> Roster | None:
    if options.num_ranks is not None:
        return None
    if options.hosts is not None:
        entries = parse_hosts(options.hosts)
    elif options.hostfile is not None:
        entries = read_hostfile(options.hostfile)
    else:
        entries = read_slurm(environment)
    if not entries:
        return None
    excluded = [name for names in options.exclude for name in names.split(",")]
    return make_roster(entries, options.ranks_per_node, excluded, options.spares, options.min_hosts)


def _check(options: argparse.Namespace, parser: Parser, roster: Roster | None) -> None:
    if sum(option is not None for option in (options.num_ranks, options.hosts, options.hostfile)) > 1:
        parser.error("give one of -n (this machine), --hosts and --hostfile")
    if options.num_ranks is None and roster is None:
        parser.error("how many ranks? Give -n N, --hosts or --hostfile")
    if roster is None and (options.ranks_per_node or options.exclude or options.spares or options.min_hosts):
        parser.error("--ranks-per-node, --exclude, --spares and --min-hosts go with hosts, -n is this machine")
    if not options.arguments:
        parser.error("which configuration?")
    ours = parser.own_options() - {"-h", "--help"}
    for word in options.arguments:
        if word.partition("=")[0] in ours:
            parser.error(f"{word} is packtrain-run's own: write it before {options.arguments[0]}")


def parse(words: list[str], environment: dict[str, str]) -> Settings:
    parser = _make_parser()
    options = parser.parse_args(words)
    roster = _read_roster(options, environment)
    _check(options, parser, roster)
    for variable in options.variables:
        name, equals, _ = variable.partition("=")
        if not re.fullmatch(r"\w+", name) or (not equals and name not in environment):
            raise ToolError(f"-x {variable}: there is no such environment variable",
                            "Set it, or write -x NAME=VALUE.", CONFIG)
    arguments = options.arguments
    # A word that is no file and does not look like one is a subcommand.
    if not re.fullmatch("[a-z]+", arguments[0]) or os.path.exists(arguments[0]):
        arguments = ["train", *arguments]
    return Settings(num_ranks=options.num_ranks, roster=roster, arguments=arguments, program=options.program,
                    max_restarts=options.max_restarts, doctor=options.doctor or options.spares > 0,
                    doctor_limit_s=options.doctor_limit_s, variables=options.variables,
                    bind_to=options.bind_to, interface=options.interface,
                    launch_agent=options.launch_agent, mca=dict(options.mca), dry_run=options.dry_run)
