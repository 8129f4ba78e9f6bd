/** Artifacts: files that a job leaves on purpose. They are owned by their job and go before it goes. */
import type { Duration } from './duration.js';

export interface Artifact {
  readonly id: string;
  readonly jobId: string;
  readonly name: string;
  readonly kind: string;
  readonly contentType: string;
  readonly bytes: number;
  /** SHA-256 of the bytes, in hexadecimal digits. */
  readonly digest: string;
  readonly shortLink: string | null;
  readonly createdAt: Date;
  /** Null: it stays as long as its job. */
  readonly expiresAt: Date | null;
}

export type ArtifactBody = Uint8Array | string | AsyncIterable<Uint8Array>;

export interface ArtifactOptions {
  /** What it is to the application, such as section or cache; `artifact` unless given. */
  kind?: string;
  /** `application/octet-stream` unless given; `text/plain; charset=utf-8` for a text. */
  contentType?: string;
  /** It goes after so long, though its job may stay. */
  ttl?: Duration;
  /**
   * Makes a short text by which it is found without knowing its job: 17 letters and digits (101 bits), or from 8 to 64 of them.
   * Whoever has the link has the artifact, so a shorter one must not be all that protects it.
   */
  shortLink?: boolean | { length: number };
}

export interface Artifacts {
  /** The one of that name; null: there is none, or its ttl is over. */
  get(jobId: string, name: string): Promise<Artifact | null>;
  /** One per name, oldest first. */
  list(jobId: string): Promise<readonly Artifact[]>;
  byLink(shortLink: string): Promise<Artifact | null>;
  /** The bytes, checked against size and digest as they are read: ARTIFACT_CORRUPT instead of an end that is wrong. */
  read(id: string): Promise<AsyncIterable<Uint8Array>>;
  /** False: there is none, or its job is held. */
  remove(id: string): Promise<boolean>;
}
