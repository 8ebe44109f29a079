// One HTTP exchange: its id, its clock, the headers that every answer carries, and its event (edge/exchange.py).

import { Budget } from "./budget";
import { confidenceOf, type Decision } from "./decision";
import { errorJson, type RequestError } from "./errors";
import { type Caller, NOBODY } from "./identity";
import { log } from "./jsonlog";
import { Relayed, Spans } from "./telemetry";

const WIRE_SCHEMA = "1";
export const OWN_PREFIX = "x-frontdesk-";
const REQUEST_ID = /^[A-Za-z0-9_=.:-]{1,128}$/;
const TRACEPARENT = /^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/;
export const JSON_TYPE = "application/json";

/** What belongs to one request from its arrival to its last byte. */
export class Exchange {
  readonly spans = new Spans();
  readonly relayed = new Relayed();
  readonly requestId: string;
  readonly traceparent: string;
  readonly budget: Budget;
  /** Path as it came, and query. */
  readonly url: URL;
  /** The headers as the upstream may see them. */
  headers: Headers;
  caller: Caller = NOBODY;
  decision: Decision | null = null;
  bundle = "";
  debug: boolean;
  firstByteMs: number | null = null;

  constructor(
    readonly request: Request,
    readonly context: ExecutionContext,
    defaultBudgetMs: number,
  ) {
    this.url = new URL(request.url);
    this.headers = request.headers;
    const given = this.header("x-request-id");
    this.requestId = REQUEST_ID.test(given) ? given : `req_${randomHex(12)}`;
    const trace = this.header("traceparent");
    this.traceparent = TRACEPARENT.test(trace) ? trace : `00-${randomHex(16)}-${randomHex(8)}-01`;
    this.debug = this.header(`${OWN_PREFIX}debug`) === "1";
    const asked = this.header(`${OWN_PREFIX}budget-ms`);
    this.budget = new Budget(/^[0-9]{1,7}$/.test(asked) ? Number(asked) : defaultBudgetMs);
  }

  /** A request header, "" where it is missing. */
  header(name: string): string {
    return this.request.headers.get(name) ?? "";
  }

  /** Schema, path, reason, request id and timing; the evidence too where it was asked for. */
  head(): [string, string][] {
    this.firstByteMs = this.spans.total();
    const headers: [string, string][] = [
      [`${OWN_PREFIX}schema`, WIRE_SCHEMA],
      ["x-request-id", this.requestId],
      ["server-timing", this.spans.serverTiming()],
    ];
    if (this.decision === null) return headers;
    headers.push([`${OWN_PREFIX}path`, this.decision.path], [`${OWN_PREFIX}reason`, this.decision.reason]);
    return this.debug ? [...headers, ...this.evidence(this.decision)] : headers;
  }

  /** A whole response of our own. */
  respond(status: number, type: string, body: string, extra: [string, string][] = []): Response {
    const bytes = new TextEncoder().encode(body);
    const head: [string, string][] = [["content-type", type], ...this.head(), ...extra];
    return new Response(this.request.method === "HEAD" ? null : bytes, { status, headers: head });
  }

  /** An error of our own; `x-frontdesk-path` says that it is ours. */
  refuse(error: RequestError): Response {
    this.spans.mark("error");
    const extra: [string, string][] = [];
    if (this.decision === null) {
      extra.push([`${OWN_PREFIX}path`, "error"], [`${OWN_PREFIX}reason`, error.code]);
    } else this.decision = { ...this.decision, path: "error", answer: null };
    if (error.allow !== null) extra.push(["allow", error.allow]);
    if (error.status === 401) extra.push(["www-authenticate", "Bearer"]);
    // The SDKs would otherwise run a turn twice that the agent may have begun.
    if (error.status >= 500)
      extra.push(error.repeatable ? ["retry-after", "1"] : ["x-should-retry", "false"]);
    return this.respond(error.status, JSON_TYPE, errorJson(error), extra);
  }

  /** Tell the log that the request is over. */
  served(status: number, outcome: string): void {
    log(this, status, outcome);
  }

  private evidence(decided: Decision): [string, string][] {
    const confidence = confidenceOf(decided);
    const { topic, reading, unproven, observed } = decided;
    const facts: [string, string | null][] = [
      ["topic", topic],
      ["confidence", confidence === null ? null : confidence.toFixed(4)],
      ["exit", reading && String(reading.exit)],
      ["bundle", this.bundle || null],
      ["unproven", unproven ? "1" : null],
      ["observed", observed && `${observed.path};${observed.reason}`],
    ];
    return facts.flatMap(([name, value]) => (value === null ? [] : [[OWN_PREFIX + name, ascii(value)]]));
  }
}

/** Seconds since the epoch, as OpenAI's `created` and a signature have it. */
export function unixNow(): number {
  return Math.floor(Date.now() / 1000);
}

export function randomHex(bytes: number): string {
  const random = crypto.getRandomValues(new Uint8Array(bytes));
  return Array.from(random, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function ascii(text: string): string {
  return text.replace(/[^\u0000-\u007f]/gu, "?");
}
