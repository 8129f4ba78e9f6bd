/** The first ready jobs of several lanes, strictly by priority, dueAt, seq: the heads of lists and sorted sets, merged. */
export const ready = String.raw`
do
local PLAIN_SCORE = 1000 * PRIORITY
local looked, none = {}, {}

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

-- Entries of a list are passed over or taken from its head only, so that what was used of it is a number of entries.
local function listSource(lane, page)
  return {
    lane = lane, key = listOf(lane.name), page = page, buffer = none, first = 1, at = 0,
    stale = 0, used = 0, usedStale = 0, taken = 0,
  }
end
local function sortedSource(lane, page)
  return { lane = lane, key = sortedOf(lane.name), page = page, buffer = none, first = 1, at = 0, gone = {} }
end
-- Who needs one more page needs perhaps many.
local function turnPage(source, came)
  source.at, source.empty = source.at + came, came < source.page
  source.buffer, source.first, source.page = {}, 1, min(500, 4 * source.page)
  return source.buffer
end
-- A job that was removed and came again stands in its list twice.
local function isTaken(id)
  local row = tables.stored(id)
  return row.held ~= nil or row.state ~= nil
end
-- A page of each: one look at the rows of all.
local function fillLists(lists)
  local ids, came = {}, {}
  for s, source in ipairs(lists) do
    local page = call('LRANGE', source.key, source.at, source.at + source.page - 1)
    for i = 1, #page do ids[#ids + 1] = page[i] end
    came[s] = #page
  end
  local rowTexts, mayBeStale = many(JOB, ids), call('EXISTS', STALE) == 1
  if mayBeStale then tables.load(ids) end
  local k = 0
  for s, source in ipairs(lists) do
    local before = source.at
    local buffer = turnPage(source, came[s])
    for i = 1, came[s] do
      k = k + 1
      local text = rowTexts[k]
      if text and rows.isPlain(text) and not (mayBeStale and isTaken(ids[k])) then
        buffer[#buffer + 1] = {
          source = source, id = ids[k], text = text, queue = source.lane.queue, position = before + i, stale = source.stale,
          score = PLAIN_SCORE + number(sub(text, 16, 24)), seq = number(sub(text, 6, 15)),
        }
      else
        source.stale = source.stale + 1
      end
    end
  end
end
local function fillSorted(source)
  local list = call('ZRANGE', source.key, source.at, source.at + source.page - 1, 'WITHSCORES')
  local buffer = turnPage(source, #list / 2)
  for i = 1, #list, 2 do
    local member = list[i]
    buffer[#buffer + 1] = {
      source = source, id = rows.idIn(member), member = member, queue = source.lane.queue, score = tonumber(list[i + 1]),
      seq = rows.seqIn(member),
    }
  end
end
local function headOf(source)
  while source.first > #source.buffer and not source.empty do
    if source.gone then fillSorted(source) else fillLists({ source }) end
  end
  return source.buffer[source.first]
end

-- A heap of sources by their heads: of thousands of lanes, few are looked at for each job.
local function isBefore(a, b)
  if a.score ~= b.score then return a.score < b.score end
  return a.seq < b.seq
end
local function sink(heap, n, i)
  local source = heap[i]
  while 2 * i <= n do
    local child = 2 * i
    if child < n and isBefore(heap[child + 1].head, heap[child].head) then child = child + 1 end
    if not isBefore(heap[child].head, source.head) then break end
    heap[i], i = heap[child], child
  end
  heap[i] = source
end
local function heapOf(lanes, page)
  local heap, lists = {}, {}
  for i, lane in ipairs(lanes) do
    lane.list, lane.sorted = listSource(lane, page), sortedSource(lane, page)
    lists[i] = lane.list
  end
  fillLists(lists)
  for _, lane in ipairs(lanes) do
    for _, source in ipairs({ lane.list, lane.sorted }) do
      source.head = headOf(source)
      if source.head then heap[#heap + 1] = source end
    end
  end
  for i = floor(#heap / 2), 1, -1 do sink(heap, #heap, i) end
  return heap
end
-- Of a queue that has an entry in room at most so many. All lanes of a queue share its room.
function ready.read(kinds, queues, room, limit)
  local lanes = ready.lanes(kinds, queues, room)
  looked = lanes
  local left, found, sorted = {}, {}, {}
  for queue, n in pairs(room) do left[queue] = n end
  local page = max(1, min(limit, 500))
  if #lanes > 2 then page = min(page, 32, 1 + floor(2 * limit / #lanes)) end
  local heap = heapOf(lanes, page)
  local n = #heap
  while #found < limit and n > 0 do
    local source = heap[1]
    local queue = source.lane.queue
    if left[queue] ~= 0 then
      local candidate = source.head
      found[#found + 1] = candidate
      if candidate.member then sorted[#sorted + 1] = candidate.id end
      if left[queue] then left[queue] = left[queue] - 1 end
      source.first = source.first + 1
      source.head = headOf(source)
    end
    if left[queue] == 0 or not source.head then
      heap[1], heap[n] = heap[n], nil
      n = n - 1
    end
    if n > 0 then sink(heap, n, 1) end
  end
  tables.load(sorted)
  for _, candidate in ipairs(found) do
    if candidate.member then candidate.row = tables.live(candidate.id) end
  end
  return found
end
function ready.take(candidate)
  local source = candidate.source
  if candidate.member then
    source.gone[#source.gone + 1] = candidate.member
    pending.leave(candidate.row, candidate.member)
  else
    source.used, source.usedStale, source.taken = candidate.position, candidate.stale, source.taken + 1
  end
end
-- Takes out of the lanes what was taken; a lane from which nothing was is left alone.
local function leaveList(source)
  -- Where all that still stood was taken, the stale entries behind it go too.
  if source.taken == source.at - source.stale then source.used, source.usedStale = source.at, source.stale end
  if source.used > 0 then call('LPOP', source.key, source.used) end
  if source.usedStale > 0 and call('HINCRBY', STALE, source.lane.name, -source.usedStale) <= 0 then
    call('HDEL', STALE, source.lane.name)
  end
end
function ready.finish()
  for _, lane in ipairs(looked) do
    local list, sorted = lane.list, lane.sorted
    leaveList(list)
    spread('ZREM', sorted.key, sorted.gone)
    if list.used > 0 or #sorted.gone > 0 or list.at + sorted.at == 0 then forgetLane(lane.kind, lane.queue) end
  end
  looked = {}
end
end
`;
