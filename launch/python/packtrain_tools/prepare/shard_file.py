"""Files of a store with examples: safetensors with the columns of framework/data/token_store.h."""

import hashlib
import json
import os

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load_file, save

from packtrain_tools.errors import ToolError
from packtrain_tools.prepare.examples import Examples, digests_of


def write_shard(path: str, parts: list[Examples], with_groups: bool = False) -> str:
    """Writes all parts directly from their arrays, without a second copy of a shard in memory. Format: 8
    bytes with the header's length, a JSON header, the data. `with_groups`: for examples before selection;
    no finished store has groups. Returns the digest for store.json (framework/data/store_format.h)."""
    lengths = np.concatenate([part.lengths for part in parts], dtype=np.int64)
    offsets = np.concatenate([[0], np.cumsum(lengths)], dtype=np.int64)
    columns = {
        "offsets": ("I64", [offsets]),
        "input_ids": ("I32", [part.input_ids for part in parts]),
        "num_loss_tokens": ("I32", [part.num_loss_tokens for part in parts]),
        "source": ("I16", [part.source for part in parts]),
        "loss_mask": ("U8", [part.loss_mask for part in parts]),
    }
    if with_groups:
        columns = {"groups": ("U64", [part.groups for part in parts]), **columns}
    header, begin = {}, 0
    for name, (dtype, arrays) in columns.items():
        end = begin + sum(array.nbytes for array in arrays)
        header[name] = {"dtype": dtype, "shape": [sum(len(array) for array in arrays)],
                        "data_offsets": [begin, end]}
        begin = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # arrays stay aligned
    digest = hashlib.blake2b(digest_size=16)
    with open(path, "wb") as stream:
        stream.write(len(text).to_bytes(8, "little") + text)
        for _, arrays in columns.values():
            for array in arrays:
                data = np.ascontiguousarray(array).data
                digest.update(data)
                stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())
    return digest.hexdigest()


def read_shard(path: str) -> Examples:
    """Reads examples that `write_shard` wrote with their groups."""
    columns = _load(path)
    lengths = np.diff(columns["offsets"]).astype(np.int32)
    return Examples(columns["input_ids"], columns["loss_mask"], lengths,
                    columns["num_loss_tokens"], columns["source"],
                    digests_of(columns["input_ids"], columns["loss_mask"], lengths),
                    columns["groups"])


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
    with open(path, "wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())


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
