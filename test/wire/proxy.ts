/** A wire between a process and its server that can be tampered with, one kind of fault at a time. */
import { connect, createServer, type Server, type Socket } from 'node:net';
import type { Protocol, Write } from './protocol.js';

export type Fault =
  /** Both ends are told at once that the connection is gone. */
  | 'reset'
  /** Nothing that is sent arrives any more, in either direction, and nobody is told. */
  | 'swallow'
  /** The server's end is closed; the process is not told, and what it sends goes nowhere. */
  | 'half-open'
  /** The answer to the next write that the server does is lost: the process is cut off instead. */
  | 'lost reply';

export const kindsOfFaults: readonly Fault[] = ['reset', 'swallow', 'half-open', 'lost reply'];

interface Wire {
  readonly near: Socket;
  readonly far: Socket;
  /** What is done to it. */
  fault: Fault | null;
  /** What was asked and is not answered yet. */
  readonly asked: (Write | null)[];
  readonly requests: ReturnType<Protocol['requests']>;
  readonly answers: ReturnType<Protocol['answers']>;
}

export class Proxy implements AsyncDisposable {
  readonly #server: Server;
  readonly #protocol: Protocol;
  readonly #wires = new Set<Wire>();
  /** Whom to tell that the answer to a write was lost. */
  #awaiting: (() => void) | null = null;
  /** The writes that were done and whose answers were lost. */
  readonly lost: Write[] = [];

  private constructor(server: Server, port: number, protocol: Protocol) {
    this.#server = server;
    this.#protocol = protocol;
    server.on('connection', (near) => this.#join(near, connect({ port, host: '127.0.0.1' })));
  }

  static async before(port: number, protocol: Protocol): Promise<Proxy> {
    const server = createServer();
    const proxy = new Proxy(server, port, protocol);
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
    const [requests, answers] = [this.#protocol.requests(), this.#protocol.answers()];
    const wire: Wire = { near, far, fault: null, asked: [], requests, answers };
    this.#wires.add(wire);
    near.setNoDelay(true);
    far.setNoDelay(true);
    near.on('data', (bytes) => {
      if (wire.fault !== null) return;
      wire.asked.push(...requests(bytes));
      far.write(bytes);
    });
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
    const done = this.#doneIn(wire, bytes);
    if (!this.#awaiting || done.length === 0) return void wire.near.write(bytes);
    this.lost.push(...done);
    this.#cut(wire);
    this.#awaiting();
    this.#awaiting = null;
  }

  /** The writes that these bytes say were done. */
  #doneIn({ asked, answers }: Wire, bytes: Buffer): Write[] {
    const done: Write[] = [];
    for (const { isError, isEmpty } of answers(bytes)) {
      const write = asked.shift() ?? null;
      if (write !== null && !isError && !(write === 'claim' && isEmpty)) done.push(write);
    }
    return done;
  }

  #cut(wire: Wire): void {
    this.#wires.delete(wire);
    wire.near.resetAndDestroy();
    wire.far.resetAndDestroy();
  }

  /** Does it to every connection that is open now, a lost reply to one of them; later ones are sound. Resolves when it has happened. */
  async inflict(fault: Fault): Promise<void> {
    const open = [...this.#wires].filter((wire) => wire.fault === null);
    if (fault === 'lost reply')
      return new Promise((done) => {
        this.#awaiting = done;
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
