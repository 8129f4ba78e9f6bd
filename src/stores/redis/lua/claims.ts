/**
 * Claim records: one per claim call. Which job runs under which claim is its fate (rows.ts); a claim writes no row.
 */
export const claims = String.raw`
do
local records, closed = {}, {}

local function idsKey(epoch) return root .. 'b:' .. epoch end
-- By the text of its epoch; nil: it is over.
function claims.record(epoch)
  local record = records[epoch]
  if record ~= nil then return record or nil end
  local text = call('HGET', CLAIM, epoch)
  if not text then
    records[epoch] = false
    return nil
  end
  local parts = {}
  for part in string.gmatch(text, '[^%z]+') do parts[#parts + 1] = part end
  record = {
    name = epoch, epoch = tonumber(epoch), owner = parts[1], at = tonumber(parts[2]), maxStalls = tonumber(parts[3]),
    queues = { unpack(parts, 4) },
  }
  records[epoch] = record
  return record
end
-- The record that holds a claimed row, and whether the row was claimed ahead and has not begun.
function claims.holder(row)
  if not row.held then return nil, false end
  return claims.record(row.held), row.isAhead
end
function claims.dueAt(record)
  record.dueAt = record.dueAt or tonumber(call('ZSCORE', DUE_BACK, record.name))
  return record.dueAt
end
-- The fence: the record lives, it is this owner's, and the job runs under it.
function claims.holds(owner, id, epoch)
  local record = claims.record(epoch)
  if not record or record.owner ~= owner then return nil end
  local row = tables.live(id)
  if row and row.held == epoch then return row end
end
-- A record goes when none of its jobs is held any more.
function claims.close(record, n) closed[record.name] = (closed[record.name] or 0) + n end
local function flushClaims()
  for epoch, n in pairs(closed) do
    if call('HINCRBY', OPEN, epoch, -n) <= 0 then
      call('HDEL', OPEN, epoch)
      call('HDEL', CLAIM, epoch)
      call('DEL', idsKey(epoch))
      call('ZREM', DUE_BACK, epoch)
    end
  end
  closed = {}
end
flushes[#flushes + 1] = flushClaims
function claims.add(epoch, owner, maxStalls, dueAt, ids, queues)
  call('HSET', CLAIM, epoch, concat({ owner, whole(now), maxStalls, concat(queues, '\0') }, '\0'))
  call('HSET', OPEN, epoch, #ids)
  call('SET', idsKey(epoch), concat(ids, ','))
  call('ZADD', DUE_BACK, dueAt, epoch)
end
-- Jobs of these queues that a claim holds, counted from the living records.
function claims.running(queues)
  local running = {}
  for _, epoch in ipairs(call('HKEYS', CLAIM)) do
    local record = claims.record(epoch)
    local ours, only = false, #record.queues == 1
    for _, queue in ipairs(record.queues) do ours = ours or queues[queue] end
    if ours then
      for _, id in ipairs(claims.heldIds(record)) do
        local queue = only and record.queues[1] or tables.stored(id).about.queue
        running[queue] = (running[queue] or 0) + 1
      end
    end
  end
  return running
end
-- Jobs of lapsed claims, by queue.
function claims.stalled()
  local stalled = {}
  for _, epoch in ipairs(call('ZRANGEBYSCORE', DUE_BACK, '-inf', now, 'LIMIT', 0, 1000)) do
    local record = claims.record(epoch)
    for _, id in ipairs(record and claims.heldIds(record) or {}) do
      local queue = #record.queues == 1 and record.queues[1] or tables.stored(id).about.queue
      stalled[queue] = (stalled[queue] or 0) + 1
    end
  end
  return stalled
end
-- Not settled, not lost.
function claims.heldIds(record)
  local ids, held = names(call('GET', idsKey(record.name)) or ''), {}
  for i, fate in ipairs(many(FATE, ids)) do
    if fate and sub(fate, 14) == record.name then held[#held + 1] = ids[i] end
  end
  return held
end
end
`;
