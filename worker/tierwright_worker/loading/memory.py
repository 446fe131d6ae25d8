"""Gives freed memory back to the system: after loading and warming up a worker keeps what it needs, and no more."""

import ctypes
import gc


def give_back() -> None:
    """Return what is free; does nothing where the C library has no such call.

    glibc keeps freed pieces of up to 32 MiB for later ones, and nothing as large as weights or compilations comes later.
    """
    gc.collect()
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return
    trim(0)
