/**
 * The order of insertion. A job stands in the list of its chunk (1,024 numbers) and type as the last two digits of its
 * number and its id: 24 bytes, where a sorted set of all jobs would cost a hundred. The chunks of a type that have
 * live and finished jobs are two sorted sets, so that a page by type or state passes over chunks, not over jobs.
 */
export const chunks = String.raw`
local CHUNK_ALL, CHUNK_LIVE, TYPES = root .. 'chunkall', root .. 'chunklive', root .. 'types'
local chunkDeltas = {}

function chunks.list(kind, chunk) return root .. 'i:' .. kind .. ':' .. chunk end
function chunks.knowers(kind, chunk)
  local keys = { root .. 'r:' .. kind .. ':' .. chunk }
  for part = 0, 31 do keys[part + 2] = keys[1] .. ':' .. sub(LAST_DIGITS, 2 * part + 2, 2 * part + 2) end
  return keys
end
function chunks.withLive(kind) return root .. 'il:' .. kind end
function chunks.withDone(kind) return root .. 'id:' .. kind end

-- Entries of one chunk, at once: others may look for them in the same step.
function chunks.add(kind, chunk, entries)
  local n, field = #entries, kind .. ':' .. chunk
  spread('RPUSH', chunks.list(kind, chunk), entries)
  call('HINCRBY', CHUNK_ALL, field, n)
  if call('HINCRBY', CHUNK_LIVE, field, n) == n then
    if call('ZADD', chunks.withLive(kind), 0, chunk) == 1 then call('SADD', TYPES, kind) end
  end
end
function chunks.addRow(row)
  local text = rows.seqText(row)
  chunks.add(row.about.type, sub(text, 1, 8), { sub(text, 9) .. row.id })
end
-- How many rows of a chunk came and went, in all and alive; written at the end of the step.
function chunks.change(kind, chunk, all, live)
  local field = kind .. ':' .. chunk
  local delta = chunkDeltas[field]
  if not delta then
    delta = { kind = kind, chunk = chunk, all = 0, live = 0 }
    chunkDeltas[field] = delta
  end
  delta.all, delta.live = delta.all + all, delta.live + live
end
function chunks.liveIn(kind, chunk)
  local delta = chunkDeltas[kind .. ':' .. chunk]
  return (tonumber(call('HGET', CHUNK_LIVE, kind .. ':' .. chunk)) or 0) + (delta and delta.live or 0)
end
function chunks.changeRow(row, all, live) chunks.change(row.about.type, sub(rows.seqText(row), 1, 8), all, live) end

do
-- What goes in the order of insertion leaves its list from the head, where others may have gone before.
local function shorten(kind, chunk, n)
  local list, passed = chunks.list(kind, chunk), 0
  for _, entry in ipairs(call('LRANGE', list, 0, n + 31)) do
    local id = sub(entry, 3)
    if not tables.isGone(id) and call('HEXISTS', JOB, id) == 1 then break end
    passed = passed + 1
  end
  if passed > 0 then call('LPOP', list, passed) end
end
-- A chunk of which most has gone keeps a list of what is left.
local function compact(kind, chunk, left)
  local list = chunks.list(kind, chunk)
  local length = call('LLEN', list)
  if length < 64 or left * 4 > length then return end
  local entries, standing = call('LRANGE', list, 0, -1), {}
  for _, entry in ipairs(entries) do
    if call('HEXISTS', JOB, sub(entry, 3)) == 1 then standing[#standing + 1] = entry end
  end
  call('DEL', list)
  if #standing > 0 then spread('RPUSH', list, standing) end
  claims.compact(chunks.knowers(kind, chunk))
end
local function flushChunk(delta)
  local kind, chunk, field = delta.kind, delta.chunk, delta.kind .. ':' .. delta.chunk
  local all = call('HINCRBY', CHUNK_ALL, field, delta.all)
  local live = call('HINCRBY', CHUNK_LIVE, field, delta.live)
  if live <= 0 then
    call('ZREM', chunks.withLive(kind), chunk)
    call('HDEL', CHUNK_LIVE, field)
  end
  if all > live then call('ZADD', chunks.withDone(kind), 0, chunk) else call('ZREM', chunks.withDone(kind), chunk) end
  if all <= 0 then
    call('DEL', chunks.list(kind, chunk), unpack(chunks.knowers(kind, chunk)))
    call('HDEL', CHUNK_ALL, field)
    if call('EXISTS', chunks.withLive(kind), chunks.withDone(kind)) == 0 then call('SREM', TYPES, kind) end
  elseif delta.all < 0 then
    shorten(kind, chunk, -delta.all)
    compact(kind, chunk, all)
  end
end
local function flushChunks()
  for _, delta in pairs(chunkDeltas) do flushChunk(delta) end
  chunkDeltas = {}
end
flushes[#flushes + 1] = flushChunks
end

-- The newest chunk not after this one in which one of these types has jobs of the asked kinds; nil: none.
function chunks.newest(kinds, from, live, done)
  local newest
  local function see(key)
    local found = call('ZREVRANGEBYLEX', key, '[' .. from, '-', 'LIMIT', 0, 1)[1]
    if found and (not newest or number(found) > number(newest)) then newest = found end
  end
  for _, kind in ipairs(kinds) do
    if live then see(chunks.withLive(kind)) end
    if done then see(chunks.withDone(kind)) end
  end
  return newest
end
-- The oldest chunk not before this one with finished jobs; nil: none.
function chunks.oldestDone(kinds, from)
  local oldest
  for _, kind in ipairs(kinds) do
    local found = call('ZRANGEBYLEX', chunks.withDone(kind), '[' .. from, '+', 'LIMIT', 0, 1)[1]
    if found and (not oldest or number(found) < number(oldest)) then oldest = found end
  end
  return oldest
end
-- Ids in a chunk, oldest first, as { seq, id }; some may have gone, or stand for a later job of that id.
function chunks.entries(kinds, chunk)
  local entries, base, sources = {}, number(chunk) * 1024, 0
  for _, kind in ipairs(kinds) do
    local list = call('LRANGE', chunks.list(kind, chunk), 0, -1)
    if #list > 0 then sources = sources + 1 end
    for _, entry in ipairs(list) do
      entries[#entries + 1] = { base + number(sub(entry, 1, 2)), sub(entry, 3) }
    end
  end
  if sources > 1 then table.sort(entries, function(a, b) return a[1] < b[1] end) end
  return entries
end
`;
