// One JSON line a request to the console, which Workers Logs keep. Never any message text (edge/sinks/jsonlog.py).

import { confidenceOf, type Decision } from "./decision";
import type { Exchange } from "./exchange";

/** Writes the event of a request that is over. */
export function log(exchange: Exchange, status: number, outcome: string): void {
  const { caller, decision, relayed, spans, firstByteMs } = exchange;
  const line = {
    time: new Date().toISOString(),
    request_id: exchange.requestId,
    tenant: caller.tenant || null,
    route: exchange.url.pathname,
    status,
    outcome,
    stream: relayed.stream,
    total_ms: rounded(spans.total(), 3),
    first_byte_ms: rounded(firstByteMs, 3),
    stages_ms: Object.fromEntries(spans.spent.map(([name, ms]) => [name, rounded(ms, 3)])),
    upstream_status: relayed.status || null,
    completion_tokens: relayed.completionTokens,
    ...(decision && decided(decision)),
    ...(decision?.observed && { observed: decided(decision.observed) }),
  };
  console.log(JSON.stringify(line));
}

function decided(decision: Decision): object {
  const { path, reason, topic, lang, unproven } = decision;
  return { path, reason, topic, lang, confidence: rounded(confidenceOf(decision), 4), unproven };
}

function rounded(value: number | null, places: number): number | null {
  return value === null ? null : Number(value.toFixed(places));
}
