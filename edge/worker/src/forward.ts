// Forwarding: the body as it came, the bytes of the response as they come, nothing kept open (edge/forward.py).

import type { Settings } from "./config";
import { ClientLeft, UpstreamTimeout, UpstreamUnreachable, UpstreamUnset } from "./errors";
import { type Exchange, OWN_PREFIX } from "./exchange";
import { passOn } from "./passing";

// RFC 9110 section 7.6.1, and what the next hop must decide anew.
const HOP_BY_HOP = words(
  "connection keep-alive proxy-connection proxy-authenticate proxy-authorization te trailer transfer-encoding upgrade",
);
const REQUEST_HEADERS = words(
  "accept accept-language authorization content-encoding content-type idempotency-key openai-beta " +
    "openai-organization openai-project tracestate user-agent",
);
const NEVER = words("host content-length expect");

/**
 * How a request goes on. `target`: path and query below the base address. `lendKey`: our own key, where there is
 * one, takes the place of the client's. `untouched`: every header goes on but hop-by-hop ones and ours.
 */
export interface Going {
  readonly method: string;
  readonly target: string;
  readonly own: readonly (readonly [string, string])[];
  readonly body: Uint8Array | ReadableStream | null;
  readonly lendKey: boolean;
  readonly untouched: boolean;
}

/** Sends requests to one upstream. */
export class Forwarder {
  constructor(private readonly settings: Settings) {}

  /**
   * Send a request and pass the response on; the upstream is closed as soon as the client goes. The second promise
   * ends with the last byte. Throws RequestError and ClientLeft, then nothing has been sent to the client.
   */
  async relay(exchange: Exchange, going: Going): Promise<[Response, Promise<void>]> {
    const { relayed } = exchange;
    const abort = new AbortController();
    const upstream = await this.open(exchange, going, abort);
    relayed.status = upstream.status;
    relayed.stream = isEvents(upstream.headers);
    relayed.started = true;
    exchange.spans.mark("upstream");
    const headers = responseHeaders(upstream.headers);
    for (const [name, value] of exchange.head()) headers.append(name, value);
    const init = { status: upstream.status, headers };
    const { body } = upstream;
    // To read an encoded body is to decode it, so it goes through unwatched.
    if (body === null || upstream.headers.has("content-encoding")) {
      return [new Response(body, init), Promise.resolve()];
    }
    // A stream's length is dropped: an error event may have to be appended.
    const length = relayed.stream ? null : upstream.headers.get("content-length");
    const pipe = length === null ? new IdentityTransformStream() : new FixedLengthStream(Number(length));
    const source = { body, abort, client: exchange.request.signal, idleTimeout: this.settings.idleTimeout };
    return [new Response(pipe.readable, init), passOn(source, pipe.writable, relayed)];
  }

  /** Status and whole body of a small answer. Throws RequestError and ClientLeft. */
  async fetch(exchange: Exchange, going: Going): Promise<{ status: number; body: string }> {
    const upstream = await this.open(exchange, going, new AbortController());
    try {
      return { status: upstream.status, body: await upstream.text() };
    } catch {
      throw new UpstreamUnreachable("The upstream broke off its answer.");
    }
  }

  private async open(
    { request, headers }: Exchange,
    going: Going,
    abort: AbortController,
  ): Promise<Response> {
    const { upstreamBaseUrl, firstByteTimeout } = this.settings;
    if (upstreamBaseUrl === "") {
      throw new UpstreamUnset(
        "This turn needs the agent, and no upstream is configured: set FRONTDESK_UPSTREAM_BASE_URL.",
      );
    }
    if (request.signal.aborted) throw new ClientLeft("The client closed the connection.");
    request.signal.addEventListener("abort", () => abort.abort());
    let isLate = false;
    const timer = setTimeout(() => {
      isLate = true;
      abort.abort();
    }, firstByteTimeout * 1000);
    try {
      return await fetch(upstreamBaseUrl + going.target, {
        method: going.method,
        headers: this.requestHeaders(headers, going),
        body: going.body as BodyInit | null,
        redirect: "manual",
        signal: abort.signal,
      });
    } catch {
      if (request.signal.aborted) throw new ClientLeft("The client closed the connection.");
      if (isLate) throw new UpstreamTimeout("The upstream did not answer in time; it may still be at it.");
      throw new UpstreamUnreachable("The upstream cannot be reached, or broke off before its first byte.");
    } finally {
      clearTimeout(timer);
    }
  }

  private requestHeaders(client: Headers, { own, lendKey, untouched }: Going): Headers {
    const dropped = new Set([...own.map(([name]) => name), ...listed(client)]);
    const goes = untouched ? goesUntouched : goesOn;
    const headers = new Headers([...client].filter(([name]) => goes(name) && !dropped.has(name)));
    const { upstreamApiKey } = this.settings;
    if (upstreamApiKey && lendKey) headers.set("authorization", `Bearer ${upstreamApiKey}`);
    if (!untouched) headers.set("accept-encoding", "identity");
    for (const [name, value] of own) headers.set(name, value);
    return headers;
  }
}

function goesOn(name: string): boolean {
  return REQUEST_HEADERS.has(name) || name.startsWith("x-stainless-");
}

function goesUntouched(name: string): boolean {
  // Some servers behind us read an underscore as a hyphen. What begins with cf- is about this hop.
  const isOurs = name.replaceAll("_", "-").startsWith(OWN_PREFIX) || name.startsWith("cf-");
  return !isOurs && !HOP_BY_HOP.has(name) && !NEVER.has(name);
}

/** The upstream's headers without hop-by-hop ones, ours, and the length, which belongs to the body that is sent. */
function responseHeaders(upstream: Headers): Headers {
  const headers = new Headers(upstream);
  for (const name of new Set([...HOP_BY_HOP, "date", "content-length", ...listed(upstream)]))
    headers.delete(name);
  for (const name of [...headers.keys()]) {
    if (name.startsWith(OWN_PREFIX) || name.startsWith("x-request-id")) headers.delete(name);
  }
  return headers;
}

/** The header names that `connection` declares to be for this hop alone. */
function listed(headers: Headers): string[] {
  const connection = headers.get("connection") ?? "";
  return connection
    .split(",")
    .map((name) => name.trim().toLowerCase())
    .filter((name) => name !== "");
}

/** Whether we can read the stream, and add to it: server-sent events, not compressed. */
function isEvents(headers: Headers): boolean {
  const kind = (headers.get("content-type") ?? "").toLowerCase();
  return kind.startsWith("text/event-stream") && !headers.has("content-encoding");
}

function words(text: string): ReadonlySet<string> {
  return new Set(text.split(" "));
}
