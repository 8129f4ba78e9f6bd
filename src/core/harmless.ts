/** Code of the user's that the library calls, so that nothing it throws or rejects can end the process. */
import type { Logger } from './job.js';

/** Calls it, and hears what it throws or, where it is asynchronous, rejects with. */
export function harmless(call: () => unknown, blame: (error: unknown) => void): void {
  try {
    const answer = call();
    if (isObject(answer)) Promise.resolve(answer).catch(blame);
  } catch (error) {
    blame(error);
  }
}

/** The answer of a call that is meant to be synchronous. One that is a promise is refused elsewhere; who else would hear it reject? */
export function notLate<T>(answer: T): T {
  harmless(
    () => answer,
    () => undefined,
  );
  return answer;
}

const isObject = (value: unknown): boolean =>
  typeof value === 'function' || (typeof value === 'object' && value !== null);

/** What a logger throws must not break what it is told of. There is nobody left to tell. */
export function harmlessLogger(logger: Logger): Logger {
  const tell =
    (level: keyof Logger): Logger['info'] =>
    (message, fields) =>
      harmless(
        // One that prints every argument would print undefined.
        () => (fields === undefined ? logger[level](message) : logger[level](message, fields)),
        () => undefined,
      );
  return { debug: tell('debug'), info: tell('info'), warn: tell('warn'), error: tell('error') };
}

type Listener = ((event: Event) => unknown) | { handleEvent(event: Event): unknown };

/**
 * A signal as code of the user's gets it. Node raises what a listener of `abort` throws as an uncaught exception, which ends
 * the process. It stays the same AbortSignal, so that `fetch` and `AbortSignal.any` take it; of what these make from it, the
 * listeners are not ours to guard.
 */
export function harmlessSignal(signal: AbortSignal, blame: (error: unknown) => void): AbortSignal {
  const guards = new WeakMap<object, Listener>();
  const onAbort = Object.getOwnPropertyDescriptor(AbortSignal.prototype, 'onabort');
  let handler: unknown = null;

  /** The same one each time: a listener is added once, and found again when it is removed. */
  function guarded(listener: Listener): Listener {
    const known = guards.get(listener);
    if (known) return known;
    const guard = function (this: unknown, event: Event): void {
      harmless(
        () => (typeof listener === 'function' ? listener.call(this as never, event) : listener.handleEvent(event)),
        blame,
      );
    };
    guards.set(listener, guard);
    return guard;
  }
  const isListener = (given: unknown): given is Listener =>
    typeof given === 'function' || (typeof given === 'object' && given !== null);
  const method = (name: 'addEventListener' | 'removeEventListener') => ({
    configurable: true,
    writable: true,
    value: (type: string, listener: Listener, options?: EventListenerOptions): void =>
      EventTarget.prototype[name].call(
        signal,
        type,
        (isListener(listener) ? guarded(listener) : listener) as (event: Event) => void,
        options,
      ),
  });
  return Object.defineProperties(signal, {
    addEventListener: method('addEventListener'),
    removeEventListener: method('removeEventListener'),
    onabort: {
      configurable: true,
      get: () => handler,
      set(given: unknown) {
        handler = isListener(given) ? given : null;
        onAbort?.set?.call(signal, typeof given === 'function' ? guarded(given as Listener) : null);
      },
    },
  });
}
