/** Sweep: tending, and the removal of finished jobs by age, by count and by the cap, each part bounded. */
export const sweep = String.raw`
-- Jobs that a rule removes now but that own something: they stay.
local owing = {}
-- How many went, and whether the next rule may act. By count, what is newer counts for the rank of an older one: it does
-- not go before one that still owns something.
local function removeAll(list, why)
  local owes, n = tables.owing(list), 0
  for _, row in ipairs(list) do
    if owes[row.id] then
      owing[#owing + 1] = row.id
    elseif why ~= 'count' or #owing == 0 then
      removeRow(row, why)
      n = n + 1
    end
  end
  return n, #owing == 0
end
-- A lane of which more than half is stale is emptied into its sorted set, part by part.
local function sweepStale()
  local more = false
  for lane, stale in pairs(pairsIn(call('HGETALL', STALE))) do
    local list = listOf(lane)
    local length = call('LLEN', list)
    if tonumber(stale) > 64 and tonumber(stale) * 2 > length then
      local ids, passed = call('LPOP', list, 500) or {}, 0
      tables.load(ids)
      for _, id in ipairs(ids) do
        local row = tables.live(id)
        if row and row.plain and not row.held then
          tables.save(row)
          pending.put(row, READY)
        else
          passed = passed + 1
        end
      end
      if call('HINCRBY', STALE, lane, -passed) <= 0 then call('HDEL', STALE, lane) end
      more = more or length > 500
    end
  end
  return more
end
-- Events older than ten minutes; the newest record stays.
local EVENT_AGE_MS = 600000
local function sweepEvents()
  local n = 0
  while n < 500 and call('LLEN', EVENTS) > 1 do
    local at, told = match(call('LINDEX', EVENTS, 0), '^(%d+),(%d+)')
    if tonumber(at) > now - EVENT_AGE_MS then break end
    call('LPOP', EVENTS)
    call('HINCRBY', COUNTERS, 'eventsHeld', -tonumber(told))
    call('HINCRBY', COUNTERS, 'firstEvent', 1)
    n = n + 1
  end
end

local LIFTED_MAX = 500
local limit, retentionMs, maxStored = tonumber(arg()), tonumber(arg()), tonumber(arg())
local useCompletedTime, holder, ttlMs = arg() == '1', arg(), tonumber(arg())

-- A part acts only when those before it have nothing left to remove, so that in the end exactly the same jobs go.
local function cleanUp()
  local removed, isOver = { age = 0, count = 0, cap = 0 }, nil
  finished.withResults = false
  local list, more = finished.overAge(retentionMs, useCompletedTime, limit)
  removed.age, isOver = removeAll(list, 'age')
  more = more or #list == limit
  if isOver and not more then
    list = finished.overCount(limit)
    removed.count, isOver = removeAll(list, 'count')
    more = #list == limit
  end
  -- The excess is what the other rules left; only finished jobs go, so live ones may keep it above the cap.
  tables.flush()
  local excess = isOver and not more and maxStored and storedTotal() - maxStored or 0
  if excess > 0 then
    list, more = finished.oldest(min(excess, limit))
    removed.cap = removeAll(list, 'cap')
    more = more or #list == limit
  end
  finished.trimList()
  return removed, more
end
-- Owned jobs that are due to go.
local function dueThings()
  local ids = call('ZRANGEBYSCORE', THINGS, '-inf', now, 'LIMIT', 0, limit)
  for i, member in ipairs(ids) do ids[i] = rows.idIn(member) end
  return ids
end

local lifted, tended = holding.liftOver(LIFTED_MAX), tend()
local fenced, moreFenced = collectFenced(limit)
local more = sweepStale() or tended.more or moreFenced or lifted == LIFTED_MAX
sweepEvents()
local no = retentionMs and ttlMs and takeTerm(holder, ttlMs)
local isBusy = retentionMs and ttlMs and not no
local removed, things = { age = 0, count = 0, cap = 0 }, {}
if retentionMs and not isBusy then
  sweepCards()
  local moreToRemove
  removed, moreToRemove = cleanUp()
  things = dueThings()
  more = more or moreToRemove or #things == limit
end
local age, count, byCap = removed.age, removed.count, removed.cap
if age + count + byCap > 0 then addRun({ name = 'swept' }, 1) end
local line = close()
local examined = tended.lapsed + tended.expired + fenced + age + count + byCap + #owing
return {
  line, examined, tended.lapsed, tended.expired, fenced, age, count, byCap, more and 1 or 0, no or -1,
  owing, things,
}
`;
