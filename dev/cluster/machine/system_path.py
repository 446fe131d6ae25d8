"""PATH with the folders of system programs (nft, ip, umount), which a user's PATH, and root's after `su`, often lacks."""

import os

_SYSTEM_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin")


def system_path() -> str:
    """This process's PATH and, after it, the folders of system programs."""
    return os.pathsep.join([os.environ.get("PATH", os.defpath), *_SYSTEM_FOLDERS])


def environment() -> dict[str, str]:
    """This process's environment with `system_path`, for commands that call system programs."""
    return {**os.environ, "PATH": system_path()}
