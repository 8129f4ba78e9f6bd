/** Find: which jobs, newest first. Looks at a bounded number of rows and bytes: a page may be short and have a next one. */
import { askedChecks } from './columns.js';

export const scan = String.raw`
local PAGE, LOOKED_ROWS, LOOKED_BYTES = 100, 2000, 8000000
-- Rows that are loaded in one go: what comes with the last one that fits is not much more than fits.
local SLICE = 10

-- Rows by pages of ids, as long as they are asked for. The function gives the ids that follow, newest
-- first; nil: no more.
local function rowsFrom(following, accept)
  local page, at, ready = {}, 0, 0
  return function()
    while true do
      at = at + 1
      if at > #page then
        page, at, ready = following(), 1, 0
        if not page then return nil end
      end
      if at > ready then
        ready = min(#page, ready + SLICE)
        tables.load({ unpack(page, at, ready) })
      end
      local row = page[at] and tables.stored(page[at])
      if row and accept(row) then return row end
    end
  end
end

-- The jobs of these types by their chunks, newest first, below a number.
local function byChunks(kinds, below, live, done)
  local chunk, entries, last = nil, {}, 0
  local from = digits(floor((below - 1) / 1024), 8)
  return function()
    while last == 0 do
      chunk = chunks.newest(kinds, from, live, done)
      if not chunk then return nil end
      entries = chunks.entries(kinds, chunk)
      last = #entries
      while last > 0 and entries[last][1] >= below do last = last - 1 end
      local no = number(chunk)
      if last == 0 and no == 0 then return nil end
      from = no > 0 and digits(no - 1, 8) or '!'
    end
    local ids = {}
    while last > 0 and #ids < PAGE do
      ids[#ids + 1] = entries[last][2]
      last = last - 1
    end
    return ids
  end
end
-- An id may stand for a later job than the entry that names it.
local function inOrder(below)
  local last = below
  return function(row)
    if row.seq >= last then return false end
    last = row.seq
    return true
  end
end
-- The live jobs of a type, newest first. Of a chunk no more is read once all its live ones were met, so that what has
-- ended costs next to nothing. An id may stand for a later job of another type.
function scan.liveOf(kind)
  local accept, from, list, read, left, size = inOrder(math.huge), 'w', nil, 0, 0, 5
  local function following()
    while true do
      if left > 0 then
        local entries, ids = call('LRANGE', list, -read - size, -read - 1), {}
        read, size = read + #entries, min(4 * size, 500)
        for i = #entries, 1, -1 do
          local run = names(sub(entries[i], 3))
          for k = #run, 1, -1 do ids[#ids + 1] = run[k] end
        end
        if #ids > 0 then return ids end
      end
      local chunk = chunks.newest({ kind }, from, true)
      if not chunk then return nil end
      list, read, left = chunks.list(kind, chunk), 0, chunks.liveIn(kind, chunk)
      from = number(chunk) > 0 and digits(number(chunk) - 1, 8) or '!'
    end
  end
  return rowsFrom(following, function(row)
    local isLive = row.about.type == kind and accept(row) and not row.state
    if isLive then left = left - 1 end
    return isLive
  end)
end
`;

export const find = String.raw`
-- Of these ids, which are few, or bounded. Their order is known when all were looked at; of large ones not all are kept
-- until their turn comes.
local function listed(found, below)
  local list, seen, bytes = {}, {}, 0
  for i, id in ipairs(found) do
    if (i - 1) % SLICE == 0 then tables.load({ unpack(found, i, min(#found, i + SLICE - 1)) }) end
    local row = not seen[id] and tables.stored(id)
    seen[id] = true
    if row then
      if row.seq < below then list[#list + 1] = { row.seq, id } end
      bytes = bytes + row.bytes
      if bytes > LOOKED_BYTES then tables.forget(id) end
    end
  end
  table.sort(list, function(a, b) return a[1] > b[1] end)
  local at = 0
  return function()
    at = at + 1
    return list[at] and tables.stored(list[at][2])
  end
end
local function bySets(keys, below)
  local from = below
  local function fill()
    local merged = {}
    for _, key in ipairs(keys) do
      local part = call('ZREVRANGEBYSCORE', key, '(' .. whole(from), '-inf', 'WITHSCORES', 'LIMIT', 0, PAGE)
      for i = 1, #part, 2 do merged[#merged + 1] = { tonumber(part[i + 1]), part[i] } end
    end
    if #keys > 1 then table.sort(merged, function(a, b) return a[1] > b[1] end) end
    local ids = {}
    for i = 1, min(PAGE, #merged) do
      ids[i] = merged[i][2]
      from = merged[i][1]
    end
    return #ids > 0 and ids or nil
  end
  return rowsFrom(fill, inOrder(below))
end
local FEW, TYPES_MAX = 5000, 32
-- Live rows that read as processing, and as expired: few, and found without looking at the others.
local function fewOf(wanted)
  local ids = {}
  if wanted.processing then
    local held = 0
    for _, open in ipairs(call('HVALS', OPEN)) do held = held + tonumber(open) end
    if held > FEW then return nil end
    for _, epoch in ipairs(call('HKEYS', CLAIM)) do
      for _, id in ipairs(claims.heldIds(claims.record(epoch))) do ids[#ids + 1] = id end
    end
  end
  if wanted.expired then
    local over = call('ZRANGEBYSCORE', TTL, '-inf', now, 'LIMIT', 0, FEW + 1)
    if #over > FEW then return nil end
    for _, member in ipairs(over) do ids[#ids + 1] = rows.idIn(member) end
  end
  return ids
end
-- Two lines of rows, newest first, as one.
local function merged(a, b)
  local x, y = a(), b()
  return function()
    local row
    if x and y and x.seq == y.seq then y = b() end
    if x and (not y or x.seq > y.seq) then
      row = x
      x = a()
    else
      row = y
      if y then y = b() end
    end
    return row
  end
end
-- Where most of a find's rows can be left out from the start.
local function candidates(filter, below)
  if filter.ids then return listed(filter.ids, below) end
  if filter.ownedBy then return bySets({ byOwner(filter.ownedBy) }, below) end
  if filter.subject then return bySets({ bySubject(filter.subject) }, below) end
  local wanted = filter.stateSet
  if filter.key then
    local sets = {}
    local live = wanted and not (wanted.completed or wanted.failed or wanted.cancelled or wanted.expired)
    if not live or not filter.types or #filter.types > TYPES_MAX then return bySets({ byKey(filter.key) }, below) end
    for i, kind in ipairs(filter.types) do sets[i] = liveByKey(kind, filter.key) end
    return bySets(sets, below)
  end
  if wanted and not wanted.pending and not wanted.completed then
    local few, sets = fewOf(wanted), {}
    for _, state in ipairs({ 'failed', 'cancelled', 'expired' }) do
      if wanted[state] then sets[#sets + 1] = finished.byState(state) end
    end
    if few then return merged(listed(few, below), bySets(sets, below)) end
  end
  local live = not wanted or wanted.pending or wanted.processing or wanted.expired
  local done = not wanted or wanted.completed or wanted.failed or wanted.cancelled or wanted.expired
  return rowsFrom(byChunks(filter.types or call('SMEMBERS', TYPES), below, live, done), inOrder(below))
end
local function passes(row, filter)
  local about = row.about
  if not filter.system and about.queue == 'lastout' then return false end
  if filter.typeSet and not filter.typeSet[about.type] then return false end
  if filter.queueSet and not filter.queueSet[about.queue] then return false end
${askedChecks}  if filter.before and row.createdAt >= filter.before then return false end
  if filter.after and row.createdAt <= filter.after then return false end
  return not filter.stateSet or filter.stateSet[view.stateOf(row)] == true
end

local function filterArg()
  local filter = cjson.decode(arg())
  filter.ids, filter.states, filter.types, filter.queues = listArg(), listArg(), listArg(), listArg()
  filter.stateSet = filter.states and setOf(filter.states)
  filter.typeSet = filter.types and setOf(filter.types)
  filter.queueSet = filter.queues and setOf(filter.queues)
  if filter.types then
    local kinds = {}
    for kind in pairs(filter.typeSet) do kinds[#kinds + 1] = kind end
    filter.types = kinds
  end
  return filter
end
-- filter.cursor: only rows with a lower seq. Returns rows, and where the next page goes on.
local function search(filter)
  local found, examined, bytes = {}, 0, 0
  local below = filter.cursor or 9007199254740991
  local newest = (tonumber(call('HGET', COUNTERS, 'seq')) or 0) + 1
  local last = below
  for row in candidates(filter, min(below, newest)) do
    if passes(row, filter) then
      if #found == filter.limit then return found, whole(last) end
      found[#found + 1] = row
    end
    last, examined, bytes = row.seq, examined + 1, bytes + row.bytes
    if examined >= LOOKED_ROWS or bytes > LOOKED_BYTES then return found, whole(last) end
  end
  return found, nil
end
`;
/** As find, with what the server says of its replication: both are of one moment and one server. */
export const overdue = String.raw`
local found, following = search(filterArg())
local jobs = {}
for _, row in ipairs(found) do
  local shown = view.of(row)
  local dueAt = tonumber(shown[DUE_AT])
  if dueAt and dueAt <= now then jobs[#jobs + 1] = shown end
end
local info = redis.pcall('INFO', 'replication')
return { following or false, view.shapes(), jobs, type(info) == 'string' and info or '' }
`;
export const findVerb = String.raw`
local found, following = search(filterArg())
local jobs = {}
for i, row in ipairs(found) do jobs[i] = view.of(row) end
return { following or false, view.shapes(), jobs }
`;
