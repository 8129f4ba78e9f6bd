/**
 * The three places of pending jobs, and the turns of exclusive keys. Plain jobs that are ready stand in the LIST of
 * their lane, and nothing is ever taken out of its middle: an entry whose row is no longer a plain waiting one is stale,
 * counted, and passed over when it comes to the head. All others stand in sorted sets.
 */
export const pending = String.raw`
local READY, LATER_PLACE, BEHIND, CLAIMED = 'ready', 'later', 'behind', 'claimed'

local function listOf(lane) return root .. 'l:' .. lane end
local function sortedOf(lane) return root .. 'z:' .. lane end
local function waitingOf(lane) return root .. 'w:' .. lane end
local function behindOf(row) return root .. 'x:' .. rows.lane(row) .. ':' .. row.exclusiveKey end
local function queuesOf(kind) return root .. 'q:' .. kind end
local function turnField(row) return rows.lane(row) .. ':' .. row.exclusiveKey end
local function slotField(row) return row.about.type .. ':' .. rows.slot(row) end

local laneKnown = {}
local function rememberLane(kind, queue)
  local lane = kind .. ':' .. queue
  if laneKnown[lane] then return end
  laneKnown[lane] = true
  call('SADD', queuesOf(kind), queue)
  call('SADD', LANES, lane)
end
-- A lane that ran empty is forgotten.
local function forgetLane(kind, queue)
  local lane = kind .. ':' .. queue
  if call('EXISTS', listOf(lane), sortedOf(lane)) > 0 then return end
  laneKnown[lane] = nil
  call('SREM', queuesOf(kind), queue)
  if call('EXISTS', waitingOf(lane)) == 0 then call('SREM', LANES, lane) end
end

-- Where a live row stands. A row does not say it: so a claim and a promotion write no row.
function pending.placeOf(row)
  if row.place then return row.place end
  local place = READY
  if row.held then place = CLAIMED
  elseif row.plain then place = READY
  elseif call('ZSCORE', LATER, rows.member(row)) then place = LATER_PLACE
  elseif row.exclusiveKey and call('ZSCORE', behindOf(row), rows.member(row)) then place = BEHIND end
  row.place = place
  return place
end

-- A clock that was set back would break the order of the list.
function pending.mayBeListed() return (tonumber(call('HGET', COUNTERS, 'clock')) or 0) <= now end

function pending.put(row, place)
  row.place = place
  local member, lane = rows.member(row), rows.lane(row)
  if place == LATER_PLACE then
    call('ZADD', LATER, row.dueAt, member)
  elseif place == BEHIND then
    call('ZADD', behindOf(row), rows.score(row), member)
    call('ZADD', waitingOf(lane), row.dueAt, member)
    call('SADD', LANES, lane)
  else
    rememberLane(row.about.type, row.about.queue)
    if row.plain then
      call('RPUSH', listOf(lane), row.id)
      call('HSET', COUNTERS, 'clock', now)
    else
      call('ZADD', sortedOf(lane), rows.score(row), member)
    end
  end
  if row.slotted then call('HSET', SLOT, slotField(row), row.id) end
  if row.expiresAt then call('ZADD', TTL, row.expiresAt, member) end
  pending.watchThing(row)
end
-- What a job owns outside its row, by the instant at which it is due to go.
function pending.watchThing(row)
  if row.ownedBy and row.about.queue == 'lastout' and not row.heldUntil then
    call('ZADD', THINGS, row.dueAt, rows.member(row))
  end
end
function pending.ignoreThing(row)
  if row.ownedBy then call('ZREM', THINGS, rows.member(row)) end
end
-- Out of its place; the row is then claimed until it is put back, finished or dropped.
function pending.take(row)
  local place, member, lane = pending.placeOf(row), rows.member(row), rows.lane(row)
  if place == LATER_PLACE then
    call('ZREM', LATER, member)
  elseif place == BEHIND then
    call('ZREM', behindOf(row), member)
    if call('ZREM', waitingOf(lane), member) == 1 then forgetLane(row.about.type, row.about.queue) end
  elseif row.plain then
    tables.save(row)
    if call('HINCRBY', STALE, lane, 1) >= call('LLEN', listOf(lane)) then
      call('DEL', listOf(lane))
      call('HDEL', STALE, lane)
      forgetLane(row.about.type, row.about.queue)
    end
  else
    call('ZREM', sortedOf(lane), member)
    forgetLane(row.about.type, row.about.queue)
  end
  pending.leave(row, member)
end
function pending.leave(row, member)
  if row.slotted then call('HDEL', SLOT, slotField(row)) end
  if row.expiresAt then call('ZREM', TTL, member) end
  pending.ignoreThing(row)
  row.place = CLAIMED
end

local function rowsOf(members)
  local ids, found = {}, {}
  for i, member in ipairs(members) do ids[i] = rows.idIn(member) end
  tables.load(ids)
  for _, id in ipairs(ids) do
    local row = tables.live(id)
    if row then found[#found + 1] = row end
  end
  return found
end
-- Rows in later that are due, in order of dueAt.
function pending.due(limit)
  return rowsOf(call('ZRANGEBYSCORE', LATER, '-inf', now, 'LIMIT', 0, limit))
end
function pending.nextDueAt()
  local first = call('ZRANGE', LATER, 0, 0, 'WITHSCORES')
  return tonumber(first[2])
end
-- Pending rows past their expiresAt, oldest first.
function pending.expired(limit)
  return rowsOf(call('ZRANGEBYSCORE', TTL, '-inf', now, 'LIMIT', 0, limit))
end
function pending.slotOwner(kind, slot)
  local id = call('HGET', SLOT, kind .. ':' .. slot)
  return id and tables.live(id)
end

function pending.hasTurn(row) return call('HEXISTS', TURN, turnField(row)) == 1 end
function pending.setTurn(row) call('HSET', TURN, turnField(row), row.id) end
function pending.clearTurn(row) call('HDEL', TURN, turnField(row)) end
-- The first row behind the key of this one, by priority, dueAt and seq.
function pending.firstBehind(row)
  local member = call('ZRANGE', behindOf(row), 0, 0)[1]
  return member and tables.live(rows.idIn(member))
end
function pending.count(queue)
  return (tonumber(call('HGET', root .. 'tally', queue .. ':pending')) or 0) + (step.counts[queue .. ':pending'] or 0)
end
-- How many pending jobs of a queue are past their ttl, counted up to the limit. They are swept within seconds.
function pending.expiredIn(queue, limit)
  local n, from = 0, 0
  while n < limit and from < 10000 do
    local members = call('ZRANGEBYSCORE', TTL, '-inf', now, 'LIMIT', from, 500)
    for _, row in ipairs(rowsOf(members)) do
      if row.about.queue == queue and n < limit then n = n + 1 end
    end
    if #members < 500 then return n end
    from = from + 500
  end
  return n
end
`;
