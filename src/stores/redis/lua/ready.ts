/** The first ready jobs of several lanes, strictly by priority, dueAt, seq: the heads of lists and sorted sets, merged. */
export const ready = String.raw`
do
local PLAIN_SCORE = 1000 * PRIORITY
local sources = {}

-- The lanes of these types and queues that may have something ready.
function ready.lanes(kinds, queues, room)
  local lanes, seen = {}, {}
  local function add(kind, queue)
    local lane = kind .. ':' .. queue
    if seen[lane] or room[queue] == 0 then return end
    seen[lane] = true
    lanes[#lanes + 1] = { name = lane, kind = kind, queue = queue }
  end
  for _, kind in ipairs(kinds) do
    if queues == nil then
      for _, queue in ipairs(call('SMEMBERS', queuesOf(kind))) do add(kind, queue) end
    else
      local there = #queues > 8 and setOf(call('SMEMBERS', queuesOf(kind)))
      for _, queue in ipairs(queues) do
        if there and there[queue] or not there and call('SISMEMBER', queuesOf(kind), queue) == 1 then add(kind, queue) end
      end
    end
  end
  return lanes
end

-- A list: entries are passed over or taken from its head only, so that what was used is a number of entries.
local function listSource(lane, page)
  local source = { lane = lane, list = listOf(lane.name), at = 0, stale = 0, used = 0, usedStale = 0, taken = 0 }
  source.buffer, source.first = {}, 1
  local mayBeStale = call('HEXISTS', STALE, lane.name) == 1
  function source.fill()
    while source.first > #source.buffer and not source.empty do
      local ids = call('LRANGE', source.list, source.at, source.at + page - 1)
      source.empty = #ids < page
      source.buffer, source.first = {}, 1
      local rowTexts, fates = many(JOB, ids), mayBeStale and many(FATE, ids) or {}
      for i, id in ipairs(ids) do
        local text = rowTexts[i]
        if text and byte(text, 1) == 80 and not fates[i] then
          source.buffer[#source.buffer + 1] = {
            source = source, id = id, text = text, queue = lane.queue, position = source.at + i, stale = source.stale,
            score = PLAIN_SCORE + number(sub(text, 16, 24)), seq = number(sub(text, 6, 15)),
          }
        else
          source.stale = source.stale + 1
        end
      end
      source.at = source.at + #ids
    end
    return source.buffer[source.first]
  end
  function source.take(candidate)
    source.used, source.usedStale, source.taken = candidate.position, candidate.stale, source.taken + 1
  end
  function source.finish()
    -- Where all that still stood was taken, the stale entries behind it go too.
    if source.taken == source.at - source.stale then source.used, source.usedStale = source.at, source.stale end
    if source.used > 0 then call('LPOP', source.list, source.used) end
    if source.usedStale > 0 and call('HINCRBY', STALE, lane.name, -source.usedStale) <= 0 then
      call('HDEL', STALE, lane.name)
    end
  end
  return source
end
local function sortedSource(lane, page)
  local source = { lane = lane, key = sortedOf(lane.name), at = 0, buffer = {}, first = 1, gone = {}, members = {} }
  function source.fill()
    if source.first > #source.buffer and not source.empty then
      local list = call('ZRANGE', source.key, source.at, source.at + page - 1, 'WITHSCORES')
      source.at, source.empty = source.at + page, #list < 2 * page
      source.buffer, source.first = {}, 1
      for i = 1, #list, 2 do
        local member = list[i]
        source.buffer[#source.buffer + 1] = {
          source = source, id = rows.idIn(member), member = member, queue = lane.queue, score = tonumber(list[i + 1]),
          seq = rows.seqIn(member),
        }
      end
    end
    return source.buffer[source.first]
  end
  function source.take(candidate)
    source.gone[#source.gone + 1] = candidate.member
    pending.leave(candidate.row, candidate.member)
  end
  function source.finish() spread('ZREM', source.key, source.gone) end
  return source
end

local function isBefore(a, b)
  if a.score ~= b.score then return a.score < b.score end
  return a.seq < b.seq
end
-- Of a queue that has an entry in room at most so many, and no more are read.
function ready.read(kinds, queues, room, limit)
  sources = {}
  local lanes, left, found, sorted = ready.lanes(kinds, queues, room), {}, {}, {}
  local page = #lanes <= 2 and max(1, min(limit, 500)) or max(1, min(limit, 32))
  for queue, n in pairs(room) do left[queue] = n end
  local heads = {}
  for _, lane in ipairs(lanes) do
    for _, source in ipairs({ listSource(lane, page), sortedSource(lane, page) }) do
      sources[#sources + 1] = source
      if source.fill() then heads[#heads + 1] = source end
    end
  end
  while #found < limit and #heads > 0 do
    local best = 1
    for i = 2, #heads do
      if isBefore(heads[i].fill(), heads[best].fill()) then best = i end
    end
    local source = heads[best]
    local candidate, queue = source.fill(), source.lane.queue
    found[#found + 1] = candidate
    if candidate.member then sorted[#sorted + 1] = candidate.id end
    source.first = source.first + 1
    if not source.fill() then table.remove(heads, best) end
    if left[queue] then
      left[queue] = left[queue] - 1
      -- All lanes of a queue share its room.
      if left[queue] == 0 then
        for i = #heads, 1, -1 do
          if heads[i].lane.queue == queue then table.remove(heads, i) end
        end
      end
    end
  end
  tables.load(sorted)
  for _, candidate in ipairs(found) do
    if candidate.member then candidate.row = tables.live(candidate.id) end
  end
  return found
end
function ready.take(candidate) candidate.source.take(candidate) end
-- Takes out of the lanes what was taken.
function ready.finish()
  for _, source in ipairs(sources) do source.finish() end
  for _, source in ipairs(sources) do forgetLane(source.lane.kind, source.lane.queue) end
  sources = {}
end
end
`;
