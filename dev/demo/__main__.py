"""`python -m dev.demo [--keep]`: serves one model at two speeds on a real Kubernetes and shows what the operator does."""

import argparse
import sys
from pathlib import Path

from openai import OpenAIError

from dev.cluster.failures import FAILURES
from dev.cluster.nodes.requirements import provide
from dev.demo import story
from dev.demo.console import Console
from dev.demo.kubectl import CommandError


def main() -> int:
    """Run the demo; exit status 1 with one plain sentence when a step fails."""
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument(
        "--keep", action="store_true", help="leave the cluster running and say how to look around"
    )
    parser.add_argument(
        "--picture", type=Path, metavar="FILE.svg", help="write a picture of what the demo showed"
    )
    parser.add_argument("--given", action="store_true", help="use the cluster that KUBECONFIG names")
    options = parser.parse_args()
    try:
        if options.given:
            story.run_on_given(Console(steps=7 if options.keep else 8), keep=options.keep)
        elif missing := provide():
            story.run_without_nodes(Console(steps=5 if options.keep else 6), missing, options.keep)
        else:
            story.run(Console(steps=8 if options.keep else 9), keep=options.keep, picture=options.picture)
    except (CommandError, OpenAIError, *FAILURES) as error:
        print(f"\nThe demo stopped: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nThe demo was interrupted; the cluster was taken down.", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
