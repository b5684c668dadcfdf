"""The families' files: `families/<model_type>.py`, found by their names.

    Config     transformers' config class
    BASE       keyword arguments of a small config, each size odd
    CASES      {option: what it changes in BASE}
    REFUSED    {key of config.json: {key: value}} that packtrain must refuse, naming the key (optional)
    PRIVATE    what a private variant changes in BASE: unusual options together, for `packtrain
               verify` (optional: the last of CASES)
    GPU        {option: what it changes in BASE and GPU_SIZES}, for the tests on a GPU (optional: none)
    OWN_FALLBACKS  {key of config.json} whose fallback is not transformers' (optional)
    vary       what a random configuration (random_configs.py) of this family needs: `vary(generator, changes)`
               amends the drawn changes of BASE (optional: nothing)
    TIED       whether tie_word_embeddings is an option: each case runs tied and untied (optional, True)
"""

import copy
import dataclasses
import functools
import importlib.util
import pathlib

from sizes import GPU_SIZES

FOLDER = pathlib.Path(__file__).resolve().parent / "families"


@dataclasses.dataclass(frozen=True)
class Case:
    family: str
    name: str
    changes: dict = dataclasses.field(compare=False)

    def __str__(self):
        return f"{self.family}-{self.name}"

    def config(self):
        module = load(self.family)
        # Families share dictionaries of rotary positions, and some configs of transformers write to theirs.
        return module.Config(**copy.deepcopy({**module.BASE, **self.changes}))


@functools.cache
def load(family):
    spec = importlib.util.spec_from_file_location(f"family_{family}", FOLDER / f"{family}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def names():
    return sorted(path.stem for path in FOLDER.glob("*.py"))


def cases_of(family):
    module = load(family)
    wanted = {"base": {}, **module.CASES}
    if not getattr(module, "TIED", True):
        return [Case(family, name, changes) for name, changes in wanted.items()]
    return [Case(family, f"{name}-{word}", {**changes, "tie_word_embeddings": tied})
            for name, changes in wanted.items() for word, tied in (("untied", False), ("tied", True))]


def gpu_cases_of(family):
    """BASE as it is and with its options, larger: what the GPU's kernels take."""
    module = load(family)
    larger = {key: size for key, size in GPU_SIZES.items() if module.BASE.get(key) is not None}
    wanted = {"base": {}, **getattr(module, "GPU", {})}
    return [Case(family, name, {**larger, **changes}) for name, changes in wanted.items()]


def private_variant(family):
    module = load(family)
    changes = getattr(module, "PRIVATE", None) or list(module.CASES.values())[-1]
    return Case(family, "private", changes)


def refusals():
    return [Case(family, key, changes) for family in names()
            for key, changes in getattr(load(family), "REFUSED", {}).items()]
