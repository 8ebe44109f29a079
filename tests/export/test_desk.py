"""A desk loads whole or says everything that is wrong with it, with file and line."""

import json
from pathlib import Path

import pytest

from edge.errors import DeskError
from edge.normaliser import Lang
from export.check import check_desk
from export.desk_reader import load_desk

HEAD = "name: tiny\nlanguages: [en, zh]\n"
TOPIC = """\
- id: hours
  title: Hours
  route: answer
  examples:
    en: ["when do you open"]
    zh: ["几点开门"]
  answer: {en: "At 9.", zh: "9 点。"}
"""


def write(folder: Path, head: str = HEAD, topics: str = TOPIC, **files: str) -> Path:
    (folder / "topics").mkdir(exist_ok=True)
    (folder / "eval").mkdir(exist_ok=True)
    (folder / "desk.yaml").write_text(head, "utf-8")
    (folder / "topics" / "a.yaml").write_text(topics, "utf-8")
    for name, text in files.items():
        (folder / name.replace("__", "/").replace("_yaml", ".yaml").replace("_jsonl", ".jsonl")).write_text(
            text, "utf-8"
        )
    return folder


def problems(folder: Path) -> list[str]:
    with pytest.raises(DeskError) as caught:
        load_desk(folder)
    return [problem.removeprefix(str(folder)) for problem in caught.value.problems]


def test_a_desk_loads(tmp_path: Path) -> None:
    desk = load_desk(write(tmp_path))
    assert (desk.name, desk.unproven, desk.risk.max_wrong) == ("tiny", "forward", 0.01)
    [topic] = desk.topics
    assert topic.id == "hours"
    assert topic.where.endswith("topics/a.yaml:1")


@pytest.mark.parametrize(
    ("topics", "expected"),
    [
        (TOPIC.replace("hours", "Opening Hours"), "/topics/a.yaml:1: 'id' 'Opening Hours' must match"),
        (TOPIC.replace("hours", "oos"), "/topics/a.yaml:1: 'id' 'oos' must match"),
        (TOPIC.replace("route: answer", "route: answr"), "/topics/a.yaml:3: 'route' must be one of"),
        (TOPIC.partition("  answer:")[0], "/topics/a.yaml:1: 'answer' is missing"),
        (
            TOPIC.replace("route: answer", "route: agent"),
            "/topics/a.yaml:7: 'answer' belongs to route 'answer'",
        ),
        (TOPIC + "  tags: [a]\n  colour: red\n", "/topics/a.yaml:9: 'colour' is no key of a topic"),
        (TOPIC.replace('["when do you open"]', "[yes]"), "/topics/a.yaml:4: 'examples' under 'en'"),
        (TOPIC.replace("en: [", "fr: [", 1), "/topics/a.yaml:4: 'examples' under 'fr'"),
        (TOPIC + "  valid_until: soon\n", "/topics/a.yaml:8: 'valid_until' must be a date"),
        (TOPIC + "  volatility: hourly\n", "/topics/a.yaml:8: 'volatility' must be one of"),
        (TOPIC + "  tools: [get_x]\n", "/topics/a.yaml:8: 'tools' names 'get_x'"),
        (TOPIC + TOPIC, "/topics/a.yaml:8: 'id' 'hours' stands also at"),
        (TOPIC + "  id: again\n", "/topics/a.yaml:8: not valid YAML: the key 'id' stands twice"),
        (TOPIC + "  - [", "/topics/a.yaml:"),
        ("hello", "/topics/a.yaml:1: expected a list of topics."),
        ("[]\n", "/topics/a.yaml:1: there is no topic"),
        ("- hours\n", "/topics/a.yaml:1: each topic is a mapping"),
        (TOPIC + "- hours\n", "/topics/a.yaml:8: each topic is a mapping"),
        (TOPIC.replace("9 点。", " \\n "), "/topics/a.yaml:7: 'answer' must hold a text that is not empty"),
        (TOPIC.replace("At 9.", ""), "/topics/a.yaml:7: 'answer' must hold a text that is not empty"),
        (TOPIC.replace('{en: "At 9.", zh: "9 点。"}', '"At 9."'), "/topics/a.yaml:7: 'answer' must hold"),
        (TOPIC.replace("id: hours", "id: [x]"), "/topics/a.yaml:1: 'id' must be a text"),
        (TOPIC.replace("title: Hours", "title: 5"), "/topics/a.yaml:2: 'title' must hold a text"),
        (TOPIC.replace("title: Hours", "title: [x]"), "/topics/a.yaml:2: 'title' must hold a text"),
        (TOPIC.replace("title: Hours", "title: {en: 5}"), "/topics/a.yaml:2: 'title' must hold a text"),
        (TOPIC.replace("route: answer", "route: [answer]"), "/topics/a.yaml:3: 'route' must be one of"),
        (TOPIC.replace('["when do you open"]', "5"), "/topics/a.yaml:4: 'examples' under 'en'"),
        (TOPIC.replace('["when do you open"]', "{a: b}"), "/topics/a.yaml:4: 'examples' under 'en'"),
        (TOPIC.replace('["when do you open"]', "[[a]]"), "/topics/a.yaml:4: 'examples' under 'en'"),
        (TOPIC + "  tools: 5\n", "/topics/a.yaml:8: 'tools' must be a list of texts, got 5"),
        (TOPIC + "  tools: [[x]]\n", "/topics/a.yaml:8: 'tools' must be a list of texts"),
        (TOPIC + "  tools: [1, x]\n", "/topics/a.yaml:8: 'tools' must be a list of texts"),
        (TOPIC + "  tags: 5\n", "/topics/a.yaml:8: 'tags' must be a list of texts"),
        (TOPIC + "  group: [x]\n", "/topics/a.yaml:8: 'group' must be a text"),
        (TOPIC + "  max_wrong: zz\n", "/topics/a.yaml:8: 'max_wrong' must be a number between 0 and 1"),
        (TOPIC + "  max_wrong: .nan\n", "/topics/a.yaml:8: 'max_wrong' must be a number between 0 and 1"),
        (TOPIC + "  valid_until: 2027-03-31 10:00:00\n", "/topics/a.yaml:8: 'valid_until' must be a date"),
        (
            TOPIC + "  valid_until: 2027-13-45\n",
            "/topics/a.yaml:8: not valid YAML: '2027-13-45' is no timestamp",
        ),
        (TOPIC + "  1: x\n", "/topics/a.yaml:8: '1' is no key of a topic"),
    ],
)
def test_a_wrong_topic_is_named_with_its_line(tmp_path: Path, topics: str, expected: str) -> None:
    found = problems(write(tmp_path, topics=topics))
    assert any(problem.startswith(expected) for problem in found), found


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ("languages: [en]\n", "/desk.yaml:1: 'name' must be a text, got None."),
        (HEAD.replace("zh", "fr"), "/desk.yaml:2: 'languages' takes en and zh"),
        ("name: a\nlanguages: 3\n", "/desk.yaml:2: 'languages' takes en and zh"),
        ("name: a\nlanguages: [[en]]\n", "/desk.yaml:2: 'languages' takes en and zh"),
        ("name: a\nlanguages: [en, en]\n", "/desk.yaml:2: 'languages' takes en and zh, each once"),
        ("name: a\nlanguages: []\n", "/desk.yaml:2: 'languages' takes en and zh"),
        ('name: "a\\r\\nx: y"\n', "/desk.yaml:1: 'name' 'a\\r\\nx: y' must match"),
        ("name: 云雀\n", "/desk.yaml:1: 'name' '云雀' must match"),
        (f"name: {'a' * 65}\n", "/desk.yaml:1: 'name' 'aaa"),
        (HEAD + 'risk: {max_wrong: "a"}\n', "/desk.yaml:3: 'risk' takes"),
        (HEAD + "risk: {max_wrong: 1.0e-17}\n", "/desk.yaml:3: 'risk' takes"),
        (HEAD + "risk: {confidence: true}\n", "/desk.yaml:3: 'risk' takes"),
        (HEAD + "risk: [1]\n", "/desk.yaml:3: 'risk' takes"),
        (HEAD + "system_prompts: 5\n", "/desk.yaml:3: 'system_prompts' must be 'any' or a list of texts"),
        (HEAD + "system_prompts: null\n", "/desk.yaml:3: 'system_prompts' must be 'any' or a list of texts"),
        (HEAD + "system_prompts: anny\n", "/desk.yaml:3: 'system_prompts' must be 'any' or a list of texts"),
        (HEAD + "system_prompts: [1]\n", "/desk.yaml:3: 'system_prompts' must be 'any' or a list of texts"),
        *(
            (
                HEAD + f"traffic: {traffic}\n",
                "/desk.yaml:3: 'traffic' takes the shares of what users ask, as in {",
            )
            for traffic in (
                "[1]",
                "{en: 1}",
                "{in_scope: 0.7, near_miss: 0.3}",
                "{in_scope: x}",
                "{in_scope: -1, follow_up: 2}",
                "{in_scope: true}",
                "{in_scope: .nan}",
                "{in_scope: .inf}",
                "{in_scope: 0, out_of_scope: 0}",
            )
        ),
        *(
            (HEAD + f"groups: {groups}\n", "/desk.yaml:3: 'groups' takes names that match")
            for groups in (
                "[finance]",
                "{Finance: }",
                "{zh: }",
                "{1: }",
                "{finance: 0.01}",
                "{finance: {rate: 0.01}}",
                "{finance: {max_wrong: }}",
                "{finance: {max_wrong: 1}}",
                "{finance: {max_wrong: true}}",
            )
        ),
        (HEAD + "defaults: {}\n", "/desk.yaml:3: 'defaults' is no key of a desk"),
        (HEAD + "risk: {max_wrong: 2}\n", "/desk.yaml:3: 'risk' takes"),
        (HEAD + "risk: {wrong: 0.1}\n", "/desk.yaml:3: 'risk' takes"),
        (HEAD + "unproven: maybe\n", "/desk.yaml:3: 'unproven' must be one of forward, answer"),
        (HEAD + "colour: red\n", "/desk.yaml:3: 'colour' is no key of a desk"),
        ("- a\n", "/desk.yaml:1: expected a mapping"),
    ],
)
def test_a_wrong_desk_file_is_named_with_its_line(tmp_path: Path, head: str, expected: str) -> None:
    found = problems(write(tmp_path, head=head))
    assert any(problem.startswith(expected) for problem in found), found


@pytest.mark.parametrize(
    ("head", "topic", "expected"),
    [
        ("", "group: finance", "'group' 'finance' is not in 'groups' of desk.yaml; add it there."),
        (
            "groups: {shop: }",
            "group: finance",
            "'group' 'finance' is not in 'groups' of desk.yaml; add it there.",
        ),
        ("", "max_wrong: 0.01", "'max_wrong' of a topic must be under its group's 0.01, got 0.01."),
        (
            "risk: {max_wrong: 0.005}",
            "max_wrong: 0.006",
            "'max_wrong' of a topic must be under its group's 0.005,",
        ),
        (
            "groups: {finance: {max_wrong: 0.002}}",
            "{group: finance, max_wrong: 0.004}",
            "'max_wrong' of a topic must be under its group's 0.002,",
        ),
        (
            "risk: {max_wrong: 0.03}\ngroups: {finance: }",
            "{group: finance, max_wrong: 0.03}",
            "'max_wrong' of a topic must be under its group's 0.03,",
        ),
    ],
)
def test_groups_are_declared_and_topics_only_stricter(
    tmp_path: Path, head: str, topic: str, expected: str
) -> None:
    lines = topic.strip("{}").split(", ")
    folder = write(tmp_path, head=f"{HEAD}{head}\n", topics=TOPIC + "".join(f"  {line}\n" for line in lines))
    [problem] = problems(folder)
    assert problem.startswith(f"/topics/a.yaml:1: {expected}")


def test_traffic_groups_and_rates_are_read(tmp_path: Path) -> None:
    head = HEAD + "traffic: {in_scope: 7, follow_up: 0}\ngroups: {finance: {max_wrong: 0.005}, shop: }\n"
    topics = TOPIC + "  group: finance\n  max_wrong: 0.001\n"
    desk = load_desk(write(tmp_path, head=head + "risk: {max_wrong: 0.02}\n", topics=topics))
    assert desk.traffic == {"in_scope": 7.0, "follow_up": 0.0}
    assert desk.groups == {"finance": 0.005, "shop": 0.02}
    assert (desk.topics[0].group, desk.topics[0].max_wrong) == ("finance", 0.001)


@pytest.mark.parametrize(
    ("question", "kind", "stratum"),
    [
        ('"topic": "hours"', "in_scope", "in_scope"),
        ('"topic": "oos"', "out_of_scope", "out_of_scope"),
        ('"topic": "oos", "kind": "near_miss"', "near_miss", "out_of_scope"),
        ('"topic": "hours", "kind": "chatty"', "chatty", "in_scope"),
        ('"topic": "hours", "kind": "follow_up"', "follow_up", "follow_up"),
        ('"topic": "oos", "kind": "follow_up"', "follow_up", "follow_up"),
        # Kind says it, not the history: many turns with one stand alone.
        (
            '"topic": "hours", "history": [{"role": "user", "content": "hi"}]',
            "in_scope",
            "in_scope",
        ),
    ],
)
def test_a_question_stands_for_a_stratum(tmp_path: Path, question: str, kind: str, stratum: str) -> None:
    line = f'{{"text": "what now", "lang": "en", {question}}}\n'
    [found] = load_desk(write(tmp_path, eval__calibrate_jsonl=line)).calibrate
    assert (found.kind, found.stratum) == (kind, stratum)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("{", "/eval/test.jsonl:2: not valid JSON"),
        ("[]", "/eval/test.jsonl:2: expected a JSON object"),
        ('{"text": 1, "topic": "oos", "lang": "en"}', "/eval/test.jsonl:2: 'text' must be a text"),
        ('{"text": "a", "topic": "oos", "lang": "fr"}', "/eval/test.jsonl:2: 'lang' must be zh or en"),
        ('{"text": "a", "topic": "nope", "lang": "en"}', "/eval/test.jsonl:2: there is no topic 'nope'"),
        (
            '{"text": "a", "topic": "oos", "lang": "en", "history": ["hi"]}',
            "/eval/test.jsonl:2: 'history' must be a list",
        ),
        ('{"text": "a", "topic": "oos", "lang": ["en"]}', "/eval/test.jsonl:2: 'lang' must be zh or en"),
        ('{"text": "a", "topic": ["oos"], "lang": "en"}', "/eval/test.jsonl:2: there is no topic ['oos']"),
        (
            '{"text": "a", "topic": "oos", "lang": "en", "kind": [1]}',
            "/eval/test.jsonl:2: 'kind' must be a text",
        ),
        (
            '{"text": "a", "topic": "oos", "lang": "en", "kind": 1}',
            "/eval/test.jsonl:2: 'kind' must be a text",
        ),
    ],
)
def test_a_wrong_question_is_named_with_its_line(tmp_path: Path, line: str, expected: str) -> None:
    good = '{"text": "what now", "topic": "oos", "lang": "en"}\n'
    found = problems(write(tmp_path, eval__test_jsonl=good + line + "\n"))
    assert any(problem.startswith(expected) for problem in found), found


@pytest.mark.parametrize(
    ("tools", "expected"),
    [
        ("- a\n", "/tools.yaml:1: each tool is a mapping"),
        ("a: 1\n", "/tools.yaml:1: expected a list of tools"),
        ("- {description: d, method: GET, url: u}\n", "/tools.yaml:1: 'name' must be a text"),
        ("- {name: [a], description: d, method: GET, url: u}\n", "/tools.yaml:1: 'name' must be a text"),
        ("- name: a\n  cost: 2027-01-01\n", "/tools.yaml:2: 'cost' must hold what JSON can"),
    ],
)
def test_a_wrong_tool_is_named_with_its_line(tmp_path: Path, tools: str, expected: str) -> None:
    found = problems(write(tmp_path, tools_yaml=tools))
    assert any(problem.startswith(expected) for problem in found), found


@pytest.mark.parametrize(
    "name", ["desk.yaml", "topics/x.yaml", "tools.yaml", "eval/calibrate.jsonl", "eval/test.jsonl"]
)
def test_a_folder_in_place_of_a_file_is_named(tmp_path: Path, name: str) -> None:
    write(tmp_path)
    (tmp_path / name).unlink(missing_ok=True)
    (tmp_path / name).mkdir()
    assert f"/{name}:1: cannot be read (Is a directory); expected a file here." in problems(tmp_path)


def test_problems_of_one_file_do_not_hide_those_of_another(tmp_path: Path) -> None:
    found = problems(write(tmp_path, head=HEAD + "unproven: x\n", eval__test_jsonl="{", tools_yaml="- a"))
    assert [problem.partition(":")[0] for problem in found] == [
        "/desk.yaml",
        "/tools.yaml",
        "/eval/test.jsonl",
    ]
    found = problems(write(tmp_path, head=HEAD + "unproven: x\n", tools_yaml="["))
    assert [problem.partition(":")[0] for problem in found] == ["/desk.yaml", "/tools.yaml"]


def test_what_is_null_counts_as_left_out(tmp_path: Path) -> None:
    topics = TOPIC + "  tools:\n  tags:\n  group:\n  valid_until:\n  max_wrong:\n"
    head = HEAD + "risk:\ntraffic:\nsystem_prompts: [a1]\n"
    desk = load_desk(write(tmp_path, head=head, topics=topics.replace("Hours", "")))
    assert (desk.risk.max_wrong, desk.traffic, desk.system_prompts) == (0.01, {}, ("a1",))
    assert desk.topics[0].title == {"en": "hours", "zh": "hours"}


def test_all_problems_are_found_at_once(tmp_path: Path) -> None:
    topics = TOPIC.replace("route: answer", "route: x") + "  volatility: y\n"
    assert len(problems(write(tmp_path, head=HEAD + "unproven: z\n", topics=topics))) >= 3


def test_missing_folders_and_files_say_what_to_add(tmp_path: Path) -> None:
    assert "no such desk folder" in problems(tmp_path / "none")[0]
    assert "desk.yaml: the file is missing" in problems(tmp_path)[0]
    (tmp_path / "desk.yaml").write_text(HEAD)
    assert "there is no topic file" in problems(tmp_path)[0]
    (tmp_path / "desk.yaml").write_bytes(b"name: \xff\n")
    assert "not UTF-8" in problems(tmp_path)[0]


def test_check_finds_duplicates_leaks_thin_topics_and_expired_answers(tmp_path: Path) -> None:
    other = TOPIC.replace("hours", "shop").replace("when do you open", "When do you open?")
    questions = '{"text": "几点开门！", "topic": "hours", "lang": "zh"}\n' * 2
    folder = write(tmp_path, topics=TOPIC + "  valid_until: 2020-01-01\n" + other, eval__test_jsonl=questions)
    messages = [(f.level, f.message) for f in check_desk(load_desk(folder))]
    for level, part in [
        ("error", "is an example of hours and of shop"),
        ("error", "is also an example of hours"),
        ("error", "stands also at"),
        ("warning", "hours has 1 examples in en"),
        ("warning", "expired on 2020-01-01"),
        ("warning", "the same en answer"),
    ]:
        assert any(l == level and part in message for l, message in messages), (part, messages)  # noqa: E741


def test_the_demo_desk_has_nothing_to_complain_about_and_what_it_promises() -> None:
    desk = load_desk(Path(__file__).parents[2] / "examples/desk")
    assert check_desk(desk) == []
    routes = [topic.route for topic in desk.topics]
    assert (routes.count("answer"), routes.count("tool"), routes.count("agent")) == (44, 14, 14)
    assert all(len(topic.examples[lang]) >= 20 for topic in desk.topics for lang in desk.languages)
    assert {topic.volatility for topic in desk.topics} == {"static", "daily", "live", "personal"}
    assert all(topic.answerable == set(desk.languages) for topic in desk.topics if topic.route == "answer")
    assert (
        sum(topic.answerable == set(desk.languages) for topic in desk.topics if topic.route == "tool") == 12
    )
    for questions, least in ((desk.calibrate, (0.13, 0.06, 0.15)), (desk.test, (0.25, 0.12, 0.12))):
        assert len(questions) >= 600
        kinds = [question.kind for question in questions]
        shares = [kinds.count(kind) / len(kinds) for kind in ("out_of_scope", "near_miss", "follow_up")]
        assert all(share >= wanted for share, wanted in zip(shares, least, strict=True)), shares
        asked = {question.topic for question in questions}
        assert asked >= {topic.id for topic in desk.topics}


TOOL_TOPIC = """\
- id: order
  route: tool
  tools: [get_order]
  examples: {en: ["where is my order"], zh: ["订单到哪了"]}
  template:
    en: "Order {slots.id} is {get_order.state}."
    zh: "订单 {slots.id}：{get_order.state}。"
"""
TOOL = """\
- {name: get_order, description: d, method: GET, url: '/o/{id}', use: answer, slots: {id: {pattern: '[0-9]{4}'}}}
"""


def test_a_template_makes_a_topic_answerable_in_its_languages(tmp_path: Path) -> None:
    [topic] = load_desk(write(tmp_path, topics=TOOL_TOPIC, tools_yaml=TOOL)).topics
    assert topic.template[Lang.EN] == "Order {slots.id} is {get_order.state}."
    assert topic.answerable == {Lang.EN, Lang.ZH}
    english = TOOL_TOPIC.rsplit("    zh:", 1)[0]
    [topic] = load_desk(write(tmp_path, topics=english, tools_yaml=TOOL)).topics
    assert topic.answerable == {Lang.EN}
    without = TOOL_TOPIC.partition("  template:")[0]
    for use in ("answer", "inject"):  # no template, no answer
        [topic] = load_desk(write(tmp_path, topics=without, tools_yaml=TOOL.replace("answer", use))).topics
        assert topic.answerable == frozenset()
    [topic] = load_desk(write(tmp_path, topics=TOPIC)).topics
    assert topic.answerable == {Lang.EN, Lang.ZH}


@pytest.mark.parametrize(
    ("topics", "tools", "expected"),
    [
        (
            TOOL_TOPIC,
            TOOL.replace("use: answer", "use: inject"),
            "5: 'template' needs every tool's word that it may answer; write use: answer at get_order",
        ),
        (
            TOOL_TOPIC.replace("[get_order]", "[get_order, get_more]"),
            TOOL + TOOL.replace("get_order", "get_more").replace(" use: answer,", ""),
            "5: 'template' needs every tool's word that it may answer; write use: answer at get_more",
        ),
        (
            TOOL_TOPIC.replace("route: tool", "route: agent"),
            TOOL,
            "5: 'template' belongs to route 'tool', the route here is 'agent'",
        ),
        (
            TOPIC + "  template: {en: x}\n",
            TOOL,
            "8: 'template' belongs to route 'tool', the route here is 'answer'",
        ),
        (
            TOOL_TOPIC.replace("{get_order.state}。", "{get_order.state。"),
            TOOL,
            "7: 'template.zh' cannot be read: ",
        ),
        (
            TOOL_TOPIC.replace("is {get_order", "is {get_stock"),
            TOOL,
            "6: 'template.en' holds {get_stock.state}",
        ),
        (
            TOOL_TOPIC.replace("Order {slots.id}", "Order {slots.no}"),
            TOOL,
            "6: 'template.en' holds {slots.no}",
        ),
        (
            TOOL_TOPIC.replace("    en:", "    fr:", 1),
            TOOL,
            "5: 'template' must hold a text that is not empty",
        ),
        (TOOL_TOPIC.partition("  template:")[0] + "  template: x\n", TOOL, "5: 'template' must hold a text"),
    ],
)
def test_a_wrong_template_is_named_with_its_line(
    tmp_path: Path, topics: str, tools: str, expected: str
) -> None:
    found = problems(write(tmp_path, topics=topics, tools_yaml=tools))
    assert any(problem.startswith(f"/topics/a.yaml:{expected}") for problem in found), found


def test_more_examples_stand_one_a_line(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "examples").mkdir()
    file = tmp_path / "examples/more.jsonl"
    rows = [
        {"text": "when is it open", "topic": "hours", "lang": "en"},
        {"text": "weather tomorrow", "topic": "oos", "lang": "en"},
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    desk = load_desk(tmp_path)
    [topic] = [topic for topic in desk.topics if topic.id == "hours"]
    texts = topic.examples[Lang.EN]
    assert texts[-1] == "when is it open"
    assert topic.where_of(Lang.EN, len(texts) - 1) == f"{file}:1"
    assert desk.out_of_scope == ("weather tomorrow",)


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"text": "x", "topic": "nowhere", "lang": "en"}, "there is no topic 'nowhere'"),
        ({"text": "x", "topic": "hours", "lang": "fr"}, "'lang' must be zh or en"),
        (
            {"text": "x", "topic": "hours", "lang": "en", "history": [{"role": "user", "content": "y"}]},
            "an example stands alone",
        ),
    ],
)
def test_problems_of_more_examples_name_the_line(tmp_path: Path, row: dict[str, object], says: str) -> None:
    write(tmp_path)
    (tmp_path / "examples").mkdir()
    file = tmp_path / "examples/more.jsonl"
    file.write_text(json.dumps(row) + "\n", "utf-8")
    with pytest.raises(DeskError) as caught:
        load_desk(tmp_path)
    assert any(f"{file}:1" in problem and says in problem for problem in caught.value.problems)
