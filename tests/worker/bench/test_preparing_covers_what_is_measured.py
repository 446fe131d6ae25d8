"""What is compiled beforehand is what the measured workers run, so that none compiles while it is timed."""

from pathlib import Path

from bench.worker.engines import own_server
from bench.worker.prepare import shapes
from bench.worker.setup import OWN_CONTEXT, Setup
from tierwright_worker.cli.flags import parser, settings_of


def test_every_measured_worker_is_compiled_beforehand(tmp_path: Path) -> None:
    setup = Setup(tmp_path / "model", tmp_path, 1)
    prepared = set(shapes(setup))
    for slots in (1, setup.streams):
        command = own_server(setup, slots=slots).command
        words = [word.replace("{port}", "0") for word in command[command.index("serve") :]]
        served = settings_of(parser().parse_args(words))
        assert served.max_model_len is not None
        assert (served.max_num_seqs, served.speculative_tokens, served.max_model_len) in prepared
    bench = settings_of(parser().parse_args(["bench", "--model", "m"]))
    for slots, drafts in ((1, bench.speculative_tokens), (1, 0), (bench.max_num_seqs, 0)):
        assert (slots, drafts, OWN_CONTEXT) in prepared
