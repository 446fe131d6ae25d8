"""Measures what a fast gear is worth, on the user's own model and machine: `tierwright-worker bench`.

prompts.py   the frozen set of requests, with its hash
asking.py    sends requests to an engine, one at a time or so many that its slots stay full, and notes when tokens came
gears.py     the order of a run: the same prompts plain and fast in turn, then a loaded standard engine, several times
replay.py    how often the most probable token stays the same with keys and values of another kind
process.py   one worker as a process: seconds until it is ready from a warm cache, and its memory
figures.py   from what was noted to the figures; pure arithmetic
report.py    the figures as a table, and as JSON

An engine is whatever fulfils `engine.service.Engine`; the command builds them and hands them in.
"""
