"""The router: one tokenizer call and one run of the ONNX graph give the reading of a text."""

import math
from collections.abc import Sequence

import numpy as np
import onnxruntime as ort
from tokenizers import Tokenizer

from edge.bundle import MANIFEST, ROUTER_FILE, Bundle
from edge.decision import Candidate, Reading
from edge.errors import BundleError

OUTPUTS = ("logits", "in_scope", "needs_context", "sentence_embedding", "exit")
TOP_CANDIDATES = 3
# INT8 rounding differs in the last bit between processors and cascades; the same topic must win.
SELF_TEST_TOLERANCE = 0.05


class RouterError(RuntimeError):
    """The graph gave numbers that no reading can be made of."""


class Router:
    """Reads normalised texts. One instance a process; ``read`` is synchronous and takes about 1 ms."""

    def __init__(self, bundle: Bundle) -> None:
        options = ort.SessionOptions()
        # One decision is too small to split; spinning threads would only take the cores of others.
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.log_severity_level = 3
        path = bundle.folder / ROUTER_FILE
        try:
            self._session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
            path = bundle.folder / "tokenizer.json"
            self._tokenizer = Tokenizer.from_file(str(path))
        except Exception as exc:  # both libraries raise bare Exception classes
            raise BundleError(
                f"{path} cannot be loaded ({exc}); build the bundle again with `frontdesk train`."
            ) from exc
        width = {output.name: output.shape[-1] for output in self._session.get_outputs()}.get("logits")
        if width != len(bundle.topics):
            raise BundleError(
                f"The router of {bundle.folder} tells {width} topics apart, {MANIFEST} lists "
                f"{len(bundle.topics)} topics; build the bundle again."
            )
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._alphabet = frozenset(piece for piece in self._tokenizer.get_vocab() if len(piece) == 1)
        self._topics = tuple(topic.id for topic in bundle.topics)
        self._max_tokens = bundle.max_tokens
        # Above any confidence: no row may leave early, because only the last exit gives an embedding.
        self._no_early_exit = {
            given.name: np.full(given.shape, 2.0, np.float32)
            for given in self._session.get_overridable_initializers()
            if given.name == "exit_thresholds"
        }

    def token_count(self, normal: str) -> int:
        """The number of router tokens of a text, without the two special ones."""
        return len(self._tokenizer.encode(normal, add_special_tokens=False).ids)

    def read(self, normal: str) -> Reading | None:
        """The reading of a normalised text; None where it has more than ``max_tokens`` tokens."""
        ids = self._tokenizer.encode(normal).ids
        if len(ids) > self._max_tokens:
            return None
        input_ids = np.array([ids], np.int64)
        feed = {"input_ids": input_ids, "attention_mask": np.ones_like(input_ids)}
        logits, in_scope, needs_context, embedding, exit_ = self._session.run(OUTPUTS, feed)
        scope, needs = float(in_scope[0]), float(needs_context[0])
        if not (np.isfinite(logits).all() and np.isfinite(embedding).all() and math.isfinite(scope + needs)):
            raise RouterError("The router's output is not finite.")
        probabilities = _softmax(logits[0]) * scope
        best = np.argsort(-probabilities, kind="stable")[:TOP_CANDIDATES]
        return Reading(
            candidates=tuple(Candidate(self._topics[i], float(probabilities[i])) for i in best),
            in_scope=scope,
            needs_context=needs,
            exit=int(exit_[0]),
            embedding=embedding[0],
            tokens=len(ids),
            unread="".join(char for char in normal if char not in self._alphabet and _says_something(char)),
        )

    def embed(self, normals: Sequence[str]) -> np.ndarray:
        """The embeddings of normalised texts, float32 ``[texts, dim]`` of length 1; of a long text its head.

        Every row is read to the last exit, its first ``max_tokens`` tokens alone. Raises RouterError.
        """
        rows = [self._head(self._tokenizer.encode(normal).ids) for normal in normals]
        input_ids = np.zeros((len(rows), max(map(len, rows))), np.int64)
        mask = np.zeros_like(input_ids)
        for row, ids in enumerate(rows):
            input_ids[row, : len(ids)] = ids
            mask[row, : len(ids)] = 1
        feed = {"input_ids": input_ids, "attention_mask": mask, **self._no_early_exit}
        (vectors,) = self._session.run(["sentence_embedding"], feed)
        if not np.allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-2):  # neither for what is not finite
            raise RouterError("The router gave no embedding.")
        return np.asarray(vectors)

    def _head(self, ids: list[int]) -> list[int]:
        """At most ``max_tokens`` of a text's tokens: the first, and the closing one."""
        return ids if len(ids) <= self._max_tokens else [*ids[: self._max_tokens - 1], ids[-1]]


def load_router(bundle: Bundle) -> Router:
    """The router of a bundle, after its stored texts have given their stored readings."""
    router = Router(bundle)
    if not bundle.self_test:
        raise BundleError(f"{bundle.folder} has no self-test; build the bundle again with `frontdesk train`.")
    for stored in bundle.self_test:
        try:
            reading = router.read(stored["text"])
        except RouterError as exc:
            raise BundleError(
                f"The self-test of {bundle.folder} failed: {exc} Build it again with `frontdesk train`."
            ) from exc
        if (
            reading is None
            or reading.topic != stored["topic"]
            or not math.isclose(reading.confidence, stored["confidence"], abs_tol=SELF_TEST_TOLERANCE)
        ):
            raise BundleError(
                f"The self-test of {bundle.folder} failed: {stored['text']!r} should be read as "
                f"{stored['topic']} at {stored['confidence']:.3f}, got "
                + ("nothing." if reading is None else f"{reading.topic} at {reading.confidence:.3f}.")
            )
    return router


def _says_something(char: str) -> bool:
    return char.isalpha() or char.isnumeric()


def _softmax(logits: np.ndarray) -> np.ndarray:
    shifted = np.exp(logits - logits.max())
    return np.asarray(shifted / shifted.sum())
