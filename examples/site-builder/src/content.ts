import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { EntityFields } from './entity-service.js';

export interface ContentFile {
  readonly entityType: string;
  readonly id: string;
  readonly fields: EntityFields;
}

/** Reads `<type>/<id>.md`; the first heading is the title. */
export async function readContent(folder: string): Promise<readonly ContentFile[]> {
  const files: ContentFile[] = [];
  for (const entityType of (await readdir(folder)).sort()) {
    for (const name of (await readdir(join(folder, entityType))).sort()) {
      if (!name.endsWith('.md')) continue;
      const id = name.slice(0, -'.md'.length);
      const text = await readFile(join(folder, entityType, name), 'utf8');
      const heading = /^# (.+)\n/.exec(text);
      files.push({
        entityType,
        id,
        fields: { title: heading?.[1] ?? id, body: text.slice(heading?.[0].length ?? 0) },
      });
    }
  }
  return files;
}
