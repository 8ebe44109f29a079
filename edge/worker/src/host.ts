// What an isolate serves: the pipeline once its bundle is loaded, or the reason why it is not (edge/host.py).

import { type BundleFiles, loadBundle } from "./bundle";
import type { Answering } from "./config";
import { BundleError } from "./errors";
import type { Exchange } from "./exchange";
import { Pipeline } from "./pipeline";
import { loadRouter } from "./router";

// The router's part of the budget (800 of 2,000 ms), and what loading takes: a first turn that has less goes on.
const LOAD_SHARE = 0.4;
const LOAD_MS = 500;

/** Holds the pipeline. Until `load` has ended well, turns are forwarded as `not_ready`. */
export class Host {
  pipeline: Pipeline | null = null;
  error: string | null = null;
  private loading: Promise<void> | null = null;

  constructor(
    private readonly files: BundleFiles,
    private readonly wasm: WebAssembly.Module,
    private readonly answering: Answering,
  ) {}

  /** `name@version` of the bundle, "" without one. */
  get label(): string {
    return this.pipeline?.runtime.bundle.label ?? "";
  }

  /**
   * The pipeline, once the bundle is loaded, which happens once an isolate; null where it cannot be used. Loading
   * waits for nothing outside, so no request that leaves can leave it half done.
   */
  async load(): Promise<Pipeline | null> {
    this.loading ??= this.open();
    await this.loading;
    return this.pipeline;
  }

  /** The pipeline if it is there, or can be within the request's budget. */
  async ready({ budget, spans }: Exchange): Promise<Pipeline | null> {
    if (this.pipeline !== null || LOAD_SHARE * budget.remaining() < LOAD_MS) return this.pipeline;
    await this.load();
    spans.mark("load");
    return this.pipeline;
  }

  private async open(): Promise<void> {
    try {
      const bundle = await loadBundle(this.files);
      const router = await loadRouter(bundle, this.files, this.wasm);
      this.pipeline = new Pipeline({ bundle, router }, this.answering);
    } catch (error) {
      const said =
        error instanceof BundleError ? error.message : `The bundle cannot be used (${String(error)}).`;
      this.error = said;
      console.error(`Every turn is forwarded, because the bundle cannot be used. ${said}`);
    }
  }
}
