/** Sweep: tending, and the removal of finished jobs by age, by count and by the cap, each part bounded. */
export const sweep = String.raw`
local function removeAll(list)
  for _, row in ipairs(list) do removeRow(row) end
  return #list
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

local limit, retentionMs, maxStored = tonumber(arg()), tonumber(arg()), tonumber(arg())
local useCompletedTime = arg() == '1'
local tended = tend()
local more = sweepStale() or tended.more
sweepEvents()
local age, count, byCap = 0, 0, 0
if retentionMs then
  local over, moreOfAge = finished.overAge(retentionMs, useCompletedTime, limit)
  age = removeAll(over)
  count = removeAll(finished.overCount(limit))
  -- The excess is what is left after the age rule; only finished jobs go, so live ones may keep it above the cap.
  tables.flush()
  local excess = maxStored and min(call('HLEN', JOB) - maxStored, limit) or 0
  if excess > 0 then byCap = removeAll(finished.oldest(excess)) end
  finished.trimList()
  if age + count + byCap > 0 then addRun({ name = 'swept' }, 1) end
  more = more or moreOfAge or age == limit or count == limit or byCap == limit
end
local line = close()
return { line, tended.lapsed + tended.expired + age + count + byCap, tended.lapsed, tended.expired, age, count, byCap, more and 1 or 0 }
`;
