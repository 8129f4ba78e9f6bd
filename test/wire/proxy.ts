/** A wire between a process and its server that can be tampered with, one kind of fault at a time. */
import { connect, createServer, type Server, type Socket } from 'node:net';

export type Fault =
  /** Both ends are told at once that the connection is gone. */
  | 'reset'
  /** Nothing that is sent arrives any more, in either direction, and nobody is told. */
  | 'swallow'
  /** The server's end is closed; the process is not told, and what it sends goes nowhere. */
  | 'half-open'
  /** The next answer is lost, although the server has done what it was asked: the process is cut off instead. */
  | 'lost reply';

export const kindsOfFaults: readonly Fault[] = ['reset', 'swallow', 'half-open', 'lost reply'];

interface Wire {
  readonly near: Socket;
  readonly far: Socket;
  /** What is done to it. */
  fault: Fault | null;
}

export class Proxy implements AsyncDisposable {
  readonly #server: Server;
  readonly #wires = new Set<Wire>();
  /** The next of these to be answered is cut off. */
  #awaiting: { readonly wires: ReadonlySet<Wire>; readonly done: () => void } | null = null;

  private constructor(server: Server, port: number) {
    this.#server = server;
    server.on('connection', (near) => this.#join(near, connect({ port, host: '127.0.0.1' })));
  }

  static async before(port: number): Promise<Proxy> {
    const server = createServer();
    const proxy = new Proxy(server, port);
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return proxy;
  }

  /** The same URL, by way of this proxy. */
  urlFor(url: string): string {
    const made = new URL(url);
    made.host = `127.0.0.1:${(this.#server.address() as { port: number }).port}`;
    return made.href;
  }

  get connections(): number {
    return [...this.#wires].filter(({ fault }) => fault === null).length;
  }

  #join(near: Socket, far: Socket): void {
    const wire: Wire = { near, far, fault: null };
    this.#wires.add(wire);
    near.setNoDelay(true);
    far.setNoDelay(true);
    near.on('data', (bytes) => void (wire.fault === null && far.write(bytes)));
    far.on('data', (bytes) => this.#answer(wire, bytes));
    const over = (): void => {
      // A connection that is tampered with stays as it is: nobody is told.
      if (wire.fault !== null) return;
      this.#wires.delete(wire);
      near.destroy();
      far.destroy();
    };
    for (const end of [near, far]) {
      end.on('error', over);
      end.on('close', over);
    }
  }

  #answer(wire: Wire, bytes: Buffer): void {
    if (wire.fault !== null) return;
    if (!this.#awaiting?.wires.has(wire)) return void wire.near.write(bytes);
    const { done } = this.#awaiting;
    this.#awaiting = null;
    this.#cut(wire);
    done();
  }

  #cut(wire: Wire): void {
    this.#wires.delete(wire);
    wire.near.resetAndDestroy();
    wire.far.resetAndDestroy();
  }

  /** Does it to every connection that is open now; later ones are sound. Resolves when it has happened. */
  async inflict(fault: Fault): Promise<void> {
    const open = [...this.#wires].filter((wire) => wire.fault === null);
    if (fault === 'lost reply')
      return new Promise((done) => {
        this.#awaiting = { wires: new Set(open), done };
      });
    for (const wire of open) {
      if (fault === 'reset') this.#cut(wire);
      else wire.fault = fault;
      if (fault === 'half-open') wire.far.resetAndDestroy();
    }
  }

  /** What was silently lost is let go of, so that the server can count its connections. */
  forget(): void {
    for (const wire of this.#wires) if (wire.fault !== null) this.#cut(wire);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const wire of this.#wires) this.#cut(wire);
    await new Promise((resolve) => this.#server.close(resolve));
  }
}
