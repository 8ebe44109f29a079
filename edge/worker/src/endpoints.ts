// The endpoints: chat, classify, models, health, and everything else under /v1 passed through (edge/endpoints.py).

import { classify } from "./classify";
import type { Settings } from "./config";
import { type Answer, type Decision, decision } from "./decision";
import {
  BadRequest,
  ClientLeft,
  MethodNotAllowed,
  NotFound,
  NotReady,
  RequestError,
  RequestTooLarge,
  Unauthorized,
} from "./errors";
import { Exchange, JSON_TYPE, OWN_PREFIX, randomHex, unixNow } from "./exchange";
import { Forwarder, type Going } from "./forward";
import type { Host } from "./host";
import { Identity, peerOf } from "./identity";
import { isObject } from "./json";
import { hintHeaders, rest, targetOf, withModel } from "./outbound";
import { type Pipeline, withhold } from "./pipeline";
import { type Query, queryOfBody } from "./query";
import { readBody } from "./stages/admit";
import { bodyText, type Chat, completionEvents, completionJson, parseChat, parseObject } from "./wire";

const EVENTS = "text/event-stream; charset=utf-8";
const OUR_MODEL = "frontdesk";
const PREFETCH = "/v1/prefetch/";

type Endpoint = (exchange: Exchange) => Promise<Response>;

/** The request handlers over one host (bundle and pipeline) and one upstream. */
export class Endpoints {
  private readonly forwarder: Forwarder;
  private readonly identity: Identity;
  private readonly observing: boolean;

  constructor(
    private readonly settings: Settings,
    private readonly host: Host,
  ) {
    this.forwarder = new Forwarder(settings);
    this.identity = new Identity(settings);
    this.observing = settings.answering.mode === "observe";
  }

  /** Route one HTTP request, answer its errors, and tell the log how it ended. */
  async handle(request: Request, context: ExecutionContext): Promise<Response> {
    const exchange = new Exchange(request, context, this.settings.budgetMs);
    const isHealth = exchange.url.pathname.startsWith("/health");
    try {
      // Who collects a result shows the agent's signature, and has no credential of a user's.
      const isUsers = !isHealth && !exchange.url.pathname.startsWith(PREFETCH);
      if (isUsers) Object.assign(exchange, await this.identity.admit(request));
      const response = await this.endpoint(exchange)(exchange);
      if (!isHealth && !exchange.relayed.started) this.served(exchange, response.status, "ok");
      return response;
    } catch (error) {
      if (error instanceof ClientLeft) {
        this.served(exchange, 499, "client_left");
        return new Response(null, { status: 499 });
      }
      const told = error instanceof RequestError ? error : this.internal(exchange, error);
      const response = exchange.refuse(told);
      if (!isHealth) this.served(exchange, told.status, told.code);
      return response;
    }
  }

  private endpoint({ url, request: { method } }: Exchange): Endpoint {
    const path = url.pathname.startsWith("/v1/") ? url.pathname.replace(/\/+$/, "") : url.pathname;
    if (method === "TRACE" || method === "CONNECT") {
      // One shows the client which credential we sent, the other makes a tunnel of the connection.
      throw new MethodNotAllowed(`${method} is not served here.`, "GET, POST");
    }
    // What the upstream has too goes there with any other method: it may list stored completions.
    if (path === "/v1/chat/completions" && method === "POST") return (exchange) => this.chat(exchange);
    if (path === "/v1/models" && (method === "GET" || method === "HEAD") && !this.observing) {
      return (exchange) => this.models(exchange);
    }
    const ours: Record<string, [string, Endpoint]> = {
      "/v1/classify": ["POST", (exchange) => this.classify(exchange)],
      "/health/liveness": ["GET", (exchange) => this.liveness(exchange)],
      "/health/readiness": ["GET", (exchange) => this.readiness(exchange)],
    };
    if (path.startsWith(PREFETCH)) ours[path] = ["GET", () => this.prefetch()];
    if (Object.hasOwn(ours, path)) {
      const [expected, endpoint] = ours[path]!;
      if (method !== expected && !(expected === "GET" && method === "HEAD")) {
        throw new MethodNotAllowed(`${path} takes ${expected}, got ${method}.`, expected);
      }
      return endpoint;
    }
    if (targetOf(url) !== null) return (exchange) => this.passThrough(exchange, exchange.request.body);
    throw new NotFound(`There is nothing at ${url.pathname}; the API lies under /v1.`);
  }

  /** `POST /v1/chat/completions`: decide, then answer or forward. */
  private async chat(exchange: Exchange): Promise<Response> {
    let body: Uint8Array;
    try {
      body = await readBody(exchange.request, this.settings.maxBodyBytes);
    } catch (error) {
      if (!(error instanceof RequestTooLarge && this.observing)) throw error;
      exchange.decision = decision("agent", "observe");
      return this.passThrough(exchange, rest(exchange, error));
    }
    exchange.spans.mark("admit");
    const read = this.read(exchange, body);
    if ("path" in read) {
      exchange.decision = read;
      return this.forward(exchange, body);
    }
    const pipeline = await this.host.ready(exchange);
    exchange.bundle = this.host.label;
    if (pipeline === null) exchange.decision = decision("agent", "not_ready");
    else {
      const { query, decided } = await this.decide(pipeline, read.chat, exchange);
      exchange.decision = await this.disclose(pipeline, decided, exchange);
      const { answer } = exchange.decision;
      if (query !== null && answer !== null) return this.answer(exchange, pipeline, answer, query);
    }
    return this.forward(exchange, withModel(body, read, this.settings.models));
  }

  /** The chat body, or the decision to forward it unread. Throws BadRequest. */
  private read(exchange: Exchange, body: Uint8Array): { text: string; chat: Chat } | Decision {
    if (exchange.header(`${OWN_PREFIX}bypass`) === "1") return decision("agent", "bypass");
    if (!["", "identity"].includes(exchange.header("content-encoding")))
      return decision("agent", "client_options");
    try {
      const text = bodyText(body);
      return { text, chat: parseChat(text) };
    } catch (error) {
      // Whoever only watches must not refuse.
      if (!(error instanceof BadRequest && this.observing)) throw error;
      return decision("agent", "observe");
    }
  }

  /** The pipeline's decision; a forward if it fails, because a user must not suffer for our fault. */
  private async decide(
    pipeline: Pipeline,
    chat: Chat,
    exchange: Exchange,
  ): Promise<{ query: Query | null; decided: Decision }> {
    try {
      const query = await queryOfBody(chat, pipeline.runtime.bundle.normaliser, this.user(exchange));
      exchange.spans.mark("query");
      return { query, decided: await pipeline.decide(query, exchange.spans) };
    } catch (error) {
      console.error(
        `The request ${exchange.requestId} could not be decided on, and is forwarded. ${trace(error)}`,
      );
      return { query: null, decided: decision("agent", "not_ready") };
    }
  }

  /** The decision as far as the caller may know it: what led to it is the desk's, too. */
  private async disclose(pipeline: Pipeline, decided: Decision, exchange: Exchange): Promise<Decision> {
    if (this.observing && decided.observed !== null && this.isStranger(pipeline, exchange)) {
      return { ...decided, observed: withhold(decided.observed, "unverified_caller") };
    }
    if (decided.answer === null && !exchange.debug) return decided;
    if (await this.mayRead(pipeline, exchange)) return decided;
    exchange.debug = false;
    return decided.answer === null ? decided : withhold(decided, "unverified_caller");
  }

  /** `POST /v1/classify`: readings and decisions, never an upstream call. */
  private async classify(exchange: Exchange): Promise<Response> {
    const body = await readBody(exchange.request, this.settings.maxBodyBytes);
    const pipeline = await this.host.load();
    exchange.bundle = this.host.label;
    if (pipeline === null) throw new NotReady("The bundle is not ready; GET /health/readiness says why.");
    if (!(await this.mayRead(pipeline, exchange))) {
      throw new Unauthorized("This desk is not public, and nothing vouches for the caller's credential.");
    }
    const data = await classify(pipeline, parseObject(bodyText(body)));
    exchange.spans.mark("classify");
    return exchange.respond(200, JSON_TYPE, JSON.stringify({ data, bundle: this.host.label }));
  }

  /** `GET /v1/models`: the upstream's list and our own name; our own name alone without it. */
  private async models(exchange: Exchange): Promise<Response> {
    const ours = { id: OUR_MODEL, object: "model", created: 0, owned_by: "frontdesk" };
    let listed: unknown[] = [];
    try {
      const { status, body } = await this.forwarder.fetch(exchange, {
        ...this.going(exchange, null),
        method: "GET",
      });
      if (status === 401 || status === 403) return exchange.respond(status, JSON_TYPE, body);
      const { data } = JSON.parse(body);
      if (status === 200 && Array.isArray(data) && data.every(isObject)) {
        listed = data.filter(({ id }) => id !== OUR_MODEL);
      }
    } catch (error) {
      // A client that probes us must not fail because the agent is down.
      if (error instanceof ClientLeft) throw error;
    }
    exchange.spans.mark("upstream");
    return exchange.respond(200, JSON_TYPE, JSON.stringify({ object: "list", data: [ours, ...listed] }));
  }

  /** `GET /v1/prefetch/{id}`: the isolate calls no tools, so there is never a result. */
  private async prefetch(): Promise<Response> {
    throw new NotFound("There is no such result.");
  }

  /** 200 while the isolate lives. */
  private async liveness(exchange: Exchange): Promise<Response> {
    exchange.spans.mark("health");
    return exchange.respond(200, JSON_TYPE, '{"status":"ok"}');
  }

  /** 200 once the bundle is loaded, which this waits for; else 503 and why. */
  private async readiness(exchange: Exchange): Promise<Response> {
    const pipeline = await this.host.load();
    exchange.spans.mark("health");
    const { label, error } = this.host;
    const state = pipeline ? { status: "ready", bundle: label } : { status: "bundle_error", message: error };
    return exchange.respond(pipeline ? 200 : 503, JSON_TYPE, JSON.stringify(state));
  }

  /** Any other path under /v1: streamed to the upstream and back, unread. */
  private async passThrough(exchange: Exchange, body: ReadableStream | null): Promise<Response> {
    exchange.decision ??= decision("agent", "bypass");
    return this.relay(exchange, this.going(exchange, body));
  }

  private async answer(
    exchange: Exchange,
    pipeline: Pipeline,
    answer: Answer,
    query: Query,
  ): Promise<Response> {
    const { bundle, router } = pipeline.runtime;
    const completion = {
      id: `chatcmpl-${randomHex(12)}`,
      model: query.model,
      created: unixNow(),
      fingerprint: `frontdesk-${bundle.version}`,
      promptTokens: router.tokens(query.normal, false).length,
    };
    exchange.relayed.stream = query.stream;
    if (!query.stream) {
      const body = completionJson(answer, completion);
      exchange.spans.mark("render");
      return exchange.respond(200, JSON_TYPE, body);
    }
    const body = completionEvents(answer, completion, query.includeUsage);
    exchange.spans.mark("render");
    const extra: [string, string][] = [
      ["cache-control", "no-cache"],
      ["x-accel-buffering", "no"],
    ];
    return exchange.respond(200, EVENTS, body, extra);
  }

  private async forward(exchange: Exchange, body: Uint8Array): Promise<Response> {
    const going = this.going(exchange, body);
    const hints = this.observing ? [] : await hintHeaders(exchange, this.host, body, this.settings.hintsKeys);
    return this.relay(exchange, { ...going, own: [...going.own, ...hints] });
  }

  private async relay(exchange: Exchange, going: Going): Promise<Response> {
    const [response, passed] = await this.forwarder.relay(exchange, going);
    const { relayed, context } = exchange;
    const ended = passed.then(() => this.served(exchange, relayed.status, relayed.outcome));
    // A turn whose budget was too small to wait for the bundle leaves it to the next one.
    context.waitUntil(ended.then(() => this.host.load()));
    return response;
  }

  private going({ url, request, caller, requestId, traceparent }: Exchange, body: Going["body"]): Going {
    // What we tell the upstream besides hints: nothing where we only observe.
    const own: [string, string][] = [
      ["x-request-id", requestId],
      ["traceparent", traceparent],
    ];
    return {
      method: request.method,
      target: targetOf(url) ?? "",
      own: [...(this.observing ? [] : own), ...caller.named],
      body,
      lendKey: caller.lentKey,
      untouched: this.observing,
    };
  }

  /** Who asks, for a sticky share: the named user, else the credential, else the address. */
  private user({ caller: { tenant, user }, headers, request }: Exchange): string {
    if (user || this.settings.identityHeader) return tenant ? `${tenant}/${user}` : user;
    return headers.get("authorization") || peerOf(request);
  }

  /** Whether nobody could vouch for the caller, also if the check URL were asked. */
  private isStranger({ runtime: { bundle } }: Pipeline, { caller }: Exchange): boolean {
    return !(bundle.isPublic || caller.vouched || this.settings.authCheckUrl);
  }

  /** Whether the caller may get this desk's answers. */
  private async mayRead({ runtime: { bundle } }: Pipeline, exchange: Exchange): Promise<boolean> {
    if (bundle.isPublic || exchange.caller.vouched) return true;
    const accepted = await this.identity.accepts(
      exchange.caller,
      exchange.headers.get("authorization") ?? "",
    );
    exchange.spans.mark("auth");
    return accepted;
  }

  private internal(exchange: Exchange, error: unknown): RequestError {
    console.error(`The request ${exchange.requestId} failed. ${trace(error)}`);
    return new RequestError("An internal error; the log has it under this x-request-id.");
  }

  private served(exchange: Exchange, status: number, outcome: string): void {
    if (this.settings.log === "json") exchange.served(status, outcome);
  }
}

/** Where an error happened. Its message may hold words of a user, so it is left out. */
function trace(error: unknown): string {
  if (!(error instanceof Error)) return "";
  const frames = (error.stack ?? "").split("\n").filter((line) => /^\s+at /.test(line));
  return [error.name, ...frames].join("\n");
}
