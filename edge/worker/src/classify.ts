// The rows of `POST /v1/classify` (edge/classify.py).

import { confidenceOf, type Decision, type Suggestion } from "./decision";
import { BadRequest } from "./errors";
import { isObject, type Json, type JsonObject } from "./json";
import type { Pipeline } from "./pipeline";
import { type Query, queryOfBody, queryOfText } from "./query";
import { Spans } from "./telemetry";
import { asChat } from "./wire";

const MAX_INPUTS = 256;

/** One row an input. Throws BadRequest. */
export async function classify(pipeline: Pipeline, { input = null }: JsonObject): Promise<object[]> {
  const inputs = typeof input === "string" || isObject(input) ? [input] : input;
  if (!Array.isArray(inputs) || inputs.length === 0) {
    throw new BadRequest(
      "The field 'input' must be a text, a list of texts, or a list of objects with 'messages'.",
      { param: "input", code: input === null ? "missing_required_parameter" : "invalid_type" },
    );
  }
  if (inputs.length > MAX_INPUTS) {
    throw new BadRequest(`'input' holds ${inputs.length} texts; send at most ${MAX_INPUTS}.`, {
      param: "input",
    });
  }
  const rows: object[] = [];
  for (const item of inputs) {
    const spans = new Spans();
    rows.push(rowOf(await pipeline.decide(await queryOf(pipeline, item), spans), spans));
  }
  return rows;
}

/** The row of a decision. */
export function rowOf(decided: Decision, spans: Spans): object {
  const { reading, observed } = decided;
  return {
    path: decided.path,
    reason: decided.reason,
    topic: decided.topic,
    confidence: rounded(confidenceOf(decided)),
    margin: rounded(reading?.margin ?? null),
    lang: decided.lang,
    in_scope: rounded(reading?.inScope ?? null),
    needs_context: rounded(reading?.needsContext ?? null),
    exit: reading?.exit ?? null,
    unproven: decided.unproven,
    candidates: (reading?.candidates ?? []).map((c) => ({
      topic: c.topic,
      confidence: rounded(c.confidence),
    })),
    guards: decided.guards.map(({ name, value }) => ({ name, value })),
    tools: decided.tools.map(toolOf),
    observed: observed && { path: observed.path, reason: observed.reason },
    timing_ms: Object.fromEntries(spans.spent.map(([name, ms]) => [name, Number(ms.toFixed(4))])),
  };
}

function toolOf({ tool, slots }: Suggestion): object {
  return { name: tool, slots: [...slots].map(([name, slot]) => ({ name, ...slot })) };
}

async function queryOf({ runtime }: Pipeline, item: Json): Promise<Query> {
  const { normaliser } = runtime.bundle;
  if (typeof item === "string") return queryOfText(item, normaliser);
  if (isObject(item)) return queryOfBody(asChat(item), normaliser);
  throw new BadRequest("Each element of 'input' must be a text or an object with 'messages'.", {
    param: "input",
  });
}

function rounded(value: number | null): number | null {
  return value === null ? null : Number(value.toFixed(6));
}
