"""Files of a store with examples: safetensors with the columns of framework/data/token_store.h."""

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load_file, save

from packtrain_tools.errors import ToolError
from packtrain_tools.prepare.examples import REJECTED, Examples, digests_of

Column = tuple[str, list[np.ndarray]]  # type of safetensors, and the parts of the values
_OF_TOKENS = "token."  # begins the names of tensors with a number for each token
_WIDTHS = {"U64": 8, "I64": 8, "I32": 4, "F32": 4, "I16": 2, "U8": 1}


def write_shard(path: str, parts: list[Examples], groups: dict | None = None) -> str:
    """Writes all parts directly from their arrays, without a second copy of a shard in memory. Format: 8
    bytes with the header's length, a JSON header, the data. `groups`: those of store.json. Returns the digest
    for store.json (framework/data/store_format.h)."""
    columns = _columns(parts)
    if groups is not None:
        columns |= _group_columns(parts, groups)
    columns |= _token_columns(parts)
    write_columns(path, columns)
    digest = hashlib.blake2b(digest_size=16)
    for _, arrays in columns.values():
        for array in arrays:
            digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def write_unselected(path: str, parts: list[Examples]):
    """Writes examples before selection, which `read_shard` reads."""
    write_columns(path, _columns(parts) | _token_columns(parts) | {
        "groups": ("U64", [part.groups for part in parts]),
        "margins": ("F32", [part.margins for part in parts]),
        "rewards": ("F32", [part.rewards for part in parts]),
        "begins": ("U8", [part.begins.astype(np.uint8) for part in parts]),
        "roles": ("U8", [part.roles for part in parts])})


def _columns(parts: list[Examples]) -> dict[str, Column]:
    lengths = np.concatenate([part.lengths for part in parts], dtype=np.int64)
    offsets = np.concatenate([[0], np.cumsum(lengths)], dtype=np.int64)
    return {
        "offsets": ("I64", [offsets]),
        "input_ids": ("I32", [part.input_ids for part in parts]),
        "num_loss_tokens": ("I32", [part.num_loss_tokens for part in parts]),
        "source": ("I16", [part.source for part in parts]),
        "loss_mask": ("U8", [part.loss_mask for part in parts]),
    }


def _group_columns(parts: list[Examples], groups: dict) -> dict[str, Column]:
    begins = np.flatnonzero(np.concatenate([part.begins for part in parts]))
    num_examples = sum(part.num_examples for part in parts)
    columns: dict[str, Column] = {
        "group_offsets": ("I64", [np.append(begins, num_examples).astype(np.int64)]),
        "group_role": ("U8", [part.roles for part in parts])}
    if groups["has_margins"]:
        columns["margin"] = ("F32", [part.margins[part.begins] for part in parts])
    return columns


def _token_columns(parts: list[Examples]) -> dict[str, Column]:
    return {_OF_TOKENS + name: ("F32", [part.token_columns[name] for part in parts])
            for name in sorted(parts[0].token_columns)}


def write_columns(path: str, columns: dict[str, Column]):
    """Wide types come first, so that every array is aligned to its elements."""
    header, begin = {}, 0
    ordered = sorted(columns.items(), key=lambda entry: -_WIDTHS[entry[1][0]])
    for name, (dtype, arrays) in ordered:
        end = begin + sum(array.nbytes for array in arrays)
        header[name] = {"dtype": dtype, "shape": [sum(len(array) for array in arrays)],
                        "data_offsets": [begin, end]}
        begin = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # arrays stay aligned
    with _synced(path) as stream:
        stream.write(len(text).to_bytes(8, "little") + text)
        for _, (_, arrays) in ordered:
            for array in arrays:
                stream.write(np.ascontiguousarray(array).data)


def read_shard(path: str) -> Examples:
    """Reads examples of `write_unselected`."""
    columns = _load(path)
    lengths = np.diff(columns["offsets"]).astype(np.int32)
    roles = columns["roles"]
    # Files of earlier versions have neither, and no rollouts.
    begins = columns["begins"].astype(bool) if "begins" in columns else roles != REJECTED
    rewards = columns.get("rewards", np.zeros(len(lengths), np.float32))
    digests = digests_of(columns["input_ids"], columns["loss_mask"], lengths, roles, begins)
    return Examples(columns["input_ids"], columns["loss_mask"], lengths,
                    columns["num_loss_tokens"], columns["source"], digests,
                    columns["groups"], roles, begins, columns["margins"], rewards,
                    {name.removeprefix(_OF_TOKENS): column for name, column in columns.items()
                     if name.startswith(_OF_TOKENS)})


def read_lengths(path: str) -> np.ndarray:
    """int32 [num_examples], without reading tokens."""
    try:
        with safe_open(path, framework="numpy") as file:
            return np.diff(file.get_tensor("offsets")).astype(np.int32)
    except (OSError, SafetensorError) as error:
        raise ToolError(f"{path}: cannot be read: {error}",
                        "Start again with --overwrite.") from None


def read_contents(path: str) -> tuple[np.ndarray, np.ndarray]:
    """input_ids and lengths of all examples of a shard."""
    columns = _load(path)
    return columns["input_ids"], np.diff(columns["offsets"]).astype(np.int32)


def write_digests(folder: str, name: str, digests: list[np.ndarray]) -> str:
    """Returns the file's name, which begins as those of all unfinished files."""
    file = f"unfinished-{name}.safetensors"
    write_synced(os.path.join(folder, file), save({"digests": np.concatenate(digests)}))
    return file


def read_digests(folder: str, file: str) -> np.ndarray:
    """uint64 [num_examples, 2]"""
    return _load(os.path.join(folder, file))["digests"]


def _load(path: str) -> dict[str, np.ndarray]:
    try:
        return load_file(path)
    except SafetensorError as error:
        raise ToolError(f"{path}: is no safetensors file: {error}") from None


def write_synced(path: str, data: bytes):
    with _synced(path) as stream:
        stream.write(data)


@contextmanager
def _synced(path: str) -> Iterator[BinaryIO]:
    """The errors of a full disk name the file."""
    try:
        with open(path, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        error.filename = error.filename or path
        raise


def sync_folder(folder: str):
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_json(folder: str, name: str, value: dict):
    """Writes atomically."""
    path = os.path.join(folder, name)
    write_synced(path + ".tmp", (json.dumps(value, indent=2) + "\n").encode())
    os.replace(path + ".tmp", path)
    sync_folder(folder)
