/** What goes over a wire, as far as it must be understood to lose the answer to a write, and no other. */
import { createHash } from 'node:crypto';
import { scripts } from '../../src/stores/redis/scripts.js';

export const writes = ['insert', 'claim', 'settle'] as const;
export type Write = (typeof writes)[number];

export interface Protocol {
  /** Takes what a process sends: of each request that is whole now, and will be answered, which write it is. */
  requests(): (bytes: Buffer) => readonly (Write | null)[];
  /** Takes what the server sends: of each answer that is whole now, whether it could be one to a write that was done. */
  answers(): (bytes: Buffer) => readonly Answer[];
}

export interface Answer {
  readonly isError: boolean;
  /** Of a claim: it got none. */
  readonly isEmpty: boolean;
}

/** Cuts a stream into messages. `endOf` says where the first one ends, or -1 while it is not whole. */
function messages(endOf: (text: string) => number): (bytes: Buffer) => readonly string[] {
  let rest = '';
  return (bytes) => {
    rest += bytes.toString('latin1');
    const whole: string[] = [];
    for (let end; rest !== '' && (end = endOf(rest)) >= 0; rest = rest.slice(end)) whole.push(rest.slice(0, end));
    return whole;
  };
}

/** https://redis.io/docs/latest/develop/reference/protocol-spec/ */
function endOfValue(text: string, at = 0): number {
  const line = text.indexOf('\r\n', at);
  if (line < 0) return -1;
  const n = Number(text.slice(at + 1, line));
  let end = line + 2;
  if (text[at] === '$' && n >= 0) end += n + 2;
  if (text[at] === '*') for (let i = 0; i < n && end >= 0; i++) end = endOfValue(text, end);
  return end <= text.length ? end : -1;
}

const hashes = writes.map((write) => createHash('sha1').update(scripts[write].text).digest('hex'));

/** Every command has one answer, in order. A connection that listens is told more; it writes nothing. */
export const redisProtocol: Protocol = {
  requests() {
    const cut = messages(endOfValue);
    return (bytes) =>
      cut(bytes).map((command) => writes[hashes.findIndex((hash) => command.slice(0, 100).includes(hash))] ?? null);
  },
  answers() {
    const cut = messages(endOfValue);
    // Its epoch is 0.
    return (bytes) =>
      cut(bytes).map((answer) => ({ isError: answer[0] === '-', isEmpty: answer.includes('*7\r\n$1\r\n0\r\n') }));
  },
};

/** A letter, and four bytes for the length of what follows it. */
function endOfMessage(text: string, at = 0): number {
  if (text.length < at + 5) return -1;
  const end = at + 1 + Buffer.from(text.slice(at + 1, at + 5), 'latin1').readInt32BE();
  return end <= text.length ? end : -1;
}

/** https://www.postgresql.org/docs/current/protocol-message-formats.html: what begins with a Query or ends with a Sync is answered up to ReadyForQuery. */
export const postgresProtocol: Protocol = {
  requests() {
    let greeted = false;
    let write: Write | null = null;
    // The first message has no letter.
    const cut = messages((text) => (greeted ? endOfMessage(text) : endOfMessage(` ${text}`) - 1));
    return (bytes) => {
      const asked: (Write | null)[] = [];
      for (const message of cut(bytes)) {
        const isGreeting = !greeted;
        greeted = true;
        // A statement is named after its function, and so is its text.
        if (!isGreeting && /^[PB]/.test(message)) write = writeIn(message) ?? write;
        if (!isGreeting && !/^[QS]/.test(message)) continue;
        asked.push(write);
        write = null;
      }
      return asked;
    };
  },
  answers() {
    const cut = messages(endOfMessage);
    let letters = '';
    return (bytes) => {
      const answers: Answer[] = [];
      for (const message of cut(bytes)) {
        letters += message[0];
        if (message[0] !== 'Z') continue;
        // The first row is about the step, the others are jobs.
        answers.push({ isError: letters.includes('E'), isEmpty: letters.split('D').length <= 2 });
        letters = '';
      }
      return answers;
    };
  },
};

function writeIn(message: string): Write | null {
  return (/\b(?:lastout_[0-9a-f]+_|\.)(insert|claim|settle)(?:_alike)?_v\d/.exec(message)?.[1] as Write) ?? null;
}
