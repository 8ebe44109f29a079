// Addresses and networks, IPv4 and IPv6: who may name a user is told by where the connection comes from.

/** A network: an address's bits from the first on, and how many of them count. */
export interface Network {
  readonly bits: bigint;
  readonly prefix: number;
  readonly width: 32 | 128;
}

/** The network of `10.0.0.0/8` or `::1`. Throws an Error that says what is expected. */
export function parseNetwork(text: string): Network {
  const [host, prefixText, ...rest] = text.split("/");
  const address = parseAddress(host ?? "");
  const prefix =
    prefixText === undefined ? address?.width : /^[0-9]{1,3}$/.test(prefixText) ? Number(prefixText) : -1;
  if (address === null || rest.length > 0 || prefix === undefined || prefix < 0 || prefix > address.width) {
    throw new Error("expected networks such as 10.0.0.0/8 or ::1/128");
  }
  const isMapped = address.width === 128 && address.bits >> 32n === 0xffffn;
  if (isMapped) throw new Error("expected IPv4 networks in their own form, such as 10.0.0.0/8");
  if (address.bits & ((1n << BigInt(address.width - prefix)) - 1n)) {
    throw new Error("expected networks such as 10.0.0.0/8; bits behind the prefix are set");
  }
  return { ...address, prefix };
}

/** Whether an address lies in one of the networks. */
export function isWithin(host: string, networks: readonly Network[]): boolean {
  const address = parseAddress(host);
  if (address === null) return false;
  const { bits, width } = unmapped(address);
  return networks.some((net) => {
    const shift = BigInt(net.width - net.prefix);
    return net.width === width && bits >> shift === net.bits >> shift;
  });
}

type Address = Omit<Network, "prefix">;

/** The address, or null where the text is none. */
function parseAddress(text: string): Address | null {
  return text.includes(":") ? parseSix(text) : parseFour(text);
}

function parseFour(text: string): Address | null {
  const parts = text.split(".");
  if (
    parts.length !== 4 ||
    !parts.every((part) => /^(0|[1-9][0-9]{0,2})$/.test(part) && Number(part) < 256)
  ) {
    return null;
  }
  return { bits: parts.reduce((bits, part) => (bits << 8n) | BigInt(part), 0n), width: 32 };
}

function parseSix(text: string): Address | null {
  let head = text;
  const last = text.slice(text.lastIndexOf(":") + 1);
  if (last.includes(".")) {
    const four = parseFour(last);
    if (four === null) return null;
    const groups = [four.bits >> 16n, four.bits & 0xffffn].map((group) => group.toString(16));
    head = text.slice(0, -last.length) + groups.join(":");
  }
  const halves = head.split("::").map((half) => (half === "" ? [] : half.split(":")));
  const [left, right] = halves;
  if (left === undefined || halves.length > 2) return null;
  const missing = 8 - left.length - (right?.length ?? 0);
  if (right === undefined ? missing !== 0 : missing < 1) return null;
  const groups = [...left, ...Array<string>(right === undefined ? 0 : missing).fill("0"), ...(right ?? [])];
  if (!groups.every((group) => /^[0-9a-fA-F]{1,4}$/.test(group))) return null;
  return { bits: groups.reduce((bits, group) => (bits << 16n) | BigInt(`0x${group}`), 0n), width: 128 };
}

/** An IPv4 address that came as ::ffff:1.2.3.4 is one. */
function unmapped(address: Address): Address {
  const isMapped = address.width === 128 && address.bits >> 32n === 0xffffn;
  return isMapped ? { bits: address.bits & 0xffffffffn, width: 32 } : address;
}
