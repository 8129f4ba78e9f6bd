/**
 * How many jobs of a queue may start now. What runs is counted from the living claims, never kept as a number, so that a
 * crash leaks no slot. What started is kept for one window of the rate, in a bounded number of parts.
 */
export const limits = String.raw`
local known
function limits.all()
  if not known then
    known = {}
    local list = call('HGETALL', LIMITS)
    for i = 1, #list, 2 do known[list[i]] = cjson.decode(list[i + 1]) end
  end
  return known
end
local unlimited = {}
function limits.of(queue) return limits.all()[queue] or unlimited end
`;
export const allowances = String.raw`
-- A start may count for up to this part of a window longer than it must: the price of a bounded record.
local PARTS_PER_WINDOW = 50

-- A part of the starts: { from, at, n, aheadAt }. Starts are in the future after the clock was set back; their instants
-- are kept, for when it is right again, and they count from when they were first seen there.
local function startsOf(queue)
  local text = call('HGET', STARTS, queue)
  return text and cjson.decode(text) or {}
end
local function seenAt(part)
  local aheadAt = -1
  if part[2] > now then aheadAt = part[4] >= 0 and min(part[4], now) or now end
  if aheadAt == part[4] then return part, false end
  return { part[1], part[2], part[3], aheadAt }, true
end
local function countsFrom(part) return part[4] >= 0 and part[4] or part[2] end
local function sum(starts)
  local n = 0
  for _, part in ipairs(starts) do n = n + part[3] end
  return n
end

-- Of the queues in question (a set, or nil for all), those whose starts are limited.
function limits.allowances(queues)
  local found, capped, any = {}, {}, false
  for queue, limit in pairs(limits.all()) do
    if (not queues or queues[queue]) and limit.concurrency then
      capped[queue] = true
      any = true
    end
  end
  local running = any and claims.running(capped) or {}
  for queue, limit in pairs(limits.all()) do
    if (not queues or queues[queue]) and (limit.concurrency or limit.max) then
      local allowance = { max = limit.max, perMs = limit.perMs, starts = {}, clockSet = false }
      allowance.slots = limit.concurrency and limit.concurrency - (running[queue] or 0) or math.huge
      for _, kept in ipairs(limit.max and startsOf(queue) or {}) do
        local part, set = seenAt(kept)
        allowance.clockSet = allowance.clockSet or set
        if countsFrom(part) + limit.perMs > now then allowance.starts[#allowance.starts + 1] = part end
      end
      found[queue] = allowance
    end
  end
  return found
end
local function mayStart(allowance)
  local byRate = allowance.max and allowance.max - sum(allowance.starts) or math.huge
  return max(0, min(allowance.slots, byRate))
end
-- How many jobs of a queue a claim may take; a queue without an entry has no limit, a paused one no room.
function limits.room(paused, found)
  local room = {}
  for queue, allowance in pairs(found) do room[queue] = mayStart(allowance) end
  for queue in pairs(paused) do room[queue] = 0 end
  return room
end
-- When the rate lets a job start again; nil: it does now.
function limits.opensAt(allowance)
  if not allowance.max then return nil end
  local counting, at, parts = sum(allowance.starts), nil, {}
  for i, part in ipairs(allowance.starts) do parts[i] = part end
  table.sort(parts, function(a, b) return countsFrom(a) < countsFrom(b) end)
  for _, oldest in ipairs(parts) do
    if counting < allowance.max then break end
    counting = counting - oldest[3]
    at = countsFrom(oldest) + allowance.perMs
  end
  return at
end
-- Why none of its jobs starts now, and until when, or false. A lapsed claim holds no slot any more: the next claim brings
-- it back first.
function limits.blockOf(allowance, stalled)
  if not allowance then return false, false end
  if allowance.slots + stalled <= 0 then return 'concurrency', false end
  local at = limits.opensAt(allowance)
  return at and 'rate' or false, at and whole(at) or false
end
-- Null is no instant.
local function earlier(a, b)
  if not a or not b then return a or b end
  return min(a, b)
end
-- The first instant at which a queue that its rate holds back may go on.
function limits.firstOpening(found)
  local first
  for _, allowance in pairs(found) do first = earlier(first, limits.opensAt(allowance)) end
  return first
end
-- Dated by its last start, a part never counts too short; a rate of few starts needs no parts.
local function withStarts(allowance, n)
  local list, ahead = {}, {}
  for _, part in ipairs(allowance.starts) do
    local into = part[2] <= now and list or ahead
    into[#into + 1] = part
  end
  local last = list[#list]
  local partMs = allowance.max <= PARTS_PER_WINDOW and 0 or allowance.perMs / PARTS_PER_WINDOW
  if not last or now - last[1] > partMs then
    list[#list + 1] = { now, now, n, -1 }
  else
    list[#list] = { last[1], now, last[3] + n, -1 }
  end
  for _, part in ipairs(ahead) do list[#list + 1] = part end
  return list
end
-- Writes down what a claim starts, by queue; what is left is read from the allowances.
function limits.charge(found, started)
  for queue, allowance in pairs(found) do
    local n = started[queue] or 0
    if allowance.max and (n > 0 or allowance.clockSet) then
      if n > 0 then allowance.starts = withStarts(allowance, n) end
      if #allowance.starts == 0 then
        call('HDEL', STARTS, queue)
      else
        call('HSET', STARTS, queue, cjson.encode(allowance.starts))
      end
    end
  end
end
`;
/**
 * Who was opened with limits names the data that have them, and the instant at which limits were last written then. Where
 * those are lost, or came back as they were before, nothing is done until the limits are kept again.
 */
export const sameData = String.raw`
do
  local born, since = match(arg(), '^(.*),(%d+)$')
  if born and (call('GET', root .. 'born') ~= born or (tonumber(call('HGET', COUNTERS, 'limited')) or 0) < tonumber(since)) then
    return redis.error_reply('LOST other data')
  end
end
`;
/**
 * Queues and their limits as JSON, '' for none: those that differ are kept. Without a rate, what started is forgotten. Returns
 * when limits were last written, in numbers that never come again.
 */
export const keepLimits = String.raw`
local any, written = false, tonumber(call('HGET', COUNTERS, 'limited')) or 0
for _ = 1, tonumber(arg()) do
  local queue, wanted = arg(), arg()
  if (call('HGET', LIMITS, queue) or '') ~= wanted then
    any = true
    if wanted == '' then call('HDEL', LIMITS, queue) else call('HSET', LIMITS, queue, wanted) end
    if wanted == '' or not cjson.decode(wanted).max then call('HDEL', STARTS, queue) end
  end
end
if not any then return { '', whole(written) } end
local time = call('TIME')
written = max(time[1] * 1000000 + time[2], written + 1)
call('HSET', COUNTERS, 'limited', whole(written))
step.ready['*'] = true
return { close(), whole(written) }
`;
