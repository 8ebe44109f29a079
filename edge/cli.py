"""The command line: results on stdout, progress and logs on stderr; 0 well, 1 failed, 2 misused."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from edge.config import NAME, Answering, Settings, load_llm, load_settings
from edge.errors import ConfigError, FrontdeskError
from edge.flags import DEMO_NAME, DEMO_QUESTIONS, parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command. Returns the exit status."""
    args = parser().parse_args(argv)
    try:
        status = _COMMANDS[args.command](args)
    except FrontdeskError as error:
        if args.json:
            print(json.dumps({"error": str(error)}, ensure_ascii=False))
        print(f"frontdesk: {error}", file=sys.stderr)
        return 2 if isinstance(error, ConfigError) else 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader of our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return status


def _settings(args: argparse.Namespace) -> Settings:
    flags = {name: getattr(args, name) for name in ("bundle", "host", "port", "answering")}
    return load_settings(flags, file=args.config)


def _serve(args: argparse.Namespace) -> int:
    from edge.serve import serve

    serve(_settings(args))
    return 0


def _dev(args: argparse.Namespace) -> int:
    from edge.serve import dev

    dev(_settings(args), args.agent)
    return 0


def _ask(args: argparse.Namespace) -> int:
    from edge.classify import row_of
    from edge.host import open_pipeline
    from edge.query import Query
    from edge.telemetry import Spans

    text = sys.stdin.read() if args.text == "-" else args.text
    pipeline = open_pipeline(args.bundle, Answering())
    query = Query.of_text(text, pipeline.runtime.bundle.normaliser)
    spans = Spans()
    decision = pipeline.decide(query, spans)
    result = row_of(decision, spans)
    if args.json:
        _print_json(result)
        return 0
    confidence = "" if decision.confidence is None else f" at {decision.confidence:.3f}"
    print(f"{decision.path}  {decision.reason}  {decision.topic or '-'}{confidence}")
    for hit in decision.guards:
        print(f"  {hit.name}: {hit.value}")
    for candidate in result["candidates"]:
        print(f"  {candidate['confidence']:.3f}  {candidate['topic']}")
    for tool in result["tools"]:
        print(f"  {tool['name']}: {', '.join(map(_slot, tool['slots'])) or 'no slots'}")
    if decision.answer is not None:
        print(f"\n{decision.answer.text}")
    return 0


def _slot(slot: dict[str, Any]) -> str:
    if "missing" in slot:
        return f"{slot['name']} missing ({slot['missing']}{'' if slot['required'] else ', optional'})"
    return f"{slot['name']} = {slot['value']}"


def _check(args: argparse.Namespace) -> int:
    _need_export("check")
    from export.advice import advise_by
    from export.advice.asked import read_asked
    from export.check import check_desk
    from export.desk_reader import load_desk
    from export.findings import as_dict, lines, summary

    if args.no_model and args.questions is not None:
        raise ConfigError("--questions needs the model: leave out --no-model.")
    desk = load_desk(args.desk)
    asked = () if args.questions is None else read_asked(args.questions)
    findings = check_desk(desk)
    if not args.json:  # to be read while the model works
        print(*lines(findings), sep="\n", end="\n" if findings else "", flush=True)
    advice = None if args.no_model else advise_by(desk, args.base, asked)
    findings += advice or []
    if args.json:
        _print_json({"findings": as_dict(findings), "model": advice is not None})
    else:
        print(*lines(advice or []), summary(desk, findings), sep="\n")
    return 1 if any(finding.level == "error" for finding in findings) else 0


def _import(args: argparse.Namespace) -> int:
    _need_export("import")
    from edge.normaliser import Lang
    from export.desk import DESK_NAME
    from export.importers import read_material
    from export.importers.desk_folder import check_target, write_desk
    from export.importers.draft import desk_name, draft_desk
    from export.importers.report import as_dict, summary

    name = desk_name(args.file) if args.name is None else args.name
    if not DESK_NAME.fullmatch(name):
        raise ConfigError(f"--name {name!r} must match {DESK_NAME.pattern}.")
    check_target(args.out)
    material = read_material(args.file, args.format, args.encoding, args.answers)
    draft = draft_desk(material, args.file, name, Lang(args.lang) if args.lang else None, args.eval_share)
    write_desk(draft, args.out)
    if args.json:
        _print_json(as_dict(draft, args.out))
    else:
        print(summary(draft, args.out))
    return 0


def _train(args: argparse.Namespace) -> int:
    _need_export("train")
    from edge.errors import DeskError
    from export.check import check_desk
    from export.desk_reader import load_desk
    from export.encoder import Encoder
    from export.eval_table import table
    from export.pack import check_target
    from export.pools import load_pools
    from export.train import train_desk

    llm = _llm(args) if hasattr(args, "llm") else None
    desk = load_desk(args.desk)
    findings = check_desk(desk)
    errors = [f"{f.where}: {f.message}" for f in findings if f.level == "error"]
    if errors:  # the bundle would be wrong, or what is measured of it
        raise DeskError(errors)
    if findings:
        print(
            f"frontdesk: {len(findings)} warnings; `frontdesk check {args.desk}` lists them.", file=sys.stderr
        )
    check_target(args.out)  # before any work, or an LLM's, is done
    base, pools = Encoder(args.base), load_pools()
    if args.command == "distill":
        _need_distill()
        from export.desk_distill import Plan, distill_desk
        from export.llm_teacher import teach
        from export.traffic import NOTHING

        taught = NOTHING if llm is None else teach(desk, base, pools, args.llm, llm, args.seed)
        bundle, evaluation = distill_desk(
            desk, base, pools, args.out, args.seed, args.teacher, Plan(epochs=args.epochs), taught
        )
    else:
        bundle, evaluation = train_desk(desk, base, pools, args.out, args.seed)
    if args.json:
        _print_json({"bundle": f"{bundle.name}@{bundle.version}", "test": evaluation.as_dict()})
        return 0
    print(f"{args.out}: {bundle.name}@{bundle.version}\n")
    print(table(evaluation) if desk.test else "No questions in eval/test.jsonl, so nothing was measured.")
    for key, threshold in bundle.thresholds.items():
        if threshold.proven:
            rate = f"at most {threshold.max_wrong:.2%} wrong"
            print(f"{key}: proven, {rate}; answers from {threshold.confidence:.3f}")
            continue
        does = "answers all the same" if bundle.answer_unproven else "forwards all but exact texts"
        print(
            f"{key}: not proven for {threshold.max_wrong:.2%}, so it {does} (unproven: {desk.unproven}); "
            f"best bound {threshold.bound:.2%}, from {threshold.confidence:.3f}"
        )
    return 0


def _llm(args: argparse.Namespace) -> Any:  # noqa: ANN401 - export.llm.Llm, which is not loaded here
    """The LLM that labels the traffic, None where there is no traffic."""
    from export.llm import Llm

    if args.llm is None:
        if args.llm_url or args.llm_model or args.llm_price:
            raise ConfigError(
                "--llm-url, --llm-model and --llm-price say who labels what: add --llm TRAFFIC."
            )
        return None
    upstream, model = load_llm(args.llm_url, args.llm_model)
    return Llm(upstream.base_url, model, upstream.api_key, args.llm_price)


def _eval(args: argparse.Namespace) -> int:
    _need_export("eval")
    from contextlib import nullcontext
    from datetime import date

    from edge.errors import DeskError
    from edge.host import open_pipeline
    from export.eval_table import table
    from export.evaluate import evaluate
    from export.questions import load_questions
    from export.report import render, stated_in, subject_of, written_whole

    pipeline = open_pipeline(args.bundle)
    bundle = pipeline.runtime.bundle
    if args.questions is None and bundle.name != DEMO_NAME:
        raise ConfigError(
            f"Name the questions: frontdesk eval {args.bundle} --questions DESK/eval/test.jsonl"
        )
    file = args.questions or DEMO_QUESTIONS
    problems: list[str] = []
    questions = load_questions(file, [t.id for t in bundle.topics], problems)
    if not questions and not problems:
        problems.append(f"{file}: there are no questions.")
    if problems:
        raise DeskError(problems[:10] + [f"… and {n} more" for n in [len(problems) - 10] if n > 0])
    stated = stated_in(bundle)
    with nullcontext() if args.report is None else written_whole(args.report) as page:
        result = evaluate(pipeline, questions, stated.traffic, stated.confidence)
        if page is not None:
            subject = subject_of(bundle, stated, file, result, date.today().isoformat())
            page.write(render(subject))
    if page is not None:
        print(f"frontdesk: wrote {args.report}, {args.report.stat().st_size / 1000:.0f} kB.", file=sys.stderr)
    if args.json:
        _print_json(result.as_dict())
    else:
        print(table(result))
    return 0


def _key(args: argparse.Namespace) -> int:
    from edge.identity import new_key

    if not (NAME.fullmatch(args.id) and (not args.tenant or NAME.fullmatch(args.tenant))):
        raise ConfigError("A key's id and tenant are of letters, digits, '_', '.' and '-', up to 64.")
    key, digest = new_key()
    if args.json:
        _print_json({"id": args.id, "key": key, "sha256": digest, "tenant": args.tenant})
        return 0
    print(f"# The key, shown this once; the client sends it as its API key:\n# {key}\n[[keys]]")
    print(f'id = "{args.id}"\nsha256 = "{digest}"')
    if args.tenant:
        print(f'tenant = "{args.tenant}"')
    return 0


def _observe(args: argparse.Namespace) -> int:
    from edge.observe import read_log, table

    if str(args.log) == "-":
        observed = read_log(sys.stdin)
    else:
        try:
            with args.log.open(encoding="utf-8-sig", errors="replace") as lines:
                observed = read_log(lines)
        except OSError as exc:
            raise FrontdeskError(f"{args.log} cannot be read: {exc.strerror}.") from exc
    if args.json:
        _print_json(observed.as_dict())
    else:
        print(table(observed))
    return 0 if observed.turns else 1


def _worker(args: argparse.Namespace) -> int:
    from edge.isolate import build_worker

    size = build_worker(args.bundle, args.out)
    if args.json:
        _print_json({"folder": str(args.out), "bundle_bytes": size})
        return 0
    print(
        f"{args.out}: a worker, {size / 1e6:.1f} MB of it bundle. To try and to deploy it, with Node.js 20.3:"
    )
    print(f"  cd {args.out} && npm ci --omit=dev\n  npx wrangler dev\n  npx wrangler deploy")
    return 0


def _need_export(command: str) -> None:
    try:
        import onnx  # noqa: F401
        import sklearn  # noqa: F401
        import yaml  # noqa: F401
    except ImportError as exc:
        raise FrontdeskError(
            f"`frontdesk {command}` needs the extra 'export'; in a checkout: pip install -e '.[export]'."
        ) from exc


def _need_distill() -> None:
    try:
        import torch  # noqa: F401
    except ImportError as exc:
        raise FrontdeskError(
            "`frontdesk distill` needs torch; in a checkout: pip install -e '.[export,distill]'."
        ) from exc


def _print_json(value: Any) -> None:  # noqa: ANN401 - any JSON value
    print(json.dumps(value, ensure_ascii=False))


_COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "serve": _serve,
    "dev": _dev,
    "ask": _ask,
    "check": _check,
    "import": _import,
    "train": _train,
    "distill": _train,
    "key": _key,
    "observe": _observe,
    "worker": _worker,
    "eval": _eval,
}


if __name__ == "__main__":
    sys.exit(main())
