/**
 * The short way of an insert: a handful of variadic commands per batch of plain jobs, and none per job. A batch that meets
 * anything out of the ordinary goes the long way, before a word is written.
 */
export const insertPlain = String.raw`
local function insertPlain(n)
  if (tonumber(call('HGET', COUNTERS, 'clock')) or 0) > now then return nil end
  local runs, coming = {}, {}
  -- What comes: runs of jobs of one shape. None of their ids is known, and there is room for all.
  local mayHaveGone = call('EXISTS', root .. 'tomb') == 1
  for at = argument, #ARGV - 1, 5 do
    if ARGV[at + 1] ~= 'P' then return nil end
    local text, count, ids = ARGV[at + 2], tonumber(ARGV[at + 3]), names(ARGV[at + 4])
    local known = many(JOB, ids)
    for i = 1, count do
      if known[i] then return nil end
    end
    known = mayHaveGone and many(root .. 'tomb', ids) or known
    for i = 1, count do
      if known[i] then return nil end
    end
    local kind, queue = match(text, '^([^%z]*)%z([^%z]*)')
    local run = { text = text, n = count, ids = ids, joined = ARGV[at + 4], inputs = ARGV[at + 5], kind = kind, queue = queue }
    runs[#runs + 1] = run
    coming[queue] = (coming[queue] or 0) + count
  end
  if call('EXISTS', root .. 'lim') == 1 then
    for queue, count in pairs(coming) do
      local limit = call('HGET', root .. 'lim', queue)
      local most = limit and cjson.decode(limit).maxPending
      if most and (tonumber(call('HGET', root .. 'tally', queue .. ':pending')) or 0) + count > most then return nil end
    end
  end
  for i = 1, #runs do
    local no = call('HGET', root .. 'shapeno', runs[i].text)
    if not no or #no > 4 then return nil end
    runs[i].no = no
  end

  local seq = call('HINCRBY', COUNTERS, 'seq', n) - n
  local rowTexts, created, k, lines, types, publish = {}, digits(now, 9), 0, { whole(now) .. ',' .. n }, {}, false
  for r = 1, #runs do
    local run = runs[r]
    local kind, own, lane, inputs = run.kind, run.ids, run.kind .. ':' .. run.queue, texts(run.inputs, run.n)
    local i = 0
    while i < run.n do
      -- As many as still belong to the chunk of the next number.
      local low = (seq + 1) % 1024
      local chunk, entries = digits((seq + 1 - low) / 1024, 8), {}
      local first, last = 'P' .. run.no .. chunk, min(run.n - i, 1024 - low)
      for e = 1, last do
        local id, two = own[i + e], sub(LAST_DIGITS, 2 * low + 1, 2 * low + 2)
        rowTexts[k + 1], rowTexts[k + 2] = id, first .. two .. created .. inputs[i + e]
        entries[e] = two .. id
        k, low = k + 2, low + 1
      end
      i, seq = i + last, seq + last
      local field = kind .. ':' .. chunk
      spread('RPUSH', root .. 'i:' .. field, entries)
      call('HINCRBY', root .. 'chunkall', field, last)
      if call('HINCRBY', root .. 'chunklive', field, last) == last and call('ZADD', root .. 'il:' .. kind, 0, chunk) == 1 then
        call('SADD', root .. 'types', kind)
      end
    end
    call('HINCRBY', root .. 'shapeuses', run.no, run.n)
    spread('RPUSH', root .. 'l:' .. lane, own)
    if call('LLEN', root .. 'l:' .. lane) == run.n then
      call('SADD', root .. 'q:' .. kind, run.queue)
      call('SADD', root .. 'lanes', lane)
      publish = true
    end
    types[r] = kind
    lines[r + 1] = '{"name":"created","type":"' .. kind .. '","queue":"' .. run.queue .. '"}\t' .. run.joined
  end
  if publish then setMany(JOB, rowTexts) else spread('HSET', JOB, rowTexts) end
  call('HSET', COUNTERS, 'clock', now)
  for queue, count in pairs(coming) do call('HINCRBY', root .. 'tally', queue .. ':pending', count) end
  pushEvents(lines, n)
  local line = 'r:' .. concat(types, ',')
  if isOverCap() then line = line .. ' k' end
  -- As at the end of a step: who may not publish does without.
  if publish then redis.pcall('PUBLISH', root .. 'hints', sender .. ' ' .. line) end
  return { 'plain', line .. ' e' }
end
local n, atomic, asked = tonumber(arg()), arg() == '1', tonumber(arg())
local swiftly = asked == 0 and insertPlain(n)
if swiftly then return swiftly end
`;
