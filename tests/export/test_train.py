"""``frontdesk train`` on a tiny desk: whole, deterministic, and with the committed base also right."""

import errno
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from servers import ROOT

from edge.bundle import MANIFEST, ROUTER_FILE, Bundle, load_bundle
from edge.cli import main
from edge.errors import BundleError
from edge.host import open_pipeline
from edge.query import Query
from export.card import bundle_card
from export.compose import EXIT_THRESHOLDS, NEVER
from export.desk_reader import load_desk
from export.encoder import Encoder
from export.fit import answered_by
from export.opened import may_leave_early
from export.pack import Staging
from export.train import train

TOPICS = """\
- id: hours
  route: answer
  examples:
    en: [when do you open, opening hours please, are you open on sunday, what time does the shop close,
         till when are you open tonight, shop hours]
    zh: [几点开门, 营业时间, 周日开门吗, 晚上几点关门, 你们开到几点, 今天营业到几点]
  answer: {en: "Daily from 10 to 22.", zh: "每天 10 点到 22 点。"}
- id: returns
  route: answer
  examples:
    en: [how do i return this, can i send it back, return policy, i want my money back for a broken phone,
         exchange a faulty item, how many days to return something]
    zh: [怎么退货, 可以退吗, 退货政策, 东西坏了想退, 换货流程, 几天内可以退货]
  answer: {en: "Within 7 days.", zh: "7 天内。"}
- id: order
  route: tool
  tools: [get_order]
  examples:
    en: [where is my order, track my parcel, order 1024 status, has my package shipped, parcel still not here]
    zh: [我的订单到哪了, 查一下物流, 订单1024, 发货了吗, 快递怎么还没到]
- id: chat
  route: agent
  examples:
    en: [write me an email, compare these two phones, plan a trip, help me with my essay, analyse this table]
    zh: [帮我写封邮件, 对比这两款手机, 做个旅行计划, 帮我写文章, 分析这个表格]
"""
TOOLS = """\
- {name: get_order, description: d, method: GET, url: 'http://x/{id}', slots: {id: {type: string, pattern: '[0-9]{4,12}'}}}
"""
CALIBRATE = """\
{"text": "at what time are you opening", "topic": "hours", "lang": "en"}
{"text": "who won the football match", "topic": "oos", "lang": "en"}
{"text": "请问营业到几点呀", "topic": "hours", "lang": "zh"}
{"text": "今天天气怎么样", "topic": "oos", "lang": "zh"}
"""


@pytest.fixture(scope="module")
def desk_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("desk")
    (folder / "topics").mkdir()
    (folder / "eval").mkdir()
    (folder / "desk.yaml").write_text("name: tiny\nlanguages: [en, zh]\nunproven: answer\n")
    (folder / "topics/all.yaml").write_text(TOPICS, "utf-8")
    (folder / "tools.yaml").write_text(TOOLS)
    (folder / "eval/calibrate.jsonl").write_text(CALIBRATE, "utf-8")
    (folder / "eval/test.jsonl").write_text(CALIBRATE, "utf-8")
    return folder


@pytest.fixture(scope="module")
def built(desk_folder: Path, tiny_base: Path, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    out = tmp_path_factory.mktemp("out") / "bundle"
    return train(desk_folder, tiny_base, out)[0]


def test_the_bundle_loads_and_decides(desk_folder: Path, tmp_path: Path) -> None:
    pipeline = open_pipeline(train(desk_folder, ROOT / "models/base", tmp_path / "bundle")[0].folder)
    normaliser = pipeline.runtime.bundle.normaliser

    def topic(text: str) -> str | None:
        return pipeline.judge(Query.of_text(text, normaliser)).topic

    assert topic("what time do you close today") == "hours"
    assert topic("我想退货") == "returns"
    assert topic("where's my package") == "order"
    decision = pipeline.judge(Query.of_text("几点开门？", normaliser))
    assert (decision.reason, decision.answer and decision.answer.text) == ("exact", "每天 10 点到 22 点。")
    decision = pipeline.judge(Query.of_text("order 1024 status", normaliser))
    assert (decision.path, decision.reason) == ("agent", "topic_forwards")


def test_a_few_questions_prove_nothing_and_the_bundle_says_so(built: Bundle) -> None:
    assert set(built.thresholds) == {"en", "zh"}
    assert not any(threshold.proven for threshold in built.thresholds.values())
    assert all(threshold.bound > 0.5 for threshold in built.thresholds.values())


def test_the_same_desk_and_seed_give_the_same_bundle(
    built: Bundle, desk_folder: Path, tiny_base: Path, tmp_path: Path
) -> None:
    again = train(desk_folder, tiny_base, tmp_path / "again")[0]
    assert again.version == built.version


def test_only_topics_whose_embedding_nobody_needs_may_leave_early(built: Bundle, desk_folder: Path) -> None:
    desk = load_desk(desk_folder)
    early = [may_leave_early(topic) for topic in desk.topics]
    assert dict(zip([topic.id for topic in desk.topics], early, strict=True)) == {
        "hours": True, "returns": True, "order": True, "chat": False,
    }  # fmt: skip
    assert may_leave_early(replace(desk.topics[-1], volatility="personal"))
    model = onnx.load(str(built.folder / ROUTER_FILE))
    [thresholds] = [t for t in model.graph.initializer if t.name == EXIT_THRESHOLDS]
    assert (numpy_helper.to_array(thresholds)[:, 3] == NEVER).all()


def test_the_card_and_the_evaluation_are_written(built: Bundle) -> None:
    card = (built.folder / "README.md").read_text("utf-8")
    assert card.startswith("---\nlicense: apache-2.0\nlanguage: [en, zh]\n")
    assert "| en | in_scope | 1 |" in card
    assert "for traffic like this: as the calibration questions are. Proving it takes 368 " in card
    report = json.loads((built.folder / "evaluation.json").read_text("utf-8"))
    assert list(report) == [
        "schema_version", "tuned", "risk", "traffic", "delta_of_each", "answers_to_prove", "thresholds",
        "exits", "test", "cross_fitted", "tools",
    ]  # fmt: skip
    assert (report["traffic"], report["answers_to_prove"]) == ({}, 368)
    assert report["delta_of_each"] == pytest.approx(0.025)
    assert report["cross_fitted"] == ["en", "zh"]
    assert report["thresholds"].keys() == built.thresholds.keys()
    for key, entry in report["thresholds"].items():
        threshold = built.thresholds[key]
        assert (entry["confidence"], entry["proven"]) == (threshold.confidence, threshold.proven)
        assert entry["questions"] == 0  # what cross-fitting judges is no traffic
        assert entry["questions_to_prove"] is None or entry["questions_to_prove"] > 300
        assert f"| {key} | {threshold.confidence:.4f} | " in card
    # Times differ from run to run, so none are kept.
    assert (report["test"]["p50_ms"], report["test"]["ms"]) == (0.0, [])


def test_the_card_names_the_traffic(built: Bundle, desk_folder: Path) -> None:
    report = json.loads((built.folder / "evaluation.json").read_text("utf-8"))
    card = bundle_card(load_desk(desk_folder), report | {"traffic": {"in_scope": 0.8, "follow_up": 0.2}})
    assert "for traffic like this: in_scope 80%, follow_up 20%. Proving" in card


def test_what_an_answer_or_a_title_says_a_topic_knows(desk_folder: Path, tiny_base: Path) -> None:
    desk, base = load_desk(desk_folder), Encoder(tiny_base)
    known = answered_by(desk, base)
    for place, topic in enumerate(desk.topics):
        texts = [*topic.answer.values(), *topic.title.values()]
        np.testing.assert_array_equal(known[:, place], base.tokens(texts).sum(0).A1 > 0)
    assert known[:, 0].sum() > known[:, 3].sum() > 0  # the last has only its title


def test_a_failed_write_keeps_the_old_bundle_and_leaves_nothing(tmp_path: Path) -> None:
    target = tmp_path / "bundle"
    stage(target, "old")

    def fail() -> None:
        with Staging(target) as folder:
            (folder / "new").write_text("new")
            raise OSError("disk full")

    with pytest.raises(BundleError, match="disk full"):
        fail()
    assert [path.name for path in tmp_path.iterdir()] == ["bundle"]
    assert names(target) == [MANIFEST, "old"]
    stage(target, "new")
    assert names(tmp_path) == ["bundle"]
    assert names(target) == [MANIFEST, "new"]


def stage(target: Path, name: str) -> None:
    with Staging(target) as folder:
        (folder / MANIFEST).write_text("{}")
        (folder / name).write_text(name)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("name", ["thesis.txt", ".git/config"])
def test_a_folder_that_is_no_bundle_is_never_replaced(
    desk_folder: Path, tiny_base: Path, tmp_path: Path, name: str
) -> None:
    target = tmp_path / "home"
    (target / name).parent.mkdir(parents=True)
    (target / name).write_text("mine")
    with pytest.raises(BundleError, match="so it is no bundle and is not replaced"):
        train(desk_folder, tiny_base, target)
    with pytest.raises(BundleError, match="so it is no bundle and is not replaced"):
        stage(target, "new")
    assert (target / name).read_text() == "mine"
    assert names(tmp_path) == ["home"]


def test_the_target_is_checked_before_anything_is_trained(
    desk_folder: Path, tiny_base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("export.train.fit_desk", lambda *_: pytest.fail("the training began"))
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to("nowhere")
    for target, said in (("file", "is not a folder"), ("file/a/b", "is a file"), ("link", "is not a folder")):
        with pytest.raises(BundleError, match=said):
            train(desk_folder, tiny_base, tmp_path / target)
    with pytest.raises(BundleError, match="File name too long"):
        train(desk_folder, tiny_base, tmp_path / ("x" * 300))
    assert names(tmp_path) == ["file", "link"]


def test_what_appears_at_the_target_meanwhile_is_kept(tmp_path: Path) -> None:
    target = tmp_path / "bundle"
    staging = Staging(target)
    staging.__enter__()
    target.mkdir()
    (target / "thesis.txt").write_text("mine")
    with pytest.raises(BundleError, match="is no bundle"):
        staging.__exit__(None, None, None)
    assert names(tmp_path) == ["bundle"]
    assert names(target) == ["thesis.txt"]


def test_an_empty_folder_may_be_the_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    stage(Path(), "new")
    assert names(tmp_path) == ["empty"]
    assert names(tmp_path / "empty") == [MANIFEST, "new"]


@pytest.mark.parametrize(("failures", "kept"), [(1, "new"), (2, "old"), (9, "old")])
@pytest.mark.parametrize("existing", [True, False])
def test_two_trainings_to_one_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failures: int, kept: str, existing: bool
) -> None:
    """The other one's bundle comes between the look at the target and the rename onto it."""
    target = tmp_path / "bundle"
    if existing:
        stage(target, "old")
    left = failures
    rename = Path.rename

    def late(self: Path, to: Path) -> Path:
        nonlocal left
        if to == target and not self.match("*-old-*/bundle") and left:
            left -= 1
            if not target.exists():
                target.mkdir()
                (target / MANIFEST).write_text("{}")
                (target / "old").write_text("the other one's")
            raise OSError(errno.ENOTEMPTY, "Directory not empty")
        return rename(self, to)

    monkeypatch.setattr(Path, "rename", late)
    if kept == "new":
        stage(target, "new")
    else:
        with pytest.raises(BundleError, match=r"could not be replaced \(Directory not empty\)"):
            stage(target, "new")
    assert names(tmp_path) == ["bundle"]
    assert names(target) == [MANIFEST, kept]


def test_a_failed_swap_puts_the_old_bundle_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "bundle"
    stage(target, "old")
    rename = Path.rename

    def broken(self: Path, to: Path) -> Path:
        if to == target and self.name != "bundle":
            raise OSError(errno.EIO, "Input/output error")
        return rename(self, to)

    monkeypatch.setattr(Path, "rename", broken)
    with pytest.raises(BundleError, match="Input/output error"):
        stage(target, "new")
    assert names(tmp_path) == ["bundle"]
    assert names(target) == [MANIFEST, "old"]


@pytest.mark.parametrize("seed", ["-1", "4294967296", "x", "１"])
def test_a_seed_that_cannot_be_is_refused(seed: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["train", "desk", "-o", "out", f"--seed={seed}"])
    assert caught.value.code == 2
    assert "expected a whole number from 0 to 4294967295" in capsys.readouterr().err


def test_questions_that_are_a_folder_are_refused(
    built: Bundle, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["eval", str(built.folder), "--questions", str(tmp_path)]) == 1
    assert f"{tmp_path}:1: cannot be read (Is a directory)" in capsys.readouterr().err


def test_a_bundle_with_one_topic_and_one_language_can_be_built(tiny_base: Path, tmp_path: Path) -> None:
    (tmp_path / "topics").mkdir()
    (tmp_path / "desk.yaml").write_text("name: one\nlanguages: [en]\n")
    answer = "At 9.\u2028Or\u2029at\u008510."
    topic = {"id": "hours", "route": "answer", "examples": {"en": ["when do you open"]}}
    (tmp_path / "topics/a.yaml").write_text(json.dumps([topic | {"answer": {"en": answer}}]))
    bundle, evaluation = train(tmp_path, tiny_base, tmp_path / "out")
    assert [answer.text for answer in load_bundle(bundle.folder).answers.values()] == [answer]
    assert [topic.id for topic in load_bundle(bundle.folder).topics] == ["hours"]
    assert evaluation.total().questions == 0
