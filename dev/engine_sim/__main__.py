"""Entry point: `python -m dev.engine_sim MODEL [vllm serve arguments]`, settings in `ENGINE_SIM_*` variables.

Exit codes as vLLM's: 2 for a command line it does not know, 1 for a configuration it cannot start with.
"""

import asyncio
import os
import sys

from dev.engine_sim.cli import parse_command_line
from dev.engine_sim.config import ConfigError, build_config
from dev.engine_sim.process import say, serve
from dev.engine_sim.settings import SettingsError, read_settings


def main() -> int:
    """Run the simulator with this process's arguments and environment; returns the exit code."""
    arguments = parse_command_line(sys.argv[1:])
    try:
        settings = read_settings(os.environ)
    except SettingsError as error:
        say(f"error: {error}")
        return 2
    try:
        config = build_config(arguments, settings, os.environ.get("VLLM_API_KEY"))
    except ConfigError as error:
        say(f"error: {error}")
        return 1
    return asyncio.run(serve(config, settings))


if __name__ == "__main__":
    sys.exit(main())
