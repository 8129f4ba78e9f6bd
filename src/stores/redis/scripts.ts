/** A script per verb, put together from the parts that it needs. */
import type { Script } from './call.js';
import { audit } from './lua/audit.js';
import { cards, keepCard, readCards, sweepCards } from './lua/cards.js';
import { chunks } from './lua/chunks.js';
import { claim, claimVerb, extend, tend } from './lua/claim.js';
import { claims } from './lua/claims.js';
import { ending } from './lua/end.js';
import { collectFenced, fences, pauseSubject } from './lua/fences.js';
import { finished, retention } from './lua/finished.js';
import { full } from './lua/full.js';
import { holding } from './lua/hold.js';
import { insert, insertBatch } from './lua/insert.js';
import { allowances, keepLimits, limits, sameData } from './lua/limits.js';
import { matches } from './lua/matches.js';
import { move, remove } from './lua/move.js';
import { pause, paused } from './lua/pause.js';
import { pending } from './lua/pending.js';
import { place } from './lua/place.js';
import { begin, claimPlain } from './lua/plain-claim.js';
import { insertPlain } from './lua/plain-insert.js';
import { settlePlain, settleShortWay } from './lua/plain-settle.js';
import { plan } from './lua/plan.js';
import { due, readClaims, readDue, readEvents, readLanes, readLines } from './lua/read.js';
import { ready } from './lua/ready.js';
import { rows } from './lua/rows.js';
import { find, findVerb, overdue, scan } from './lua/scan.js';
import { note, settle, settleBatch } from './lua/settle.js';
import { head, keys, log, step } from './lua/step.js';
import { sweep } from './lua/sweep.js';
import { tables } from './lua/tables.js';
import { tally } from './lua/tally.js';
import { closeTerm, readLedger, term } from './lua/term.js';
import { upgrade } from './lua/upgrade.js';
import { view } from './lua/view.js';
import { why } from './lua/why.js';

/** What a function takes from around it costs nothing when the function is made; what stands beside it is searched for. */
function inside(parts: readonly string[]): string[] {
  return ['\nreturn (function()\n', keys, ...parts, '\nend)()\n'];
}

/** A server without memory left still lets work end, which is how it gets some back. */
const allowOom = ' flags=allow-oom';

function writing(name: string, ...parts: readonly string[]): Script {
  return { name, text: [`#!lua${allowOom}\n`, head, sameData, log, step, ...inside(parts)].join('') };
}

function reading(name: string, ...parts: readonly string[]): Script {
  return { name, text: ['#!lua flags=no-writes\n', head, ...inside(parts)].join('') };
}

const stored = [rows, chunks, pending, tables, finished, claims];
const living = [...stored, place, ending];
const inserting = [fences, scan, matches, insert];
const claiming = [limits, allowances, paused, tend, ready, view, claim];
/** For scripts that only look: what they never write they need not gather. */
const lookedAt = ['local flushes, step = {}, { counts = {} }\n', ...stored, ending];

/** The short way comes first: Lua learns the long one, which takes a while, only where it is needed. */
function shortFirst(name: string, flags: string, short: readonly string[], long: readonly string[]): Script {
  return { name, text: [`#!lua${flags}\n`, head, sameData, log, ...short, step, ...inside(long)].join('') };
}

const claimed = '\nlocal claimed = claimPlain()\nif claimed then return { tellPlain(), claimed } end\n';

export const scripts = {
  /** Only what adds jobs is refused by a server that is out of memory. */
  insert: shortFirst('insert', '', [insertPlain], [...living, limits, ...inserting, full, insertBatch]),
  claim: shortFirst('claim', allowOom, [claimPlain, claimed], [...living, fences, ...claiming, claimVerb]),
  extend: writing('extend', begin, claims, keepCard, extend),
  settle: shortFirst(
    'settle',
    allowOom,
    [begin, settlePlain, claimPlain, settleShortWay],
    [...living, ...inserting, settle, ...claiming, settleBatch],
  ),
  sweep: writing(
    'sweep',
    ...[...living, retention, holding, tend, remove, sweepCards, term],
    ...[fences, scan, view, find, collectFenced, sweep],
  ),
  closeTerm: writing('closeTerm', term, closeTerm),
  move: writing('move', ...living, ...inserting, view, find, holding, remove, move),
  dryMove: reading('dryMove', ...lookedAt, place, ...inserting, view, find, holding, remove, move),
  upgrade: writing('upgrade', ...living, upgrade),
  pause: writing('pause', paused, pause),
  pauseSubject: writing('pauseSubject', pauseSubject),
  keepLimits: writing('keepLimits', keepLimits),
  find: reading('find', ...lookedAt, scan, view, find, findVerb),
  tally: reading('tally', ...lookedAt, retention, limits, allowances, paused, due, tally),
  readOverdue: reading('readOverdue', ...lookedAt, scan, view, find, overdue),
  readEvents: reading('readEvents', readEvents),
  readLines: reading('readLines', readLines),
  readClaims: reading('readClaims', ...lookedAt, readClaims),
  readDue: reading('readDue', ...lookedAt, due, readDue),
  readLanes: reading('readLanes', ...lookedAt, due, readLanes),
  readWhy: reading('readWhy', ...lookedAt, limits, allowances, paused, view, cards, why),
  readPlan: reading('readPlan', ...lookedAt, plan),
  readLedger: reading('readLedger', readLedger),
  readAudit: reading('readAudit', ...lookedAt, scan, audit),
  readCards: reading('readCards', cards, readCards),
  note: writing('note', ...stored, note),
} as const satisfies Record<string, Script>;
