"""The command line as people call it: results on stdout, the rest on stderr, an honest exit status."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from servers import DEMO, ROOT

from edge.cli import main


def run(*args: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "edge.cli", *args]
    return subprocess.run(command, cwd=ROOT, input=stdin, capture_output=True, text=True, timeout=60)


def test_ask_prints_the_decision_and_the_answer(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ask", "公司几点上班？", "--bundle", str(DEMO)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("faq  exact  staff.working_hours at 1.000")
    assert "9:30" in out


def test_ask_says_why_not(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ask", "translate into French: where can I park", "--bundle", str(DEMO)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("agent  out_of_scope")
    assert "embedded_task: translate" in out


def test_ask_json_is_one_row_of_classify(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ask", "--json", "订单 1024 到哪了", "--bundle", str(DEMO)]) == 0
    row = json.loads(capsys.readouterr().out)
    # As if every tool could be called that may be.
    assert (row["path"], row["reason"], row["topic"]) == ("tool", "matched", "shop.order_status")
    assert row["tools"][0]["slots"] == [{"name": "order_id", "value": "1024", "text": "1024"}]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("订单 1024 到哪了", "  get_order: order_id = 1024\n"),
        ("where is my order", "  get_order: order_id missing (not_said)\n"),
        ("is there a room free at 3pm", "time = 15:00, people missing (not_said, optional)\n"),
        ("how many days of leave do I have left", "  get_leave_balance: no slots\n"),
    ],
)
def test_ask_shows_the_slots(text: str, shown: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ask", text, "--bundle", str(DEMO)]) == 0
    assert shown in capsys.readouterr().out


def test_ask_reads_standard_input() -> None:
    done = run("ask", "-", "--json", stdin="公司几点上班？\n")
    assert json.loads(done.stdout)["reason"] == "exact"
    assert done.stderr == ""


def test_a_missing_bundle_is_one_sentence_and_status_1() -> None:
    done = run("ask", "hi", "--bundle", "nowhere")
    assert done.returncode == 1
    assert done.stderr.startswith("frontdesk: There is no bundle at nowhere; build one with")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("args", "part"),
    [
        (["serve", "--port", "x"], "--port"),
        (["serve", "--answering", "2"], "expected off, observe, on or a share between 0 and 1"),
        (["serve", "--config", "nowhere.toml"], "nowhere.toml"),
        (["dev", "--agent", "nowhere.py"], "There is no agent at nowhere.py"),
        (["nonsense"], "invalid choice"),
    ],
)
def test_misuse_is_status_2_and_says_what_is_accepted(args: list[str], part: str) -> None:
    done = run(*args)
    assert done.returncode == 2
    assert part in done.stderr
    assert "Traceback" not in done.stderr


def test_check_prints_counts_and_findings(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--no-model", str(ROOT / "examples/desk")]) == 0
    out = capsys.readouterr().out
    assert "72 topics (44 answer, 14 tool, 14 agent)" in out
    assert out.endswith("0 errors, 0 warnings, 0 pieces of advice\n")


def test_check_without_a_base_student_says_what_was_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "topics").mkdir()
    (tmp_path / "desk.yaml").write_text("name: d\nlanguages: [en]\n", "utf-8")
    (tmp_path / "topics/a.yaml").write_text(
        "- {id: a, route: agent, examples: {en: [write a letter, draft a mail]}}\n", "utf-8"
    )
    none = str(tmp_path / "none")
    assert main(["check", str(tmp_path), "--base", none, "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["model"] is False
    assert {finding["kind"] for finding in json.loads(out)["findings"]} == {"thin", "uncalibrated"}
    assert f"was left out: there is no base student in {none}" in err
    questions = tmp_path / "asked.txt"
    questions.write_text("where am I\n", "utf-8")
    assert main(["check", str(tmp_path), "--base", none, "--questions", str(questions)]) == 1
    assert "no base student" in capsys.readouterr().err
    assert main(["check", str(tmp_path), "--no-model", "--questions", str(questions)]) == 2


def test_check_fails_on_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(tmp_path)]) == 1
    assert "desk.yaml" in capsys.readouterr().err
    assert main(["check", "--json", str(tmp_path)]) == 1
    assert "desk.yaml" in json.loads(capsys.readouterr().out)["error"]


def test_eval_prints_a_table_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    questions = tmp_path / "q.jsonl"
    questions.write_text(
        '{"text": "公司几点上班？", "topic": "staff.working_hours", "lang": "zh"}\n', "utf-8"
    )
    assert main(["eval", str(DEMO), "--questions", str(questions)]) == 0
    assert "zh   in_scope" in capsys.readouterr().out
    assert main(["eval", str(DEMO), "--questions", str(questions), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["strata"][0]["answered"] == 1
    assert main(["eval", str(DEMO), "--questions", str(tmp_path / "none.jsonl")]) == 1


def test_the_output_may_be_cut_short() -> None:
    command = f"{sys.executable} -m edge.cli ask 公司几点上班？ | head -c 1"
    done = subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert "Traceback" not in done.stderr


def test_version_and_help() -> None:
    assert run("--version").stdout.startswith("frontdesk 0.")
    out = run("--help").stdout
    assert all(name in out for name in ("serve", "dev", "ask", "check", "train", "eval"))
