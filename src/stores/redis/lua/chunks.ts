/**
 * The order of insertion. A job stands in the list of its chunk (1,024 numbers) and type; what came together is one entry:
 * the last two digits of the first number, and the ids of this and the next numbers. That is 22 bytes a job, where a sorted
 * set of all jobs would cost a hundred. The chunks of a type that have live and finished jobs are two sorted sets, so that a
 * page by type or state passes over chunks, not over jobs.
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

-- At once: others may look for it in the same step.
function chunks.addRow(row)
  local kind, text = row.about.type, rows.seqText(row)
  local chunk = sub(text, 1, 8)
  local field = kind .. ':' .. chunk
  call('RPUSH', chunks.list(kind, chunk), sub(text, 9) .. row.id)
  call('HINCRBY', CHUNK_ALL, field, 1)
  if call('HINCRBY', CHUNK_LIVE, field, 1) == 1 and call('ZADD', chunks.withLive(kind), 0, chunk) == 1 then
    call('SADD', TYPES, kind)
  end
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
local function isGone(id) return tables.isGone(id) or call('HEXISTS', JOB, id) == 0 end
-- How many ids at the head of an entry have gone, and where the next one begins; nil: all have.
local function goneAtHead(entry)
  local n, from = 0, 3
  while true do
    local comma = find(entry, ',', from, true)
    if not isGone(sub(entry, from, comma and comma - 1)) then return n, from end
    if not comma then return nil end
    n, from = n + 1, comma + 1
  end
end
-- What goes in the order of insertion leaves its list from the head, where others may have gone before.
local function shorten(kind, chunk)
  local list = chunks.list(kind, chunk)
  local entry = call('LINDEX', list, 0)
  while entry do
    local n, from = goneAtHead(entry)
    if n == 0 then return end
    if n then return call('LSET', list, 0, digits(number(sub(entry, 1, 2)) + n, 2) .. sub(entry, from)) end
    call('LPOP', list)
    entry = call('LINDEX', list, 0)
  end
end
-- A chunk of which most has gone keeps a list of what is left. From its first number to its last there is room for more ids
-- than it has: most lists need not be read to know that they are short.
local function sizeOf(entry) return select(2, string.gsub(entry, ',', '')) + 1 end
local function compact(kind, chunk, left)
  local list, most = chunks.list(kind, chunk), max(63, 4 * left)
  local first, last = call('LINDEX', list, 0), call('LINDEX', list, -1)
  if not first or number(sub(last, 1, 2)) + sizeOf(last) - number(sub(first, 1, 2)) <= most then return end
  local entries, listed = call('LRANGE', list, 0, -1), 0
  for _, entry in ipairs(entries) do listed = listed + sizeOf(entry) end
  if listed <= most then return end
  local standing, run, following = {}, nil, nil
  for _, entry in ipairs(entries) do
    local low = number(sub(entry, 1, 2))
    for _, id in ipairs(names(sub(entry, 3))) do
      if not isGone(id) then
        if low ~= following then
          run = { digits(low, 2) }
          standing[#standing + 1] = run
        end
        run[#run + 1], following = id, low + 1
      end
      low = low + 1
    end
  end
  for i, ids in ipairs(standing) do standing[i] = ids[1] .. concat(ids, ',', 2) end
  call('DEL', list)
  spread('RPUSH', list, standing)
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
    shorten(kind, chunk)
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
      local before = base + number(sub(entry, 1, 2)) - 1
      for i, id in ipairs(names(sub(entry, 3))) do entries[#entries + 1] = { before + i, id } end
    end
  end
  if sources > 1 then table.sort(entries, function(a, b) return a[1] < b[1] end) end
  return entries
end
`;
