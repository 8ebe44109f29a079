// Route: the topic's route, if its confidence and margin pass and nothing objects.

import type { Bundle, Topic } from "../bundle";
import {
  type Answer,
  type Decision,
  decision,
  type GuardHit,
  isComplete,
  REASONS,
  type Reading,
  type Reason,
} from "../decision";
import type { Lang } from "../normaliser";
import type { Case, Runtime } from ".";

const ORDER = new Map(REASONS.map((reason, place) => [reason, place]));

/** The decision: an answer where no objection stands, else the agent with the first reason. */
export function route(state: Case, { bundle }: Runtime): Decision {
  const { query, reading } = state;
  let unproven = false;
  let answer: Answer | null = null;
  if (reading !== null) {
    const topic = bundle.byId.get(reading.topic)!;
    state = byConfidence(state, reading, topic, bundle);
    const threshold = query.lang && bundle.threshold(topic, query.lang);
    unproven = threshold !== null && !threshold.proven;
    const incomplete = state.tools.filter((tool) => !isComplete(tool)).map((tool) => tool.tool);
    if (topic.route === "tool" && incomplete.length > 0) {
      state = state.because("slot_missing", incomplete.join(","));
    } else if (topic.route !== "answer") state = state.because("topic_forwards", topic.route);
    else if (query.lang !== null) {
      const found = answerFor(topic, query.lang, state, bundle);
      if (typeof found === "string") state = state.because(found);
      else answer = found;
    }
  }
  const reason = firstReason(state.objections);
  const isLocal = reason === null && answer !== null;
  return decision(isLocal ? "faq" : "agent", reason ?? "matched", {
    lang: query.lang,
    reading,
    topic: reading?.topic ?? null,
    guards: state.objections,
    answer: isLocal ? answer : null,
    unproven: unproven && isLocal,
    tools: state.tools,
  });
}

/** The topic's answer in a language, or the reason why it cannot be given. */
export function answerFor(topic: Topic, lang: Lang, { query, today }: Case, bundle: Bundle): Answer | Reason {
  if (topic.validUntil !== null && today > topic.validUntil) return "answer_expired";
  const answer = bundle.answer(topic.id, lang);
  if (answer === null) return "no_answer_in_language";
  // The client's limit would cut the answer.
  if (query.maxTokens !== null && query.maxTokens < answer.tokens) return "client_options";
  return answer;
}

/** The first reason in the order of REASONS. */
function firstReason(objections: readonly GuardHit[]): Reason | null {
  const reasons = objections.map((hit) => hit.reason);
  return reasons.sort((a, b) => ORDER.get(a)! - ORDER.get(b)!)[0] ?? null;
}

function byConfidence(state: Case, reading: Reading, topic: Topic, bundle: Bundle): Case {
  const { lang } = state.query;
  const threshold = lang && bundle.threshold(topic, lang);
  if (threshold === null) {
    // A group without an answer has none, and nothing to prove.
    return topic.route === "answer" ? state.because("unproven", "no threshold") : state;
  }
  const { confidence, margin, proven, max_wrong } = threshold;
  if (reading.confidence < confidence) {
    state = state.because("low_confidence", `${reading.confidence.toFixed(3)}<${confidence.toFixed(3)}`);
  }
  if (reading.margin < margin) {
    state = state.because("low_margin", `${reading.margin.toFixed(3)}<${margin.toFixed(3)}`);
  }
  if (!proven && !bundle.answerUnproven) state = state.because("unproven", `not proven for ${max_wrong}`);
  return state;
}
