"""Traffic from the file to what is learnt: labelled once, held against the desk, and told on stderr."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from scripted_llm import KEY, by, failing, llm_at, texts_of
from servers import ROOT, Do, ScriptedUpstream
from tiny_base import few_pools, write_desk

from edge.cli import main
from edge.errors import DeskError, LLMError
from export.desk import Desk
from export.desk_reader import load_desk
from export.encoder import Encoder
from export.llm_teacher import teach
from export.traffic import Taught

WORDS = {
    "hours": "when do you open|opening hours|what time do you close|are you open late|hours please|open today",
    "returns": "how do i return this|money back please|send it back|can i return shoes|refund me|take it back",
    "chat": "write me a letter|draft an email|compose a poem|write a speech|make a toast|write my resume",
}
CALIBRATE = '{"text": "do you have parking spaces", "topic": "oos", "lang": "en"}\n'


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    topics: dict[str, Any] = {
        id_: {"route": "agent" if id_ == "chat" else "answer", "examples": {"en": texts.split("|")}}
        for id_, texts in WORDS.items()
    }
    folder = tmp_path_factory.mktemp("desk")
    return load_desk(write_desk(folder, topics, "en", calibrate=CALIBRATE))


@pytest.fixture(scope="module")
def base() -> Encoder:
    return Encoder(ROOT / "models/base")


@pytest.fixture
def upstream() -> Iterator[ScriptedUpstream]:
    with ScriptedUpstream() as upstream:
        yield upstream


@pytest.fixture
def traffic(tmp_path: Path) -> Path:
    return tmp_path / "traffic.jsonl"


def write(path: Path, *texts: str) -> Path:
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), "utf-8")
    return path


LABELS = {
    "do you also open on holidays": "hours",
    "my parcel is broken and i want my money": "returns",
    "who won the match": "oos",
    "opening hours please": "chat",  # wrong: the heads are sure of hours
    "Refund me!": "returns",  # an example
    "open today?": "oos",  # wrong: an example of hours
}


def rule(text: str) -> str:
    return LABELS[text]


def test_what_is_learnt_and_what_is_not(
    desk: Desk, base: Encoder, upstream: ScriptedUpstream, traffic: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    upstream.script = by(rule)
    write(traffic, *LABELS, "Do you have parking space?", "OPEN TODAY", "где вы")
    taught = teach(desk, base, few_pools(), traffic, llm_at(upstream, price=(2.0, 10.0)))
    ids = [topic.id for topic in desk.topics]
    assert taught == Taught(
        (
            ("do you also open on holidays", ids.index("hours")),
            ("my parcel is broken and i want my money", ids.index("returns")),
        ),
        ("who won the match",),
        "m",
    )
    assert [texts_of(request) for request in upstream.requests] == [list(LABELS)]  # and no leak among them
    rows = [json.loads(x) for x in (traffic.parent / "traffic.disagreements.jsonl").read_text().splitlines()]
    assert [(row["text"], row["llm"], row["desk"], row["by"]) for row in rows] == [
        ("opening hours please", "chat", "hours", "heads"),
        ("open today?", "oos", "hours", "example"),
    ]
    assert rows[1]["confidence"] == 1.0
    assert 0.9 <= rows[0]["confidence"] <= 1.0
    told = capsys.readouterr().err
    for line in (
        "1 texts of {} are left out: held-out questions, or nearly: never trained on.",
        "1 texts of {} are left out: repeated.",
        "0 texts are labelled already, 6 go to m at http://127.0.0.1:",
        "in 1 requests of up to 20.",
        "Labelling: 6 in ",
        "1 answers, 100 prompt and 10 completion tokens, cost 0.0003.",
        "6 texts have a label.",
        "2 are examples already, the LLM gave 1 of them the desk's topic.",
        "2 are not used: the desk is sure of another topic than the LLM; all are in ",
        "'opening hours please': LLM chat, desk hours (heads, ",
        "2 further examples and 1 outliers go into the training.",
    ):
        assert line.format(traffic) in told
    assert KEY not in told
    assert not [path for path in traffic.parent.iterdir() if KEY in path.read_text("utf-8")]


def test_a_second_run_asks_nothing_and_gives_the_same(
    desk: Desk, base: Encoder, upstream: ScriptedUpstream, traffic: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    upstream.script = by(rule)
    write(traffic, *LABELS)
    first = teach(desk, base, few_pools(), traffic, llm_at(upstream))
    capsys.readouterr()
    upstream.script = failing("500 Internal Server Error")
    assert teach(desk, base, few_pools(), traffic, llm_at(upstream)) == first
    assert len(upstream.requests) == 1
    assert "6 texts are labelled already, 0 go to m" in capsys.readouterr().err
    more = {**LABELS, "is there parking": "oos"}
    write(traffic, *more)
    upstream.script = by(more.__getitem__)
    again = teach(desk, base, few_pools(), traffic, llm_at(upstream))
    assert again.outliers == (*first.outliers, "is there parking")
    assert texts_of(upstream.last()) == ["is there parking"]


KILLED = """
import signal
import sys
from pathlib import Path
from export.desk_reader import load_desk
from export.encoder import Encoder
from export.llm import Llm
from export.llm_teacher import teach
from export.pools import load_pools
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests may ignore it
desk, base, traffic, url = sys.argv[1:]
teach(load_desk(desk), Encoder(Path(base)), load_pools(), Path(traffic), Llm(url, "m", parallel=1))
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_run_that_was_killed_goes_on_where_it_stopped(
    desk: Desk, base: Encoder, upstream: ScriptedUpstream, traffic: Path, how: signal.Signals
) -> None:
    texts = [f"who won match {'abcdefghijklmnopqrstuvwxyz'[i % 26] * 3}{i}" for i in range(70)]
    write(traffic, *texts)
    out_of_scope = by(lambda _: "oos")
    upstream.scripts.extend([out_of_scope, out_of_scope, [Do.STALL]])
    command = [sys.executable, "-c", KILLED, str(desk.folder), str(base.folder), str(traffic), upstream.url]
    process = subprocess.Popen(
        command, env={**os.environ, "PYTHONPATH": str(ROOT)}, stderr=subprocess.DEVNULL
    )
    try:
        upstream.wait_for(3)
        process.send_signal(how)
        process.wait(10)
    finally:
        process.kill()
        process.wait()
    labelled = [json.loads(x) for x in (traffic.parent / "traffic.labels.jsonl").read_text().splitlines()]
    assert [row["text"] for row in labelled] == texts[:40]
    upstream.script = out_of_scope
    taught = teach(desk, base, few_pools(), traffic, llm_at(upstream))
    assert [texts_of(request) for request in upstream.requests[3:]] == [texts[40:60], texts[60:]]
    assert taught.outliers == tuple(texts)


def test_a_server_that_is_not_there(
    desk: Desk, base: Encoder, upstream: ScriptedUpstream, traffic: Path, closed_port: int
) -> None:
    there = replace(llm_at(upstream), base_url=f"http://127.0.0.1:{closed_port}/v1")
    with pytest.raises(LLMError, match="cannot be reached"):
        teach(desk, base, few_pools(), write(traffic, "hello"), there)


def test_traffic_of_which_nothing_is_left(
    desk: Desk, base: Encoder, upstream: ScriptedUpstream, traffic: Path
) -> None:
    with pytest.raises(LLMError, match=r"labelled none of the 0 texts .*there is none"):
        teach(desk, base, few_pools(), write(traffic, "do you have parking spaces"), llm_at(upstream))
    traffic.write_text("")
    with pytest.raises(DeskError, match="there are no texts"):
        teach(desk, base, few_pools(), traffic, llm_at(upstream))
    assert upstream.requests == []


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--llm", "t.txt"], "--llm needs an LLM: give --llm-url https://host/v1, or set BASE_URL."),
        (["--llm", "t.txt", "--llm-url", "http://x/v1"], "--llm needs a model"),
        (["--llm", "t.txt", "--llm-url", "x"], "the flag --llm-url is 'x': expected an address"),
        (["--llm-model", "m"], "add --llm TRAFFIC"),
    ],
)
def test_the_command_says_what_is_missing(
    desk: Desk, flags: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["distill", str(desk.folder), "-o", str(tmp_path / "out"), *flags]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("price", ["1", "1,2,3", "a,b", "-1,2", "nan,1", "inf,1", ""])
def test_a_price_that_is_none(desk: Desk, price: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["distill", str(desk.folder), "-o", "out", "--llm", "t", f"--llm-price={price}"])
    assert "such as 0.15,0.6" in capsys.readouterr().err
