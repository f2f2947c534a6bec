/**
 * Polyfill of `AsyncDisposableStack` for Node 22, which we support: it has the symbols of explicit resource management
 * but not the stacks. Imported for its side effect before anything opens a resource. Delete it with Node 22.
 */

type Release = () => unknown;

class Stack implements AsyncDisposableStack {
  readonly [Symbol.toStringTag] = "AsyncDisposableStack";
  #releases: Release[] | undefined = [];

  get disposed(): boolean {
    return this.#releases === undefined;
  }

  #open(): Release[] {
    if (this.#releases === undefined) throw new ReferenceError("Expected an open stack, got a disposed one");
    return this.#releases;
  }

  use<T extends AsyncDisposable | Disposable | null | undefined>(value: T): T {
    const releases = this.#open();
    if (value === null || value === undefined) return value;
    const release = Symbol.asyncDispose in value ? value[Symbol.asyncDispose] : value[Symbol.dispose];
    if (typeof release !== "function") throw new TypeError("Expected something disposable");
    releases.push(() => release.call(value));
    return value;
  }

  adopt<T>(value: T, onDispose: (value: T) => PromiseLike<void> | void): T {
    this.#open().push(() => onDispose(value));
    return value;
  }

  defer(onDispose: () => PromiseLike<void> | void): void {
    this.#open().push(onDispose);
  }

  move(): AsyncDisposableStack {
    const next = new Stack();
    next.#releases = this.#open();
    this.#releases = undefined;
    return next;
  }

  /**
   * Disposes in reverse order, all of them even if some fail; then throws the last failure, with the earlier ones
   * nested in it.
   */
  async disposeAsync(): Promise<void> {
    const releases = this.#releases ?? [];
    this.#releases = undefined;
    const failures: unknown[] = [];
    for (const release of releases.toReversed())
      try {
        await release();
      } catch (error) {
        failures.push(error);
      }
    if (failures.length === 1) throw failures[0];
    if (failures.length > 1) throw new AggregateError(failures, "Several resources could not be closed");
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.disposeAsync();
  }
}

const globals: { AsyncDisposableStack?: unknown } = globalThis;
globals.AsyncDisposableStack ??= Stack;
