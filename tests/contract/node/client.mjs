// The real clients of Node, driven by tests/contract/test_node_client.py: one JSON command a line on stdin,
// one JSON reply a line on stdout. What a command leaves open is kept until the next command that ends it, and
// the process lives on, so that it is the client's abort that closes a connection, not the end of the process.
import { createInterface } from "node:readline";
import OpenAI from "openai";

let held; // {rest, abort}: an answer that has begun, or is awaited

const client = ({ url, maxRetries = 0 }) => new OpenAI({ baseURL: `${url}/v1`, apiKey: "sk-client", maxRetries });
const chat = (command) => client(command).chat.completions;
const options = ({ headers }) => ({ headers });

function post({ url, body, headers }, signal) {
  return fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: "Bearer sk-client", ...headers },
    body: JSON.stringify(body),
    signal,
  });
}

const head = (response) => ({ status: response.status, headers: Object.fromEntries(response.headers) });

async function drain(iterator) {
  const parts = [];
  for (let next = await iterator.next(); !next.done; next = await iterator.next()) parts.push(next.value);
  return parts;
}

const commands = {
  async whole(command) {
    const sent = chat(command).create(command.body, options(command));
    const { data, response, request_id } = await sent.withResponse();
    return { data, request_id, ...head(response) };
  },
  async stream(command) {
    const sent = chat(command).create({ ...command.body, stream: true }, options(command));
    const { data, response } = await sent.withResponse();
    return { chunks: await drain(data[Symbol.asyncIterator]()), ...head(response) };
  },
  async helper(command) {
    return chat(command).stream(command.body).finalChatCompletion();
  },
  async parse(command) {
    return chat(command).parse(command.body);
  },
  async models(command) {
    return (await drain(client(command).models.list()[Symbol.asyncIterator]())).map((model) => model.id);
  },
  // A stream's first chunk; the rest is held.
  async open(command) {
    const stream = await chat(command).create({ ...command.body, stream: true }, options(command));
    const iterator = stream[Symbol.asyncIterator]();
    held = {
      rest: () => drain(iterator),
      abort: () => stream.controller.abort(),
      leave: () => iterator.return(), // what `break` in a `for await` does
    };
    return (await iterator.next()).value;
  },
  // A request that nobody has answered yet.
  async ask(command) {
    const controller = new AbortController();
    const answer = chat(command).create(command.body, { signal: controller.signal });
    answer.catch(() => {}); // it is awaited in `abort`, perhaps after it failed
    held = {
      abort: async () => {
        controller.abort();
        await answer;
      },
    };
  },
  async fetch(command) {
    const response = await post(command);
    return { ...head(response), body: await response.json() };
  },
  async fetchText(command) {
    const response = await post(command);
    return { ...head(response), body: await response.text() };
  },
  async fetchOpen(command) {
    const controller = new AbortController();
    const response = await post(command, controller.signal);
    const iterator = response.body.pipeThrough(new TextDecoderStream())[Symbol.asyncIterator]();
    held = { rest: async () => (await drain(iterator)).join(""), abort: () => controller.abort() };
    return { ...head(response), body: (await iterator.next()).value };
  },
  rest: () => held.rest(),
  abort: () => held.abort(),
  leave: () => held.leave(),
};

function shown(error) {
  const { name, message, status, code, type, param, requestID } = error;
  const headers = error.headers ? Object.fromEntries(error.headers) : {};
  const isA = [];
  for (let at = Object.getPrototypeOf(error); at; at = Object.getPrototypeOf(at)) isA.push(at.constructor.name);
  return { name, message, status, code, type, param, request_id: requestID, headers, is_a: isA };
}

for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line);
  let reply;
  try {
    reply = { value: (await commands[command.name](command)) ?? null };
  } catch (error) {
    reply = { error: shown(error) };
  }
  process.stdout.write(`${JSON.stringify(reply)}\n`);
}
