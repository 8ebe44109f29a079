// What wrangler makes of imported files: see [[rules]] in wrangler.toml.

declare module "*.wasm" {
  const module: WebAssembly.Module;
  export default module;
}
declare module "*.onnx" {
  const data: ArrayBuffer;
  export default data;
}
declare module "*.jsonl" {
  const data: ArrayBuffer;
  export default data;
}
declare module "*/frontdesk.json" {
  const data: ArrayBuffer;
  export default data;
}
declare module "*/tokenizer.json" {
  const data: ArrayBuffer;
  export default data;
}
