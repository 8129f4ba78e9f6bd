/** Read: the event log, the lines of a job, what an owner holds, and how much is due. Nothing is written. */

/** `after` as its two numbers, or -1. Returns the number of the first record, of the record after the last, and records. */
export const readEvents = String.raw`
local fromRecord, limit = tonumber(arg()), tonumber(arg())
local first, length = tonumber(call('HGET', COUNTERS, 'firstEvent')) or 0, call('LLEN', EVENTS)
local firstEver = tonumber(call('HGET', COUNTERS, 'firstEver')) or 0
local records, told = {}, 0
-- Zero names the beginning of a log that was empty when it was asked for.
if fromRecord == 0 and first == firstEver then fromRecord = first end
if fromRecord >= 0 then
  local at = max(0, fromRecord - first)
  -- The first record may have been read in part.
  while told <= limit + 1000 and at < length do
    local record = call('LINDEX', EVENTS, at)
    records[#records + 1] = record
    told = told + tonumber(match(record, '^%d+,(%d+)'))
    if #records > 1 and told > limit then break end
    at = at + 1
  end
end
return { whole(first), whole(first + length), whole(max(fromRecord, first)), records, whole(fromRecord) }
`;
export const readLines = String.raw`
local lines = {}
for i, line in ipairs(call('LRANGE', root .. 'lines:' .. arg(), 0, -1)) do
  local at, message, fields = unpack(cmsgpack.unpack(line))
  lines[i] = { whole(at), message, fields }
end
return lines
`;
export const readClaims = String.raw`
local owner, held = arg(), {}
for _, epoch in ipairs(call('HKEYS', CLAIM)) do
  local record = claims.record(epoch)
  if record.owner == owner then held[#held + 1] = { epoch, claims.heldIds(record) } end
end
return held
`;

/** What is due and unread by the counts: past a ttl and not swept, or due and not promoted. */
export const due = String.raw`
local UNTOLD_MAX = 10000
-- Members that are past their ttl, as rows by member.
function due.expired()
  local over = {}
  local members, ids = call('ZRANGEBYSCORE', TTL, '-inf', now, 'LIMIT', 0, UNTOLD_MAX), {}
  for i, member in ipairs(members) do ids[i] = rows.idIn(member) end
  tables.load(ids)
  for i, member in ipairs(members) do over[member] = tables.live(ids[i]) end
  return over
end
-- Rows in later that are due and not past their ttl.
function due.unpromoted(over)
  local found, members, ids = {}, call('ZRANGEBYSCORE', LATER, '-inf', now, 'LIMIT', 0, UNTOLD_MAX), {}
  for _, member in ipairs(members) do
    if not over[member] then ids[#ids + 1] = rows.idIn(member) end
  end
  tables.load(ids)
  for _, id in ipairs(ids) do found[#found + 1] = tables.live(id) end
  return found
end
local function firstOf(lane)
  local list, from = listOf(lane), 0
  while from < 1000 do
    local ids = call('LRANGE', list, from, from + 9)
    for _, id in ipairs(ids) do
      local row = tables.live(id)
      if row and row.plain and not row.held then return row.dueAt end
    end
    if #ids < 10 then return nil end
    from = from + 10
  end
end
local function firstBeside(over, key, from, to)
  local offset = 0
  while offset < 1000 do
    local page = call('ZRANGEBYSCORE', key, from, to, 'WITHSCORES', 'LIMIT', offset, 10)
    for i = 1, #page, 2 do
      if not over[page[i]] then return tonumber(page[i + 1]) end
    end
    if #page < 20 then return nil end
    offset = offset + 10
  end
end
-- Tells the oldest due job of each lane: read from the heads of the lanes, and in a sorted set from each priority's.
function due.heads(over, see)
  for _, lane in ipairs(call('SMEMBERS', LANES)) do
    local kind, queue = match(lane, '^(.*):(.*)$')
    local plain, behind = firstOf(lane), firstBeside(over, waitingOf(lane), '-inf', '+inf')
    if plain then see(kind, queue, plain) end
    if behind then see(kind, queue, behind) end
    local head = call('ZRANGE', sortedOf(lane), 0, 0, 'WITHSCORES')[2]
    while head do
      local priority = floor(tonumber(head) / PRIORITY)
      local ends = whole((priority + 1) * PRIORITY)
      local score = firstBeside(over, sortedOf(lane), whole(priority * PRIORITY), '(' .. ends)
      if score then see(kind, queue, score - priority * PRIORITY) end
      head = call('ZRANGEBYSCORE', sortedOf(lane), ends, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
    end
  end
end
`;
export const readDue = String.raw`
local kinds, queues, limit = setOf(listArg()), listArg(), tonumber(arg())
local wanted = queues and setOf(queues)
local over, n = due.expired(), 0
local overIn = {}
for _, row in pairs(over) do
  if not call('ZSCORE', LATER, rows.member(row)) then
    overIn[rows.lane(row)] = (overIn[rows.lane(row)] or 0) + 1
  end
end
for _, lane in ipairs(call('SMEMBERS', LANES)) do
  local kind, queue = match(lane, '^(.*):(.*)$')
  if kinds[kind] and (not wanted or wanted[queue]) then
    local stale = tonumber(call('HGET', STALE, lane)) or 0
    n = n + call('LLEN', listOf(lane)) - stale + call('ZCARD', sortedOf(lane)) + call('ZCARD', waitingOf(lane))
    n = n - (overIn[lane] or 0)
  end
end
for _, row in ipairs(due.unpromoted(over)) do
  if kinds[row.about.type] and (not wanted or wanted[row.about.queue]) then n = n + 1 end
end
return min(n, limit)
`;
/** Each lane with due jobs, and how long the oldest has been due. */
export const readLanes = String.raw`
local over, oldest, told = due.expired(), {}, {}
local function see(kind, queue, dueAt)
  local lane = kind .. ':' .. queue
  if not oldest[lane] or dueAt < oldest[lane] then oldest[lane] = dueAt end
end
for _, row in ipairs(due.unpromoted(over)) do see(row.about.type, row.about.queue, row.dueAt) end
due.heads(over, see)
for lane, dueAt in pairs(oldest) do told[#told + 1] = { lane, whole(max(0, now - dueAt)) } end
return told
`;
