"""Finds benchmarks/train, benchmarks/peers and benchmarks/preferences for the tests here."""

import importlib.machinery
import importlib.util
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
for folder in ("train", "peers", "preferences"):
    sys.path.insert(0, os.path.join(ROOT, "benchmarks", folder))


def load_script(name):
    """A script of benchmarks/train as a module."""
    path = os.path.join(ROOT, "benchmarks", "train", name)
    loader = importlib.machinery.SourceFileLoader(name + "_script", path)
    module = importlib.util.module_from_spec(
        importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module
