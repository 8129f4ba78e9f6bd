/** What the demo says on the terminal: at most 100 columns, coloured only where somebody looks. */
export interface Stage {
  title(text: string): void;
  act(number: number, text: string): void;
  /** One thing that happened, with the time since the demo began. */
  tell(icon: Icon, what: string, about?: string): void;
  /** What an act comes to. */
  sum(text: string): void;
  plain(text: string): void;
}

export type Icon = '+' | '·' | '▶' | '✓' | '✗' | '↻';

const codes = { bold: 1, dim: 2, red: 31, green: 32, yellow: 33, cyan: 36 } as const;
const iconColour: { readonly [I in Icon]: keyof typeof codes } = {
  '+': 'cyan',
  '·': 'dim',
  '▶': 'cyan',
  '✓': 'green',
  '✗': 'red',
  '↻': 'yellow',
};
const columns = 100;

export function openStage(out: NodeJS.WriteStream, env: NodeJS.ProcessEnv): Stage {
  const coloured = out.isTTY === true && (env['NO_COLOR'] ?? '') === '';
  const startedAt = performance.now();
  const paint = (colour: keyof typeof codes, text: string): string =>
    coloured ? `\u001b[${codes[colour]}m${text}\u001b[0m` : text;
  const line = (text: string): void => void out.write(`${text}\n`);
  const elapsed = (): string => `${((performance.now() - startedAt) / 1_000).toFixed(2)}s`.padStart(7);
  return {
    title: (text) => line(paint('bold', text)),
    act: (number, text) => line(`\n${paint('bold', `${number}  ${text}`)}`),
    tell(icon, what, about = '') {
      const rest = about.slice(0, columns - 45);
      line(
        `${paint('dim', elapsed())}  ${paint(iconColour[icon], icon)} ${what.padEnd(33)} ${paint('dim', rest)}`.trimEnd(),
      );
    },
    sum: (text) => line(`${' '.repeat(9)}${paint('green', '=')} ${paint('bold', text)}`),
    plain: line,
  };
}
