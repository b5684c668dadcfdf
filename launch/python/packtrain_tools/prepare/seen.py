"""Hashes that occurred before, and their files. A preparation that continues reads them again."""

import numpy as np

from packtrain_tools.prepare.shard_file import read_digests, write_digests


class Seen:
    """About 100 bytes of memory each."""

    def __init__(self, name: str):
        """`name`: of its files in the folder of the preparation."""
        self._name = name
        self._hashes: set[bytes] = set()
        self._files: list[str] = []  # of earlier saves
        self._unsaved: list[np.ndarray] = []

    def add(self, hashes: np.ndarray) -> np.ndarray:
        """bool [n]: whether each row of `hashes`, uint64 [n, width], is new."""
        is_new = np.ones(len(hashes), bool)
        for i, row in enumerate(_rows(hashes)):
            is_new[i] = row not in self._hashes
            self._hashes.add(row)
        self._unsaved.append(hashes[is_new])
        return is_new

    def save(self, folder: str, number: int) -> list[str]:
        """Returns the files that hold all, the input of `restore`. Each save writes only what is new since the
        previous one. `number`: of the save."""
        if any(map(len, self._unsaved)):
            self._files.append(write_digests(folder, f"{self._name}{number}", self._unsaved))
        self._unsaved = []
        return list(self._files)

    def restore(self, folder: str, files: list[str]):
        self._files = list(files)
        for file in files:
            self._hashes.update(_rows(read_digests(folder, file)))


def _rows(hashes: np.ndarray) -> list[bytes]:
    data = np.ascontiguousarray(hashes).tobytes()
    width = hashes.itemsize * hashes.shape[1]
    return [data[i:i + width] for i in range(0, len(data), width)]
