/**
 * Claim records: one per claim call; a claim writes no row. Plain jobs that run are named in the text of their claim, until
 * something else than a value becomes of them. Their chunk lists who may know of them, each with the range of numbers that it
 * is about: `first:2 last:2 .epoch` is a claim, `first:2 last:2 =number` a record of endings (finished.ts). Only what these
 * themselves say counts: an id that they name is that of the job, because its number is in the range. What others run
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
  local record = claims.record(epoch) -- an audit finds those that have none
  row.held, row.spot = epoch, spot
  row.isAhead = record ~= nil and spot >= record.aheadFrom and call('SISMEMBER', begunOf(epoch), row.id) == 0
  return true
end
-- What a list of knowers says (step.ts).
local function knowersIn(name)
  local list = knowers[name]
  if not list then
    list = call('LRANGE', root .. 'r:' .. name, 0, -1)
    for i, entry in ipairs(list) do
      list[i] = { number(sub(entry, 1, 2)), number(sub(entry, 3, 4)), byte(entry, 5) == 46, sub(entry, 6) }
    end
    knowers[name] = list
  end
  return list
end
-- Whether one of them knows what became of a plain row; the row learns it.
local function recallBy(list, row, low)
  for _, knower in ipairs(list) do
    local first, last, isClaim, name = unpack(knower)
    if first <= low and low <= last then
      if isClaim and runsUnder(row, name) then return true end
      if not isClaim and finished.isIn(tonumber(name), row.id) then
        finished.recall(row, tonumber(name))
        return true
      end
    end
  end
  return false
end
-- Completes a plain row that was read: it runs, or it completed at its first attempt, or it waits. under: an epoch to be
-- looked at first, or nil.
function claims.recall(row, under)
  if under and runsUnder(row, under) then return end
  local low, field = row.seq % 1024, row.about.type .. ':' .. sub(row.seqText, 1, 8)
  if not recallBy(knowersIn(field .. ':' .. sub(row.seqText, 9, 9)), row, low) then recallBy(knowersIn(field), row, low) end
end
-- Keeps what still is: claims that are not over, records that have jobs.
function claims.compact(keys)
  local first = tonumber(call('HGET', COUNTERS, 'firstEnded')) or 0
  for _, key in ipairs(keys) do
    local left = {}
    for _, entry in ipairs(call('LRANGE', key, 0, -1)) do
      local name, isClaim = sub(entry, 6), byte(entry, 5) == 46
      local lives = isClaim and call('HEXISTS', CLAIM, name) == 1 or not isClaim and tonumber(name) >= first
      if lives then left[#left + 1] = entry end
    end
    call('DEL', key)
    spread('RPUSH', key, left)
  end
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
