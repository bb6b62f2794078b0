"""A short run of `make fuzz`, always the same inputs; and that the fuzzer finds what there is to find."""

import pytest

from offsetguard.sources.rocketmq.codes import RequestCode
from offsetguard.sources.rocketmq.json_fields import MalformedBytes
from offsetguard_peers.cases.running import for_each
from offsetguard_peers.fuzz.attack import run
from offsetguard_peers.fuzz.inputs import MAX_INPUT_BYTES, hostile
from offsetguard_peers.fuzz.target import Target
from offsetguard_peers.fuzz.targets import BODY_DECODERS, all_targets, same_offsets_both_ways

INPUTS = 3_000


def test_no_reader_fails_otherwise_than_it_may() -> None:
    quick = tuple(target for target in all_targets() if target.weight > 1)
    report = run(20261121, range(INPUTS), quick)
    assert [f"{one.target}: {one.error} at {one.where}, --only {one.number}" for one in report.findings.values()] == []
    assert report.input_count == INPUTS
    assert {*report.read, *report.refused} == {target.name for target in quick}, "each reader had its turn"
    accepted = {name for name, count in report.read.items() if count}
    assert accepted == {target.name for target in quick}, "each reader also met inputs that it could read"


def test_nothing_that_reads_whole_rounds_files_or_configurations_fails_otherwise_than_it_may() -> None:
    slow = tuple(target for target in all_targets() if target.weight <= 1)
    report = run(20261121, range(40), slow)
    assert [f"{one.target}: {one.error} at {one.where}, --only {one.number}" for one in report.findings.values()] == []
    assert report.input_count == 40


@for_each("target", all_targets(), name_of=lambda target: target.name)
def test_every_reader_reads_the_real_inputs_that_hostile_ones_are_made_of(target: Target) -> None:
    outcomes = []
    for original in target.originals[: None if target.weight > 1 else 2]:
        try:
            target.read(original)
            outcomes.append(True)
        except target.refusals:
            outcomes.append(False)
    assert any(outcomes)
    if target.name.startswith(("body", "header", "frames", "quick")):
        assert all(outcomes)


def test_inputs_are_bounded_and_follow_from_seed_and_number_alone() -> None:
    originals = [b'{"a":1}', b"x" * MAX_INPUT_BYTES]
    inputs = [hostile(1, number, originals) for number in range(300)]
    assert inputs == [hostile(1, number, originals) for number in range(300)]
    assert len(set(inputs)) > 200
    assert max(map(len, inputs)) <= MAX_INPUT_BYTES


def test_a_reader_that_fails_is_found_once_for_each_place_with_its_input() -> None:
    def read(data: bytes) -> None:
        if len(data) % 2:
            raise MalformedBytes("odd")
        if len(data) % 4:
            raise KeyError("two")
        raise ZeroDivisionError

    target = Target("fragile", read, [b'{"a":1}', b'{"b":[1,2]}'])
    report = run(1, range(200), (target,))
    assert report.refused["fragile"] > 0
    assert {kind for _, kind, _ in report.findings} == {"KeyError", "ZeroDivisionError"}
    assert report.finding_count == 200 - report.refused["fragile"]
    for finding in report.findings.values():
        again = run(finding.seed, [finding.number], (target,))
        assert [one.data for one in again.findings.values()] == [finding.data]


def test_a_quick_reader_that_reads_something_else_would_be_found() -> None:
    with pytest.raises(MalformedBytes):
        same_offsets_both_ways(b'{"offsetTable":{"T@G":{0:1}},"x":}')
    same_offsets_both_ways(b'{"offsetTable":{"T@G":{0:1}}}')


def test_every_body_that_we_ask_for_is_fuzzed() -> None:
    answered_by_header = {
        RequestCode.PULL_MESSAGE,
        RequestCode.GET_MAX_OFFSET,
        RequestCode.GET_MIN_OFFSET,
        RequestCode.GET_EARLIEST_MSG_STORETIME,
        RequestCode.SEARCH_OFFSET_BY_TIMESTAMP,
        RequestCode.NOTIFY_CONSUMER_IDS_CHANGED,
    }
    assert set(BODY_DECODERS) == set(RequestCode) - answered_by_header, "name its decoder in fuzz/targets.py"
    assert {f"body of {code}" for code in BODY_DECODERS} <= {target.name for target in all_targets()}
