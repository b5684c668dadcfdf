"""Writes TensorBoard's event files without TensorBoard: records in TFRecord's framing
(tensorflow.org/tutorials/load_data/tfrecord), each a protocol buffer `Event`
(tensorboard/compat/proto/event.proto, summary.proto)."""

import os
import socket
import struct
import time

SUFFIX = ".packtrain"


def _crc32c_table() -> list[int]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ 0x82F63B78 * (value & 1)
        table.append(value)
    return table


_TABLE = _crc32c_table()


def masked_crc32c(data: bytes) -> int:
    """CRC-32C (Castagnoli), rotated and shifted by a constant as TFRecord requires."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def record(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return b"".join((length, struct.pack("<I", masked_crc32c(length)), data,
                     struct.pack("<I", masked_crc32c(data))))


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _message(field: int, data: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _event(wall_time: float, step: int, body: bytes) -> bytes:
    return b"\x09" + struct.pack("<d", wall_time) + b"\x10" + _varint(step) + body


def _scalar(tag: str, value: float) -> bytes:
    return _message(1, _message(1, tag.encode()) + b"\x15" + struct.pack("<f", value))


class EventFile:
    """A new event file of `folder`, which replaces those that this class wrote before. Their contents are
    written again, and readers drop what they have read."""

    def __init__(self, folder: str):
        os.makedirs(folder, exist_ok=True)
        old = [name for name in os.listdir(folder) if name.endswith(SUFFIX)]
        now = time.time()
        name = f"events.out.tfevents.{now:.6f}.{socket.gethostname()}.{os.getpid()}{SUFFIX}"
        # Lines are appended as they come, and each add() flushes.
        self._stream = open(os.path.join(folder, name), "wb")  # noqa: SIM115
        for name in old:
            os.remove(os.path.join(folder, name))
        self._write(_event(now, 0, _message(3, b"brain.Event:2")))
        self._write(_event(now, 0, _message(7, b"\x08\x01")))  # a session starts: drops later steps

    def add(self, wall_time: float, step: int, scalars: dict[str, float]):
        body = b"".join(_scalar(tag, value) for tag, value in scalars.items())
        self._write(_event(wall_time, step, _message(5, body)))

    def _write(self, event: bytes):
        self._stream.write(record(event))
        self._stream.flush()

    def close(self):
        self._stream.close()
