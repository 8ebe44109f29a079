// The isolate's entry: the application with the bundle that is deployed with it.

import wasm from "onnxruntime-web/ort-wasm-simd-threaded.wasm";
import answers from "../../models/demo/answers.jsonl";
import manifest from "../../models/demo/frontdesk.json";
import router from "../../models/demo/onnx/model_quantized.onnx";
import tokenizer from "../../models/demo/tokenizer.json";
import { createApp } from "./src/app";

export default createApp(
  {
    "frontdesk.json": manifest,
    "answers.jsonl": answers,
    "tokenizer.json": tokenizer,
    "onnx/model_quantized.onnx": router,
  },
  wasm,
);
