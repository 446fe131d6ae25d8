"""Keeps the process small: one heap for all threads, and freed memory goes back to the system after loading and warming up."""

import ctypes
import gc

_ARENA_MAX = -8  # M_ARENA_MAX of glibc's malloc.h


def one_heap() -> None:
    """Let all threads allocate from one heap; to be called before there are several. Does nothing without such a call.

    glibc gives each thread a heap of its own, and each keeps what was freed in it. Measured at the start of a worker: 35 MB
    of 900; a step allocates too little for its threads to wait for each other.
    """
    try:
        ctypes.CDLL(None).mallopt(_ARENA_MAX, 1)
    except (OSError, AttributeError):
        return


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
