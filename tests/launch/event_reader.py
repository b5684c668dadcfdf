"""Reads TensorBoard's event files by their definition: framing, checksums, the fields that we write."""

import struct


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        for bit in range(8):
            low = (crc ^ byte >> bit) & 1
            crc = crc >> 1 ^ (0x82F63B78 if low else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    while data:
        (length,) = struct.unpack("<Q", data[:8])
        (length_crc,) = struct.unpack("<I", data[8:12])
        body = data[12:12 + length]
        (body_crc,) = struct.unpack("<I", data[12 + length:16 + length])
        assert len(body) == length and length_crc == masked(data[:8]) and body_crc == masked(body)
        yield body
        data = data[16 + length:]


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def fields(data):
    """[(number, value)] of a message: integers, raw fixed numbers, bytes."""
    at = 0
    found = []
    while at < len(data):
        key, at = varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value, at = varint(data, at)
        else:
            size = {1: 8, 5: 4}.get(kind)
            if size is None:
                size, at = varint(data, at)
            value, at = data[at:at + size], at + size
        found.append((number, value))
    return found


def scalars(path):
    """[(step, wall time, {tag: value})] in the file's order, after what every file begins with."""
    events = [dict(fields(body)) for body in records(path.read_bytes())]
    assert events[0][3] == b"brain.Event:2"
    assert events[1][7] == b"\x08\x01", "a session starts"
    found = []
    for event in events[2:]:
        values = {}
        for number, value in fields(event[5]):
            assert number == 1
            entry = dict(fields(value))
            (values[entry[1].decode()],) = struct.unpack("<f", entry[2])
        found.append((event[2], struct.unpack("<d", event[1])[0], values))
    return found
