"""The report: whole in both languages, safe with any data, and drawn by a real browser without overflow."""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
import yaml

from edge.bundle import load_bundle
from edge.cli import main
from edge.decision import Reason
from edge.errors import BundleError, FrontdeskError
from export.evaluate import Bin, Confusion, Evaluation, GuardRow, Mix, Point, Sample, Stratum, TopicRow
from export.report import Stated, Subject, render, stated_in, subject_of, written_whole
from export.report.charts import axis
from export.report.steps import steps
from export.report.subject import Promise
from export.report.words import LANGS, Words, esc, texts
from export.tool_gates import Gate

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "models/demo"
QUESTIONS = ROOT / "examples/desk/eval/test.jsonl"
NASTY = "<script>alert('x')</script> \"&amp;' \u202eשלום مرحبا 😀 {name} \x00\n]]> " + "x" * 300
PARTS = (
    "steps",
    "risk",
    "mix",
    "errors",
    "topics",
    "confusions",
    "reasons",
    "guards",
    "tools",
    "reliability",
    "speed",
)

EVALUATION = Evaluation(
    strata=(
        Stratum("en", "in_scope", 60, 50, 30, 1),
        Stratum("zh", "in_scope", 200, 150, 90, 0),
        Stratum("zh", NASTY, 20, 0, 2, 2),
    ),
    topic_accuracy=0.9,
    errors=(
        {
            "text": NASTY,
            "history": [{"role": "user", "content": NASTY}, {"role": NASTY, "content": "ok"}],
            "kind": "follow_up",
            "lang": "zh",
            "topic": "oos",
            "answered_with": "t.one",
            "confidence": 0.9,
            "exit": 2,
        },
        {
            "text": "a",
            "history": [],
            "kind": NASTY,
            "lang": "en",
            "topic": "t.two",
            "answered_with": "t.one",
            "confidence": 1.0,
            "exit": None,
        },
    ),
    reasons={"low_confidence": 20, "a_new_reason": 3},
    p50_ms=1.0,
    p99_ms=3.0,
    missed={"low_confidence": 12},
    exits={"0": 100, "4": 180},
    samples={"en": Sample(60, 30, 1, 0.15), "zh": Sample(200, 90, 2, 0.07)},
    curves={"en": (Point(0.9, 10, 0, 0.26), Point(0.5, 40, 2, 0.15)), "zh": (Point(0.8, 90, 2, 0.07),)},
    mixes={"en": (), "zh": (Mix(0.05, 0.4, 0.01, 0.05), Mix(0.5, 0.2, 0.04, 0.1))},
    reliability=(Bin(20, 0.35, 0.3), Bin(60, 0.95, 0.7)),
    topics=(TopicRow("t.one", 30, 12, 10, 2), TopicRow("t.two", 0, 0, 0, 0)),
    confusions=(Confusion("t.one", "t.two", 4, NASTY),),
    guards=(GuardRow("number", 12, 0, 12), GuardRow("a_new_guard", 0, 1, 1)),
    ms=tuple(i / 30 for i in range(101)),
    tools=(Gate(NASTY, "prefetch", "en", 0.4, 9, 8, 0.57), Gate("get", "inject", "zh", None, 0, 0, 0.0)),
)
PROMISE = Promise("zh", "zh", 0.7, 0.03, False, 0.01, 400, 2, 900, 120)
SUBJECT = Subject(
    name=NASTY,
    version="abc",
    day="2026-01-01",
    questions_file=NASTY,
    evaluation=EVALUATION,
    stated=Stated(
        0.95,
        {"in_scope": 0.7, "out_of_scope": 0.3},
        (
            replace(PROMISE, key="en", lang="en", proven=True, bound=0.004),
            PROMISE,
            replace(PROMISE, key=f"{NASTY}/zh", wrong=9, to_prove=None),
            replace(PROMISE, key="topic:t.one/zh", answered=0, to_prove=None),
        ),
    ),
    languages=("en", "zh"),
    answer_unproven=False,
    answerable=frozenset({"t.one", "t.two"}),
    titles={"t.one": {"en": NASTY, "zh": "一"}},
    sizes={"router": 14_000_000, "other": 5},
)


class Page(HTMLParser):
    """Tags, their attributes and the texts of a page; checks that tags are closed in turn."""

    VOID = frozenset({"meta", "input"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.said: dict[str, str] = {}
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        for tag in set(self.open):
            self.said[tag] = self.said.get(tag, "") + data


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of the demo bundle on every fifth of its test questions."""
    folder = tmp_path_factory.mktemp("report")
    lines = QUESTIONS.read_text("utf-8").splitlines(keepends=True)
    (folder / "some.jsonl").write_text("".join(lines[::5]), "utf-8")
    out = folder / "out.html"
    assert main(["eval", str(DEMO), "--questions", str(folder / "some.jsonl"), "--report", str(out)]) == 0
    return out


@pytest.mark.parametrize("nasty", [False, True])
def test_the_page_is_whole_in_both_languages(real: Path, nasty: bool) -> None:
    page = Page(render(SUBJECT) if nasty else real.read_text("utf-8"))
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    assert {f"{lang}-{part}" for lang in LANGS for part in (*PARTS, "verdict")} <= set(ids)
    for tag, attrs in page.tags:
        for name in ("for", "aria-labelledby"):
            assert set((attrs.get(name) or "").split()) <= set(ids)
        if tag == "a":
            assert attrs["href"][1:] in ids
        if tag == "svg":
            assert attrs["role"] == "img"
        if tag == "th":
            assert attrs["scope"] in ("row", "col")
    counts = {tag: sum(t == tag for t, _ in page.tags) for tag in ("h1", "main", "svg", "desc")}
    assert counts["h1"] == counts["main"] == 2
    assert counts["svg"] == counts["desc"] >= 8


def test_nothing_is_loaded_from_anywhere(real: Path) -> None:
    for text in (real.read_text("utf-8"), render(SUBJECT)):
        assert "//" not in re.sub(r"<script>.*</script>", "", text, flags=re.S)
        assert not re.search(r"\b(src|srcset|action|data)=|url\((?!#)|@import|<link", text)


def test_data_is_never_markup() -> None:
    text = render(SUBJECT)
    page = Page(text)
    assert text.count("<script") == text.count("</script") == 1
    assert "alert" not in page.said["script"]
    assert page.said["main"].count("<script>alert('x')</script>") > 10
    assert "\x00" not in text
    assert "{name}" in page.said["main"]
    assert not [name for _, attrs in page.tags for name in attrs if name.startswith("on")]


def test_every_text_is_there_in_both_languages_and_takes_the_same_values() -> None:
    def fields(text: str) -> set[str]:
        return set(re.findall(r"{(\w+)}", text))

    for key, entry in texts().items():
        assert entry.keys() == set(LANGS), key
        assert fields(entry["en"]) == fields(entry["zh"]), key
        if "zh" in entry and not re.fullmatch(r"size\.mb|.*English.*|page\.own_name", key):
            assert re.search(r"[\u4e00-\u9fff；]|{", entry["zh"]), key
        assert not re.search(r"[\u4e00-\u9fff][,;:?()]|[\u4e00-\u9fff] [\u4e00-\u9fff]", entry["zh"]), key
        assert max(entry["en"]) < "\u4e00" or key == "page.own_name", key


def test_every_text_is_used() -> None:
    code = "".join(path.read_text("utf-8") for path in (ROOT / "export/report").glob("*.py"))
    built = (
        "kind.",
        "role.",
        "reason.",
        "guard.",
        "lang.",
        "nav.",
        "title.",
        "size.",
        "steps.",
        "reliability.",
        "tools.",
        "level.",
    )
    unused = [key for key in texts() if f'"{key}"' not in code and f"'{key}'" not in code]
    assert [
        key
        for key in unused
        if not key.startswith(built)
        and key
        not in (
            "verdict.proven",
            "verdict.unproven",
            "latency.half",
            "latency.almost_all",
            "exits.title",
            "exits.how",
        )
    ] == []


def test_reasons_guards_and_kinds_have_names() -> None:
    data = yaml.safe_load((ROOT / "export/guards.yaml").read_text("utf-8"))
    guards = {*data["signals"], "number", "needs_context", "in_scope", *(p["name"] for p in data["patterns"])}
    kinds = {json.loads(line).get("kind", "in_scope") for line in QUESTIONS.read_text("utf-8").splitlines()}
    named = [*(f"reason.{r}" for r in Reason), *(f"guard.{g}" for g in guards), *(f"kind.{k}" for k in kinds)]
    assert [key for key in named if key not in texts()] == []


def test_equal_subjects_give_equal_pages() -> None:
    assert render(SUBJECT) == render(SUBJECT)


def test_an_evaluation_without_anything_has_a_page_too() -> None:
    empty = Evaluation((), 0.0, (), {}, 0.0, 0.0)
    bare = replace(
        SUBJECT, evaluation=empty, stated=Stated(0.95, {}, ()), sizes={}, titles={}, answerable=frozenset()
    )
    page = Page(render(bare))
    assert "svg" not in {tag for tag, _ in page.tags}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({}, "about 120 more calibration questions would prove 1\u202f%"),
        ({}, "more questions alone will not prove 1\u202f%"),
        ({}, "add calibration questions"),
        ({}, "1 of 2 wrong answers went to turns that needed their history"),
        ({}, "1 of 2 wrong answers belong to another topic"),
        ({}, "12 questions with an answer here were forwarded for want of confidence"),
        ({}, "The guard “number” costs 12 right answers"),
        ({}, "Its confidence promises too much"),
        ({}, "English: 60 questions are too few"),
        ({}, "(12 of 30)"),
        ({"samples": {"en": Sample(60, 30, 5, 0.4)}}, "English: this file contradicts the stated 1\u202f%"),
        (
            {"errors": ({**EVALUATION.errors[1], "topic": "oos"},)},
            "1 of 1 wrong answers went to questions that have no answer",
        ),
    ],
)
def test_advice_follows_from_the_figures(change: dict, says: str) -> None:
    subject = replace(SUBJECT, evaluation=replace(EVALUATION, **change))
    said = steps(subject, Words("en", SUBJECT.titles))
    assert says in said
    assert said.count("<li>") == steps(subject, Words("zh")).count("<li>")


def test_no_advice_where_all_is_well() -> None:
    proven = replace(PROMISE, proven=True)
    fine = replace(
        EVALUATION,
        strata=(Stratum("en", "in_scope", 600, 500, 300, 0), Stratum("zh", "in_scope", 600, 500, 300, 0)),
        errors=(), missed={}, topics=(), guards=(), confusions=(), samples={}, reliability=(),
    )  # fmt: skip
    subject = replace(SUBJECT, evaluation=fine, stated=Stated(0.95, {}, (proven,)))
    assert "Nothing stands out" in steps(subject, Words("en"))


@pytest.mark.parametrize("high", [1e-12, 0.004, 0.03, 0.15, 0.95, 1.0, 3.4, 1234.0])
def test_axes_end_at_round_numbers(high: float) -> None:
    found = axis("", high, str)
    assert found.high >= high
    assert found.ticks[-1] == found.high
    assert 3 <= len(found.ticks) <= 6


def test_text_of_pages() -> None:
    assert esc('<a b="c">&\x07') == "&lt;a b=&quot;c&quot;&gt;&amp;\u2407"
    assert [Words("zh").percent(share) for share in (0, 0.0042, 0.029, 0.57, 1)] == [
        "0%",
        "0.42%",
        "2.9%",
        "57%",
        "100%",
    ]
    assert Words("en").and_(["a", "b", "c"]) == "a, b and c"
    assert Words("zh").and_(["a", "b", "c"]) == "a、b、c"
    assert Words("en", {"t": {"zh": "题"}}).topic("t") == "题"


def test_a_bundle_without_an_evaluation_states_its_thresholds(tmp_path: Path) -> None:
    bundle = load_bundle(DEMO)
    for name in ("frontdesk.json", "answers.jsonl"):
        shutil.copy(DEMO / name, tmp_path / name)
    elsewhere = replace(bundle, folder=tmp_path)
    stated = stated_in(elsewhere)
    assert {p.key: p.max_wrong for p in stated.promises} == {
        k: t.max_wrong for k, t in bundle.thresholds.items()
    }
    (tmp_path / "evaluation.json").write_text('{"risk": 3}', "utf-8")
    with pytest.raises(BundleError, match="no evaluation"):
        stated_in(elsewhere)


def test_the_subject_holds_what_the_bundle_says() -> None:
    bundle = load_bundle(DEMO)
    subject = subject_of(bundle, stated_in(bundle), Path("some/q.jsonl"), EVALUATION, "2026-01-01")
    assert subject.questions_file == "q.jsonl"
    assert subject.titles["staff.payday"]["zh"] == "发薪日"
    assert sum(subject.sizes.values()) == sum(f.stat().st_size for f in DEMO.rglob("*") if f.is_file())
    assert next(p.key for p in subject.promises_of("zh")) == "zh"


def test_the_command_tells_where_the_page_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    questions, out = tmp_path / "q.jsonl", tmp_path / "r.html"
    questions.write_text(
        '{"text": "公司几点上班？", "topic": "staff.working_hours", "lang": "zh"}\n', "utf-8"
    )
    command = ["eval", str(DEMO), "--questions", str(questions), "--report", str(out)]
    assert main([*command, "--json"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["strata"][0]["answered"] == 1
    assert re.search(rf"wrote {re.escape(str(out))}, \d+ kB", said.err)
    assert main(command) == 0
    assert "zh   in_scope" in capsys.readouterr().out
    assert {path.name for path in tmp_path.iterdir()} == {"q.jsonl", "r.html"}


@pytest.mark.parametrize("name", ["none/r.html", ".", "file/r.html"])
def test_a_place_that_cannot_be_written_is_told_first(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("", "utf-8")
    assert main(["eval", str(DEMO), "--questions", str(QUESTIONS), "--report", str(tmp_path / name)]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert str(tmp_path / name) in said.err


def test_a_page_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    out = tmp_path / "r.html"
    out.write_text("before", "utf-8")

    def fail() -> None:
        with written_whole(out) as page:
            page.write("half")
            raise FrontdeskError("no")

    with pytest.raises(FrontdeskError):
        fail()
    assert out.read_text("utf-8") == "before"
    assert [path.name for path in tmp_path.iterdir()] == ["r.html"]
    with written_whole(out) as page:
        page.write("half a character: \ud83d")
    assert out.read_text("utf-8") == "half a character: ?"
    mask = os.umask(0)
    os.umask(mask)
    assert out.stat().st_mode & 0o777 == 0o666 & ~mask


def chromium() -> str:
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    mac = "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"
    found = next((path for name in (*names, mac) if (path := shutil.which(name))), None)
    if found is None:
        pytest.fail(
            "there is no Chromium; install it: apt-get install chromium, or brew install --cask google-chrome"
        )
    return found


MEASURE = """<script>
for (const folded of document.querySelectorAll("details")) folded.open = true;
const root = document.documentElement, seen = [...document.querySelectorAll("main")].filter((m) => m.offsetParent);
parent.postMessage([innerWidth, root.scrollWidth, seen.map((m) => m.className), root.lang].join(" "), "*");
</script>"""
# A frame, because a window of Chromium is never narrower than 500 pixels.
FRAME = """<!doctype html><script>onmessage = (e) => { document.documentElement.dataset.found = e.data; };</script>
<iframe src="page.html" style="width: WIDTHpx; height: 800px; border: 0"></iframe>"""


@pytest.mark.parametrize(("width", "lang"), [(360, "en-US"), (390, "zh-CN"), (1280, "en-US")])
@pytest.mark.parametrize("nasty", [False, True])
def test_a_browser_draws_it_without_overflow(
    real: Path, tmp_path: Path, nasty: bool, width: int, lang: str
) -> None:
    text = render(SUBJECT) if nasty else real.read_text("utf-8")
    # The page's own policy would keep our script from running, too.
    text = re.sub(r"<meta http-equiv[^>]*>", "", text).replace("</body>", f"{MEASURE}</body>")
    (tmp_path / "page.html").write_text(text, "utf-8")
    page = tmp_path / "frame.html"
    page.write_text(FRAME.replace("WIDTH", str(width)), "utf-8")
    done = subprocess.run(
        [chromium(), "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
         f"--user-data-dir={tmp_path / 'profile'}", "--window-size=1400,900", f"--lang={lang}",
         f"--accept-lang={lang}", "--virtual-time-budget=2000", "--dump-dom", page.as_uri()],
        capture_output=True, text=True, timeout=110,
        env={**os.environ, "LANGUAGE": lang.replace("-", "_")},
    )  # fmt: skip
    found = re.search(r'data-found="(\d+) (\d+) (\w+) ([\w-]+)"', done.stdout)
    assert found, done.stderr
    inner, scrolled, shown, said = found.groups()
    assert int(inner) == width
    assert int(scrolled) <= width
    assert (shown, said) == (("zh", "zh-CN") if lang == "zh-CN" else ("en", "en"))


def test_the_policy_lets_the_page_s_own_script_run(real: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [chromium(), "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
         f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=2000", "--dump-dom", real.as_uri()],
        capture_output=True, text=True, timeout=110,
    )  # fmt: skip
    assert '<th scope="col"><button>' in done.stdout


def test_importing_the_report_needs_no_torch() -> None:
    code = "import sys, export.report; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "False", done.stderr


def test_the_texts_are_valid_yaml_without_double_keys() -> None:
    text = (ROOT / "export/report/texts.yaml").read_text("utf-8")
    for part, body in re.findall(r"^(\w+):\n((?:  .*\n)+)", text, flags=re.M):
        names = re.findall(r"^  (\w+):", body, flags=re.M)
        assert len(names) == len(set(names)), part
    assert set(yaml.safe_load(text)) > {"page", "steps", "verdict"}
