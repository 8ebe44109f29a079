// Who asks: named by one of our keys, by a trusted proxy, or vouched for by whoever checks credentials (edge/identity.py).
//
// Never by the body. Where the connection comes from is what Cloudflare says of it in cf-connecting-ip; without
// Cloudflare in front, which `request.cf` tells, nobody is trusted for their address.

import { type Key, NAME, type Settings } from "./config";
import { Unauthorized } from "./errors";
import { isWithin, parseNetwork } from "./networks";

const RETRY_SECONDS = 5; // how long a checked credential is remembered where the check itself failed
const CHECK_TIMEOUT_MS = 2000;
const REMEMBERED = 10_000;
const WARN_MS = 60_000;
// What proxies say of whom they ask for.
const PASSED_ON = ["forwarded", "via", "x-forwarded-for", "x-real-ip"];
const LOOPBACK = ["127.0.0.0/8", "::1/128"].map(parseNetwork);

/**
 * Who asks; `tenant` and `user` are "" where nobody named them. `vouched`: a key of ours or a trusted proxy names
 * the caller. `lentKey`: the upstream gets our own key. `named`: what a trusted proxy said, for the agent.
 */
export interface Caller {
  readonly tenant: string;
  readonly user: string;
  readonly vouched: boolean;
  readonly lentKey: boolean;
  readonly named: readonly (readonly [string, string])[];
}

export const NOBODY: Caller = { tenant: "", user: "", vouched: false, lentKey: false, named: [] };

/** Where the connection comes from, "" where that cannot be told. */
export function peerOf(request: Request): string {
  return request.cf === undefined ? "" : (request.headers.get("cf-connecting-ip") ?? "");
}

/** Tells callers apart, as the settings say. */
export class Identity {
  private readonly keys: ReadonlyMap<string, Key>;
  private readonly names: readonly string[];
  private readonly check: CredentialCheck | null;

  constructor(private readonly settings: Settings) {
    this.keys = new Map(settings.keys.map((key) => [key.sha256, key]));
    this.names = [settings.identityHeader, settings.tenantHeader].filter((name) => name !== "");
    const { authCheckUrl, authCheckSeconds } = settings;
    this.check = authCheckUrl ? new CredentialCheck(authCheckUrl, authCheckSeconds) : null;
  }

  /**
   * Who asks, and the headers as the upstream may see them: without a key of ours, and without what names a user
   * but did not come, once, from a trusted proxy. Throws Unauthorized.
   */
  async admit(request: Request): Promise<{ caller: Caller; headers: Headers }> {
    const peer = peerOf(request);
    const named = this.named(request.headers, peer);
    const headers = new Headers(request.headers);
    if (named.size === 0) for (const name of this.namesIn(request.headers)) headers.delete(name);
    // Of a name that came in vain, twice or from anybody, nobody can tell whose it is.
    const isInVain = this.namesIn(request.headers).length > 0;
    const caller = await this.caller(headers, named, peer, isInVain);
    if (this.settings.auth === "keys") headers.delete("authorization");
    return { caller, headers };
  }

  /** Whether somebody vouches for the caller, be it that the check URL has to be asked. */
  async accepts(caller: Caller, authorization: string): Promise<boolean> {
    if (caller.vouched) return true;
    // Of two credentials the agent might judge the other one; they come joined by a comma.
    if (this.check === null || authorization === "" || authorization.includes(",")) return false;
    return this.check.accepts(authorization);
  }

  /** The headers that name a user or tenant, also with underscores: some servers behind us read them as hyphens. */
  private namesIn(headers: Headers): string[] {
    return [...headers.keys()].filter((name) => this.names.includes(name.replaceAll("_", "-")));
  }

  /** What a trusted proxy says of the user, each header once; two that come are joined by a comma. */
  private named(headers: Headers, peer: string): Map<string, string> {
    const none = new Map<string, string>();
    if (!isWithin(peer, this.settings.trustedProxies)) return none;
    const found = this.namesIn(headers);
    const values = found.map((name) => [name, headers.get(name) ?? ""] as const);
    const isOnce =
      found.every((name) => this.names.includes(name)) && values.every(([, v]) => !v.includes(","));
    const tenant = values.find(([name]) => name === this.settings.tenantHeader)?.[1] ?? "none";
    return isOnce && NAME.test(tenant) ? new Map(values.filter(([, value]) => value !== "")) : none;
  }

  private async caller(
    headers: Headers,
    named: Map<string, string>,
    peer: string,
    isInVain: boolean,
  ): Promise<Caller> {
    const { auth, identityHeader, tenantHeader } = this.settings;
    const user = named.get(identityHeader) ?? "";
    const tenant = named.get(tenantHeader) ?? "";
    const told = [...named];
    if (auth === "keys") {
      const key = await this.key(headers.get("authorization") ?? "");
      const name = user || (isInVain ? "" : key.id);
      return { tenant: key.tenant, user: name, vouched: true, lentKey: true, named: told };
    }
    if (auth === "proxy" && user === "") {
      throw new Unauthorized(
        `The proxy in front did not say who asks: the header ${identityHeader} must come once, from an address ` +
          "among trusted_proxies.",
      );
    }
    const isLocal = isWithin(peer, LOOPBACK) && !PASSED_ON.some((name) => headers.has(name));
    const lentKey = user !== "" || (identityHeader === "" && isLocal);
    return { tenant, user, vouched: user !== "", lentKey, named: told };
  }

  private async key(authorization: string): Promise<Key> {
    const [, presented] = /^bearer (.*)$/i.exec(authorization) ?? [];
    const key = presented && this.keys.get(await sha256(presented.trim()));
    if (!key) {
      throw new Unauthorized(
        "The API key is missing or wrong: send 'authorization: Bearer …' with a key of this server.",
      );
    }
    if (key.validUntil !== null && new Date().toISOString().slice(0, 10) > key.validUntil) {
      throw new Unauthorized(`The API key '${key.id}' was valid until ${key.validUntil}; ask for a new one.`);
    }
    return key;
  }
}

/** Asks a URL about a credential: 2xx accepts it. Answers are remembered for `seconds`, in this isolate. */
class CredentialCheck {
  private readonly known = new Map<string, { until: number; accepted: boolean }>();
  private warned = Number.NEGATIVE_INFINITY;

  constructor(
    private readonly url: string,
    private readonly seconds: number,
  ) {}

  /** Whether the URL accepts the credential; false too where it cannot be asked. */
  async accepts(authorization: string): Promise<boolean> {
    const credential = await sha256(authorization); // no secret is kept
    const known = this.known.get(credential);
    if (known !== undefined && Date.now() <= known.until) return known.accepted;
    const accepted = await this.ask(authorization);
    const seconds = accepted === null ? Math.min(this.seconds, RETRY_SECONDS) : this.seconds;
    this.known.delete(credential);
    this.known.set(credential, { until: Date.now() + seconds * 1000, accepted: accepted === true });
    for (const oldest of this.known.keys()) {
      if (this.known.size <= REMEMBERED) break;
      this.known.delete(oldest);
    }
    return accepted === true;
  }

  /** True or false as the URL says; null where it says neither. Only the status is read. */
  private async ask(authorization: string): Promise<boolean | null> {
    try {
      const signal = AbortSignal.timeout(CHECK_TIMEOUT_MS);
      const headers = { authorization, accept: "*/*" };
      const response = await fetch(this.url, { headers, redirect: "manual", signal });
      await response.body?.cancel();
      if (response.ok) return true;
      if (response.status === 401 || response.status === 403) return false;
      this.warn(`answered ${response.status}`);
    } catch (error) {
      this.warn(`cannot be asked (${error instanceof Error ? error.name : "unknown"})`);
    }
    return null;
  }

  /** Says it once a minute, however many credentials there are. */
  private warn(what: string): void {
    if (Date.now() - this.warned < WARN_MS) return;
    this.warned = Date.now();
    console.warn(`The auth check URL ${what}; turns are forwarded.`);
  }
}

/** The SHA-256 of a header's value, whose characters are its bytes. */
async function sha256(text: string): Promise<string> {
  const bytes = Uint8Array.from(text, (char) => char.charCodeAt(0));
  const digest = await crypto.subtle.digest("SHA-256", bytes);
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
