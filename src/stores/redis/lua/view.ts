/** A row as the outside sees it: a list of columns, in the order that rows.ts of this store reads. */
export const view = String.raw`
-- The place of the last deadline among the columns.
local DUE_AT = 25
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
    row.seq, row.id, row.shape, state, row.priority, row.input, row.result or false, changes.error or row.error or false,
    changes.attempts or row.attempts, row.stalls, row.subject or false, row.key or false, row.exclusiveKey or false,
    row.metadata or false, row.progress or false, row.memo or false, row.retryOf or false, row.cancelAt or false,
    row.cancelError or false, row.createdAt, row.dueAt, changes.startedAt or row.startedAt or false,
    changes.completedAt or row.completedAt or false, row.expiresAt or false, dueAt or false, changes.epoch or row.epoch,
    row.ownedBy or false, row.heldUntil or false, row.heldReason or false,
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
