// Exact: the text is one of the desk's own examples, so no model has to read it. Only a turn without history.

import { type Decision, decision } from "../decision";
import type { Case, Runtime } from ".";
import { answerFor } from "./route";

/** Answer a text that equals an example of an answer topic, unless something objects. */
export function exact(state: Case, { bundle }: Runtime): Case | Decision {
  const { query, objections } = state;
  const { lang } = query;
  if (objections.length > 0 || query.history.length > 0 || query.clipped) return state;
  if (lang === null || !bundle.languages.has(lang)) return state;
  const topic = bundle.byId.get(bundle.exact.get(bundle.normaliser.exact(query.normal)) ?? "");
  if (topic === undefined) return state;
  const answer = answerFor(topic, lang, state, bundle);
  if (typeof answer === "string") return state;
  return decision("faq", "exact", { lang, topic: topic.id, answer });
}
