/**
 * Claim records: one per claim call; a claim writes no row. Plain jobs that run are named in the text of their claim, until
 * something else than a value becomes of them. Their chunk lists who may know of them, each with the range of numbers that it
 * is about: `first:2 last:2 .epoch` is a claim, `first:2 last:2 =number` a record of endings (finished.ts). What others run
 * under is their fate, `.epoch`, or `~epoch` while they were claimed ahead and have not begun; a sorted set of the claim
 * has them by their place among all of its jobs.
 */
export const claims = String.raw`
do
local records, closed, batches, knowers = {}, {}, {}, {}

local function textOf(epoch) return root .. 'b:' .. epoch end
local function othersOf(epoch) return root .. 'h:' .. epoch end
local function begunOf(epoch) return root .. 'a:' .. epoch end
-- The ids of plain jobs under a claim, as they were when this step began.
local function batchOf(epoch)
  local batch = batches[epoch]
  if batch == nil then
    batch = call('GET', textOf(epoch))
    batches[epoch] = batch
  end
  return batch
end
-- By the text of its epoch; nil: it is over.
function claims.record(epoch)
  local record = records[epoch]
  if record ~= nil then return record or nil end
  local text = call('HGET', CLAIM, epoch)
  if not text then
    records[epoch] = false
    return nil
  end
  local parts = texts(text)
  record = {
    name = epoch, epoch = tonumber(epoch), owner = parts[1], at = tonumber(parts[2]), maxStalls = tonumber(parts[3]),
    aheadFrom = tonumber(parts[4]), queues = { unpack(parts, 6) },
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
  local row = tables.live(id, epoch)
  if row and row.held == epoch then return row end
end
-- Whether a plain job stands in the text of this claim; the row learns it.
local function runsUnder(row, epoch)
  local batch = batchOf(epoch)
  local spot = batch and spotIn(batch, row.id)
  if not spot then return false end
  row.held, row.spot = epoch, spot
  row.isAhead = spot >= claims.record(epoch).aheadFrom and call('SISMEMBER', begunOf(epoch), row.id) == 0
  return true
end
-- What a chunk lists, in 32 parts of its numbers.
local function knowersOf(name, low)
  local parts = knowers[name]
  if not parts then
    parts = {}
    for i = 0, 31 do parts[i] = {} end
    for _, entry in ipairs(call('LRANGE', root .. 'r:' .. name, 0, -1)) do
      local first, last = number(sub(entry, 1, 2)), number(sub(entry, 3, 4))
      local knower = { first = first, last = last, isClaim = byte(entry, 5) == 46, name = sub(entry, 6) }
      for i = floor(first / 32), floor(last / 32) do table.insert(parts[i], knower) end
    end
    knowers[name] = parts
  end
  return parts[floor(low / 32)]
end
-- Completes a plain row that was read: it runs, or it completed at its first attempt, or it waits. under: an epoch to be
-- looked at first, or nil.
function claims.recall(row, under)
  if under and runsUnder(row, under) then return end
  local low = row.seq % 1024
  for _, knower in ipairs(knowersOf(row.about.type .. ':' .. sub(row.seqText, 1, 8), low)) do
    if knower.first <= low and low <= knower.last then
      if knower.isClaim then
        if runsUnder(row, knower.name) then return end
      elseif finished.isIn(tonumber(knower.name), row.id) then
        return finished.recall(row, tonumber(knower.name))
      end
    end
  end
end
-- Keeps what still is: claims that are not over, records that have jobs.
function claims.compact(key)
  local first, left = tonumber(call('HGET', COUNTERS, 'firstEnded')) or 0, {}
  for _, entry in ipairs(call('LRANGE', key, 0, -1)) do
    local name, isClaim = sub(entry, 6), byte(entry, 5) == 46
    if isClaim and call('HEXISTS', CLAIM, name) == 1 or not isClaim and tonumber(name) >= first then left[#left + 1] = entry end
  end
  call('DEL', key)
  spread('RPUSH', key, left)
end
-- A job that runs leaves its claim's text or its claim's set.
function claims.leave(row)
  if row.spot then
    call('SETRANGE', textOf(row.held), row.spot - 1, string.rep(' ', #row.id))
  else
    call('ZREM', othersOf(row.held), row.id)
    call('HDEL', FATE, row.id)
  end
end
-- A plain job that runs is to be an ordinary one.
function claims.change(row)
  claims.leave(row)
  claims.addOthers(row.held, { row.spot, row.id }, { row.id, (row.isAhead and '~' or '.') .. row.held })
  row.spot = nil
end
-- Places and ids, ids and fates, in turn.
function claims.addOthers(epoch, placed, fates)
  spread('ZADD', othersOf(epoch), placed)
  setMany(FATE, fates)
end
-- A record goes when none of its jobs is held any more.
function claims.close(record, n) closed[record.name] = (closed[record.name] or 0) + n end
local function flushClaims()
  for epoch, n in pairs(closed) do
    if call('HINCRBY', OPEN, epoch, -n) <= 0 then
      call('HDEL', OPEN, epoch)
      call('HDEL', CLAIM, epoch)
      call('DEL', textOf(epoch), othersOf(epoch), begunOf(epoch))
      call('ZREM', DUE_BACK, epoch)
    end
  end
  closed = {}
end
flushes[#flushes + 1] = flushClaims
-- Jobs of these queues that a claim holds, counted from the living records.
function claims.running(queues)
  local running = {}
  for _, epoch in ipairs(call('HKEYS', CLAIM)) do
    local record = claims.record(epoch)
    local ours, only = false, #record.queues == 1
    for _, queue in ipairs(record.queues) do ours = ours or queues[queue] end
    if ours then
      for _, id in ipairs(claims.heldIds(record)) do
        local queue = only and record.queues[1] or tables.stored(id, epoch).about.queue
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
      local queue = #record.queues == 1 and record.queues[1] or tables.stored(id, epoch).about.queue
      stalled[queue] = (stalled[queue] or 0) + 1
    end
  end
  return stalled
end
-- Not settled, not lost; in the order in which they were taken.
function claims.heldIds(record)
  local ids, others, spot, o = {}, call('ZRANGE', othersOf(record.name), 0, -1, 'WITHSCORES'), 1, 1
  for _, id in ipairs(names(call('GET', textOf(record.name)) or '')) do
    while others[o] and tonumber(others[o + 1]) <= spot do
      ids[#ids + 1] = others[o]
      o = o + 2
    end
    if byte(id, 1) ~= 32 then ids[#ids + 1] = id end
    spot = spot + #id + 1
  end
  for i = o, #others, 2 do ids[#ids + 1] = others[i] end
  return ids
end
end
`;
