"""Index lines and meta.json are read strictly: what is wrong is named by file, line and field."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsetguard.model.errors import BundleError
from offsetguard.sources.bundle import layout
from offsetguard.sources.bundle.reader import open_bundle
from offsetguard_peers.cases.running import for_each

LINE = {
    "t": 1_795_247_480_327,
    "broker": "broker-a-0",
    "code": 202,
    "ext": {"topic": "Healthy"},
    "file": "202.json",
    "header": {"code": 0, "flag": 1},
}


def line_with(**changes: object) -> bytes:
    return json.dumps({**LINE, **changes}).encode()


def test_a_line_of_the_index_is_read() -> None:
    one = layout.read_index_line(line_with(), 7, "index.jsonl")
    assert one == layout.Exchange(
        7, LINE["t"], "broker-a-0", 202, {"topic": "Healthy"}, "202.json", {"code": 0, "flag": 1}
    )
    assert one.at.isoformat() == "2026-11-21T07:51:20.327000+00:00"


@for_each(
    "changes, field",
    [
        ({"t": "yesterday"}, "t"),
        ({"t": True}, "t"),
        ({"t": 10**18}, "t"),
        ({"code": -1}, "code"),
        ({"code": 2**40}, "code"),
        ({"broker": "broker"}, "broker"),
        ({"broker": None}, "broker"),
        ({"ext": []}, "ext"),
        ({"ext": {"topic": ["x"]}}, "ext"),
        *[
            ({"file": name}, "file")
            for name in ("../../etc/passwd", "/etc/passwd", "..", "a\\b", "a\0b", "x" * 256, "", 3)
        ],
        ({"header": "0"}, "header"),
        ({"header": None, "error": "timeout"}, "error"),
    ],
)
def test_a_wrong_field_is_named_with_its_line(changes: dict[str, object], field: str) -> None:
    with pytest.raises(BundleError, match=rf"^bundle/index\.jsonl:12: field {field}: "):
        layout.read_index_line(line_with(**changes), 12, "bundle/index.jsonl")


def test_a_request_without_a_response_may_leave_out_why() -> None:
    one = layout.read_index_line(line_with(header=None, file=None), 7, "index.jsonl")
    assert one.error == ("", "no response; the bundle does not say why")


@pytest.mark.parametrize("text", [b"", b"[]", b"{", b"\xff", b"[" * 100_000, b'{"t":' + b"9" * 10_000 + b"}"])
def test_what_is_no_object_is_named_with_its_line(text: bytes) -> None:
    with pytest.raises(BundleError, match=r"^index\.jsonl:3: is not"):
        layout.read_index_line(text, 3, "index.jsonl")


TEXT_CHARS = st.characters(exclude_categories=["Cs"])
TEXT = st.text(TEXT_CHARS)


EXCHANGES = st.builds(
    layout.Exchange,
    line=st.just(3),
    t_ms=st.integers(1, 253_370_764_800_000),
    broker=st.builds("{}-{}".format, st.text(TEXT_CHARS, min_size=1, max_size=255), st.integers(0, 2**40)),
    code=st.integers(0, 2**31 - 1),
    ext=st.dictionaries(TEXT, TEXT, max_size=3),
    file=st.none(),
    header=st.just({"code": 0, "remark": "\u2028"}),
    error=st.one_of(st.none(), st.tuples(TEXT, TEXT)),
)


@given(EXCHANGES)
def test_a_written_line_is_read_back(exchange: layout.Exchange) -> None:
    line = layout.index_line(exchange)
    assert "\n" not in line
    assert layout.read_index_line(line.encode(), 3, "index.jsonl") == exchange


def test_broker_names_may_hold_dashes_and_anything_else() -> None:
    assert layout.broker_of("broker-a-0") == ("broker-a", 0)
    assert layout.broker_of("-1-2") == ("-1", 2)
    assert layout.broker_of("a\nb/../c-7") == ("a\nb/../c", 7)
    assert layout.broker_of("broker") is None


@given(st.lists(st.text(max_size=300), unique=True, max_size=5))
def test_every_text_has_a_safe_file_name_of_its_own(texts: list[str]) -> None:
    names = [layout.safe_name(text) for text in texts]
    assert all(layout.is_file_name(name) and len(name) <= 100 for name in names)
    assert all(name == text or "~" in name for name, text in zip(names, texts, strict=True))
    assert len({*names}) == len(texts)


def write_bundle(folder: Path, *lines: bytes, meta: bytes | None = None) -> Path:
    (folder / "bodies").mkdir(parents=True)
    (folder / "index.jsonl").write_bytes(b"".join(lines))
    if meta is not None:
        (folder / "meta.json").write_bytes(meta)
    return folder


def test_a_last_line_that_was_cut_off_is_left_out_and_noted(tmp_path: Path) -> None:
    bundle = open_bundle(write_bundle(tmp_path / "b", line_with() + b"\n", line_with()[:-20]))
    assert len(bundle.exchanges) == 1
    assert bundle.notes == [f"{tmp_path}/b/index.jsonl:2: the last line was cut off and is left out"]


@pytest.mark.parametrize(
    ("meta", "message"),
    [
        (b"[]", "is not a JSON object"),
        (b"{", "is not JSON"),
        (b'{"format":1,"log_time_zone":"8 h"}', "field log_time_zone"),
        (b'{"format":1,"rounds_ms":[-1]}', "field rounds_ms.0"),
    ],
)
def test_a_wrong_meta_file_is_named(tmp_path: Path, meta: bytes, message: str) -> None:
    with pytest.raises(BundleError, match=rf"meta\.json: {message}"):
        layout.read_meta(write_bundle(tmp_path / "b", meta=meta))


def test_a_bundle_without_meta_has_defaults(tmp_path: Path) -> None:
    meta = layout.read_meta(write_bundle(tmp_path / "b"))
    assert (meta.format, meta.cluster, meta.log_time_zone) == (1, None, "+08:00")


def test_a_body_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    folder = write_bundle(tmp_path / "b")
    (tmp_path / "secret").write_text("secret")
    (folder / "bodies" / "202.json").symlink_to(tmp_path / "secret")
    with pytest.raises(BundleError, match=r"202\.json: is a link, .*; line 5 of index\.jsonl names it"):
        layout.read_body(folder, layout.read_index_line(line_with(), 5, "index.jsonl"))
