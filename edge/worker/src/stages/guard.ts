// Guard: everything that forbids a local answer although the router may be sure of the topic.
//
// A guard can only turn a local answer into a forward, never the reverse. What fills a slot of the topic's tools is
// asked of them, and is no objection.

import type { GuardHit, Reading } from "../decision";
import { lastAssistant } from "../query";
import type { Case, Runtime } from ".";

/** Fill the slots; object by language, wording, the router's two probabilities, the topic's signals. */
export function guard(state: Case, runtime: Runtime): Case {
  const { query, reading } = state;
  const { bundle } = runtime;
  if (query.lang === null || !bundle.languages.has(query.lang)) {
    state = state.because("unsupported_language", query.lang ?? "");
  }
  if (reading === null) return state;
  const topic = bundle.byId.get(reading.topic)!;
  if (topic.tools.length > 0)
    state = state.with(reading, bundle.slots.suggest(topic.tools, query, state.today));
  state = state.add(...bundle.guards.wordings(query.normal, query.history.length > 0));
  if (reading.unread) state = state.because("unsupported_language", reading.unread);
  if (query.history.at(-1)?.role === "user") state = state.because("needs_context", "user turns in a row");
  if (agentSpoke(state, runtime)) state = state.because("needs_context", "dialogue with the agent");
  state = state.add(...byProbability(state, reading, runtime));
  const last = lastAssistant(query);
  if (last !== null && bundle.answerTopic(last) === reading.topic)
    state = state.because("re_ask", reading.topic);
  const slots = topic.route === "tool" ? slotTexts(state, runtime) : [];
  return state.add(...bundle.guards.mismatches(query.normal, reading.topic, slots));
}

/** What of the text fills a slot, as it is read. */
function slotTexts({ tools }: Case, { bundle }: Runtime): string[] {
  const slots = tools.flatMap((tool) => [...tool.slots.values()]);
  return slots.flatMap((slot) =>
    "value" in slot && slot.text ? [bundle.normaliser.reading(slot.text)] : [],
  );
}

/**
 * Whether anything but our own answers was said to the user's earlier turns: nothing here reads what the agent
 * talked of, and it changes what the same words ask. A greeting before the user's first turn changes nothing.
 */
function agentSpoke({ query }: Case, runtime: Runtime): boolean {
  let asked = false;
  for (const { role, text } of query.history) {
    if (role === "user") asked = true;
    else if (asked ? runtime.bundle.answerTopic(text) === null : isElsewhere(text, runtime)) return true;
  }
  return false;
}

/** Whether a greeting names another company: then the words that follow are not about us. */
function isElsewhere(greeting: string, { bundle }: Runtime): boolean {
  const signals = bundle.guards.signalsOf(bundle.normaliser.reading(greeting));
  return [...signals].some((signal) => signal.startsWith("company:"));
}

function byProbability({ query }: Case, reading: Reading, { bundle }: Runtime): GuardHit[] {
  const hits: GuardHit[] = [];
  const limit = query.history.length > 0 ? bundle.maxNeedsContextInDialogue : bundle.maxNeedsContext;
  if (reading.needsContext > limit) {
    hits.push({ name: "needs_context", reason: "needs_context", value: reading.needsContext.toFixed(3) });
  }
  if (reading.inScope < bundle.minInScope) {
    hits.push({ name: "in_scope", reason: "out_of_scope", value: reading.inScope.toFixed(3) });
  }
  return hits;
}
