"""Reads what run.trace_steps wrote."""

import json


def read_trace(path):
    """(metadata, {row: boxes in the order of their beginnings}) of a rank's file."""
    trace = json.loads(path.read_text())
    events = trace["traceEvents"]
    assert {event["ph"] for event in events} == {"M", "X"}
    names = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    rows = {name: [] for name in names.values()}
    for event in events:
        if event["ph"] == "X":
            rows[names[event["tid"]]].append(event)
    return trace, rows


def end(box):
    return box["ts"] + box["dur"]


def named(rows, row, beginning):
    return [box for box in rows[row] if box["name"].startswith(beginning)]
