/** The one door into a finished state, and the ways out of a claim. */
import { replacedText } from '../../../core/replaced.js';

export const ending = String.raw`

local function problem(code, message) return '{"code":"' .. code .. '","message":"' .. message .. '"}' end
ending.replaced = '${replacedText}'
function ending.isExpired(row) return row.expiresAt ~= nil and row.expiresAt <= now end
function ending.expiry(row) return problem('EXPIRED', 'Not started within its ttl of ' .. whole(row.ttlMs) .. ' ms') end

local keepRules = {}
local function keepOf(row, state)
  if not row.about.keeps then return nil end
  local rules = keepRules[row.about]
  if not rules then
    rules = cjson.decode(row.about.policy).keep
    keepRules[row.about] = rules
  end
  return rules[state]
end
-- fields: error (JSON as it is stored), told (JSON as an event shows it), result, at
local function enter(row, state, fields)
  local keep = keepOf(row, state)
  row.state, row.completedAt = state, fields.at or now
  row.error, row.result, row.againAt = fields.error, fields.result, nil
  if keep then
    if keep.ageMs == cjson.null then row.keepMs = -1 else row.keepMs = keep.ageMs end
    row.keepCount = keep.count
  end
  tables.finish(row)
  step.count(row.about.queue, state, 1)
  if row.replaced then finished.countReplaced(row, 1) end
  step.mayExceedCap = true
  step.tell(row.replaced and 'replaced' or state, row, row.attempts, fields.error and (fields.told or fields.error))
end

-- A pending job ends: cancelled, expired, replaced or superseded.
function ending.endPending(row, state, fields)
  place.leave(row)
  step.count(row.about.queue, 'pending', -1)
  enter(row, state, fields)
end
function ending.replace(row)
  row.replaced = true
  ending.endPending(row, 'failed', { error = ending.replaced })
end
-- Ends a pending job that is past its ttl, at the instant it passed it: swept early or late, it reads the same.
function ending.expire(row) ending.endPending(row, 'expired', { error = ending.expiry(row), at = row.expiresAt }) end

-- The claim is over for this job: its epoch becomes the row's, and no later word under it counts.
function ending.leaveClaim(row, kind)
  local record, ahead = claims.holder(row)
  step.count(row.about.queue, 'processing', -1)
  step.countFreed(row.about.queue, 1)
  row.left = kind
  claims.leave(row)
  if row.cancelAt then call('HDEL', CANCELS, row.id) end
  row.held, row.spot, row.isAhead = nil, nil, nil
  if not record then return end
  row.epoch = record.epoch
  -- A job that was claimed ahead has begun if its handler had a last word.
  if not ahead or (kind ~= 'release' and kind ~= 'lapse') then row.startedAt = row.startedAt or record.at end
  claims.close(record, 1)
end
-- A claimed job ends; whatever its handler still says is refused from here on.
function ending.endClaimed(row, kind, state, fields)
  ending.leaveClaim(row, kind)
  if row.exclusiveKey then place.passTurn(row) end
  enter(row, state, fields)
end

-- The pending job in a row's slot. One that is past its ttl is ended first, and then stands in nobody's way.
local function slotOwner(row)
  if not row.slotted then return nil end
  local owner = pending.slotOwner(row.about.type, rows.slot(row))
  if not owner or not ending.isExpired(owner) then return owner end
  ending.expire(owner)
end
-- A claimed job goes back to pending, unless its ttl is over or another job has taken its slot meanwhile.
function ending.backToPending(row, kind, dueAt)
  if ending.isExpired(row) then return ending.endClaimed(row, kind, 'expired', { error = ending.expiry(row) }) end
  local owner = slotOwner(row)
  if owner then
    local message = 'Job ' .. owner.id .. ' took its deduplication slot while it ran'
    return ending.endClaimed(row, kind, 'cancelled', { error = problem('SUPERSEDED', message) })
  end
  ending.leaveClaim(row, kind)
  row.dueAt, row.againAt = dueAt, nil
  step.count(row.about.queue, 'pending', 1)
  tables.save(row)
  place.standAgain(row)
end
`;
