// Settings: variables and secrets under the names that `frontdesk serve` reads (edge/config.py).

import { ConfigError } from "./errors";
import { type HintsKey, parseKeys } from "./hints";
import { type Network, parseNetwork } from "./networks";

const HEADER_NAME = /^[a-z0-9!#$%&'*+.^`|~-]*$/;
export const NAME = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/;
// What means something else already, to HTTP or to us.
const TAKEN = new Set(
  (
    "accept-encoding authorization connection content-encoding content-length content-type cookie expect " +
    "host keep-alive te trailer traceparent transfer-encoding upgrade x-request-id"
  ).split(" "),
);

/** The grey release of answering itself: `off`, `observe`, or a share of users in [0, 1]. */
export interface Answering {
  readonly mode: "on" | "off" | "observe";
  readonly share: number;
}

/** An API key of ours, known by its SHA-256 alone. `validUntil`: the last day (UTC) that it works. */
export interface Key {
  readonly id: string;
  readonly sha256: string;
  readonly tenant: string;
  readonly validUntil: string | null;
}

/** What the isolate needs to know: see edge/config.py. Times are in seconds but for `budgetMs`. */
export interface Settings {
  readonly upstreamBaseUrl: string;
  readonly upstreamApiKey: string;
  readonly firstByteTimeout: number;
  readonly idleTimeout: number;
  readonly answering: Answering;
  readonly maxBodyBytes: number;
  readonly budgetMs: number;
  readonly auth: "passthrough" | "keys" | "proxy";
  readonly keys: readonly Key[];
  readonly identityHeader: string;
  readonly tenantHeader: string;
  readonly trustedProxies: readonly Network[];
  readonly authCheckUrl: string;
  readonly authCheckSeconds: number;
  readonly models: ReadonlyMap<string, string>;
  readonly hintsKeys: readonly HintsKey[];
  readonly log: "json" | "off";
}

/** The settings of an isolate's variables. Throws ConfigError, which names the variable and the fix. */
export function loadSettings(env: Record<string, unknown>): Settings {
  const read = <T>(name: string, usual: T, parse: (value: string) => T, short?: string): T => {
    for (const variable of short === undefined ? [`FRONTDESK_${name}`] : [`FRONTDESK_${name}`, short]) {
      const value = given(env[variable]);
      if (value === "") continue;
      try {
        return parse(value);
      } catch (error) {
        throw new ConfigError(`The variable ${variable} ${shown(name, value)}: ${(error as Error).message}.`);
      }
    }
    return usual;
  };
  const model = given(env["MODEL_NAME"]);
  const settings: Settings = {
    upstreamBaseUrl: read("UPSTREAM_BASE_URL", "", url, "BASE_URL").replace(/\/+$/, ""),
    upstreamApiKey: read("UPSTREAM_API_KEY", "", secret, "API_KEY"),
    firstByteTimeout: read("UPSTREAM_FIRST_BYTE_TIMEOUT", 600, seconds),
    idleTimeout: read("UPSTREAM_IDLE_TIMEOUT", 60, seconds),
    answering: read<Answering>("ANSWERING", { mode: "on", share: 1 }, answering),
    maxBodyBytes: read("MAX_BODY_BYTES", 1_000_000, whole(1000, 1_000_000_000)),
    budgetMs: read("BUDGET_MS", 2000, whole(1, 3_600_000)),
    auth: read("AUTH", "passthrough", oneOf("passthrough", "keys", "proxy")),
    keys: read<readonly Key[]>("KEYS", [], keys),
    identityHeader: read("IDENTITY_HEADER", "", headerName),
    tenantHeader: read("TENANT_HEADER", "", headerName),
    trustedProxies: read<readonly Network[]>("TRUSTED_PROXIES", LOOPBACK, networks),
    authCheckUrl: read("AUTH_CHECK_URL", "", url),
    authCheckSeconds: read("AUTH_CHECK_S", 60, seconds),
    models: new Map(model ? [["frontdesk", model]] : []),
    hintsKeys: read<readonly HintsKey[]>("HINTS_KEYS", [], parseKeys),
    log: read("LOG", "json", oneOf("json", "off")),
  };
  checkTogether(settings);
  return settings;
}

/** Throw ConfigError for settings that are right alone and wrong together. */
function checkTogether({ auth, keys, identityHeader, tenantHeader }: Settings): void {
  if (auth === "keys" && keys.length === 0) {
    throw new ConfigError(
      "auth is keys, and there is no key: make one with `frontdesk key NAME` and put it into FRONTDESK_KEYS.",
    );
  }
  if (keys.length > 0 && auth !== "keys") {
    throw new ConfigError(`There are keys, and auth is ${auth}: set FRONTDESK_AUTH to keys or remove them.`);
  }
  if (identityHeader && identityHeader === tenantHeader) {
    throw new ConfigError("identity_header and tenant_header are the same: the log must not hold users.");
  }
  if (auth === "proxy" && !identityHeader) {
    throw new ConfigError(
      "auth is proxy: name the header in which the proxy says who asks in FRONTDESK_IDENTITY_HEADER.",
    );
  }
}

/** A variable as a text; what wrangler.toml gives as a number, a truth value or a list, as JSON. */
function given(value: unknown): string {
  if (value === undefined || value === null) return "";
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** What of a wrong value may be shown: keys and passwords may not. */
function shown(name: string, value: string): string {
  if (["UPSTREAM_API_KEY", "KEYS", "HINTS_KEYS"].includes(name)) return "cannot be used";
  return `is ${JSON.stringify(value.replace(/\/\/[^/]*@/, "//***@"))}`;
}

function answering(value: string): Answering {
  if (value === "off" || value === "observe") return { mode: value, share: 0 };
  if (value === "on") return { mode: "on", share: 1 };
  const share = /^[0-9]+(\.[0-9]*)?$/.test(value) ? Number(value) : -1;
  if (!(share >= 0 && share <= 1)) throw new Error("expected off, observe, on or a share between 0 and 1");
  return { mode: "on", share };
}

function secret(value: string): string {
  const text = value.trim(); // files of secrets end in a line break
  if (!/^[!-~]*$/.test(text)) throw new Error("expected printable ASCII without spaces");
  return text;
}

function headerName(value: string): string {
  const name = value.toLowerCase();
  if (!HEADER_NAME.test(name) || TAKEN.has(name) || name.startsWith("x-frontdesk-")) {
    throw new Error("expected a header of its own, without '_', such as x-user");
  }
  return name;
}

function networks(value: string): Network[] {
  const listed = value.startsWith("[") ? JSON.parse(value) : value.split(",");
  if (!Array.isArray(listed)) throw new Error("expected a list of networks such as 10.0.0.0/8");
  return listed.filter((item) => item !== "").map((item) => parseNetwork(String(item).trim()));
}

/** A list of tables with id, sha256, tenant and valid_until, as JSON. */
function keys(value: string): Key[] {
  let listed: unknown;
  try {
    listed = JSON.parse(value);
  } catch {
    throw new Error("expected a JSON list of keys with id, sha256, tenant and valid_until");
  }
  if (!Array.isArray(listed))
    throw new Error("expected a list of keys with id, sha256, tenant and valid_until");
  const found = listed.map((entry, i) => keyOf(entry, i + 1));
  for (const what of ["id", "sha256"] as const) {
    const seen = found.map((key) => key[what]);
    const twice = seen.findIndex((item, i) => seen.indexOf(item) < i);
    if (twice >= 0) throw new Error(`key '${found[twice]!.id}' has the ${what} of an earlier one`);
  }
  return found;
}

function keyOf(entry: Record<string, unknown>, number: number): Key {
  const { id, sha256, tenant = "", valid_until = null, ...others } = entry ?? {};
  const [unknown] = Object.keys(others);
  if (unknown !== undefined)
    throw new Error(`key ${number} has '${unknown}'; it takes id, sha256, tenant and valid_until`);
  if (typeof id !== "string" || !NAME.test(id))
    throw new Error(`key ${number} needs an id of letters, digits, '_', '.' and '-'`);
  if (typeof sha256 !== "string" || !/^[0-9a-f]{64}$/.test(sha256)) {
    throw new Error(`key '${id}' needs the sha256 that \`frontdesk key\` printed: 64 hexadecimal digits`);
  }
  if (typeof tenant !== "string" || !(tenant === "" || NAME.test(tenant))) {
    throw new Error(`key '${id}' needs a tenant of letters, digits, '_', '.' and '-'`);
  }
  if (
    valid_until !== null &&
    (typeof valid_until !== "string" || !/^[0-9]{4}-[0-9]{2}-[0-9]{2}$/.test(valid_until))
  ) {
    throw new Error(`key '${id}' needs a valid_until such as 2027-12-31`);
  }
  return { id, sha256, tenant, validUntil: valid_until };
}

function url(value: string): string {
  const expected = "expected an address such as https://host/v1";
  const address = URL.parse(value);
  if (address === null || !/^https?:[!-~]+$/.test(value)) throw new Error(expected);
  const { username, password, search, hash } = address;
  if (username || password || search || hash || /[?#@]/.test(value)) {
    throw new Error("expected an address without user name, query and fragment");
  }
  return value;
}

function oneOf<T extends string>(...names: T[]): (value: string) => T {
  return (value) => {
    const name = names.find((known) => known === value);
    if (name === undefined) throw new Error(`expected one of ${names.join(", ")}`);
    return name;
  };
}

function whole(low: number, high: number): (value: string) => number {
  return (value) => within(/^[0-9]+$/.test(value) ? Number(value) : Number.NaN, low, high, "whole number");
}

function seconds(value: string): number {
  return within(/^[0-9]+(\.[0-9]*)?$/.test(value) ? Number(value) : Number.NaN, 0.001, 3600, "number");
}

function within(number: number, low: number, high: number, kind: string): number {
  if (!(number >= low && number <= high)) throw new Error(`expected a ${kind} from ${low} to ${high}`);
  return number;
}

const LOOPBACK = networks("127.0.0.0/8,::1/128");
