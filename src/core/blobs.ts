/** Where the bytes of artifacts live. Two implementations come with the library; others may be given to `open`. */

export interface BlobInfo {
  readonly bytes: number;
  /** SHA-256, in hexadecimal digits. */
  readonly digest: string;
}

/**
 * Bytes by id. Ids are made by the library: 20 characters of `0-9a-z`, never a name that somebody chose. A blob is whole
 * or not there: `put` shows it only when all of it is stored, as durably as it will ever be.
 */
export interface BlobStore {
  /**
   * Rejects, and leaves nothing, when the chunks reject, when the signal aborts, or when there are more than `maxBytes`
   * (an error with code ARTIFACT_QUOTA).
   */
  put(
    id: string,
    chunks: AsyncIterable<Uint8Array>,
    options: { readonly maxBytes: number; readonly signal: AbortSignal },
  ): Promise<BlobInfo>;
  /** Rejects when there is no such blob. */
  read(id: string): AsyncIterable<Uint8Array>;
  /** Also what a broken `put` left. One that is not there is fine. */
  delete(id: string): Promise<void>;
  /** What was put more than so long ago, also what a broken `put` left. */
  list(olderThanMs: number): AsyncIterable<{ readonly id: string; readonly bytes: number }>;
  /** Bytes of all blobs; may be some seconds old. */
  used(): Promise<number>;
}

/** Folders for the scratch files of running jobs. The same rules as for blobs. */
export interface TempFolders {
  /** What the record of a folder keeps, so that another process can find it. Null: it is where all look. */
  readonly within: string | null;
  /** Kept beside it, and only compared: on which machine, and where there, this process looks. */
  readonly host: string;
  /** The path of a new, empty folder. */
  make(id: string): Promise<string>;
  /** With all that is in it; one that is not there is fine. */
  delete(id: string, within: string | null): Promise<void>;
  list(olderThanMs: number): AsyncIterable<{ readonly id: string }>;
  /** Takes away what was made for this process alone. */
  close(): Promise<void>;
}
