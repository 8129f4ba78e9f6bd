/**
 * Fences of subjects: a hash of their end, their beginning and the error of what they end, and the order in which a sweep looks
 * behind them.
 */
import { farAway } from '../../../core/store.js';
import { firstLookMs } from '../../../core/subject.js';

export const fences = String.raw`
do
local isAny
-- Mostly there is none: one look a script.
function fences.any()
  if isAny == nil then isAny = call('EXISTS', FENCES) == 1 end
  return isAny
end
-- Of the fence that stands: its end, its beginning, its error.
function fences.standing(subject)
  local text = subject and fences.any() and call('HGET', FENCES, subject)
  if not text then return nil end
  local untilAt, at, error = match(text, '^(%d+),(%d+),(.*)$')
  if tonumber(untilAt) <= now then return nil end
  return tonumber(untilAt), tonumber(at), error
end
-- True: the pending job was ended. The library's own jobs are there to end things, and go on.
function fences.ends(row)
  if row.about.queue == 'lastout' then return false end
  local untilAt, _, error = fences.standing(row.subject)
  if not untilAt then return false end
  ending.endPending(row, 'cancelled', { error = error })
  return true
end
end
`;

/** Arguments: the subject, how long ('': until it is lifted), the error ('': lift it). */
export const pauseSubject = String.raw`
local subject, forMs, error = arg(), tonumber(arg()), arg()
local standing = tonumber(match(call('HGET', FENCES, subject) or '0', '^%d+'))
if error == '' then
  call('HDEL', FENCES, subject)
  call('ZREM', FENCE_DUE, subject)
  return standing > now and { whole(now), whole(standing) } or {}
end
local untilAt = max(standing, forMs and min(now + forMs, ${farAway}) or ${farAway})
call('HSET', FENCES, subject, whole(untilAt) .. ',' .. whole(now) .. ',' .. error)
call('ZADD', FENCE_DUE, whole(min(now + ${firstLookMs}, untilAt)), subject)
return { whole(now), whole(untilAt) }
`;

export const collectFenced = String.raw`
local FENCES_MAX = 100
-- Looks behind the fences that are due for it: how many jobs ended, at most limit, and whether there is more to do.
local function collectFenced(limit)
  local n, due = 0, call('ZRANGEBYSCORE', FENCE_DUE, '-inf', now, 'LIMIT', 0, FENCES_MAX)
  for _, subject in ipairs(due) do
    local untilAt, at = fences.standing(subject)
    if untilAt then
      local found = search({ subject = subject, stateSet = { pending = true }, limit = limit - n })
      for _, row in ipairs(found) do fences.ends(row) end
      n = n + #found
      -- What a look does not reach is ended when it is claimed.
      if n >= limit then return n, true end
      call('ZADD', FENCE_DUE, whole(min(now + max(${firstLookMs}, now - at), untilAt)), subject)
    else
      call('HDEL', FENCES, subject)
      call('ZREM', FENCE_DUE, subject)
    end
  end
  return n, #due == FENCES_MAX
end
`;
