"""Finds modules of Python that import each other in a circle, imports inside functions included."""

import ast
import graphlib
import pathlib


def _names(tree: ast.AST) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            # `from package import module` names a module, `from module import function` its function
            names.update((node.module, *(f"{node.module}.{alias.name}" for alias in node.names)))
    return names


def find_circle(root: pathlib.Path) -> list[str]:
    """Names of modules below `root`, the first one repeated at the end; empty where no circle is."""
    modules = {".".join(path.relative_to(root).with_suffix("").parts): path for path in sorted(root.rglob("*.py"))}
    graph = {name: (_names(ast.parse(path.read_text(encoding="utf-8"))) & modules.keys()) - {name}
             for name, path in modules.items()}
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return list(error.args[1])
    return []
