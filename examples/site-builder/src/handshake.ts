/** A door that a build waits at: `arrived` tells that it is there, `release` lets it go on. Better than any sleep. */
export class Handshake {
  readonly arrived: Promise<void>;
  release!: () => void;
  private arrive!: () => void;
  private readonly released: Promise<void>;

  constructor() {
    this.arrived = new Promise((resolve) => {
      this.arrive = resolve;
    });
    this.released = new Promise((resolve) => {
      this.release = resolve;
    });
  }

  async pass(): Promise<void> {
    this.arrive();
    await this.released;
  }
}
