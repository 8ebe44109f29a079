"""``frontdesk train`` on a tiny desk with the committed base: whole, deterministic, and right."""

from pathlib import Path

import pytest
from servers import ROOT

from edge.bundle import Bundle, load_bundle
from edge.host import open_pipeline
from edge.query import Query
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
TOOLS = "- {name: get_order, description: d, method: GET, url: 'http://x/{id}'}\n"
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
def built(desk_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    out = tmp_path_factory.mktemp("out") / "bundle"
    return train(desk_folder, ROOT / "models/base", out)[0]


def test_the_bundle_loads_and_decides(built: Bundle) -> None:
    pipeline = open_pipeline(built.folder)
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
    built: Bundle, desk_folder: Path, tmp_path: Path
) -> None:
    again = train(desk_folder, ROOT / "models/base", tmp_path / "again")[0]
    assert again.version == built.version


def test_the_card_and_the_evaluation_are_written(built: Bundle) -> None:
    card = (built.folder / "README.md").read_text("utf-8")
    assert card.startswith("---\nlicense: apache-2.0\nlanguage: [en, zh]\n")
    assert "| en | in_scope | 1 |" in card


def test_a_failed_write_keeps_the_old_bundle_and_leaves_nothing(tmp_path: Path) -> None:
    target = tmp_path / "bundle"
    with Staging(target) as folder:
        (folder / "old").write_text("old")

    def fail() -> None:
        with Staging(target) as folder:
            (folder / "new").write_text("new")
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        fail()
    assert [path.name for path in tmp_path.iterdir()] == ["bundle"]
    assert [path.name for path in target.iterdir()] == ["old"]
    with Staging(target) as folder:
        (folder / "new").write_text("new")
    assert [path.name for path in tmp_path.iterdir()] == ["bundle"]
    assert [path.name for path in target.iterdir()] == ["new"]


def test_a_bundle_with_one_topic_and_one_language_can_be_built(tmp_path: Path) -> None:
    (tmp_path / "topics").mkdir()
    (tmp_path / "desk.yaml").write_text("name: one\nlanguages: [en]\n")
    (tmp_path / "topics/a.yaml").write_text(
        '- {id: hours, route: answer, examples: {en: ["when do you open"]}, answer: {en: "At 9."}}\n'
    )
    bundle, evaluation = train(tmp_path, ROOT / "models/base", tmp_path / "out")
    assert [topic.id for topic in load_bundle(bundle.folder).topics] == ["hours"]
    assert evaluation.total().questions == 0
