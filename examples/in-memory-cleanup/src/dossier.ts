import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { defineJob } from 'lastout';

export interface Pitch {
  readonly title: string;
  /** A dossier without a pitch cannot be written: the job fails. */
  readonly pitch: string;
}

export interface Dossier {
  readonly sections: readonly string[];
}

const sections = ['summary', 'market', 'risks'] as const;

/** Turns a pitch into a dossier: a file for each section, one with the whole as a cached result, and scratch files. */
export const dossier = defineJob<Pitch, Dossier>('dossier', {
  attempts: 1,
  async run({ input, artifact, tempDir, signal }) {
    const draft = join(await tempDir(), 'draft.md');
    await writeFile(draft, `# ${input.title}\n`);
    for (const section of sections) {
      signal.throwIfAborted();
      const text = `## ${section}\n\n${input.pitch}\n`;
      await writeFile(draft, text, { flag: 'a' });
      await artifact.put(`${section}.md`, text, { kind: 'section', contentType: 'text/markdown' });
    }
    if (input.pitch === '') throw new Error(`There is no pitch for "${input.title}"`);
    await artifact.put('dossier.md', await readFile(draft), { kind: 'cache', contentType: 'text/markdown' });
    return { sections };
  },
});
