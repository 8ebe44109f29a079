// Reads {patterns, texts} on stdin and prints, for each pattern and text, every match with its groups.
import fs from "node:fs";

const { patterns, texts } = JSON.parse(fs.readFileSync(0, "utf8"));
const matches = (regex, text) =>
  [...text.matchAll(regex)].map((m) => [m.index, ...m.slice(0).map((group) => group ?? null)]);
const found = patterns.map((pattern) => {
  const regex = new RegExp(pattern, "gu");
  return texts.map((text) => matches(regex, text));
});
console.log(JSON.stringify(found));
