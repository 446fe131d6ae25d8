"""Requests live and end as they should: alone, together, cancelled, refused; speculation changes the speed alone."""

from collections.abc import Sequence

import numpy as np
import pytest

from dev.worker.models import random_tokens
from tests.worker.support import Bench, greedy, run, texts
from tierwright_worker.engine.executor import StepResult
from tierwright_worker.engine.interface import FinishReason, Mask, SamplingParams
from tierwright_worker.engine.policies.acceptance import LayeredRule
from tierwright_worker.engine.sequence import Request


def prompt(seed: int, length: int) -> tuple[int, ...]:
    """Random tokens, none of them special."""
    return tuple(int(token) for token in np.random.default_rng(seed).integers(3, 128, length))


def crowd() -> list[Request]:
    """More requests than slots, of very different lengths; some repeat themselves, so that drafts are found."""
    lengths = [1, 2, 5, 63, 64, 65, 66, 100, 128, 150, 190]
    requests = [Request(f"r{n}", prompt(n, n), greedy(20 + n % 7)) for n in lengths]
    loop = prompt(99, 6) * 12
    return [*requests, Request("loop", loop, greedy(60)), Request("long", prompt(5, 40), greedy(200))]


def test_greedy_text_does_not_depend_on_speculation_or_company(tiny: Bench) -> None:
    together = texts(run(tiny.engine(), crowd()))
    speculating = tiny.engine(draft_tokens=4)
    assert texts(run(speculating, crowd())) == together
    assert speculating.counters.accepted_tokens > 0
    for request in crowd():
        assert texts(run(tiny.engine(), [request]))[request.id] == together[request.id], request.id


def test_a_chunk_that_ends_with_the_bucket_is_not_overwritten_by_the_step_beside_it(tiny: Bench) -> None:
    # The chunks of 64 rows end at position 128, the first bucket's end, while the other one decodes.
    reading = Request("reading", prompt(1, 130), greedy(10))
    decoding = Request("decoding", prompt(2, 5), greedy(60))
    alone = texts(run(tiny.engine(), [reading]))["reading"]
    assert texts(run(tiny.engine(), [decoding, reading]))["reading"] == alone


def test_sampled_text_depends_on_its_seed_alone(tiny: Bench) -> None:
    def sampled(seed: int) -> Request:
        params = SamplingParams(temperature=0.8, top_p=0.9, seed=seed, max_tokens=30)
        return Request(f"s{seed}", prompt(3, 50), params)

    alone = {f"s{seed}": texts(run(tiny.engine(), [sampled(seed)]))[f"s{seed}"] for seed in range(4)}
    assert len({tuple(tokens) for tokens in alone.values()}) == 4
    assert texts(run(tiny.engine(draft_tokens=4), [sampled(seed) for seed in range(4)])) == alone


def test_a_request_ends_with_its_last_token_by_length_stop_or_context(tiny: Bench) -> None:
    expected = texts(run(tiny.engine(), [Request("a", prompt(1, 30), greedy(40))]))["a"]
    stop = expected[9]
    first = expected.index(stop)
    by_stop = greedy(40, stop_token_ids=frozenset([stop]))
    outputs = run(
        tiny.engine(),
        [
            Request("length", prompt(1, 30), greedy(7)),
            Request("stop", prompt(1, 30), by_stop),
            Request("context", prompt(2, 250), greedy(100)),
        ],
    )
    assert texts(outputs)["length"] == expected[:7]
    assert texts(outputs)["stop"] == expected[: first + 1]
    assert [outputs[name][-1].finished for name in ("length", "stop", "context")] == [
        FinishReason.LENGTH,
        FinishReason.STOP,
        FinishReason.LENGTH,
    ]
    assert 1 <= len(texts(outputs)["context"]) <= 6
    assert all(part.finished is None for parts in outputs.values() for part in parts[:-1])


def test_the_models_own_end_token_ends_a_request_unless_told_otherwise(tiny: Bench) -> None:
    expected = texts(run(tiny.engine(), [Request("a", prompt(1, 30), greedy(40))]))["a"]
    end = expected[5]
    ended = run(tiny.engine(end_tokens=[end]), [Request("a", prompt(1, 30), greedy(40))])
    assert texts(ended)["a"] == expected[: expected.index(end) + 1]
    on = Request("a", prompt(1, 30), greedy(40, ignore_eos=True))
    assert texts(run(tiny.engine(end_tokens=[end]), [on]))["a"] == expected


def test_a_cancelled_request_frees_its_slot_and_disturbs_nobody(tiny: Bench) -> None:
    requests = [Request(f"r{at}", prompt(at, 40), greedy(30)) for at in range(6)]
    expected = texts(run(tiny.engine(), requests))
    engine = tiny.engine(draft_tokens=4)
    for request in requests:
        engine.submit(request)
    got: dict[str, list[int]] = {request.id: [] for request in requests}
    iterations = 0
    while engine.busy:
        iterations += 1
        if iterations == 8:
            assert engine.cancel("r1")
            assert engine.cancel("r5")
            assert not engine.cancel("nobody")
        for output in engine.iterate():
            got[output.id] += output.tokens
    survivors = [request.id for request in requests if request.id not in ("r1", "r5")]
    assert {name: got[name] for name in survivors} == {name: expected[name] for name in survivors}
    assert len(got["r1"]) < 30
    assert got["r5"] == []


def test_a_full_queue_refuses_and_says_when_to_come_back(tiny: Bench) -> None:
    engine = tiny.engine(max_queue=2)
    verdicts = [engine.submit(Request(f"r{at}", prompt(at, 10), greedy(4))) for at in range(4)]
    assert [verdict.admitted for verdict in verdicts] == [True, True, False, False]
    assert verdicts[2].retry_after is not None
    assert engine.waiting == 2


@pytest.mark.parametrize("length", [0, 256, 300])
def test_a_prompt_that_cannot_fit_is_the_callers_error(tiny: Bench, length: int) -> None:
    with pytest.raises(ValueError, match="fit this engine"):
        tiny.engine().submit(Request("a", prompt(1, length), greedy(1)))


def test_logprobs_are_those_of_the_chosen_tokens(tiny: Bench) -> None:
    params = greedy(12, logprobs=3)
    outputs = run(tiny.engine(draft_tokens=4), [Request("a", tuple(random_tokens("llama")), params)])["a"]
    tokens = [token for part in outputs for token in part.tokens]
    logprobs = [entry for part in outputs for entry in part.logprobs]
    assert [entry.token for entry in logprobs] == tokens
    for entry in logprobs:
        assert entry.logprob <= 0
        assert entry.top[0] == (entry.token, entry.logprob)


class Broken:
    """A constraint with a bug."""

    def allowed(self, draft: Sequence[int]) -> list[Mask]:
        raise IndexError(f"index {-1 - len(draft)} is out of bounds")

    def take(self, tokens: Sequence[int]) -> bool:
        raise AssertionError(f"nothing was allowed, and {tokens} came")


def test_a_failure_in_choosing_one_requests_token_ends_that_request_alone(
    tiny: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    alone = texts(run(tiny.engine(), [Request("a", prompt(1, 30), greedy(20))]))["a"]
    broken = Request("b", prompt(2, 30), greedy(20), constraint=Broken())
    outputs = run(tiny.engine(), [Request("a", prompt(1, 30), greedy(20)), broken])
    assert [output.finished for output in outputs["b"]] == [FinishReason.ERROR]
    assert texts(outputs)["a"] == alone
    assert "IndexError: index -1 is out of bounds" in caplog.text


def test_speculation_stops_above_the_batch_threshold(tiny: Bench) -> None:
    engine = tiny.engine(draft_tokens=4, disable_above_batch=1)
    loop = prompt(99, 6) * 12
    for at in range(3):
        engine.submit(Request(f"r{at}", loop, greedy(20 + 10 * at)))
    crowded: list[int] = []
    alone: list[int] = []
    while engine.busy:
        outputs = engine.iterate()
        (crowded if len(outputs) > 1 else alone).extend(output.drafted for output in outputs)
    # A prompt's end joins the step that was planned while one request was alone.
    assert sum(drafted > 0 for drafted in crowded) <= 2
    assert len(crowded) > 20
    assert sum(alone) > 0


@pytest.mark.parametrize("params", [greedy(40), SamplingParams(temperature=0.5, seed=2, max_tokens=40)])
def test_layered_verification_bends_where_it_is_chosen_and_counts_it(
    tiny: Bench, params: SamplingParams
) -> None:
    request = Request("loop", prompt(99, 6) * 12, params)
    plain = texts(run(tiny.engine(), [request]))
    strict = tiny.engine(draft_tokens=4, layered=LayeredRule(entropy=0.0, share=1.0))
    assert texts(run(strict, [request])) == plain
    assert strict.counters.bent_tokens == 0
    loose = tiny.engine(draft_tokens=4, layered=LayeredRule(entropy=9.0, share=1e-6))
    outputs = run(loose, [request])
    assert texts(outputs) != plain
    assert sum(output.bent for output in outputs["loop"]) == loose.counters.bent_tokens > 0
    assert len(texts(outputs)["loop"]) == 40


def test_greedy_decoding_copies_no_logits_to_the_host(tiny: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(_: StepResult) -> None:
        raise AssertionError("a greedy step copied its logits")

    plain = texts(run(tiny.engine(), crowd()))
    monkeypatch.setattr(StepResult, "host_logits", never)
    assert texts(run(tiny.engine(draft_tokens=4), crowd())) == plain


def test_the_cache_grows_with_its_requests_and_shrinks_when_they_are_gone(tiny: Bench) -> None:
    engine = tiny.engine()
    run(engine, [Request("a", prompt(1, 100), greedy(60))])
    assert tiny.executor.length == 256
    run(engine, [Request("b", prompt(1, 10), greedy(3))])
    assert tiny.executor.length == 128
