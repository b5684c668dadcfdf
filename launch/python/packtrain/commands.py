"""The commands of the installed package. Each gives way to a program in this folder, which then uses this
environment's Python and libtorch."""

import importlib.metadata
import importlib.util
import os
import sys

HOME = os.path.dirname(os.path.realpath(__file__))
DEVICE = 69


def _fail(message: str, advice: str) -> None:
    print(f"error: {message}\n  {advice}", file=sys.stderr)
    sys.exit(DEVICE)


def _check_torch() -> None:
    """The program is linked with one version of libtorch, whose interface changes with every version."""
    wanted = next(line.partition("==")[2] for line in importlib.metadata.requires("packtrain") or []
                  if line.startswith("torch=="))
    try:
        found = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        found = "none"
    if found.partition("+")[0] != wanted:
        _fail(f"torch in {sys.prefix}: got {found}, wanted {wanted}, which packtrain was built with",
              f"Run pip install torch=={wanted}.")


def _add_libraries_of_torch() -> None:
    """The program looks for torch next to this package. An environment made with --system-site-packages has it
    elsewhere."""
    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.submodule_search_locations:
        return
    packages = os.path.dirname(spec.submodule_search_locations[0])
    if os.path.exists(f"{HOME}/../torch/lib"):
        return
    folders = [f"{packages}/{folder}" for folder in ("nvidia/nccl/lib", "torch/lib", "nvidia/cu13/lib")]
    earlier = os.environ.get("LD_LIBRARY_PATH")
    os.environ["LD_LIBRARY_PATH"] = ":".join(folders + ([earlier] if earlier else []))


def _prepare() -> None:
    _check_torch()
    _add_libraries_of_torch()
    os.environ.setdefault("PACKTRAIN_PYTHON", sys.executable)


def packtrain() -> None:
    _prepare()
    os.execv(f"{HOME}/bin/packtrain", sys.argv)


def packtrain_run() -> None:
    _prepare()
    # The signals stay blocked until packtrain-run has its handlers.
    os.execvp("env", ["env", "--block-signal=TERM,INT,HUP,QUIT,USR1", sys.executable, f"{HOME}/packtrain-run",
                      *sys.argv[1:]])
