"""`python -m tierwright_worker`."""

from tierwright_worker.cli import run

if __name__ == "__main__":
    run()
