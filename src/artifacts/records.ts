/** An artifact or a temporary folder as a job: what its record holds, and how it is read. */
import type { Artifact, ArtifactOptions } from '../core/artifact.js';
import type { BlobInfo, TempFolders } from '../core/blobs.js';
import { whyUnreadable } from '../core/coded.js';
import { show, toMs, yearMs } from '../core/duration.js';
import { LastoutError } from '../core/errors.js';
import { byteLength } from '../core/json.js';
import { checkName } from '../core/names.js';
import { type Asker, isGoing } from '../core/owned.js';
import { farAway, type NewJob, type StoredJob } from '../core/store.js';
import type { System } from '../core/system.js';
import { systemJob } from '../core/system-job.js';
import { ownOptions } from '../core/own-options.js';

export const artifactType = 'lastout.artifact';
export const tempType = 'lastout.temp';

/** A thing whose making was never confirmed is due to go after so long. */
export const intentMs = 3_600_000;

const machineMs = 7 * 86_400_000;
const nameBytesMax = 255;
const contentTypeMax = 255;
/** Of a short link. 17 letters and digits carry 101 bits: more than anybody can try. */
const linkLengths = { min: 8, usual: 17, max: 64 } as const;

export interface ArtifactFields {
  readonly name: string;
  readonly kind: string;
  readonly contentType: string;
  readonly shortLink: string | null;
  readonly ttlMs: number | null;
}

/** Any text may be a name, for it never becomes a path; what would garble a list or a header is refused. */
export function checkArtifactName(name: unknown): string {
  const isText = typeof name === 'string' && name !== '' && name.isWellFormed() && !/\p{Cc}/u.test(name);
  if (isText && byteLength(name) <= nameBytesMax) return name;
  throw new LastoutError(
    'INVALID_ARTIFACT_NAME',
    `The name of the artifact is ${show(name)}; give 1 to ${nameBytesMax} bytes of text without control characters.`,
  );
}

export function readFields(name: string, isText: boolean, given: ArtifactOptions, system: Pick<System, 'token'>) {
  const options = ownOptions(given, ['kind', 'contentType', 'ttl', 'shortLink'], 'The options of artifact.put');
  const { kind = 'artifact', contentType = isText ? 'text/plain; charset=utf-8' : 'application/octet-stream' } =
    options;
  const linkLength = readLinkLength(options.shortLink);
  return {
    name: checkArtifactName(name),
    kind: checkName(kind, 'kind'),
    contentType: checkContentType(contentType),
    shortLink: linkLength === null ? null : system.token(linkLength),
    ttlMs: options.ttl === undefined ? null : checkTtl(options.ttl),
  } satisfies ArtifactFields;
}

/** Null: no link. */
function readLinkLength(shortLink: ArtifactOptions['shortLink']): number | null {
  if (shortLink === undefined || shortLink === false) return null;
  if (shortLink === true) return linkLengths.usual;
  const { min, max } = linkLengths;
  const { length }: { length?: unknown } = ownOptions(shortLink, ['length'], 'shortLink (true, false or { length })');
  if (Number.isInteger(length) && (length as number) >= min && (length as number) <= max) return length as number;
  throw new LastoutError(
    'INVALID_LIMIT',
    `length of shortLink is ${show(length)}; give a number from ${min} to ${max}.`,
  );
}

export function isShortLink(text: unknown): text is string {
  const { min, max } = linkLengths;
  return typeof text === 'string' && text.length >= min && text.length <= max && /^[0-9A-Za-z]*$/.test(text);
}

function checkContentType(contentType: unknown): string {
  if (typeof contentType === 'string' && /^[ -~]+$/.test(contentType) && contentType.length <= contentTypeMax)
    return contentType;
  const message = `contentType is ${show(contentType)}; give something like "image/png", at most ${contentTypeMax} characters.`;
  throw new LastoutError('INVALID_NAME', message);
}

function checkTtl(ttl: unknown): number {
  return toMs(ttl, 'ttl', 'INVALID_TTL', { min: 1, max: yearMs });
}

export function artifactJob(id: string, asker: Asker, fields: ArtifactFields): NewJob {
  const { name, shortLink } = fields;
  const subject = shortLink === null ? null : subjectOf(shortLink);
  return { ...ownedJob(id, asker, artifactType), key: name, subject, input: JSON.stringify(fields) };
}

export function subjectOf(shortLink: string): string {
  return `link:${shortLink}`;
}

/** Its key says under which claim it was made: as long as that lives, it is in use. */
export function tempJob(id: string, asker: Asker, { within, host }: TempPlace): NewJob {
  return { ...ownedJob(id, asker, tempType), key: String(asker.epoch), input: JSON.stringify({ within, host }) };
}

type TempPlace = Pick<TempFolders, 'within' | 'host'>;

/** Where the process that made a temporary folder has made it, see TempFolders. */
export function placeOf({ input }: StoredJob): TempPlace {
  return whyUnreadable(input) === null ? (JSON.parse(input) as TempPlace) : { within: null, host: '' };
}

/** A folder that only its own machine can remove. After a week it is taken for lost with its machine. */
export function isElsewhere(record: StoredJob, { host }: TempPlace, now: number): boolean {
  if (record.type !== tempType || now - record.createdAt >= machineMs) return false;
  const place = placeOf(record);
  return place.within !== null && place.host !== host;
}

function ownedJob(id: string, asker: Asker, type: string): NewJob {
  return systemJob({
    id,
    type,
    when: { inMs: intentMs },
    ownedBy: asker.id,
    under: { id: asker.id, epoch: asker.epoch, owner: asker.owner },
  });
}

/** What a confirmed artifact is; `lastsMs` from its `createdAt`: a due date may be put off, its ttl is not. */
interface ArtifactMemo extends BlobInfo {
  readonly lastsMs: number | null;
}

export function memoOf({ bytes, digest }: BlobInfo, lastsMs: number | null): string {
  return JSON.stringify({ bytes, digest, lastsMs } satisfies ArtifactMemo);
}

/** Null: its bytes were never confirmed, or they are on their way out, or its ttl is over. */
export function readArtifact(record: StoredJob, now: number): Artifact | null {
  const { id, input, memo, ownedBy, createdAt, dueAt, state } = record;
  if (record.type !== artifactType || state !== 'pending' || memo === null || ownedBy === null) return null;
  if (isGoing(record)) return null;
  const why = whyUnreadable(memo) ?? whyUnreadable(input);
  if (why !== null) throw new LastoutError('UNSERIALIZABLE', `Artifact ${id} cannot be read: ${why}`);
  const { bytes, digest, lastsMs } = JSON.parse(memo) as ArtifactMemo;
  const ends = Math.min(dueAt ?? farAway, lastsMs === null ? farAway : createdAt + lastsMs);
  if (ends <= now) return null;
  const { name, kind, contentType, shortLink } = JSON.parse(input) as ArtifactFields;
  return {
    id,
    jobId: ownedBy,
    name,
    kind,
    contentType,
    bytes,
    digest,
    shortLink,
    createdAt: new Date(createdAt),
    expiresAt: ends >= farAway ? null : new Date(ends),
  };
}

/** Of an artifact that was confirmed, and is not on its way out. */
export function sizeOf(record: StoredJob): number {
  const { type, memo } = record;
  if (type !== artifactType || memo === null || isGoing(record) || whyUnreadable(memo) !== null) return 0;
  return (JSON.parse(memo) as ArtifactMemo).bytes;
}
