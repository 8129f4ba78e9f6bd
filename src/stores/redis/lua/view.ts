/** A row as the outside sees it: a list of columns, in the order that rows.ts of this store reads. */
import type { KeptName, RunName } from '../../../core/columns.js';
import { viewNames } from './columns.js';

/** What came with the job is shown as it is, the rest by these. */
const ofRun: Record<RunName, string> = {
  seq: 'row.seq',
  state: 'state',
  result: 'row.result or false',
  error: 'changes.error or row.error or false',
  attempts: 'changes.attempts or row.attempts',
  stalls: 'row.stalls',
  progress: 'row.progress or false',
  memo: 'row.memo or false',
  retryOf: 'row.retryOf or false',
  cancelAt: 'row.cancelAt or false',
  cancelReason: 'row.cancelError or false',
  heldUntil: 'row.heldUntil or false',
  heldReason: 'row.heldReason or false',
  createdAt: 'row.createdAt',
  scheduledFor: 'row.dueAt',
  startedAt: 'changes.startedAt or row.startedAt or false',
  completedAt: 'changes.completedAt or row.completedAt or false',
  expiresAt: 'row.expiresAt or false',
  dueAt: 'dueAt or false',
  epoch: 'changes.epoch or row.epoch',
};
const texts: Partial<Record<KeptName | RunName, string>> = ofRun;

export const view = String.raw`
-- The place of the deadline among the columns.
local DUE_AT = ${viewNames.indexOf('dueAt') + 2}
do
local shown, shownList = {}, {}
-- The shapes that an answer names, each once: number, text, …
function view.shape(no)
  if shown[no] then return end
  shown[no] = true
  shownList[#shownList + 1] = no
  shownList[#shownList + 1] = shapeOf(no).text
end
function view.shapes() return shownList end

local function columns(row, state, dueAt, changes)
  view.shape(row.shape)
  return {
    row.shape, ${viewNames.map((name) => texts[name] ?? `row.${name} or false`).join(', ')},
  }
end
-- While a claim holds a job, attempts and startedAt come from the claim: the row is written when the claim is over.
function view.processing(row, record, begun)
  return columns(row, 'processing', claims.dueAt(record), {
    epoch = record.epoch, attempts = row.attempts + (begun and 1 or 0), startedAt = row.startedAt or (begun and record.at) or nil,
  })
end
local none = {}
function view.stateOf(row)
  if row.state then return row.state end
  if row.held and claims.holder(row) then return 'processing' end
  return ending.isExpired(row) and 'expired' or 'pending'
end
function view.of(row)
  local state = view.stateOf(row)
  if row.state then return columns(row, state, nil, none) end
  if state == 'processing' then
    local record, ahead = claims.holder(row)
    return view.processing(row, record, not ahead)
  end
  if state == 'pending' then return columns(row, state, row.dueAt, none) end
  return columns(row, state, nil, { completedAt = row.expiresAt, error = ending.expiry(row) })
end
end
`;
