"""``tierwright plan``: what it finds and how it says so."""

from pathlib import Path

import pytest

from tests.support.plan_command import plan, planned, tier
from tierwright.cli import main


def test_the_cheapest_setting_that_keeps_the_promise_is_found(
    capsys: pytest.CaptureFixture[str], trace: Path, file: Path
) -> None:
    content = planned(capsys, "--trace", trace, "-f", file)
    (told,) = content["tiers"]
    kept = [each for each in told["settings"] if each["keepsPromise"]]
    best = min(each["replicaHours"] for each in kept)
    assert [each["setting"] for each in kept if each["replicaHours"] == best] == [told["cheapest"]]
    assert any("replicas" in each["fields"] for each in kept)
    for each in told["settings"]:
        assert each["keepsPromise"] == (each["attainment"] >= 0.95)
        assert each["attainment"] <= min(each["timeToFirstTokenMet"], each["timePerOutputTokenMet"]) + 1e-9
        assert each["requests"] == told["demand"]["requests"] == content["trace"]["requests"]
        assert each["acceleratorHours"] == pytest.approx(2 * each["replicaHours"], rel=1e-3)
        assert each["cost"] == pytest.approx(2.5 * each["replicaHours"], abs=0.01)
    assert told["stepTime"]["fixed"] == 11.47e-3
    assert any("was not measured" in words for words in told["assumed"])
    assert sum(part["requestsPerSecond"] * 60 for part in told["overTime"]["as written"]) == pytest.approx(
        told["demand"]["requests"], rel=1e-3
    )


def test_the_table_holds_what_the_json_holds(
    capsys: pytest.CaptureFixture[str], trace: Path, file: Path
) -> None:
    words = ("--trace", trace, "-f", file, "--static", "1,3", "--as-written")
    (told,) = planned(capsys, *words)["tiers"]
    assert main(plan(*words)) == 0
    table = capsys.readouterr().out
    assert [each["setting"] for each in told["settings"]] == ["static 1", "static 3", "as written"]
    for each in told["settings"]:
        (line,) = (line for line in table.splitlines() if line[2:].startswith(each["setting"] + " "))
        assert f"{each['attainment']:.2%}" in line
        assert f"{each['cost']:,.2f}" in line
    assert table.startswith("A model, no measurement")
    assert "assumed: the step time" in table
    assert all(words in table for words in told["remarks"])


def test_requests_go_to_the_tier_that_their_speed_names(
    capsys: pytest.CaptureFixture[str], trace: Path, file: Path, tmp_path: Path
) -> None:
    fast = tmp_path / "fast.yaml"
    fast.write_text(tier("fast"), encoding="utf-8")
    words = ("--trace", trace, "-f", file, "-f", fast, "--static", "2", "--as-written")
    by_column = planned(capsys, *words, "--speed-column", "speed")
    requests = {each["speed"]: each["demand"]["requests"] for each in by_column["tiers"]}
    total = by_column["trace"]["requests"]
    assert requests == {"standard": total - total // 5, "fast": total // 5}
    by_share = planned(capsys, *words, "--share", "llama-fast=1", "--share", "standard=3")
    shares = {each["speed"]: each["demand"]["requests"] / total for each in by_share["tiers"]}
    assert shares == pytest.approx({"standard": 0.75, "fast": 0.25}, abs=0.02)
    assert by_share == planned(capsys, *words, "--share", "llama-fast=1", "--share", "standard=3")


def test_tiers_of_one_pool_are_told_what_they_hold_at_once(
    capsys: pytest.CaptureFixture[str], trace: Path, file: Path, tmp_path: Path
) -> None:
    fast, apart = tmp_path / "fast.yaml", tmp_path / "apart.yaml"
    fast.write_text(tier("fast"), encoding="utf-8")
    alone = tier("batch").replace("count: 2}", "count: 2, nodePool: {matchLabels: {pool: other}}}")
    apart.write_text(alone, encoding="utf-8")
    shares = ("--share", "standard=4", "--share", "fast=1", "--share", "batch=1")
    words = ("--trace", trace, "-f", file, "-f", fast, "-f", apart, *shares, "--static", "1", "--as-written")
    content = planned(capsys, *words)
    (pool,) = content["sharedPools"]
    assert (pool["nodePool"], pool["device"]) == ("", "nvidia.com/gpu")
    assert pool["tiers"] == ["serving/llama-standard", "serving/llama-fast"]
    most = [
        2
        * next(
            row["mostReplicas"]
            for row in told["settings"]
            if row["setting"] == (told["cheapest"] or "as written")
        )
        for told in content["tiers"]
        if told["tier"] in pool["tiers"]
    ]
    assert pool["sumOfEachMost"] == sum(most)
    assert max(most) < pool["mostAccelerators"] <= sum(most)
    assert main(plan(*words)) == 0
    said = f"hold at most {pool['mostAccelerators']} at once"
    assert (
        f"Pool of all nodes, nvidia.com/gpu: serving/llama-standard, serving/llama-fast {said}"
        in capsys.readouterr().out
    )


def test_requests_for_a_speed_that_no_tier_has_are_told(
    capsys: pytest.CaptureFixture[str], trace: Path, file: Path
) -> None:
    words = ("--trace", trace, "-f", file, "--static", "2", "--as-written", "--speed-column", "speed")
    assert main(plan(*words)) == 0
    assert "requests ask for 'fast', which no tier has, and were left out" in capsys.readouterr().err


def test_objectives_below_the_floor_are_told_and_not_chased(
    capsys: pytest.CaptureFixture[str], trace: Path, tmp_path: Path
) -> None:
    impossible = tmp_path / "impossible.yaml"
    impossible.write_text(tier(objectives="timeToFirstToken: 20ms"), encoding="utf-8")
    (told,) = planned(capsys, "--trace", trace, "-f", impossible)["tiers"]
    assert told["demand"]["unattainableShare"] == 1.0
    assert told["cheapest"] is None
    assert sum("replicas" in each["fields"] for each in told["settings"]) == 1
    assert told["remarks"][0].startswith("beyond reach: 100.00% of the requests")
    assert "no number of replicas keeps 95%" in told["remarks"][1]


def test_the_step_time_is_given_by_flag_name_or_file(
    capsys: pytest.CaptureFixture[str], trace: Path, file: Path, tmp_path: Path
) -> None:
    words = ("--trace", trace, "-f", file, "--static", "2", "--as-written")
    own = "fixed=10ms,batch=20us,context=0.04us,prefill=3e4ns"
    for given in (["--step-time", own], ["--step-time", f"llama-standard:{own}"]):
        (told,) = planned(capsys, *words, *given)["tiers"]
        assert told["stepTime"] == {
            "source": "as given",
            "fixed": pytest.approx(0.01),
            "batch": pytest.approx(2e-5),
            "context": pytest.approx(4e-8),
            "prefill": pytest.approx(3e-5),
        }
        assert not any("step time" in each for each in told["assumed"])
    measured = tmp_path / "step-times.yaml"
    measured.write_text("serving/llama-standard: llama-3.1-8b/h100\n", encoding="utf-8")
    (told,) = planned(capsys, *words, "--step-times", measured)["tiers"]
    assert told["stepTime"]["fixed"] == 6.36e-3


def test_what_the_model_leaves_out_is_said(
    capsys: pytest.CaptureFixture[str], trace: Path, tmp_path: Path
) -> None:
    path = tmp_path / "tier.yaml"
    path.write_text(
        tier(engine=", batching: {maxSequences: 32}, speculation: {method: NGram, tokens: 4}"),
        encoding="utf-8",
    )
    (told,) = planned(capsys, "--trace", trace, "-f", path, "--static", "2", "--as-written")["tiers"]
    assert [each.partition(":")[0] for each in told["assumed"]] == [
        "the step time",
        "engine.batching.maxBatchedTokens",
        "engine.speculation",
        "replicas when the trace begins",
    ]


def test_a_tier_on_cpus_is_counted_in_replicas_and_runs_what_its_engine_takes(
    capsys: pytest.CaptureFixture[str], trace: Path, tmp_path: Path
) -> None:
    path = tmp_path / "cpu.yaml"
    text = tier(objectives="timePerOutputToken: 5s").replace("nvidia, count: 2", "cpu")
    path.write_text(
        text.replace("type: vllm, tensorParallel: 2", "type: jax, image: registry.example.com/worker:1"),
        encoding="utf-8",
    )
    words = ("--trace", trace, "-f", path, "--static", "8", "--as-written")
    (told,) = planned(capsys, *words)["tiers"]
    assert {"engine.batching.maxBatchedTokens: 256", "engine.batching.maxSequences: 8"} <= set(
        told["assumed"]
    )
    assert told["settings"][0]["acceleratorHours"] == told["settings"][0]["replicaHours"]
    assert main(plan(*words)) == 0
    table = capsys.readouterr().out
    assert "replica-hours" in table
    assert "accelerator-hours" not in table


def test_the_fleet_begins_as_large_as_said(
    capsys: pytest.CaptureFixture[str], trace: Path, file: Path
) -> None:
    words = ("--trace", trace, "-f", file, "--static", "2", "--as-written")
    for start, replicas in ((5, 5.0), (0, 1.0), (100, 8.0)):
        (told,) = planned(capsys, *words, "--start", start)["tiers"]
        assert told["overTime"]["as written"][0]["replicas"] == pytest.approx(replicas, abs=2.9)
        assert not any("--start" in each for each in told["assumed"])


def test_the_beginning_can_be_left_uncounted(
    capsys: pytest.CaptureFixture[str], trace: Path, file: Path
) -> None:
    words = ("--trace", trace, "-f", file, "--static", "2", "--as-written")
    (all_of_it,) = planned(capsys, *words)["tiers"]
    (warm,) = planned(capsys, *words, "--warm-up", "10m")["tiers"]
    assert warm["settings"][0]["requests"] < all_of_it["settings"][0]["requests"]
    assert warm["settings"][0]["replicaHours"] == pytest.approx(
        all_of_it["settings"][0]["replicaHours"] - 2 * 600 / 3600, abs=0.01
    )
